//! Messages of the parser, reworded for authors of workflows, who do not know the parser.

/// The deepest nesting of lists and objects in a file.
pub(super) const DEPTH_MAX: usize = 64;

const PAIRS: &str = "expected `key: value` pairs";
const LIST: &str = "expected a list";
const WHOLE: &str = "expected a whole number that is not negative";
const NUMBER: &str = "expected a number";

/// Returns a message of the parser in plain words.
pub(super) fn in_plain_words(message: &str) -> String {
    match message {
        "expected mapping start" => PAIRS.into(),
        "expected sequence start" => LIST.into(),
        "invalid u32" | "invalid u64" => WHOLE.into(),
        "invalid f64" => NUMBER.into(),
        // The same of a reader of trees.
        _ if message.starts_with("invalid type") || message.starts_with("invalid value") => {
            match message.rsplit_once(", expected ").map(|(_, expected)| expected) {
                Some("u32" | "u64") => WHOLE.into(),
                Some("f64") => NUMBER.into(),
                Some("a sequence") => LIST.into(),
                Some("a map") => PAIRS.into(),
                Some("a string") => "expected a text".into(),
                Some("a boolean") => "expected true or false".into(),
                Some(expected) if expected.starts_with("struct ") => PAIRS.into(),
                _ => message.into(),
            }
        }
        _ if message.starts_with("unknown ") => {
            // The name is quoted, and what is known is not.
            let (unknown, known) = message.split_once(", expected ").unwrap_or((message, ""));
            let known = known.replace('`', "");
            if known.is_empty() { message.into() } else { format!("{unknown}, expected {known}") }
        }
        _ if message.starts_with("budget breached: Depth") => format!("nested deeper than {DEPTH_MAX} levels"),
        _ if message.starts_with("budget breached: Documents") => "a file holds one workflow".into(),
        _ if message.starts_with("budget breached: RecordedAnchor") => "aliases expand to too much".into(),
        _ => match message.split_once(", set DuplicateKeyPolicy") {
            Some((what, _)) => what.into(),
            None => message.into(),
        },
    }
}
