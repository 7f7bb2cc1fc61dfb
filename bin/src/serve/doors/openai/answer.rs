//! Follows a run until its answer is complete.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use rethread::errors::{ReadError, RunError};
use rethread::event::OperationType;
use rethread::operate::{LogAccess as _, OpenInteraction};
use rethread::runs::RunId;
use rethread::store::{Batch, Mapped, Records};
use rethread::{Outcome, Position, RecordedEvent, Seq, State, Status, ThreadHandle, ThreadId, Workflow};
use rethread_events::message::FinishReason;
use rethread_events::thread::ThreadUsage;
use serde::Serialize;
use serde_json::Value;

use super::speech::{Piece, Speech};
use super::{Error, RESPONSE};
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::Shared;
use crate::serve::written::Entry;

/// What is between the texts of two model calls.
const BETWEEN: &str = "\n\n";

/// A run whose answer a client waits for.
pub(super) struct Run {
    pub(super) thread: ThreadHandle,
    pub(super) id: RunId,
    /// The event that brought the message: a start, a run that starts or waits, or the answer to a question.
    pub(super) from: Seq,
    /// How many loops and sub-workflows were open there.
    pub(super) depth: u32,
    /// The definition that it runs on.
    pub(super) workflow: Arc<Workflow>,
}

impl Run {
    pub(super) fn key(&self) -> RunKey {
        RunKey { thread: self.thread.id(), run: self.id, from: self.from }
    }
}

/// Names an answer: the ids of chat completions and responses are made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunKey {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
    pub(super) from: Seq,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.thread, self.run, self.from)
    }
}

impl RunKey {
    /// Reads the id of a response.
    pub(super) fn of_response(id: &str) -> Result<Self, Problem> {
        let read = || {
            let (rest, from) = id.strip_prefix(RESPONSE)?.rsplit_once('-')?;
            let (thread, run) = rest.rsplit_once('-')?;
            let (thread, run, from) = (thread.parse().ok()?, RunId(Seq(run.parse().ok()?)), Seq(from.parse().ok()?));
            Some(Self { thread, run, from })
        };
        read().ok_or_else(|| Problem::new(Kind::NoMoment, format!("there is no response `{}`", request::cut(id))))
    }
}

/// Names the thread and the run of an answer, for clients. All values of metadata are texts.
#[derive(Serialize)]
pub(super) struct Metadata {
    thread_id: ThreadId,
    run_id: String,
}

impl Metadata {
    pub(super) fn of(run: &Run) -> Self {
        Self { thread_id: run.thread.id(), run_id: run.id.to_string() }
    }
}

/// The next thing to tell the client.
pub(super) enum Step {
    Text(String),
    End(Result<End, Error>),
}

/// How a run ended, or which question it asks.
pub(super) struct End {
    /// The whole answer.
    pub(super) text: String,
    /// The part of it that was no [`Step::Text`] before.
    pub(super) rest: String,
    pub(super) finish_reason: &'static str,
    pub(super) usage: ThreadUsage,
}

/// What a batch of events says.
struct Heard {
    pieces: Vec<Piece>,
    /// The last event that was examined.
    at: Option<Position>,
    finish: Option<FinishReason>,
    is_over: bool,
}

/// The answer to a request, as it is given.
pub(super) struct Answering {
    server: Shared,
    thread: ThreadHandle,
    run: RunId,
    heard: Mapped<Result<Heard, ReadError>>,
    /// What was heard and not told.
    pieces: std::vec::IntoIter<Piece>,
    at_rest: BoxFuture<'static, Result<Outcome, ReadError>>,
    /// The thread as it was when it waited for a person or was paused.
    rested: Option<Outcome>,
    /// Whether it rested during a run of another request.
    rests_for_others: bool,
    at: Option<Position>,
    finish: Option<FinishReason>,
    is_over: bool,
    /// Whether something was told.
    has_spoken: bool,
    /// What the last model call said.
    last: String,
    is_told: bool,
}

impl Answering {
    pub(super) fn begin(server: &Shared, run: Run) -> Self {
        let Run { thread, id, from, depth, workflow } = run;
        let mut speech = Speech::of(workflow, id, from, depth);
        let follow = move |batch| hear(&mut speech, batch);
        let heard = server.hub.follow_thread(server.runtime.store(), thread.id(), from, follow);
        let at_rest = at_rest(&thread);
        Self {
            server: server.clone(),
            thread,
            run: id,
            heard,
            pieces: Vec::new().into_iter(),
            at_rest,
            rested: None,
            rests_for_others: false,
            at: None,
            finish: None,
            is_over: false,
            has_spoken: false,
            last: String::new(),
            is_told: false,
        }
    }

