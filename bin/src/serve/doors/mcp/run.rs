//! Runs of workflows for a client that waits: begun, followed with progress, cancelled, and what they ask.

use std::ops::ControlFlow;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use rethread::operate::{LogAccess as _, OpenInteraction};
use rethread::runs::RunId;
use rethread::store::{Batch, Mapped, Records};
use rethread::{Event, Json, Outcome, Position, RecordedEvent, Seq, StartThread, Status, ThreadHandle, Workflow};
use rethread_events::trace_context::TraceParent;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, ElicitRequest, ElicitResult, InputRequest, InputRequiredResult,
    ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::cancellations::Cancellable;
use super::question::{Given, Shows};
use super::result::BYTES_MAX;
use super::{debug, made, question, result, tool_questions};
use crate::answer;
use crate::serve::doors::caller::Caller;
use crate::serve::doors::following;
use crate::serve::doors::question::check_seen;
use crate::serve::problem::{Kind, Problem};
use crate::serve::server::Shared;
use crate::serve::written::Entry;

/// How long the notification of a cancellation may come after the cancellation itself.
const NOTICE_MAX: Duration = Duration::from_secs(1);
/// How long a report of progress waits for a client that does not read.
const REPORT_MAX: Duration = Duration::from_secs(2);
/// How often a question that the client shows is looked at, whether it is still open.
const LOOK: Duration = Duration::from_secs(1);
/// How long a thread is given whose question was answered just now.
pub(super) const MOMENT: Duration = Duration::from_millis(20);

/// A request that waits for a run.
pub(super) struct Call<'a> {
    pub(super) server: &'a Shared,
    pub(super) caller: &'a Caller,
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) request: &'a Cancellable<'a>,
    /// Whether it came over HTTP.
    pub(super) is_http: bool,
    /// Cancelled when stdin is closed.
    pub(super) closed: &'a CancellationToken,
    /// The run that the request began, which its cancellation cancels.
    pub(super) cancels: Option<RunId>,
}

/// Why a request waits no more.
enum Rest {
    /// A tool of the run asks in the middle of a call.
    Asks(Box<OpenInteraction>),
    /// The thread has ended, asks a person or is paused.
    Outcome(Box<Outcome>),
    /// The client cancelled the request.
    Cancelled,
    /// The client has gone without a cancellation, or the server stops.
    Left(&'static str),
}

/// Starts a thread of a workflow, with the labels of the caller.
pub(super) async fn start(
    server: &Shared,
    caller: &Caller,
    workflow: std::sync::Arc<Workflow>,
    input: Json,
    span: Option<TraceParent>,
) -> Result<ThreadHandle, Problem> {
    let mut start = StartThread::new(workflow, input).labels(caller.labels.clone()).traceparent(span);
    if let Some(folder) = &server.settings.workspace {
        start = start.workspace(folder);
    }
    Ok(caller.acting_on(&server.runtime.start(start).await?))
}

impl Call<'_> {
    /// Whether the client has cancelled the request already.
    pub(super) fn is_cancelled(&self) -> bool {
        self.request.cancelled.is_cancelled() || self.context.ct.is_cancelled()
    }

    /// Whether the protocol has no sessions, and asks in results.
    fn is_modern(&self) -> bool {
        self.context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
    }

    /// Follows a thread until it ends, or waits for what this client cannot give.
    /// `from` is the first event whose progress is reported.
    pub(super) async fn follow(&self, thread: &ThreadHandle, from: Seq) -> Result<CallToolResponse, Problem> {
        self.follow_with(thread, from, false).await
    }

