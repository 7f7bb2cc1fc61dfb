//! Follows a run until its answer is complete.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use rethread::errors::RunError;
use rethread::operate::OpenInteraction;
use rethread::runs::RunId;
use rethread::{Message, Position, Seq, State, Status, ThreadHandle, ThreadId, Workflow};
use rethread_events::message::FinishReason;
use rethread_events::thread::ThreadUsage;
use serde::Serialize;
use serde_json::Value;

use super::{Error, RESPONSE};
use crate::answer::{self as said, Made, Placed};
use crate::serve::doors::answer_text::{AnswerText, Piece, Said};
use crate::serve::doors::client_tools;
use crate::serve::doors::following::{Following, Happening, Run};
use crate::serve::doors::question::{is_answered_by_message, text_of};
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::Shared;

/// What is between the texts of two model calls.
const BETWEEN: &str = "\n\n";

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

/// What the client receives next.
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
    /// The tools that the client is to run.
    pub(super) calls: Vec<ToolCall>,
    pub(super) finish_reason: &'static str,
    pub(super) usage: ThreadUsage,
    /// The message of the model that the answer is, with its sources and media.
    pub(super) said: Option<Arc<Message>>,
}

impl End {
    /// The sources of the answer, with their places in a text that ends with it.
    pub(super) fn sources(&self, whole: &str) -> Vec<Placed<'_>> {
        let Some(said) = &self.said else { return Vec::new() };
        let before = whole.strip_suffix(&said.joined_text());
        before.map_or_else(Vec::new, |before| said::placed(&said.content, before.chars().count() as u64))
    }

    /// The images that the model made.
    pub(super) fn images(&self) -> Vec<Made<'_>> {
        let made = self.said.iter().flat_map(|said| said::media(said));
        made.filter(|made| made.kind == "image").collect()
    }
}

/// A call of a tool that the client runs. Its id names the question that its result answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) name: String,
    /// An object, as a text.
    pub(super) arguments: String,
}

impl ToolCall {
    fn of(question: &OpenInteraction) -> Option<Self> {
        let call = question.request.tool_call.as_ref()?;
        Some(Self { id: question.key(), name: call.name.to_string(), arguments: call.arguments.0.to_string() })
    }
}

/// The answer to a request, as it is given.
pub(super) struct Answering {
    server: Shared,
    /// The tools that the client of the request runs; those of all clients if absent.
    tools: Option<BTreeSet<String>>,
    following: Following<Said>,
    finish: Option<FinishReason>,
    /// Whether something was sent.
    has_spoken: bool,
    /// What the last model call said.
    last: String,
}

impl Answering {
    pub(super) fn begin(server: &Shared, run: &Run, tools: Option<BTreeSet<String>>) -> Self {
        let cancels = server.settings.doors.cancel_on_disconnect;
        let following = Following::begin(server, run, cancels, AnswerText::of(run));
        Self { server: server.clone(), tools, following, finish: None, has_spoken: false, last: String::new() }
    }

    /// Nothing more is sent. The run continues although its client has no answer.
    pub(super) fn leave(&mut self) {
        self.following.leave();
    }

    /// The last event of the thread that was examined.
    pub(super) fn at(&self) -> Position {
        self.following.at()
    }

    /// Returns the next step; nothing follows [`Step::End`].
    pub(super) async fn next(&mut self) -> Step {
        let step = self.step().await;
        if let Ok(Step::Text(text)) = step {
            return Step::Text(text);
        }
        self.leave();
        step.unwrap_or_else(|error| Step::End(Err(error.of_thread(self.following.thread().id()))))
    }

    async fn step(&mut self) -> Result<Step, Error> {
        let answer = loop {
            match self.following.next().await? {
                Happening::Piece(Said::Text(piece)) => return Ok(Step::Text(self.pass_on(piece))),
                Happening::Piece(Said::Finish(finish)) => self.finish = Some(finish),
                Happening::Ended => break ended(self.following.thread(), self.following.run()).await?,
                Happening::Rests(rested) => {
                    let (thread, tools) = (self.following.thread(), self.tools.as_ref());
                    if let Some(answer) = asks(&self.server, thread, &rested.state, tools).await? {
                        break answer;
                    }
                    if !self.following.may_go_on().await {
                        return Err(waits_elsewhere(&self.server, &[]));
                    }
                }
            }
        };
        Ok(Step::End(Ok(self.end(answer))))
    }

    fn pass_on(&mut self, piece: Piece) -> String {
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
        let Answer { text, calls, usage, said } = answer;
        let text = text.unwrap_or_else(|| self.last.clone());
        let rest = match (self.has_spoken, text == self.last) {
            (true, true) => String::new(),
            (true, false) => format!("{BETWEEN}{text}"),
            (false, _) => text.clone(),
        };
        let finish_reason = match self.finish {
            Some(FinishReason::Length) => "length",
            Some(FinishReason::ContentFilter) => "content_filter",
            _ if !calls.is_empty() => "tool_calls",
            _ => "stop",
        };
        End { text, rest, calls, finish_reason, usage, said }
    }
}

