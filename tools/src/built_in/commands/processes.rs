//! Tools for processes in the background.

mod reading;

use std::sync::Arc;
use std::time::Duration;

use rethread_events::fault::ExecutionError;
use rethread_events::json::Json;
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::command::{self, CommandLine};
use crate::process::{EndReason, Entry, State};
use crate::tool::typed;
use crate::{Processes, Tool, ToolContext, ToolOutput, schema_of};

pub use reading::read_process;

/// How long a process may run when the model says nothing.
const LIFETIME_MS_DEFAULT: u64 = 60 * 60 * 1000;
/// How long a process may run at most; the application may allow less.
const LIFETIME_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1000;
/// How much of the first output is shown.
const FIRST_BYTES_MAX: usize = 4 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartArgs {
    /// Its schema depends on the options, see [`crate::CommandOptions`].
    #[schemars(with = "Vec<String>")]
    command: CommandLine,
    /// The folder to run it in, relative to the workspace; the workspace itself when left out.
    #[serde(default)]
    folder: String,
    /// How long it may run, in milliseconds; then it is killed.
    #[serde(default = "lifetime_ms_default")]
    #[schemars(range(min = 1, max = LIFETIME_MS_MAX))]
    timeout_ms: u64,
}

fn lifetime_ms_default() -> u64 {
    LIFETIME_MS_DEFAULT
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IdArgs {
    /// The id that start_process gave.
    id: String,
}

/// The tool `start_process`: a command that runs on when the call has been answered. It is `at_most_once`.
pub fn start_process(processes: &Processes) -> Tool {
    let processes = processes.clone();
    let description = format!(
        "Starts a command in the background of the workspace, such as a server or a long build, and answers with \
         its id. Read its output with read_process, end it with kill_process.{}",
        processes.commands().description()
    );
    let schema = processes.commands().schema(schema_of::<StartArgs>());
    Tool::new("start_process", description, schema, move |arguments, cx| {
        let processes = processes.clone();
        async move { start(&processes, typed(arguments)?, &cx).await }
    })
    .recovery(Recovery::AtMostOnce)
    .timeout_ms(30_000)
}

async fn start(processes: &Processes, args: StartArgs, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let folder = command::folder(&args.folder, cx).await?;
    let entry = processes.start(args.command, folder, Duration::from_millis(args.timeout_ms), cx).await?;
    let look = Duration::from_millis(processes.options().first_look_ms);
    // Peeked at, not consumed: read_process shows all of it.
    let (_, new, state) = entry.new_output("", FIRST_BYTES_MAX, look, |_| false).await;
    let mut text = format!("[process {} is {}]\n", entry.id, state.words());
    let output = String::from_utf8_lossy(&new.bytes);
    if state != State::Running && !output.is_empty() {
        text.push_str(&output);
        if !output.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(ToolOutput { text, value: Some(value(&entry, state).into()), ..ToolOutput::default() })
}

fn value(entry: &Entry, state: State) -> Value {
    let (code, signal) = match state {
        State::Running => (None, None),
        State::Ended { code, signal, .. } => (code, signal),
    };
    json!({
        "id": entry.id,
        "pid": entry.pid(),
        "running": state == State::Running,
        "exit_code": code,
        "signal": signal,
    })
}

/// The tool `list_processes`: the processes that this agent started, those that were lost when an earlier runtime
/// ended included.
pub fn list_processes(processes: &Processes) -> Tool {
    let processes = processes.clone();
    Tool::from_fn("list_processes", "Lists the background processes and how they stand.", move |(): (), cx| {
        let processes = processes.clone();
        async move { Ok(list(&processes, &cx)) }
    })
    .recovery(Recovery::Safe)
    .timeout_ms(10_000)
}

fn list(processes: &Processes, cx: &ToolContext) -> ToolOutput {
    let all = processes.list(cx);
    let mut text = String::new();
    for info in &all {
        let command: String = info.command.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
        text.push_str(&format!("{}  {}  `{command}`\n", info.id, info.state));
    }
    if all.is_empty() {
        text.push_str("[no background processes]\n");
    }
    let value: Vec<Value> = all
        .iter()
        .map(|info| {
            json!({
                "id": info.id, "state": info.state, "running": info.is_running, "command": info.command,
                "started_at_ms": info.started_at_ms,
            })
        })
        .collect();
    ToolOutput { text, value: Some(Json::from(Value::from(value))), ..ToolOutput::default() }
}

/// The tool `kill_process`: ends a process and all it started. Ending what has ended does nothing.
pub fn kill_process(processes: &Processes) -> Tool {
    let processes = processes.clone();
    Tool::from_fn(
        "kill_process",
        "Ends a background process and everything it started. Output that was not read yet can still be read.",
        move |args: IdArgs, cx| {
            let processes = processes.clone();
            async move {
                let entry: Arc<Entry> = processes.find(&args.id, &cx)?;
                entry.end(EndReason::Killed);
                entry.ended().await;
                let state = entry.state();
                let text = format!("[process {} was {}]\n", entry.id, state.words());
                Ok(ToolOutput { text, value: Some(value(&entry, state).into()), ..ToolOutput::default() })
            }
        },
    )
    .recovery(Recovery::Idempotent)
    .timeout_ms(30_000)
}

#[cfg(test)]
mod tests;
