//! Tools that the client runs: files, which it may have open with changes that are not saved, and commands in terminals that
//! its user sees. They have the names and parameters of those that rethread has, and take their places.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, KillTerminalRequest, ReadTextFileRequest, ReleaseTerminalRequest, SessionId, Terminal,
    TerminalId, TerminalOutputRequest, ToolCallContent, ToolCallStatus, WaitForTerminalExitRequest,
    WriteTextFileRequest,
};
use agent_client_protocol::{Client, Error, JsonRpcRequest};
use rethread::ToolOutput;
use rethread::tools::{CommandOptions, Registry, built_in};
use rethread::{ErrorKind, ExecutionError, Recovery, Tool, ToolContext};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::editor::Editor;
use super::sessions::{Session, Sessions};
use super::translate::changed;
use crate::exit::Failure;
use crate::toolset::MoreArgs;

/// The label of a thread with the id of its session. Its branches have it as well.
pub(super) const SESSION_LABEL: &str = "acp_session";
/// The tools whose calls the user allows or rejects.
const ASKED: [&str; 5] = ["write_file", "edit_file", "run_command", "start_process", "kill_process"];
/// The most bytes of a file that is edited, and of the text that is read at once.
const FILE_BYTES_MAX: usize = 16 << 20;
const TEXT_BYTES_MAX: usize = 64 << 10;
/// How many lines are read if the model says nothing.
const LINES: u32 = 2_000;
/// The most bytes of output that the client keeps of a command.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// How long a command may take if the model says nothing, and at most.
const TIMEOUT_MS: u64 = 2 * 60 * 1_000;
const TIMEOUT_MS_MAX: u64 = 10 * 60 * 1_000;
/// How long before the end of the call its command is stopped.
const MARGIN: Duration = Duration::from_secs(2);

/// What the tools need.
struct ByClient {
    editor: Arc<Editor>,
    sessions: Arc<Sessions>,
    /// Edits take turns, so that none is lost.
    editing: tokio::sync::Mutex<()>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    path: String,
    #[serde(default = "one")]
    offset: u32,
    limit: Option<u32>,
    #[serde(default)]
    raw: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    path: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default = "one")]
    count: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    command: Vec<String>,
    #[serde(default)]
    folder: String,
    #[serde(default = "timeout_ms")]
    timeout_ms: u64,
}

fn one() -> u32 {
    1
}

fn timeout_ms() -> u64 {
    TIMEOUT_MS
}

/// Puts the tools that the client offers in the place of those of rethread, and has the user asked before a tool changes a
/// file or runs a command.
pub(super) fn offer(
    registry: &Registry,
    editor: &Arc<Editor>,
    sessions: &Arc<Sessions>,
    more: &MoreArgs,
) -> Result<(), Failure> {
    let by = Arc::new(ByClient { editor: editor.clone(), sessions: sessions.clone(), editing: Default::default() });
    let client = editor.capabilities();
    if client.fs.read_text_file {
        let tool = routed(&by, built_in::read_file(), |by, args, cx| async move { by.read_file(args, &cx).await });
        registry.replace(tool.recovery(Recovery::Safe)).map_err(Failure::other)?;
    }
    if client.fs.write_text_file {
        let tool = routed(&by, built_in::write_file(), |by, args, cx| async move { by.write_file(args, &cx).await });
        registry.replace(tool.recovery(Recovery::Idempotent)).map_err(Failure::other)?;
    }
    if client.fs.read_text_file && client.fs.write_text_file {
        let tool = routed(&by, built_in::edit_file(), |by, args, cx| async move { by.edit_file(args, &cx).await });
        registry.replace(tool).map_err(Failure::other)?;
    }
    // The client knows no rules for commands, and does not isolate them.
    let is_restricted = !more.only_command.is_empty() || !more.deny_command.is_empty() || more.isolate_commands;
    if client.terminal && !is_restricted {
        let of_rethread = built_in::run_command(CommandOptions::default());
        let tool = routed(&by, of_rethread, |by, args, cx| async move { by.run_command(args, &cx).await });
        let tool = tool.timeout_ms(TIMEOUT_MS_MAX + 2 * MARGIN.as_millis() as u64).concurrency_max(8);
        registry.replace(tool).map_err(Failure::other)?;
    }
    for name in ASKED {
        if let Some(tool) = registry.get(name) {
            registry.replace(tool.with_approval()).map_err(Failure::other)?;
        }
    }
    Ok(())
}

