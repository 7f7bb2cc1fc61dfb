//! The variables by which threads are found.

use super::parts::check_variable;
use crate::workflow::fault::Fault;
use crate::workflow::search::SEARCH_MAX;

/// Names of the runtime that are no variables of a thread, or never a text, a number or a boolean.
const MADE: [&str; 6] = ["messages", "llm_calls", "tool_calls", "workspace", "loop", "error"];

pub(super) fn check(search: &[String], faults: &mut Vec<Fault>) {
    if search.len() > SEARCH_MAX {
        let message = format!("{} variables, and threads are found by at most {SEARCH_MAX}", search.len());
        faults.push(Fault::new("search", message));
    }
    for (i, name) in search.iter().enumerate() {
        let path = format!("search[{i}]");
        check_variable(&path, name, faults);
        if MADE.contains(&name.as_str()) {
            let fault = Fault::new(&path, format!("no thread is found by `{name}`, which the runtime makes"));
            faults.push(fault.hint("set a variable to its value, and name that"));
        }
        if search.iter().take(i).any(|before| before == name) {
            faults.push(Fault::new(path, format!("`{name}` is named twice")));
        }
    }
}
