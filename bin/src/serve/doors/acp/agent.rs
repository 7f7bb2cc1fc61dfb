//! What the agent answers to each request.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, ClientRequest, CloseSessionResponse, DeleteSessionResponse, Implementation, InitializeRequest,
    InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionResponse, McpCapabilities, McpServer,
    NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest, PromptResponse, ResumeSessionResponse,
    SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities, SessionId, SessionListCapabilities,
    SessionResumeCapabilities, StopReason,
};
use rethread::operate::{BranchFilter, Labels, ThreadQuery};
use rethread::runs::OnMessage;
use rethread::{Seq, Status, ThreadHandle, ThreadId};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::editor::{Editor, VERSION};
use super::error::{self, invalid, of_failure};
use super::servers::Servers;
use super::sessions::{Session, Sessions};
use super::tools::{self, SESSION_LABEL};
use super::translate;
use super::turn::{self, Log, Turn};
use super::{listing, prompt, replay};
use crate::agent::AgentArgs;
use crate::definition::{self, File};
use crate::drive;
use crate::exit::{Failure, NOT_FOUND};
use crate::open::OpenArgs;
use crate::past_args::Past;
use crate::resume;
use crate::run::{self, Beginning};
use crate::runs::{self, NextRun};
use crate::serve::doors::question;
use crate::toolset::{Programs, ToolArgs};

/// What the agent is called that needs no workflow file.
const AGENT: &str = "acp";

/// The definition that new sessions begin on.
pub(super) enum Definition {
    File(Box<File>),
    Agent(AgentArgs),
}

impl Definition {
    pub(super) fn of(file: Option<&Path>, agent: &AgentArgs) -> Result<Self, Failure> {
        match (file, agent.first()) {
            (Some(_), Some(option)) => {
                let message = format!("{option} is for the built-in agent: set it in the workflow file instead");
                Err(Failure::new(2, message))
            }
            (Some(file), None) => Ok(Self::File(Box::new(definition::read(file)?))),
            (None, _) => Ok(Self::Agent(agent.clone())),
        }
    }

    /// The definition as a file.
    pub(super) fn file(&self, open: &OpenArgs) -> Result<File, Failure> {
        match self {
            Self::File(file) => Ok(File::clone(file)),
            Self::Agent(args) => args.definition(open, AGENT),
        }
    }
}

/// The agent of this process.
pub(super) struct Agent<'a> {
    pub(super) open: &'a OpenArgs,
    pub(super) definition: Definition,
    pub(super) labels: Labels,
    pub(super) tools: ToolArgs,
    pub(super) editor: Arc<Editor>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) servers: Servers,
    /// The log, which the first session opens.
    pub(super) log: OnceCell<Log<'a>>,
}

type Answer<T> = Result<T, Error>;

fn failed(failure: impl Into<Failure>) -> Error {
    of_failure(&failure.into())
}

