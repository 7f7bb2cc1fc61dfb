//! What the server answers to each method of the protocol.

use rethread::{CallId, Json, Seq, ThreadHandle, Workflow};
use rethread_events::trace_context::TraceParent;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CreateTaskResult, ErrorData, GetTaskParams, GetTaskResult, Implementation,
    JsonObject, ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::cancellations::{Cancellable, Cancellations};
use super::log::{Log, Opened, Purpose};
use super::question::Shows;
use super::run::{self, Call};
use super::{debug, error, question, resources, result, tasks, tools};
use crate::family;
use crate::serve::doors::caller::Caller;
use crate::serve::doors::question::check_seen;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::Shared;

const INSTRUCTIONS: &str = "rethread runs LLM agents as durable threads. The tools that read help to debug them: begin with \
                            `threads` and `explain`, then look at `events`, `state`, `diff` and `bisect`. Each workflow is \
                            a tool that runs it; its result names the thread.";

/// A client's connection, or one request of a client that has none.
pub(super) struct Mcp {
    log: Log,
    /// Who calls, if requests do not say it.
    caller: Option<Caller>,
    cancellations: Cancellations,
    /// Cancelled when stdin is closed.
    closed: CancellationToken,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Respond {
    interaction: String,
    answer: Value,
}

/// Why a call of a tool has no result.
enum Refused {
    /// The request is wrong: an error of the protocol.
    Request(Problem),
    /// The call failed: a result that the model reads.
    Call(Problem),
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::Call(problem)
    }
}

impl Mcp {
    /// For requests that name their sender.
    pub(super) fn served(log: Log) -> Self {
        Self { log, caller: None, cancellations: Cancellations::default(), closed: CancellationToken::new() }
    }

    /// For requests of this caller, until `closed` is cancelled.
    pub(super) fn of(caller: Caller, log: Log, closed: CancellationToken) -> Self {
        Self { caller: Some(caller), closed, ..Self::served(log) }
    }

    /// Who sent a request.
    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        let parts = context.extensions.get::<http::request::Parts>();
        let caller = parts.and_then(|parts| parts.extensions.get::<Caller>()).or(self.caller.as_ref());
        caller.cloned().ok_or_else(|| ErrorData::internal_error("the request has no sender", None))
    }

    fn call<'a>(
        &'a self,
        opened: &'a Opened,
        caller: &'a Caller,
        context: &'a RequestContext<RoleServer>,
        request: &'a Cancellable<'a>,
    ) -> Call<'a> {
        let (server, is_http, closed) = (&opened.server, self.caller.is_none(), &self.closed);
        Call { server, caller, context, request, is_http, closed, cancels: None }
    }

    /// Starts a workflow, or goes on with the run of a request that was answered with a form.
    async fn run(
        &self,
        caller: &Caller,
        params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        request: &Cancellable<'_>,
    ) -> Result<Option<CallToolResponse>, Refused> {
        let opened = self.log.open(Purpose::Run).await?;
        let server = &opened.server;
        caller.check_may_run(server)?;
        let Some(workflow) = tools::workflow(server, &params.name).await? else { return Ok(None) };
        let mut call = self.call(&opened, caller, context, request);
        if let Some(state) = &params.request_state {
            let (thread, from) = asking(server, caller, state, &workflow).await.map_err(Refused::Request)?;
            let given = params.input_responses.unwrap_or_default();
            let followed = goes_on(&call, &opened, &thread, given, from).await;
            tasks::keep_open(opened, thread.clone());
            return Ok(Some(of_thread(&thread, followed)?));
        }
        let input = tools::input(&workflow, params.arguments.unwrap_or_default())?;
        // Before anything is started that no client could wait for.
        let slot = server.subscribe()?;
        if call.is_cancelled() {
            return Err(Problem::new(Kind::Conflict, "the request was cancelled before the run began").into());
        }
        let thread = run::start(server, caller, workflow, input, span_of(context)).await?;
        opened.drives(thread.id());
        if context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks()) {
            let task = of_thread(&thread, tasks::task(&thread).await)?;
            tasks::keep_open(opened, thread);
            return Ok(Some(CreateTaskResult::new(task).into()));
        }
        call.cancels = Some(thread.state().await.map_err(Problem::from)?.run_id());
        let followed = call.follow(&thread, Seq(0)).await;
        drop(slot);
        tasks::keep_open(opened, thread.clone());
        Ok(Some(of_thread(&thread, followed)?))
    }

    /// Answers a question, and follows its thread.
    async fn respond(
        &self,
        caller: &Caller,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
        request: &Cancellable<'_>,
    ) -> Result<CallToolResponse, Problem> {
        let Respond { interaction, answer } = debug::arguments(arguments)?;
        let (thread, id) = CallId::parse_key(&interaction).map_err(|_| {
            let detail = "a question is named by its id, as the tool `questions` lists it";
            Problem::new(Kind::NoInteraction, detail).at("interaction", request::cut(&interaction))
        })?;
        let opened = self.log.open(Purpose::Run).await?;
        let server = &opened.server;
        caller.check_may_run(server)?;
        let asks = caller.thread(server, thread).await?;
        let thread = caller.acting_on(&family::root_of(&server.runtime, &asks).await?);
        let _slot = server.subscribe()?;
        let from = thread.summary().await?.last_seq.next();
        opened.drives(thread.id());
        let answer = Json::from(answer);
        let open = asks.inbox().await?;
        if let Some(question) = open.iter().find(|open| (open.thread, open.request.id) == (asks.id(), id)) {
            check_seen(question, &answer)?;
        }
        asks.respond(id, answer).await?;
        let followed = self.call(&opened, caller, context, request).follow(&thread, from).await;
        tasks::keep_open(opened, thread.clone());
        of_thread(&thread, followed)
    }
}

