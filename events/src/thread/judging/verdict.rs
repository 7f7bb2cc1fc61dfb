//! Reads a verdict: which answers count as yes and which as no.

/// The longest answer that is parsed, in bytes: a longer one is not one word.
const VERDICT_BYTES_MAX: usize = 100;

/// The verdict of an answer: one word in any case, with punctuation around it, or `{"verdict": true}`.
/// Anything else is none: a guess would be worse than asking again.
pub(super) fn verdict_of(answer: &str) -> Option<bool> {
    let answer = answer.trim();
    if answer.len() > VERDICT_BYTES_MAX {
        return None;
    }
    if let Ok(serde_json::Value::Object(object)) = serde_json::from_str(answer) {
        return match (object.len(), object.get("verdict")) {
            (1, Some(serde_json::Value::Bool(verdict))) => Some(*verdict),
            (1, Some(serde_json::Value::String(word))) => word_of(word),
            _ => None,
        };
    }
    word_of(answer)
}

fn word_of(text: &str) -> Option<bool> {
    let word = text.trim_matches(|c: char| c.is_whitespace() || c.is_ascii_punctuation());
    match word.to_ascii_lowercase().as_str() {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    }
}
