//! Limits on what is kept of a long thread.

use serde_json::Value;

use crate::fault::ExecutionError;
use crate::json::Json;
use crate::text::{self, shortened};

/// How many results are kept.
pub const RESULTS_MAX: usize = 10_000;
/// About how much memory the results may take.
pub const HELD_BYTES_MAX: usize = 64 << 20;
/// How many calls of a node that completed are kept, and how many that did not.
pub const CALLS_OF_NODE_MAX: usize = 2_000;
/// The largest output that is kept.
pub const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// How much of a text is kept, in characters.
pub const TEXT_CHARS_MAX: usize = 400;
/// How much of the message of an error is kept, in characters.
const ERROR_CHARS_MAX: usize = 2_000;
/// How many failed tries of a node or a call are kept.
pub(super) const TRIES_MAX: usize = 20;
/// How many of the first failed results are kept even if later ones are dropped.
pub(super) const FAILED_FIRST_MAX: usize = 1_000;
/// How many differences between what was asked for and what was sent are kept of a call.
pub(super) const CHANGES_MAX: usize = 20;
/// How many waits are kept.
pub const WAITS_MAX: usize = 1_000;
/// The bytes of a result without its texts.
pub(super) const RESULT_BYTES: usize = 600;
/// The bytes of a call with its texts.
pub(super) const CALL_BYTES: usize = 1_500;

pub(super) fn error(error: &ExecutionError) -> ExecutionError {
    ExecutionError {
        kind: error.kind,
        message: shortened(&error.message, ERROR_CHARS_MAX),
        retryable: error.retryable,
        cause: error.cause.as_ref().map(|cause| shortened(cause, ERROR_CHARS_MAX)),
    }
}

/// A value as a text, cut.
pub(super) fn shown(value: &Json) -> String {
    match &*value.0 {
        Value::String(text) => shortened(text, TEXT_CHARS_MAX),
        value => {
            let mut text = String::new();
            write_head(value, &mut text);
            shortened(&text, TEXT_CHARS_MAX)
        }
    }
}

/// The beginning of a value's JSON, without writing all of a large one.
fn write_head(value: &Value, text: &mut String) {
    let is_long = |text: &String| text.len() > 4 * TEXT_CHARS_MAX;
    match value {
        Value::String(inner) => {
            let head = text::head(inner, TEXT_CHARS_MAX + 1);
            text.push_str(&Value::from(head).to_string());
        }
        Value::Array(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if is_long(text) {
                    break;
                }
                text.push_str(if i == 0 { "" } else { "," });
                write_head(item, text);
            }
            text.push(']');
        }
        Value::Object(entries) => {
            text.push('{');
            for (i, (key, item)) in entries.iter().enumerate() {
                if is_long(text) {
                    break;
                }
                text.push_str(if i == 0 { "" } else { "," });
                write_head(&Value::String(key.clone()), text);
                text.push(':');
                write_head(item, text);
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

/// About how many bytes a value takes; stops counting above the limit.
pub(super) fn size(value: &Value, limit: usize) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
        Value::String(text) => text.len() + 16,
        Value::Array(items) => {
            let mut n = 16;
            for item in items {
                if n > limit {
                    break;
                }
                n += size(item, limit);
            }
            n
        }
        Value::Object(entries) => {
            let mut n = 16;
            for (key, item) in entries {
                if n > limit {
                    break;
                }
                n += key.len() + size(item, limit);
            }
            n
        }
    }
}