    /// As above; asks nothing more of a user who has refused to answer.
    pub(super) async fn follow_with(
        &self,
        thread: &ThreadHandle,
        from: Seq,
        is_refused: bool,
    ) -> Result<CallToolResponse, Problem> {
        let mut progress = Progress::of(self, thread, from);
        // A user who has refused to answer is asked nothing more.
        let shows = if is_refused { Shows::NOTHING } else { Shows::of(self.context) };
        // The questions that the user did not answer.
        let mut refused = Vec::new();
        loop {
            let outcome = match self.at_rest(thread, &mut progress, shows, &refused).await? {
                Rest::Outcome(outcome) => outcome,
                Rest::Asks(asked) => {
                    self.caller.check_still_allowed(self.server)?;
                    if self.is_modern() {
                        return Ok(input_required(thread, &asked).into());
                    }
                    self.put(thread, &asked, &mut refused).await?;
                    continue;
                }
                Rest::Cancelled => {
                    return match self.cancels {
                        Some(run) => self.cancel(thread, run).await,
                        None => Ok(self.left(thread, "the request was cancelled, which did not begin the run")),
                    };
                }
                Rest::Left(why) => return Ok(self.left(thread, why)),
            };
            progress.finish(self, outcome.last_position).await;
            self.caller.check_still_allowed(self.server)?;
            if outcome.status != Status::Waiting {
                let version = self.context.protocol_version().unwrap_or(ProtocolVersion::V_2024_11_05);
                return Ok(ended(&outcome, &version).into());
            }
            let open = thread.inbox().await?;
            if open.is_empty() {
                // It was answered just now.
                tokio::time::sleep(MOMENT).await;
                continue;
            }
            let next = open.iter().find(|asked| shows.can_ask(asked) && !refused.contains(&asked.key()));
            let Some(asked) = next else {
                return Ok(self.waits(thread, &open).into());
            };
            if self.is_modern() {
                return Ok(input_required(thread, asked).into());
            }
            self.put(thread, asked, &mut refused).await?;
        }
    }