impl Agent<'_> {
    /// Answers a request. What is done before the first wait is done in the order of the requests.
    pub(super) async fn answer(&self, request: ClientRequest, responder: Responder<Value>) {
        let is_first = matches!(request, ClientRequest::InitializeRequest(_));
        if let (false, Err(error)) = (is_first, self.editor.check_initialized()) {
            let _ = responder.respond_with_error(error);
            return;
        }
        match request {
            ClientRequest::InitializeRequest(request) => respond(responder, self.initialize(request)),
            ClientRequest::NewSessionRequest(request) => respond(responder, self.new_session(request).await),
            ClientRequest::PromptRequest(request) => respond(responder, self.prompt(request).await),
            ClientRequest::LoadSessionRequest(request) => {
                let given = (&*request.cwd, &*request.mcp_servers, &*request.additional_directories);
                let loaded = self.load(&request.session_id, given, true).await;
                self.resumed(responder, loaded, LoadSessionResponse::new()).await;
            }
            ClientRequest::ResumeSessionRequest(request) => {
                let given = (&*request.cwd, &*request.mcp_servers, &*request.additional_directories);
                let loaded = self.load(&request.session_id, given, false).await;
                self.resumed(responder, loaded, ResumeSessionResponse::new()).await;
            }
            ClientRequest::ListSessionsRequest(request) => respond(responder, self.list(request).await),
            ClientRequest::CloseSessionRequest(request) => respond(responder, self.close(&request.session_id).await),
            ClientRequest::DeleteSessionRequest(request) => respond(responder, self.delete(&request.session_id).await),
            other => {
                let _ = responder.respond_with_error(Error::method_not_found().data(other.method().to_owned()));
            }
        }
    }

    /// Cancels what a session does: the prompt in progress, or a run that waits for an answer. Without effect if there is
    /// neither.
    pub(super) async fn cancel(&self, session: &SessionId) {
        let Ok(session) = self.sessions.get(session) else { return };
        let cancelled = session.cancellation();
        session.cancel();
        // A prompt in progress cancels its run itself. The next one waits for this cancellation.
        let (Some(thread), Ok(mut told)) = (session.thread(), session.told.try_lock()) else { return };
        let cancel = async {
            let summary = thread.summary().await.map_err(failed)?;
            if summary.status == Status::Waiting {
                let turn = Turn { log: self.log().await?, editor: &self.editor, session: &session, thread, cancelled };
                turn.follow(&mut told, summary.last_seq.next()).await?;
            }
            Answer::Ok(())
        };
        if let Err(error) = cancel.await {
            tracing::info!(error = %error.message, session = %session.id, "a run that waits is not cancelled");
        }
    }

    fn initialize(&self, request: InitializeRequest) -> Answer<InitializeResponse> {
        self.editor.initialized(request.client_capabilities)?;
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new())
            .delete(SessionDeleteCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().embedded_context(true))
            .mcp_capabilities(McpCapabilities::new().http(true))
            .session_capabilities(sessions);
        let program = Implementation::new("rethread", env!("CARGO_PKG_VERSION"));
        Ok(InitializeResponse::new(VERSION).agent_capabilities(capabilities).agent_info(program))
    }

    /// The log. The client has said before what it can do.
    async fn log(&self) -> Answer<&Log<'_>> {
        let open = || async {
            let server = self.open.server().await?;
            let runtime = match server {
                Some(_) => resume::runtime(self.open, server, &self.tools).await?,
                None => {
                    // Commands in terminals of the client could approve calls of the agent.
                    let runtime = self.open.work_with(&self.tools, Programs::Unconfined).await?;
                    self.open.traces.begin(self.open, &runtime).await?;
                    tools::offer(runtime.tools(), &self.editor, &self.sessions, &self.tools.more)?;
                    runtime
                }
            };
            Ok::<_, Failure>(Log { runtime, server })
        };
        self.log.get_or_try_init(open).await.map_err(failed)
    }

    async fn new_session(&self, request: NewSessionRequest) -> Answer<NewSessionResponse> {
        let folder = self.folder(&request.cwd, &request.additional_directories).await?;
        let log = self.log().await?;
        self.connect(log, &request.mcp_servers, &folder).await?;
        let begins_as = ThreadId::from_bytes(*uuid::Uuid::now_v7().as_bytes());
        let id = SessionId::new(begins_as.to_string());
        self.sessions.open(id.clone(), begins_as, folder, None)?;
        Ok(NewSessionResponse::new(id))
    }

    async fn list(&self, request: ListSessionsRequest) -> Answer<ListSessionsResponse> {
        listing::page(self.log().await?, request).await
    }

    /// Checks the folder of a session.
    async fn folder(&self, cwd: &Path, more: &[PathBuf]) -> Answer<PathBuf> {
        if !more.is_empty() {
            return Err(invalid("additionalDirectories", "a session has one folder: leave them out"));
        }
        if !cwd.is_absolute() {
            return Err(invalid("cwd", "the path of a folder is absolute"));
        }
        let within = self.tools.workspace.clone();
        let given = cwd.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            let folder = given.canonicalize()?;
            let is_allowed = within.map(|within| within.canonicalize()).transpose()?;
            let is_allowed = is_allowed.is_none_or(|within| folder.starts_with(within));
            Ok::<_, std::io::Error>((folder.is_dir(), is_allowed, folder))
        });
        match found.await {
            Ok(Ok((true, true, folder))) if folder.to_str().is_some() => Ok(folder),
            Ok(Ok((true, true, _))) => Err(invalid("cwd", "the path of a folder is UTF-8")),
            Ok(Ok((true, false, _))) => Err(invalid("cwd", "it is not in the folder of --workspace")),
            Ok(Ok(_)) => Err(invalid("cwd", "it is not a folder")),
            Ok(Err(error)) => Err(invalid("cwd", error)),
            Err(error) => Err(failed(Failure::other(error))),
        }
    }

    /// Connects to the MCP servers of a session.
    async fn connect(&self, log: &Log<'_>, servers: &[McpServer], folder: &Path) -> Answer<()> {
        if let Some(server) = log.server.filter(|_| !servers.is_empty()) {
            let at = server.address();
            let detail =
                format!("the tools are those of the server at {at}: name the MCP servers in its rethread.toml");
            return Err(invalid("mcpServers", detail));
        }
        self.servers.connect(servers, log.runtime.tools(), self.open, &self.tools.more, folder).await
    }

    /// Opens the session of a thread, and tells its conversation. Returns where to follow it, if it is not at rest.
    async fn load(
        &self,
        id: &SessionId,
        (cwd, servers, more): (&Path, &[McpServer], &[PathBuf]),
        is_replayed: bool,
    ) -> Answer<Option<(Arc<Session>, ThreadHandle, Seq)>> {
        let folder = self.folder(cwd, more).await?;
        let log = self.log().await?;
        let open = self.sessions.get(id).ok();
        let thread = match open.as_ref().and_then(|session| session.thread()) {
            Some(thread) => thread,
            // Nothing was said in it.
            None if open.is_some() => return Ok(None),
            None => self.find(log, id).await?,
        };
        let state = thread.state().await.map_err(failed)?;
        let works_in = state.workspace().filter(|_| log.server.is_none());
        if let Some(works_in) = works_in.filter(|works_in| Path::new(works_in) != folder) {
            return Err(invalid("cwd", format!("the session works in {works_in}")));
        }
        self.connect(log, servers, &folder).await?;
        let session = self.sessions.open(id.clone(), thread.id(), folder, Some(thread.clone()))?;
        let Ok(mut told) = session.told.try_lock() else {
            return Err(error::refused("a prompt of this session is in progress"));
        };
        let replay = replay::of(&state, &session.folder);
        if is_replayed {
            for update in replay.updates {
                self.editor.tell(id, update).await.map_err(failed)?;
            }
        }
        told.goes_on(replay.open);
        drop(told);
        let goes_on = !state.is_ended() && state.status() != Status::Paused;
        let next = state.last_seq().map_or(Seq(0), Seq::next);
        Ok(goes_on.then_some((session, thread, next)))
    }

    /// Finds the thread of a session that is not open.
    async fn find(&self, log: &Log<'_>, id: &SessionId) -> Answer<ThreadHandle> {
        let no_session = || error::no_session(&id.0);
        let named: ThreadId = id.0.parse().map_err(|_| no_session())?;
        let thread = log.runtime.thread(named);
        let summary = match thread.summary().await.map_err(Failure::from) {
            Ok(summary) => summary,
            Err(failure) if failure.code == NOT_FOUND => {
                // A server gave its thread another id.
                let labels = Labels::new().with(SESSION_LABEL, &*id.0).map_err(|_| no_session())?;
                let query = ThreadQuery {
                    labels,
                    branch_of: BranchFilter::TopLevel,
                    oldest_first: true,
                    limit: 1,
                    ..ThreadQuery::default()
                };
                let page = log.runtime.thread_page(query).await.map_err(failed)?;
                page.threads.into_iter().next().ok_or_else(no_session)?
            }
            Err(failure) => return Err(of_failure(&failure)),
        };
        if summary.branch_of.is_some() {
            return Err(invalid("sessionId", "this thread is a branch: load the thread that it belongs to"));
        }
        Ok(log.runtime.thread(summary.thread_id))
    }

    /// Answers a request that loaded a session, and follows the run that was in progress.
    async fn resumed<T: Serialize>(
        &self,
        responder: Responder<Value>,
        loaded: Answer<Option<(Arc<Session>, ThreadHandle, Seq)>>,
        response: T,
    ) {
        let (loaded, follow) = match loaded {
            Ok(follow) => (Ok(response), follow),
            Err(error) => (Err(error), None),
        };
        let Some((session, thread, from)) = follow else { return respond(responder, loaded) };
        // The next prompt comes after it.
        let cancelled = session.cancellation();
        let mut told = session.told.lock().await;
        respond(responder, loaded);
        let Ok(log) = self.log().await else { return };
        self.open.driven.add(thread.id());
        let turn = Turn { log, editor: &self.editor, session: &session, thread, cancelled };
        if let Err(error) = turn.follow(&mut told, from).await {
            // No request waits for it.
            let _ = self.editor.tell(&session.id, translate::text(error.message)).await;
        }
    }

    async fn prompt(&self, request: PromptRequest) -> Answer<PromptResponse> {
        let session = self.sessions.get(&request.session_id)?;
        let input = prompt::input(&request.prompt)?;
        let _prompting = session.begin_prompt()?;
        let cancelled = session.cancellation();
        let log = self.log().await?;
        let mut told = tokio::select! {
            biased;
            () = cancelled.cancelled() => return Ok(PromptResponse::new(StopReason::Cancelled)),
            told = session.told.lock() => told,
        };
        let (thread, from) = match session.thread() {
            None => {
                let thread = self.start(log, &session, input).await.map_err(failed)?;
                session.begun(thread.clone());
                (thread, Seq(0))
            }
            Some(thread) => {
                let from = self.go_on(log, &thread, input, &cancelled).await?;
                let Some(from) = from else { return Ok(PromptResponse::new(StopReason::Cancelled)) };
                (thread, from)
            }
        };
        self.open.driven.add(thread.id());
        let turn = Turn { log, editor: &self.editor, session: &session, thread, cancelled };
        turn.follow(&mut told, from).await.map(PromptResponse::new)
    }

    /// Starts the thread of a session.
    async fn start(&self, log: &Log<'_>, session: &Session, input: rethread::Json) -> Result<ThreadHandle, Failure> {
        let file = self.definition.file(self.open)?;
        let labels = self.labels.clone().with(SESSION_LABEL, &*session.id.0).map_err(Failure::other)?;
        let (id, past) = (Some(session.begins_as), Past::default());
        let begin = Beginning { id, input: Some(input), past, labels, caller: run::caller() };
        let mut tools = ToolArgs { workspace: Some(session.folder.clone()), ..self.tools.clone() };
        if log.server.is_some_and(|server| server.folder(&tools).is_err()) {
            // A server on another machine has a folder of its own.
            tools.workspace = None;
        }
        run::start(log.server, &log.runtime, file, begin, &tools).await
    }

    /// Answers the question of a thread, or starts its next run. Returns the first event of it; `None` if it was cancelled
    /// before.
    async fn go_on(
        &self,
        log: &Log<'_>,
        thread: &ThreadHandle,
        input: rethread::Json,
        cancelled: &CancellationToken,
    ) -> Answer<Option<Seq>> {
        let state = thread.state().await.map_err(failed)?;
        if state.status() == Status::Paused {
            return Err(error::refused(turn::paused(thread, state.pause_reason())));
        }
        let open = if state.is_ended() { Vec::new() } else { thread.inbox().await.map_err(failed)? };
        let asked = open.iter().find(|asked| question::is_answered_by_message(asked));
        let from = thread.summary().await.map_err(failed)?.last_seq.next();
        if cancelled.is_cancelled() {
            return Ok(None);
        }
        match asked {
            Some(asked) => {
                let answer = question::answer_of(asked, input);
                if question::approves_unseen(asked, &answer) {
                    return Err(error::refused(question::UNSEEN));
                }
                log.respond(asked, answer).await.map_err(failed)?;
            }
            None => {
                let (on_message, caller) = (Some(OnMessage::Queue), run::caller());
                let next = NextRun { input, on_message, pin: false, definition: None, caller };
                runs::start_next_run(log.server, &log.runtime, thread, next).await.map_err(failed)?;
            }
        }
        Ok(Some(from))
    }

    /// Cancels what a session does, and forgets it. Its thread stays in the log.
    async fn close(&self, id: &SessionId) -> Answer<CloseSessionResponse> {
        let session = self.sessions.get(id)?;
        session.cancel();
        let _ended = session.told.lock().await;
        self.sessions.close(id);
        Ok(CloseSessionResponse::new())
    }

    /// Cancels a run that waits for an answer. Returns whether it has ended.
    async fn end_waiting(&self, log: &Log<'_>, thread: &ThreadHandle) -> Answer<bool> {
        if thread.summary().await.map_err(failed)?.status != Status::Waiting {
            return Ok(false);
        }
        log.cancel(thread).await.map_err(failed)?;
        let outcome = drive::at_rest(log.server, thread).await.map_err(failed)?;
        Ok(outcome.status.is_ended())
    }

    /// Deletes the thread of a session, which need not be open.
    async fn delete(&self, id: &SessionId) -> Answer<DeleteSessionResponse> {
        let log = self.log().await?;
        let session = self.sessions.get(id).ok();
        // The next prompt would begin the thread again.
        let _prompting = session.as_ref().map(Session::begin_prompt).transpose()?;
        let Ok(_told) = session.as_ref().map(|session| session.told.try_lock()).transpose() else {
            return Err(error::refused("the run of this session goes on: cancel it first"));
        };
        let thread = match session.as_ref().map(|session| session.thread()) {
            Some(Some(thread)) => Some(thread),
            // Nothing was said in it.
            Some(None) => None,
            None => Some(self.find(log, id).await?),
        };
        if let Some(thread) = thread {
            if !thread.state().await.map_err(failed)?.is_ended() && !self.end_waiting(log, &thread).await? {
                let detail = "the run of this session goes on: load the session and cancel it, or use `rethread cancel` when \
                              this agent has ended";
                return Err(error::refused(detail));
            }
            match log.server {
                Some(server) => server.delete(thread.id()).await.map_err(failed)?,
                None => thread.delete().await.map_err(failed)?,
            }
        }
        self.sessions.close(id);
        Ok(DeleteSessionResponse::new())
    }
}

fn respond<T: Serialize>(responder: Responder<Value>, answer: Answer<T>) {
    let answer = answer.and_then(|answer| serde_json::to_value(answer).map_err(Error::into_internal_error));
    // A client that has gone needs none.
    let _ = responder.respond_with_result(answer);
}