/// A tool with the name and the parameters of another one.
fn routed<A, F, Fut>(by: &Arc<ByClient>, like: Tool, run: F) -> Tool
where
    A: DeserializeOwned,
    F: Fn(Arc<ByClient>, A, ToolContext) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ExecutionError>> + Send + 'static,
{
    let by = by.clone();
    let (spec, description) = (like.spec(), like.spec().description.clone().unwrap_or_default());
    Tool::new(spec.name.clone(), description, Value::clone(&spec.parameters.0), move |arguments, cx| {
        let parsed = serde_json::from_value(arguments)
            .map(|arguments| run(by.clone(), arguments, cx))
            .map_err(|error| ExecutionError::new(ErrorKind::InvalidArguments, error.to_string()));
        async move { parsed?.await }
    })
}

impl ByClient {
    /// The session that a call belongs to.
    fn session(&self, cx: &ToolContext) -> Result<Arc<Session>, ExecutionError> {
        let of_label = || self.sessions.get(&SessionId::new(cx.labels.get(SESSION_LABEL)?.to_owned())).ok();
        let session = cx.thread.and_then(|thread| self.sessions.of_thread(thread)).or_else(of_label);
        session.ok_or_else(|| ExecutionError::new(ErrorKind::Denied, "no session of the client has this thread"))
    }

    async fn ask<R: JsonRpcRequest>(&self, request: R) -> Result<R::Response, ExecutionError>
    where
        R::Response: Send,
    {
        let connection = self.connection()?;
        connection.send_request(request).block_task().await.map_err(|error| of_client(&error))
    }

    fn connection(&self) -> Result<&ConnectionTo<Client>, ExecutionError> {
        self.editor.connection().map_err(|failure| ExecutionError::new(ErrorKind::Connection, failure.message))
    }

    async fn read_file(&self, args: Read, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
        let Read { path, offset, limit, raw } = args;
        let (session, place) = (self.session(cx)?, place(cx, &path).await?);
        let mut request = ReadTextFileRequest::new(session.id.clone(), place);
        if !raw {
            request = request.line(offset).limit(limit.unwrap_or(LINES));
        }
        let text = self.ask(request).await?.content;
        if raw {
            return if text.len() > FILE_BYTES_MAX { Err(too_large(&path)) } else { Ok(ToolOutput::text(text)) };
        }
        Ok(ToolOutput::text(numbered(&text, offset, limit.unwrap_or(LINES))))
    }

    async fn write_file(&self, args: Write, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
        let Write { path, content } = args;
        let n = content.len();
        if n > FILE_BYTES_MAX {
            return Err(too_large(&path));
        }
        let (session, place) = (self.session(cx)?, place(cx, &path).await?);
        let _turn = self.editing.lock().await;
        self.ask(WriteTextFileRequest::new(session.id.clone(), place, content)).await?;
        Ok(ToolOutput::text(format!("wrote {n} bytes to `{path}`")))
    }

    async fn edit_file(&self, args: Edit, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
        let Edit { path, old_text, new_text, count } = args;
        let (session, place) = (self.session(cx)?, place(cx, &path).await?);
        let _turn = self.editing.lock().await;
        let before = self.ask(ReadTextFileRequest::new(session.id.clone(), place.clone())).await?.content;
        let found = before.matches(&old_text).count();
        if found != count as usize || found == 0 {
            let message = format!(
                "`{path}` has old_text {found} times, and not {count}: nothing was changed; give enough of the lines \
                 around it"
            );
            return Err(ExecutionError::new(ErrorKind::InvalidArguments, message));
        }
        let after = before.replace(&old_text, &new_text);
        if after.len() > FILE_BYTES_MAX {
            return Err(too_large(&path));
        }
        self.ask(WriteTextFileRequest::new(session.id.clone(), place, after)).await?;
        Ok(ToolOutput::text(format!("replaced the text {found} times in `{path}`")))
    }