    /// Puts a question to the user, and gives the answer to the run. One that the user does not answer is refused.
    async fn put(
        &self,
        thread: &ThreadHandle,
        asked: &OpenInteraction,
        refused: &mut Vec<String>,
    ) -> Result<(), Problem> {
        // None if it was closed, or the request is over, which the next turn finds.
        let Some(given) = self.ask(thread, asked).await? else { return Ok(()) };
        match give(thread, asked, question::answer(asked, given)).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                refused.push(asked.key());
                Ok(())
            }
            // The answer does not fit, or another one came first.
            Err(problem) if problem.is_refusal() || problem.kind() == Kind::InteractionClosed => {
                refused.push(asked.key());
                Ok(())
            }
            Err(problem) => Err(problem),
        }
    }

    async fn at_rest(
        &self,
        thread: &ThreadHandle,
        progress: &mut Progress,
        shows: Shows,
        refused: &[String],
    ) -> Result<Rest, Problem> {
        let mut at_rest = std::pin::pin!(thread.at_rest());
        let mut asks = std::pin::pin!(tool_questions::next(thread, shows, refused));
        loop {
            tokio::select! {
                biased;
                over = self.over() => return Ok(over),
                nodes = progress.next() => tokio::select! {
                    biased;
                    over = self.over() => return Ok(over),
                    () = progress.report(self, nodes) => {}
                },
                outcome = &mut at_rest => return Ok(Rest::Outcome(Box::new(outcome?))),
                asked = &mut asks => return Ok(Rest::Asks(Box::new(asked?))),
            }
        }
    }

    /// Waits until the request is over without a result.
    async fn over(&self) -> Rest {
        let request = self.request;
        tokio::select! {
            biased;
            () = self.server.stopping.cancelled() => Rest::Left("the server is stopping"),
            () = request.cancelled.cancelled() => Rest::Cancelled,
            () = self.context.ct.cancelled() => {
                if self.caller.is_cut() || self.caller.check_still_allowed(self.server).is_err() {
                    return Rest::Left("the token is no longer valid");
                }
                // Over HTTP, clients of 2026-07-28 cancel a request by closing its stream.
                if self.is_http && self.is_modern() && !self.server.stopping.is_cancelled() {
                    return Rest::Cancelled;
                }
                match tokio::time::timeout(NOTICE_MAX, request.cancelled.cancelled()).await {
                    Ok(()) => Rest::Cancelled,
                    Err(_) => Rest::Left("the connection has ended"),
                }
            }
            // A cancellation that came before it has cancelled the request already.
            () = self.closed.cancelled() => Rest::Left("the connection has ended"),
        }
    }

    /// Has the client ask its user. `None` if the question was closed meanwhile, or the request is over.
    async fn ask(&self, thread: &ThreadHandle, asked: &OpenInteraction) -> Result<Option<ElicitResult>, Problem> {
        let closed = async {
            loop {
                tokio::time::sleep(LOOK).await;
                match thread.inbox().await {
                    Ok(open) if open.iter().any(|open| open.key() == asked.key()) => {}
                    Ok(_) => return Ok(()),
                    Err(error) => return Err(Problem::from(error)),
                }
            }
        };
        tokio::select! {
            biased;
            _ = self.over() => Ok(None),
            given = self.context.peer.create_elicitation(question::form(asked)) => Ok(Some(given.unwrap_or_else(|error| {
                tracing::debug!(%error, "the client did not ask its user");
                ElicitResult::new(rmcp::model::ElicitationAction::Cancel)
            }))),
            closed = closed => closed.map(|()| None),
        }
    }

    async fn cancel(&self, thread: &ThreadHandle, run: RunId) -> Result<CallToolResponse, Problem> {
        following::cancel(thread, run, "the client cancelled its request").await?;
        let text = format!("the run was cancelled (thread {})", thread.id());
        Ok(result::of_error(text, json!({ "thread_id": thread.id(), "status": "cancelled" })).into())
    }

    /// The result for a client that does not wait any more. The run goes on.
    fn left(&self, thread: &ThreadHandle, why: &str) -> CallToolResponse {
        let text = format!("{why}; the run is not cancelled: see thread {} with the tool `explain`", thread.id());
        result::of_error(text, json!({ "thread_id": thread.id(), "status": "running" })).into()
    }

    fn waits(&self, thread: &ThreadHandle, open: &[OpenInteraction]) -> CallToolResult {
        let lines = open.iter().map(|asked| format!("\n- {}: {}", asked.key(), question::in_words(asked)));
        let text = format!(
            "The run waits for a person. Answer with the tool `respond` and the id of the question:{}",
            lines.collect::<String>()
        );
        let questions = debug::shown(self.server, open);
        let structured = json!({ "thread_id": thread.id(), "status": Status::Waiting, "questions": questions });
        let mut result = result::of_text(text, "the tool `questions` lists them");
        if structured.to_string().len() <= BYTES_MAX {
            result.structured_content = Some(structured);
        }
        result
    }
}

/// Gives what the user did with a question to the run. Returns false if that is nothing. A question that was answered
/// meanwhile is not: the answer of the first counts.
pub(super) async fn give(thread: &ThreadHandle, asked: &OpenInteraction, given: Given) -> Result<bool, Problem> {
    let thread = thread.sibling(asked.thread);
    match given {
        Given::Answer(answer) => {
            check_seen(asked, &answer)?;
            thread.respond(asked.request.id, answer).await?;
        }
        Given::Withdrawn => thread.cancel_interaction(asked.request.id).await?,
        Given::Nothing => return Ok(false),
    }
    Ok(true)
}

/// The form that a client of 2026-07-28 shows before it sends the request again.
fn input_required(thread: &ThreadHandle, asked: &OpenInteraction) -> InputRequiredResult {
    InputRequiredResult::new(Some([input_request(asked)].into()), Some(thread.id().to_string()))
}

/// A question by its id, with its form.
pub(super) fn input_request(asked: &OpenInteraction) -> (String, InputRequest) {
    (asked.key(), InputRequest::Elicitation(ElicitRequest::new(question::form(asked))))
}