/// The answer of a run.
pub(super) struct Answer {
    /// The output; `None` if there is none.
    pub(super) text: Option<String>,
    /// The tools that the client is to run.
    calls: Vec<ToolCall>,
    pub(super) usage: ThreadUsage,
    /// The message of the model that the output is.
    said: Option<Arc<Message>>,
}

impl From<Answer> for End {
    fn from(Answer { text, calls, usage, said }: Answer) -> Self {
        let finish_reason = if calls.is_empty() { "stop" } else { "tool_calls" };
        Self { text: text.unwrap_or_default(), rest: String::new(), calls, finish_reason, usage, said }
    }
}

/// Returns the answer of a run that has ended, as its stream gives it. Reads the events of the run.
pub(super) async fn whole(server: &Shared, run: &Run) -> Result<End, Error> {
    let mut answering = Answering::begin(server, run, None);
    answering.leave();
    loop {
        if let Step::End(end) = answering.step().await? {
            return end;
        }
    }
}

/// Returns the answer of a run that has ended.
async fn ended(thread: &ThreadHandle, run: RunId) -> Result<Answer, Error> {
    let outcome = match thread.run_outcome(run).await {
        Ok(outcome) => outcome,
        // It was cancelled while it waited.
        Err(RunError::NoRun { .. }) => return Err(Error::cancelled()),
        Err(error) => return Err(Problem::from(error).into()),
    };
    if let Some(error) = &outcome.error {
        return Err(Error::of_run(error));
    }
    let said = said::of(&outcome.state, outcome.output.as_ref());
    let text = match outcome.output {
        Some(Value::String(text)) => Some(text),
        Some(Value::Null) | None => None,
        Some(value) => Some(value.to_string()),
    };
    Ok(Answer { text, calls: Vec::new(), usage: outcome.state.run_usage(), said })
}

/// Returns what a thread at rest waits for, as the answer: calls of these tools of a client, or of all if absent, or a
/// question; `None` if no question is open, because it was answered just now. An error if no message can answer it.
pub(super) async fn asks(
    server: &Shared,
    thread: &ThreadHandle,
    state: &State,
    tools: Option<&BTreeSet<String>>,
) -> Result<Option<Answer>, Error> {
    if state.status() == Status::Paused {
        return Err(paused(thread, state));
    }
    let open = thread.inbox().await.map_err(Problem::from)?;
    let configured = &server.settings.client_tools;
    let calls = open.iter().filter(|question| client_tools::is_call(question, configured, tools));
    let calls: Vec<_> = calls.filter_map(ToolCall::of).collect();
    let question = open.iter().find(|question| is_answered_by_message(question));
    match (calls.is_empty(), question) {
        (false, _) => Ok(Some(Answer { text: None, calls, usage: state.run_usage(), said: None })),
        (true, Some(question)) => {
            Ok(Some(Answer { text: Some(text_of(question)), calls, usage: state.run_usage(), said: None }))
        }
        (true, None) if open.is_empty() => Ok(None),
        (true, None) => Err(waits_elsewhere(server, &open)),
    }
}

/// The error of a paused run.
pub(super) fn paused(thread: &ThreadHandle, state: &State) -> Error {
    let reason = state.pause_reason().map(|reason| format!(": {reason}")).unwrap_or_default();
    let id = thread.id();
    Error::needs_person(format!("the run is paused{reason}; it continues after POST /v1/threads/{id}/resume"))
}

/// The error of a run that waits for something that no message of the conversation can give.
pub(super) fn waits_elsewhere(server: &Shared, open: &[OpenInteraction]) -> Error {
    let ids: Vec<_> = open.iter().map(OpenInteraction::key).collect();
    let is_call = |question: &OpenInteraction| client_tools::is_call(question, &server.settings.client_tools, None);
    let detail = match &ids[..] {
        [] => "the run waits for a person: GET /v1/interactions lists the open questions".to_owned(),
        ids if open.iter().all(is_call) => format!(
            "the run waits for the results of tool calls: name the tools in `tools`, and send as the last messages a result \
             for each of `{}`",
            ids.join("`, `")
        ),
        ids => format!(
            "the run waits for a person's decision: answer it with POST /v1/interactions/{}/respond, on the page or with \
             `rethread inbox`",
            ids.join("/respond, /v1/interactions/")
        ),
    };
    Error::needs_person(detail)
}

/// The definition that the run of a thread is on.
pub(super) async fn definition(server: &Shared, state: &State) -> Result<Arc<Workflow>, Problem> {
    let on = state.workflow().ok_or_else(|| Problem::new(Kind::NoThread, "the thread has not begun"))?;
    let workflow = server.runtime.workflow(on.hash).await?;
    workflow.ok_or_else(|| Problem::new(Kind::NoWorkflow, "the log has no definition of this run"))
}