    /// Nothing more is told. The run goes on although its client has no answer.
    pub(super) fn leave(&mut self) {
        self.is_told = true;
    }

    /// The last event of the thread that was examined.
    pub(super) fn at(&self) -> Position {
        self.at.unwrap_or_default()
    }

    /// Returns the next step; nothing follows [`Step::End`].
    pub(super) async fn next(&mut self) -> Step {
        match self.step().await {
            Ok(step) => step,
            Err(error) => {
                self.is_told = true;
                Step::End(Err(error.of_thread(self.thread.id())))
            }
        }
    }

    async fn step(&mut self) -> Result<Step, Error> {
        loop {
            if let Some(piece) = self.pieces.next() {
                return Ok(Step::Text(self.tell(piece)));
            }
            if self.is_over {
                let answer = ended(&self.thread, self.run).await;
                self.is_told = true;
                return answer.map(|answer| Step::End(Ok(self.end(answer))));
            }
            if let Some(rested) = self.rested.take_if(|rested| self.at >= Some(rested.last_position)) {
                let answer = asks(&self.thread, &rested.state).await;
                self.is_told = true;
                return answer.map(|answer| Step::End(Ok(self.end(answer))));
            }
            tokio::select! {
                biased;
                heard = self.heard.next() => {
                    let heard = heard.ok_or_else(Problem::stopping)?.map_err(Problem::from)?.map_err(Problem::from)?;
                    self.pieces = heard.pieces.into_iter();
                    self.at = self.at.max(heard.at);
                    self.finish = heard.finish.or(self.finish);
                    self.is_over = heard.is_over;
                    if self.rests_for_others {
                        self.rests_for_others = false;
                        self.at_rest = at_rest(&self.thread);
                    }
                }
                rested = &mut self.at_rest, if self.rested.is_none() => {
                    let rested = rested.map_err(Problem::from)?;
                    if rested.status.is_ended() {
                        // The events say how the run ended.
                        self.at_rest = futures::future::pending().boxed();
                    } else if rested.state.run_id() != self.run {
                        // It is another run that waits for a person. After its next event it is asked again.
                        self.rests_for_others = true;
                        self.at_rest = futures::future::pending().boxed();
                    } else {
                        self.at_rest = at_rest(&self.thread);
                        self.rested = Some(rested);
                    }
                }
            }
        }
    }

    fn tell(&mut self, piece: Piece) -> String {
        let Piece { text, begins } = piece;
        let is_next = begins && self.has_spoken;
        if begins {
            self.last.clear();
        }
        self.last.push_str(&text);
        self.has_spoken = true;
        if is_next { format!("{BETWEEN}{text}") } else { text }
    }

    fn end(&self, answer: Answer) -> End {
        let Answer { text, usage } = answer;
        let text = text.unwrap_or_else(|| self.last.clone());
        let rest = match (self.has_spoken, text == self.last) {
            (true, true) => String::new(),
            (true, false) => format!("{BETWEEN}{text}"),
            (false, _) => text.clone(),
        };
        let finish_reason = match self.finish {
            Some(FinishReason::Length) => "length",
            Some(FinishReason::ContentFilter) => "content_filter",
            _ => "stop",
        };
        End { text, rest, finish_reason, usage }
    }
}

/// The answer of a run.
pub(super) struct Answer {
    /// The output; `None` if there is none.
    pub(super) text: Option<String>,
    pub(super) usage: ThreadUsage,
}

/// Returns the answer of a run that has ended.
pub(super) async fn ended(thread: &ThreadHandle, run: RunId) -> Result<Answer, Error> {
    let outcome = match thread.run_outcome(run).await {
        Ok(outcome) => outcome,
        // It was cancelled while it waited.
        Err(RunError::NoRun { .. }) => return Err(Error::cancelled()),
        Err(error) => return Err(Problem::from(error).into()),
    };
    if let Some(error) = &outcome.error {
        return Err(Error::of_run(error));
    }
    let text = match outcome.output {
        Some(Value::String(text)) => Some(text),
        Some(Value::Null) | None => None,
        Some(value) => Some(value.to_string()),
    };
    Ok(Answer { text, usage: outcome.state.run_usage() })
}

/// Returns the question that a thread at rest waits for, as the answer; an error if a message cannot answer it.
pub(super) async fn asks(thread: &ThreadHandle, state: &State) -> Result<Answer, Error> {
    if state.status() == Status::Paused {
        return Err(paused(thread, state));
    }
    let open = thread.inbox().await.map_err(Problem::from)?;
    match open.iter().find(|question| is_answered_by_message(question)) {
        Some(question) => Ok(Answer { text: Some(text_of(question)), usage: state.run_usage() }),
        None => Err(waits_elsewhere(&open)),
    }
}