/// The result of a thread that has ended, or is paused, for a client that speaks this version of the protocol.
pub(super) fn ended(outcome: &Outcome, version: &ProtocolVersion) -> CallToolResult {
    let (id, status) = (outcome.thread_id, outcome.status);
    let mut structured = json!({ "thread_id": id, "status": status });
    if let Some(failure) = &outcome.error {
        structured["error"] = json!(failure);
        let text = format!(
            "the run ended: {status}: {}: {} (see thread {id} with the tool `explain`)",
            failure.kind, failure.message
        );
        return result::of_error(text, structured);
    }
    if status != Status::Completed {
        let reason = outcome.state.pause_reason().map(|reason| format!(": {reason}")).unwrap_or_default();
        let text = format!("the run is {status}{reason}; it continues after `rethread resume {id}`");
        return result::of_error(text, structured);
    }
    let output = outcome.output.clone().unwrap_or_default();
    let text = match &output {
        Value::String(text) => text.clone(),
        output => output.to_string(),
    };
    if output.to_string().len() <= BYTES_MAX {
        structured["output"] = output;
    }
    let mut result = result::of_text(text, "read it with the tool `state` and the part /output");
    result.content.push(ContentBlock::text(format!("thread_id: {id}")));
    if let Some(said) = answer::of(&outcome.state, outcome.output.as_ref()) {
        result.content.extend(made::content(&said, id, version));
    }
    result.structured_content = Some(structured);
    result
}

/// The reports of progress to a client that wants them: one for each node that begins.
struct Progress {
    token: Option<ProgressToken>,
    events: Mapped<(Vec<String>, Option<Position>)>,
    seen: Option<Position>,
    n: u32,
}

impl Progress {
    fn of(call: &Call<'_>, thread: &ThreadHandle, from: Seq) -> Self {
        let token = call.context.meta.get_progress_token();
        let store = thread.runtime().store();
        let events = match token {
            Some(_) => call.server.hub.follow_thread(store, thread.id(), from, begun),
            None => futures::stream::pending().boxed(),
        };
        Self { token, events, seen: None, n: 0 }
    }

    /// The names of the nodes that have begun.
    async fn next(&mut self) -> Vec<String> {
        match self.events.next().await {
            Some(Ok((nodes, covered))) => {
                self.seen = self.seen.max(covered);
                nodes
            }
            // There is no more progress to report.
            Some(Err(_)) | None => {
                self.token = None;
                self.events = futures::stream::pending().boxed();
                Vec::new()
            }
        }
    }

    async fn report(&mut self, call: &Call<'_>, nodes: Vec<String>) {
        for node in nodes {
            let Some(token) = self.token.clone() else { return };
            self.n += 1;
            let progress =
                ProgressNotificationParam::new(token, f64::from(self.n)).with_message(format!("node {node}"));
            let reported = tokio::time::timeout(REPORT_MAX, call.context.peer.notify_progress(progress));
            if !matches!(reported.await, Ok(Ok(()))) {
                self.token = None;
            }
        }
    }

    /// Reports what happened before this event.
    async fn finish(&mut self, call: &Call<'_>, last: Position) {
        while self.token.is_some() && self.seen < Some(last) {
            let Ok(nodes) = tokio::time::timeout(REPORT_MAX, self.next()).await else { return };
            self.report(call, nodes).await;
        }
        while let Some(nodes) = self.next().now_or_never() {
            self.report(call, nodes).await;
        }
    }
}

type Begun = (Vec<String>, Option<Position>);

/// The nodes that begin in a batch.
fn begun(batch: Batch<Entry>) -> ControlFlow<Begun, Begun> {
    let mut nodes = Vec::new();
    let mut take = |event: &RecordedEvent| {
        if let Event::NodeStarted(e) = &event.event {
            nodes.push(e.node_id.to_string());
        }
    };
    match batch.records {
        Records::Read(records) => {
            records.into_iter().filter_map(|record| RecordedEvent::decode(record).ok()).for_each(|event| take(&event));
        }
        Records::Shared(entries) => entries.iter().filter_map(|entry| entry.event.as_ref().ok()).for_each(take),
    }
    ControlFlow::Continue((nodes, batch.covered))
}
