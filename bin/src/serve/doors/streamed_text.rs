//! The text of a model call as it was streamed to a client, which cannot be taken back if the call is made again.

use rethread::{Message, Part};

/// What a client has received of the text of a call.
#[derive(Debug)]
pub(super) struct StreamedText {
    sent: String,
    /// How much of `sent` the present attempt has said again; `None` if it says something else.
    matched: Option<usize>,
}

impl Default for StreamedText {
    fn default() -> Self {
        Self { sent: String::new(), matched: Some(0) }
    }
}

impl StreamedText {
    /// Whether nothing was sent.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Returns what is new in the next text of the attempt, and whether it is the first.
    pub(super) fn take(&mut self, text: &str) -> Option<(String, bool)> {
        let known = self.sent.get(self.matched?..)?;
        let n_common = known.len().min(text.len());
        if known.as_bytes()[..n_common] != text.as_bytes()[..n_common] {
            self.matched = None;
            return None;
        }
        self.matched = self.matched.map(|n| n + text.len());
        let text = text.get(n_common..).filter(|text| !text.is_empty())?;
        let begins = self.sent.is_empty();
        self.sent.push_str(text);
        Some((text.to_owned(), begins))
    }

    /// Begins another attempt.
    pub(super) fn restart(&mut self) {
        self.matched = Some(0);
    }

    /// Returns what is missing once the whole text is known, and whether it is not the rest of what was sent.
    pub(super) fn complete(&self, whole: &str) -> Option<(String, bool)> {
        match whole.strip_prefix(&self.sent) {
            Some("") => None,
            Some(rest) => Some((rest.to_owned(), self.sent.is_empty())),
            None => Some((whole.to_owned(), true)),
        }
    }
}

/// The reasoning of a message, as far as its text is known.
pub(super) fn reasoning_of(message: &Message) -> String {
    let reasoning_of = |part: &Part| match part {
        Part::Reasoning(reasoning) => reasoning.text.clone(),
        Part::Text { .. }
        | Part::Image(_)
        | Part::Document(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_)
        | Part::Refusal { .. }
        | Part::Audio(_)
        | Part::ProviderTool(_)
        | Part::Opaque { .. } => None,
    };
    message.content.iter().filter_map(reasoning_of).collect()
}

#[cfg(test)]
mod tests;