/// The thread of a call that was answered with a form, and the event after its last one.
async fn asking(
    server: &Shared,
    caller: &Caller,
    state: &str,
    workflow: &Workflow,
) -> Result<(ThreadHandle, Seq), Problem> {
    let thread = state.parse().map_err(|_| Problem::parameter("requestState", "it is not from this server"))?;
    let thread = caller.thread(server, thread).await?;
    let summary = thread.summary().await?;
    if summary.workflow.is_none_or(|of| of.name != workflow.name()) {
        return Err(Problem::parameter("requestState", "it is from a call of another tool"));
    }
    Ok((thread, summary.last_seq.next()))
}

/// Answers the questions of a thread that have responses, and follows it.
async fn goes_on(
    call: &Call<'_>,
    opened: &Opened,
    thread: &ThreadHandle,
    given: rmcp::model::InputResponses,
    from: Seq,
) -> Result<CallToolResponse, Problem> {
    let _slot = call.server.subscribe()?;
    opened.drives(thread.id());
    let mut is_refused = false;
    for asked in thread.inbox().await? {
        let Some(response) = given.get(&asked.key()) else { continue };
        let response = serde_json::from_value(response.clone())
            .map_err(|error| Problem::parameter("inputResponses", format!("{}: {error}", asked.key())))?;
        match run::give(thread, &asked, question::answer(&asked, response)).await {
            // The first answer counts.
            Err(problem) if problem.kind() == Kind::InteractionClosed => {}
            given => is_refused |= !given?,
        }
    }
    call.follow_with(thread, from, is_refused).await
}

/// The span of the client: its `_meta.traceparent` (SEP-414).
fn span_of(context: &RequestContext<RoleServer>) -> Option<TraceParent> {
    context.meta.get_traceparent()?.parse().ok()
}

/// Names the thread that has begun in an error.
fn of_thread<T>(thread: &ThreadHandle, done: Result<T, Problem>) -> Result<T, Problem> {
    done.map_err(|problem| problem.at("thread_id", thread.id()))
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_tasks().build();
        let program = Implementation::new("rethread", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(program).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = self.caller(&context)?;
        let cursor = request.and_then(|request| request.cursor);
        let listed = match self.log.open(Purpose::Read).await {
            Ok(opened) => tools::list(&opened.server, &caller, cursor.as_deref()).await,
            Err(problem) => Err(problem),
        };
        match listed {
            Ok(listed) => Ok(listed),
            // There is no log yet.
            Err(problem) if problem.kind() == Kind::NoSuchPart => Ok(ListToolsResult::with_all_items(debug::tools())),
            Err(problem) => Err(error::data(&problem)),
        }
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context)?;
        let name = params.name.clone();
        let in_progress = self.cancellations.begin(&context.id);
        let done = if debug::is_one(&name) {
            match self.log.open(Purpose::Read).await {
                Ok(opened) => {
                    let arguments = params.arguments.unwrap_or_default();
                    debug::call(&opened.server, &caller, &name, arguments).await.map(CallToolResponse::from)
                }
                Err(problem) => Err(problem),
            }
        } else if name == tools::RESPOND {
            self.respond(&caller, params.arguments.unwrap_or_default(), &context, &in_progress).await
        } else {
            match self.run(&caller, params, &context, &in_progress).await {
                Ok(Some(response)) => Ok(response),
                Ok(None) => {
                    let text = format!("unknown tool `{}`: tools/list lists the tools", request::cut(&name));
                    return Err(ErrorData::invalid_params(text, None));
                }
                Err(Refused::Request(problem)) => return Err(error::data(&problem)),
                Err(Refused::Call(problem)) => Err(problem),
            }
        };
        Ok(done.unwrap_or_else(|problem| result::of_problem(&problem).into()))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn on_cancelled(&self, notification: CancelledNotificationParam, _: NotificationContext<RoleServer>) {
        if let Some(id) = &notification.request_id {
            self.cancellations.cancel(id);
        }
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let caller = self.caller(&context)?;
        let opened = self.log.open(Purpose::Read).await.map_err(|problem| error::data(&problem))?;
        resources::read(&opened.server, &caller, &params.uri).await.map(ReadResourceResponse::from)
    }

    async fn get_task(
        &self,
        params: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let caller = self.caller(&context)?;
        let get = async {
            let opened = self.log.open(Purpose::Read).await?;
            tasks::get(&opened.server, &caller, &params.task_id, Shows::of_task(&context)).await
        };
        get.await.map_err(|problem: Problem| tasks::error(&problem))
    }

    async fn update_task(
        &self,
        params: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = self.caller(&context)?;
        let update = async {
            let opened = self.log.open(Purpose::Run).await?;
            tasks::update(opened, &caller, &params.task_id, params.input_responses).await
        };
        update.await.map_err(|problem: Problem| tasks::error(&problem))
    }

    async fn cancel_task(
        &self,
        params: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = self.caller(&context)?;
        let cancel = async {
            let opened = self.log.open(Purpose::Run).await?;
            tasks::cancel(&opened.server, &caller, &params.task_id).await
        };
        cancel.await.map_err(|problem: Problem| tasks::error(&problem))
    }
}