/// The error of a paused run.
pub(super) fn paused(thread: &ThreadHandle, state: &State) -> Error {
    let reason = state.pause_reason().map(|reason| format!(": {reason}")).unwrap_or_default();
    let id = thread.id();
    Error::needs_person(format!("the run is paused{reason}; it continues after POST /v1/threads/{id}/resume"))
}

/// Cancels the run of a client that has left. A run after which others wait goes on: to cancel it is to cancel them.
pub(in crate::serve::doors) async fn cancel(thread: &ThreadHandle, run: RunId, why: &str) -> Result<(), Problem> {
    let reason = Some(why.to_owned());
    let state = thread.state().await?;
    if state.queued_runs().iter().any(|queued| queued.id == run) {
        thread.cancel_run(run, reason).await?;
    } else if state.run_id() == run && state.queued_runs().is_empty() && state.waiting_messages().next().is_none() {
        thread.cancel(reason).await?;
    }
    Ok(())
}

impl Drop for Answering {
    fn drop(&mut self) {
        let has_left = !self.is_told && !self.server.stopping.is_cancelled();
        if has_left && self.server.settings.doors.cancel_on_disconnect {
            let (thread, run) = (self.thread.clone(), self.run);
            tokio::spawn(async move {
                if let Err(problem) = cancel(&thread, run, "the client disconnected").await {
                    tracing::info!(%problem, "the run of a client that disconnected is not cancelled");
                }
            });
        }
    }
}

fn at_rest(thread: &ThreadHandle) -> BoxFuture<'static, Result<Outcome, ReadError>> {
    let thread = thread.clone();
    async move { thread.at_rest().await }.boxed()
}

/// Returns what a batch says. The stream ends with the run, and with an event that cannot be read.
fn hear(speech: &mut Speech, batch: Batch<Entry>) -> ControlFlow<Result<Heard, ReadError>, Result<Heard, ReadError>> {
    let mut heard = Heard { pieces: Vec::new(), at: batch.covered, finish: None, is_over: false };
    let read = match batch.records {
        Records::Read(records) => records.into_iter().try_for_each(|record| {
            heard.take(speech, &RecordedEvent::decode(record)?);
            Ok(())
        }),
        Records::Shared(entries) => entries.iter().try_for_each(|entry| {
            heard.take(speech, entry.event.as_ref().map_err(ReadError::clone)?);
            Ok(())
        }),
    };
    match read {
        Err(error) => ControlFlow::Break(Err(error)),
        Ok(()) if heard.is_over => ControlFlow::Break(Ok(heard)),
        Ok(()) => ControlFlow::Continue(Ok(heard)),
    }
}

impl Heard {
    fn take(&mut self, speech: &mut Speech, event: &RecordedEvent) {
        self.pieces.extend(speech.take(event));
        self.at = self.at.max(Some(event.record.position));
        (self.finish, self.is_over) = (speech.finish, speech.is_over);
    }
}

/// Whether a message of the conversation can answer the question. An approval needs a decision about a whole call, and a
/// person who answers for a model has a prompt to read.
pub(super) fn is_answered_by_message(question: &OpenInteraction) -> bool {
    match question.request.operation_type {
        OperationType::UpdateVariables
        | OperationType::AddMessage
        | OperationType::AnswerTool
        | OperationType::InformTool => true,
        OperationType::ApproveTool | OperationType::ApproveContent | OperationType::RelayModel => false,
    }
}

/// The question, and what can be answered.
fn text_of(question: &OpenInteraction) -> String {
    let prompt = question.request.prompt.as_deref().unwrap_or("Your answer?");
    match &question.request.answer {
        Some(answer) => format!("{prompt} ({})", answer.expected()),
        None => prompt.to_owned(),
    }
}

/// The error of a run that waits for something that no message of the conversation can give.
pub(super) fn waits_elsewhere(open: &[OpenInteraction]) -> Error {
    let ids: Vec<_> = open.iter().map(OpenInteraction::key).collect();
    let detail = match &ids[..] {
        [] => "the run waits for a person: GET /v1/interactions lists the open questions".to_owned(),
        ids => format!(
            "the run waits for a person's decision: answer it with POST /v1/interactions/{}/respond, on the page or with \
             `rethread inbox`",
            ids.join("/respond, /v1/interactions/")
        ),
    };
    Error::needs_person(detail)
}
