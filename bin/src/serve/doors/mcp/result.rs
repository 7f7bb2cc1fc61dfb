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
    of_error(in_words(problem), json!({ "problem": problem }))
}

/// An error in words, and as JSON unless that is too large.
pub(super) fn of_error(text: String, structured: Value) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(shortened(text, "see the tool `explain`"))]);
    if structured.to_string().len() <= BYTES_MAX {
        result.structured_content = Some(structured);
    }
    result
}

/// Drops items of a page until a result can hold them; at least one stays.
pub(super) fn fit<T: serde::Serialize>(items: &mut Vec<T>) -> bool {
    let mut n_bytes = 0;
    let n = items.iter().take_while(|item| {
        n_bytes += serde_json::to_string(item).map_or(0, |text| text.len()) + 1;
        n_bytes <= BYTES_MAX - 1_024
    });
    let n = n.count().max(1);
    let is_less = n < items.len();
    items.truncate(n);
    is_less
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_cut_after_the_items_that_fit() {
        let mut items = vec!["x".repeat(20_000); 5];
        assert!(fit(&mut items));
        assert_eq!(items.len(), 2);
        assert!(!fit(&mut items));
        // One that is too large by itself stays.
        let mut large = vec!["x".repeat(BYTES_MAX); 2];
        assert!(fit(&mut large));
        assert_eq!(large.len(), 1);
    }
}