    async fn run_command(&self, args: Run, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
        let Run { mut command, folder, timeout_ms } = args;
        if command.is_empty() {
            return Err(ExecutionError::new(ErrorKind::InvalidArguments, "`command` names no program"));
        }
        let program = command.remove(0);
        let (session, place) = (self.session(cx)?, place(cx, &folder).await?);
        let request = CreateTerminalRequest::new(session.id.clone(), program).args(command).cwd(place);
        let id = self.ask(request.output_byte_limit(OUTPUT_BYTES_MAX)).await?.terminal_id;
        let terminal = Held { connection: self.connection()?, session: &session, key: cx.key.to_string(), id };
        terminal.show(&self.editor).await;
        let whole = cx.timeout.unwrap_or(Duration::from_millis(TIMEOUT_MS_MAX)).saturating_sub(MARGIN);
        let limit = Duration::from_millis(timeout_ms.min(TIMEOUT_MS_MAX)).min(whole);
        let waiting = self.ask(WaitForTerminalExitRequest::new(session.id.clone(), terminal.id.clone()));
        let (failed, exit) = tokio::select! {
            exit = waiting => (None, Some(exit?.exit_status)),
            () = tokio::time::sleep(limit) => (Some(ErrorKind::Timeout), None),
            () = cx.cancel.cancelled() => (Some(ErrorKind::Cancelled), None),
        };
        if failed.is_some() {
            self.ask(KillTerminalRequest::new(session.id.clone(), terminal.id.clone())).await?;
        }
        let output = self.ask(TerminalOutputRequest::new(session.id.clone(), terminal.id.clone())).await?;
        let exit = exit.or(output.exit_status);
        let (code, signal) = exit.map_or((None, None), |exit| (exit.exit_code, exit.signal));
        let end = match (failed, code, &signal) {
            (Some(kind), ..) => format!("stopped: {kind}, after {} ms", limit.as_millis()),
            (None, Some(code), _) => format!("exit code {code}"),
            (None, None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None, None) => "ended".to_owned(),
        };
        let cut = if output.truncated { "[the beginning is left out]\n" } else { "" };
        let text = format!("{cut}{}\n[{end}]", output.output);
        if let Some(kind) = failed {
            return Err(ExecutionError::new(kind, text));
        }
        let value = json!({ "exit_code": code, "signal": signal, "output": output.output, "is_cut": output.truncated });
        Ok(ToolOutput { value: Some(value.into()), ..ToolOutput::text(text) })
    }
}

/// A terminal of the client, which is released when this is dropped.
struct Held<'a> {
    connection: &'a ConnectionTo<Client>,
    session: &'a Session,
    /// The key of the call.
    key: String,
    id: TerminalId,
}

impl Held<'_> {
    /// Shows the terminal in its call, now or when the call is told.
    async fn show(&self, editor: &Editor) {
        let call = {
            let mut running = self.session.running.lock();
            running.terminals.insert(self.key.clone(), self.id.clone());
            running.calls.get(&self.key).cloned()
        };
        if let Some(call) = call {
            // A client that has gone sees nothing.
            let _ = editor.tell(&self.session.id, shown(call, &self.id)).await;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let request = ReleaseTerminalRequest::new(self.session.id.clone(), self.id.clone());
        self.connection.send_request(request).detach();
    }
}

/// A call with its terminal.
pub(super) fn shown(call: String, terminal: &TerminalId) -> agent_client_protocol::v1::schema::SessionUpdate {
    changed(call, ToolCallStatus::InProgress, vec![ToolCallContent::Terminal(Terminal::new(terminal.clone()))])
}

/// The absolute path of a file or folder in the workspace, with no links in it that lead out.
async fn place(cx: &ToolContext, path: &str) -> Result<PathBuf, ExecutionError> {
    let (workspace, path) = (cx.workspace.clone(), path.to_owned());
    let resolved = tokio::task::spawn_blocking(move || {
        let resolved = workspace.resolve(&path)?;
        let root = workspace.root();
        let is_root = resolved.relative.as_os_str().is_empty();
        Ok::<_, ExecutionError>(if is_root { root.to_owned() } else { root.join(resolved.relative) })
    });
    resolved.await.map_err(|error| ExecutionError::new(ErrorKind::Failed, error.to_string()))?
}

fn too_large(path: &str) -> ExecutionError {
    ExecutionError::new(ErrorKind::TooLarge, format!("`{path}` has more than {FILE_BYTES_MAX} bytes"))
}

/// An error of the client.
fn of_client(error: &Error) -> ExecutionError {
    let kind = if i32::from(error.code) == -32_002 { ErrorKind::NotFound } else { ErrorKind::Failed };
    let data = error.data.as_ref().map(|data| format!(": {data}")).unwrap_or_default();
    let message = crate::output::sanitize(&format!("the client: {}{data}", error.message), 2_000);
    ExecutionError::new(kind, message)
}

/// Lines with their numbers, as `read_file` shows them.
fn numbered(text: &str, first: u32, limit: u32) -> String {
    let mut shown = String::new();
    let mut n = 0;
    for line in text.lines().take(limit as usize) {
        if shown.len() + line.len() > TEXT_BYTES_MAX {
            break;
        }
        shown.push_str(&format!("{}\t{line}\n", u64::from(first) + n));
        n += 1;
    }
    match n {
        0 => "[no lines]".to_owned(),
        n if n >= u64::from(limit) || text.lines().count() as u64 > n => {
            format!("{shown}[there may be more: continue with offset {}]", u64::from(first) + n)
        }
        _ => shown,
    }
}
