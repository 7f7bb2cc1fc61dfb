//! `run_command`: a command in the foreground.

mod output;

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::Hash;
use rethread_events::json::Json;
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::command::{self, CommandLine, CommandOptions};
use crate::tool::typed;
use crate::{FULL_BYTES_MAX, Tool, ToolContext, ToolOutput, head_and_tail, schema_of};
use output::Captured;

/// The longest time of a command, even if the model asks for more.
const TIMEOUT_MS_MAX: u64 = 10 * 60 * 1000;
/// How long a command may take when the model says nothing.
const TIMEOUT_MS_DEFAULT: u64 = 2 * 60 * 1000;
/// How long before the end of the call the command is stopped, so that the answer still has what it printed.
const MARGIN: Duration = Duration::from_millis(500);
/// How long a group that was asked to end has to do so before it is killed.
const TERM: Duration = Duration::from_millis(200);
/// How long output is waited for when the command has ended but something holds its pipes open.
const DRAIN: Duration = Duration::from_millis(200);
/// The bytes of output that are kept, standard output and error each; the model sees less of it.
const STREAM_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The bytes of each stream in the answer's value, for a workflow; the whole is kept as the full output.
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// The bytes of the answer's text before the registry cuts it for the model. A text of this size is kept whole, so its
/// hash is the id of the full output.
const WHOLE_BYTES_MAX: usize = FULL_BYTES_MAX - 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Its schema depends on the options, see [`CommandOptions::schema`].
    #[schemars(with = "Vec<String>")]
    command: CommandLine,
    /// The folder to run it in, relative to the workspace; the workspace itself when left out.
    #[serde(default)]
    folder: String,
    /// How long it may take, in milliseconds; then it is stopped.
    #[serde(default = "timeout_ms_default")]
    #[schemars(range(min = 1, max = TIMEOUT_MS_MAX))]
    timeout_ms: u64,
}

fn timeout_ms_default() -> u64 {
    TIMEOUT_MS_DEFAULT
}

/// The tool `run_command`: a command in the foreground, with its output, its exit code and a time limit.
///
/// The answer's value, which a workflow reads, is `{exit_code, signal, stdout, stderr, stdout_bytes, stderr_bytes,
/// is_cut, full_output}`. `stdout` and `stderr` have at most 64 KiB each, head and tail. `is_cut` is true when one of
/// them is longer; `full_output` is then the id by which `read_output` reads the whole text, and null otherwise.
///
/// The command is a process group of its own. The whole group is killed when it times out, when the call is
/// cancelled or dropped, and when the command itself has ended: nothing that it started remains.
///
/// [`crate::Isolation`] says how the operating system isolates a command, where it can. What is not isolated can do
/// what the user can who runs this process: what leaves the group on purpose (`setsid`) is not found then, and what
/// runs when this process is killed by force runs on.
///
/// An isolated command that a signal ends has the exit code 128 and the number of the signal, as in a shell.
/// It is `at_most_once`.
pub fn run_command(options: CommandOptions) -> Tool {
    let options = Arc::new(options);
    Tool::new(
        "run_command",
        format!(
            "Runs a command in the workspace and waits for its end. The answer has its output, cut in the \
             middle when long, and its exit code. Nothing it starts in the background outlives it.{}",
            options.description()
        ),
        options.schema(schema_of::<Args>()),
        move |arguments, cx| {
            let options = Arc::clone(&options);
            async move { run(&options, typed(arguments)?, cx).await }
        },
    )
    .recovery(Recovery::AtMostOnce)
    .timeout_ms(TIMEOUT_MS_MAX + MARGIN.as_millis() as u64)
    .concurrency_max(8)
}

