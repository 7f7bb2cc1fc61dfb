//! Results of tools, whose size is limited: a model reads them.

use rethread_events::text;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::serve::problem::Problem;

/// The largest text of a result, in bytes.
pub(super) const BYTES_MAX: usize = 48 << 10;

/// A text; the end is left out if it is too long, and `less` says how to get less.
pub(super) fn of_text(text: String, less: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(shortened(text, less))])
}

/// A JSON object; as a text without its end if it is too large.
pub(super) fn of_json(value: Value, less: &str) -> CallToolResult {
    let text = value.to_string();
    if text.len() <= BYTES_MAX { CallToolResult::structured(value) } else { of_text(text, less) }
}

fn shortened(text: String, less: &str) -> String {
    if text.len() <= BYTES_MAX {
        return text;
    }
    let head = text::head(&text, BYTES_MAX);
    format!("{head}\n… {} more bytes are left out: {less}", text.len() - head.len())
}

/// An error that a model can read and act on. The request itself was understood.
pub(super) fn of_problem(problem: &Problem) -> CallToolResult {
    let mut result = CallToolResult::structured_error(json!({ "problem": problem }));
    result.content = vec![ContentBlock::text(in_words(problem))];
    result
}

/// What is wrong, with each fault of an input.
fn in_words(problem: &Problem) -> String {
    let faults = json!(problem);
    let faults = faults["faults"].as_array().into_iter().flatten();
    let faults = faults.map(|fault| {
        let text = |name: &str| fault[name].as_str().unwrap_or_default().to_owned();
        format!("\n{}: {}", text("path"), text("message"))
    });
    format!("{problem}{}", faults.collect::<String>())
}
