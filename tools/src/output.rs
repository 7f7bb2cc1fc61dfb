//! The result of a tool.

use rethread_events::ids::Hash;
use rethread_events::json::Json;
use rethread_events::message::Part;
use rethread_events::text::json_bytes;
use serde::Serialize;
use serde_json::Value;

/// The answer of a tool: text for the model, and optional values and parts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// The text for the model.
    pub text: String,
    /// The same result as a value, if the tool has one.
    pub value: Option<Json>,
    /// Pictures and documents, after the text.
    pub parts: Vec<Part>,
    /// How many bytes the output limit removed; 0 if it is whole.
    pub bytes_cut: u64,
    /// All of the text, when `text`, or what `value` has of it, is only its head and tail; at most [`FULL_BYTES_MAX`]
    /// bytes, beyond which it is head and tail itself. The caller stores it under `Hash::of` its bytes: that is the id
    /// by which the model asks `read_output` for more.
    pub full: Option<String>,
}

/// The bytes of a whole text that are handed on to be kept.
pub const FULL_BYTES_MAX: usize = 16 * 1024 * 1024;

impl ToolOutput {
    /// An answer of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// An answer that is a value; its text is the value's JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::to_value(value).map(Self::from)
    }

    /// The same answer with a picture or document after the text.
    #[must_use]
    pub fn with_part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// All of it as the content of a tool message: the text, if there is any, then the parts.
    pub fn into_content(self) -> Vec<Part> {
        let mut content = Vec::with_capacity(self.parts.len() + 1);
        if !self.text.is_empty() || self.parts.is_empty() {
            content.push(Part::text(self.text));
        }
        content.extend(self.parts);
        content
    }

    /// Limits the text to `text_max` bytes, and the value and the parts to `rest_max` each. The text retains its
    /// head and tail, and what it was is handed on in `full`; a value or a part that does not fit goes, and the text
    /// says so: half of a picture is worth nothing. `can_read_more`: whether there is a `read_output` to name.
    pub(crate) fn limit(&mut self, text_max: usize, rest_max: usize, can_read_more: bool) {
        if self.text.len() > text_max {
            let mut whole = std::mem::take(&mut self.text);
            let n_bytes = whole.len();
            if n_bytes > FULL_BYTES_MAX {
                whole = head_and_tail(&whole, FULL_BYTES_MAX);
            }
            self.text = if can_read_more {
                let id = Hash::of(whole.as_bytes());
                cut(&whole, text_max, |missing, head| {
                    format!(
                        "[{missing} of {n_bytes} bytes left out here; read_output with id {id} and offset {head} shows them]"
                    )
                })
            } else {
                head_and_tail(&whole, text_max)
            };
            self.bytes_cut += n_bytes.saturating_sub(self.text.len()) as u64;
            self.full = Some(whole);
        }
        if let Some(bytes) = self.value.as_ref().map(json_bytes).filter(|bytes| *bytes > rest_max) {
            self.value = None;
            self.bytes_cut += bytes as u64;
            self.text.push_str(&format!("\n[the value is left out: {bytes} bytes, the limit is {rest_max}]"));
        }
        let mut room = rest_max;
        let mut n_dropped = 0;
        self.parts.retain(|part| {
            let bytes = json_bytes(part);
            let fits = bytes <= room;
            if fits {
                room -= bytes;
            } else {
                n_dropped += 1;
                self.bytes_cut += bytes as u64;
            }
            fits
        });
        if n_dropped > 0 {
            self.text.push_str(&format!("\n[{n_dropped} attachments left out: the limit is {rest_max} bytes]"));
        }
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<Value> for ToolOutput {
    /// The text is the value's JSON; of a JSON string, the string itself.
    fn from(value: Value) -> Self {
        let text = match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Self { text, value: Some(Json::from(value)), ..Self::default() }
    }
}

/// The first and the last part of a text that is longer than `bytes_max`, with a line between them that says how much
/// is missing; a shorter text as it is. Cut at line ends where there is one near, never inside a character. The tail
/// gets a third of the room, because commands print their result last.
///
/// The result may be longer than `bytes_max` by the length of that line, which is under 100 bytes.
pub fn head_and_tail(text: &str, bytes_max: usize) -> String {
    cut(text, bytes_max, |missing, _| format!("[{missing} of {} bytes left out here]", text.len()))
}

/// The same with a line of the caller's own, made from how many bytes are missing and after how many.
fn cut(text: &str, bytes_max: usize, note: impl FnOnce(usize, usize) -> String) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let tail_max = bytes_max / 3;
    let head_max = bytes_max - tail_max;

    let mut head = &text[..text.floor_char_boundary(head_max)];
    if let Some(end) = head.rfind('\n').filter(|end| *end >= head_max / 2) {
        head = &head[..=end];
    }
    let mut tail = &text[text.ceil_char_boundary(text.len() - tail_max)..];
    if let Some(end) = tail.find('\n').filter(|end| *end < tail_max / 2) {
        tail = &tail[end + 1..];
    }

    let line_end = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let note = note(text.len() - head.len() - tail.len(), head.len());
    format!("{head}{line_end}{note}\n{tail}")
}

#[cfg(test)]
mod tests;