async fn run(options: &CommandOptions, args: Args, cx: ToolContext) -> Result<ToolOutput, ExecutionError> {
    let folder = command::folder(&args.folder, &cx).await?;
    let (mut child, mut group) = command::spawn(options, &args.command, folder, &[], &cx).await?;

    let limit = match cx.timeout {
        Some(whole) => Duration::from_millis(args.timeout_ms).min(whole.saturating_sub(MARGIN)),
        None => Duration::from_millis(args.timeout_ms),
    };
    let mut stdout = Captured::new(STREAM_BYTES_MAX, cx.progress.clone());
    let mut stderr = Captured::new(STREAM_BYTES_MAX, cx.progress.clone());
    let end = {
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let mut reading = std::pin::pin!(async { tokio::join!(stdout.read(out), stderr.read(err)) });
        let mut is_read = false;
        let end = {
            let mut ended = std::pin::pin!(group.leader_ended());
            let mut up = std::pin::pin!(sleep(limit));
            loop {
                tokio::select! {
                    () = &mut ended => break End::ByItself,
                    _ = &mut reading, if !is_read => is_read = true,
                    () = &mut up => break End::TimeUp,
                    () = cx.cancel.cancelled() => break End::Cancelled,
                }
            }
        };
        if !matches!(end, End::ByItself) {
            group.terminate();
            let _ = timeout(TERM, group.leader_ended()).await;
        }
        // The leader has not been waited for yet, so its number still means this group and no other.
        group.kill();
        group.wait_until_gone().await;
        if !is_read {
            let _ = timeout(DRAIN, &mut reading).await;
        }
        end
    };
    let status = reap(&mut child).await?;
    let output = answer(&stdout, &stderr, status, &end, limit);
    match end {
        End::ByItself => Ok(output),
        End::TimeUp => Err(ExecutionError::new(ErrorKind::Timeout, output.text)),
        End::Cancelled => Err(ExecutionError::new(ErrorKind::Cancelled, output.text)),
    }
}

enum End {
    ByItself,
    TimeUp,
    Cancelled,
}

async fn reap(child: &mut Child) -> Result<ExitStatus, ExecutionError> {
    child
        .wait()
        .await
        .map_err(|error| ExecutionError::new(ErrorKind::Internal, format!("the command cannot be waited for: {error}")))
}

fn answer(stdout: &Captured, stderr: &Captured, status: ExitStatus, end: &End, limit: Duration) -> ToolOutput {
    use std::os::unix::process::ExitStatusExt;
    let mut text = stdout.lines();
    let stderr_text = stderr.lines();
    if !stderr_text.is_empty() {
        text.push_str("[standard error]\n");
        text.push_str(&stderr_text);
    }
    text.push_str(&match (end, status.code(), status.signal()) {
        (End::TimeUp, ..) => format!("[stopped after {} ms; its effects until then remain]\n", limit.as_millis()),
        (End::Cancelled, ..) => "[cancelled; its effects until then remain]\n".to_owned(),
        (End::ByItself, Some(code), _) => format!("[exit code {code}]\n"),
        (End::ByItself, None, Some(signal)) => format!("[killed by signal {signal}]\n"),
        (End::ByItself, None, None) => "[ended]\n".to_owned(),
    });
    let text = head_and_tail(&text, WHOLE_BYTES_MAX);
    let (stdout_text, stderr_text) = (stdout.text(), stderr.text());
    let is_cut = [(stdout, &stdout_text), (stderr, &stderr_text)]
        .iter()
        .any(|(stream, text)| stream.n_bytes() > STREAM_BYTES_MAX as u64 || text.len() > VALUE_BYTES_MAX);
    let value = json!({
        "exit_code": status.code(),
        "signal": status.signal(),
        "stdout": head_and_tail(&stdout_text, VALUE_BYTES_MAX),
        "stderr": head_and_tail(&stderr_text, VALUE_BYTES_MAX),
        "stdout_bytes": stdout.n_bytes(),
        "stderr_bytes": stderr.n_bytes(),
        "is_cut": is_cut,
        "full_output": is_cut.then(|| Hash::of(text.as_bytes())),
    });
    let full = is_cut.then(|| text.clone());
    ToolOutput { text, value: Some(Json::from(value)), full, ..ToolOutput::default() }
}

#[cfg(test)]
mod tests;
