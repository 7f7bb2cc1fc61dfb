//! What a thread that has not ended waits for, and the command with which it continues.

use rethread::errors::ReadError;
use rethread::{Runtime, State, Status, ThreadId};
use serde_json::Value;

use crate::family::Family;
use crate::output;
use crate::threads::pending_in_words;

/// The most waits that are printed one by one.
const WAITS_MAX: usize = 20;

/// One thing that a thread, or a branch of it, waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The name of the branch; empty for the thread itself.
    branch: String,
    /// What it waits for.
    what: String,
    /// The command with which it continues; none if `what` says it.
    how: Option<String>,
}

impl Wait {
    /// The wait in words, with the command.
    pub(crate) fn line(&self) -> String {
        let branch = if self.branch.is_empty() { String::new() } else { format!("branch {} ", self.branch) };
        let how = self.how.as_ref().map(|how| format!("; continue with: {how}")).unwrap_or_default();
        format!("{branch}{}{how}", self.what)
    }
}

/// Returns what a thread and its branches wait for. Empty if the thread has ended.
pub(crate) async fn of(runtime: &Runtime, root: ThreadId) -> Result<Vec<Wait>, ReadError> {
    let mut waits = Vec::new();
    for (thread, branch) in Family::of(runtime, root).await?.members() {
        match runtime.thread(thread).state().await {
            Ok(state) => waits.extend(of_state(&state, root, &branch)),
            // A branch that was planned and has not begun.
            Err(ReadError::NoThread(_)) if thread != root => {}
            Err(error) => return Err(error),
        }
    }
    // The thread is resumed when its branches can continue, so what only a person can end comes last.
    waits.sort_by_key(|wait| wait.what.starts_with("is paused"));
    Ok(waits)
}

/// What one thread waits for.
fn of_state(state: &State, root: ThreadId, branch: &str) -> Vec<Wait> {
    let resume = format!("rethread resume {root}");
    let wait = |what: String, how: Option<String>| Wait { branch: branch.to_owned(), what, how };
    if state.is_ended() {
        return Vec::new();
    }
    if state.status() == Status::Paused {
        return match state.pause_reason() {
            // It says how to go on.
            Some(reason) if reason.contains("rethread resume ") => {
                vec![wait(format!("is paused: {}", output::sanitize_lines(reason)), None)]
            }
            Some(reason) => vec![wait(format!("is paused: {}", output::sanitize_lines(reason)), Some(resume))],
            None => vec![wait("is paused".to_owned(), Some(resume))],
        };
    }
    let pending = state.pending();
    let others = pending.iter().filter(|pending| pending["kind"] != "branch");
    others.map(|pending| wait(format!("waits for {}", words(pending)), Some(how(pending, state, &resume)))).collect()
}

/// What is waited for, on one line. The question of a person is printed whole elsewhere.
fn words(pending: &Value) -> String {
    match pending["kind"].as_str() {
        Some("interaction") => format!("a person, question {}", pending["id"].as_str().unwrap_or_default()),
        _ => pending_in_words(pending),
    }
}

/// The command after which the wait ends, or with which it goes on.
fn how(pending: &Value, state: &State, resume: &str) -> String {
    let text = |key: &str| output::sanitize(pending[key].as_str().unwrap_or_default(), 200);
    match pending["kind"].as_str() {
        Some("interaction") => format!("rethread respond {}, then {resume}", text("id")),
        Some("signal") => format!("rethread signal {}{}, then {resume}", text("name"), payload(&pending["where"])),
        Some("wait") => format!("{resume}; or end the wait with: rethread reschedule {} --now", state.thread()),
        Some("thread" | "child_start") => format!("rethread resume {}, then {resume}", text("thread_id")),
        _ => resume.to_owned(),
    }
}

/// The option with the payload that a signal must have, as far as the wait says it.
pub(crate) fn payload(fields: &Value) -> String {
    match fields.as_object() {
        Some(names) if !names.is_empty() => {
            format!(" --payload-json '{}'", output::sanitize_lines(&fields.to_string()).replace('\'', "'\\''"))
        }
        _ => String::new(),
    }
}

/// Prints a line for each wait, whole.
pub(crate) fn print(waits: &[Wait], root: ThreadId) {
    let n_more = waits.len().saturating_sub(WAITS_MAX);
    if n_more > 0 {
        output::print_message(&format!("and {n_more} more waits: list them with: rethread explain {root} --all"));
    }
    print_each(&waits[n_more..]);
}

/// Prints a line for each wait.
pub(crate) fn print_each(waits: &[Wait]) {
    for wait in waits {
        output::print_message(&wait.line());
    }
}

/// The lines about how to continue: of the thread itself the command, of a branch also what it waits for. None twice.
pub(crate) fn continues(waits: &[Wait]) -> Vec<String> {
    let mut lines = Vec::new();
    for wait in waits {
        let line = if wait.branch.is_empty() { wait.how.clone() } else { Some(wait.line()) };
        lines.extend(line.filter(|line| !lines.contains(line)));
    }
    lines
}
