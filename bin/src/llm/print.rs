//! The output of the commands, and the exit codes of errors.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use rethread_events::marks::{marked, marked_json};
use rethread_events::text::with_sources;
use rethread_llm::profiles::ProfileError;
use rethread_llm::{ErrorKind, LlmError};

pub(super) fn failed(error: &LlmError, json: bool) -> ExitCode {
    if json {
        print_json(&serde_json::json!({ "error": error }));
    } else {
        note(&format!("error: {error}"));
    }
    ExitCode::from(1)
}

pub(super) fn usage(why: &str) -> ExitCode {
    note(&format!("error: {why}"));
    ExitCode::from(2)
}

/// A missing key is an error of the call, so that scripts find it where they look for others.
pub(super) fn no_client(error: &ProfileError, json: bool) -> ExitCode {
    match error {
        ProfileError::NoKey { provider, variables, .. } => {
            let why = format!("there is no key: set {variables}");
            failed(&LlmError::new(ErrorKind::Authentication, provider.name(), why), json)
        }
        _ => misconfigured(error),
    }
}

fn misconfigured(error: &ProfileError) -> ExitCode {
    note(&format!("error: {}", with_sources(error)));
    ExitCode::from(3)
}

pub(super) fn print_json(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) if std::io::stdout().is_terminal() => put(&format!("{}\n", marked_json(&text))),
        Ok(text) => put(&(text + "\n")),
        Err(e) => note(&format!("error: the answer cannot be printed: {e}")),
    }
}

/// To stdout, with visible marks for hidden characters on a terminal.
pub(super) fn out(text: &str) {
    if std::io::stdout().is_terminal() { put(&marked(text)) } else { put(text) }
}

/// To stdout; a reader that went away is no fault of ours.
fn put(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// To stderr.
pub(super) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", marked(text));
}
