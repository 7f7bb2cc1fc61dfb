//! `POST /agui/{workflow}`: runs a workflow, and streams what happens as events of the protocol.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use actix_web::{HttpRequest, HttpResponse, web};
use futures::StreamExt as _;
use rethread::errors::RunError;
use rethread::{Status, ThreadHandle};
use rethread_events::message::Usage;
use serde_json::{Map, Value, json};

use super::asked::Begun;
use super::begin::begin;
use super::event::{Event, Outcome, Sent, TokenUsage};
use super::input::Input;
use super::ledger::Ledger;
use super::subagents::Subagents;
use super::translate::{Piece, Translator, whole};
use super::{Error, PROTOCOL_VERSION, THREAD, interrupts};
use crate::serve::doors::following::{Following, Happening};
use crate::serve::feed::{self, Frame};
use crate::serve::guard;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::{Server, Shared};
use crate::serve::written::Written;

/// The header of a request that says what becomes of the run if the client disconnects.
const ON_DISCONNECT: &str = "x-rethread-on-disconnect";

/// Runs a workflow.
pub(crate) async fn create(server: Shared, request: HttpRequest, payload: web::Payload) -> Result<HttpResponse, Error> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let input = request::json::<Input>(&request, &body)?.check(&server.settings.client_tools)?;
    let cancels = cancels(&server, &request)?;
    let slot = server.subscribe()?;
    let ids = Ids { thread: input.thread_id.clone(), run: input.run_id.clone(), parent: input.parent_run_id.clone() };
    let tools = input.client_tools.names.clone();
    let answered = input.tool_results().into_iter().map(|(call, _)| call.to_owned()).collect();
    let Begun { run, before, after, warnings } =
        begin(&server, &request, request::named(&request, "workflow"), input).await?;
    let mut translator = Translator::new(run.workflow.clone(), run.thread.id(), run.id, before);
    let opening = translator.opening();
    let subagents = Subagents::new(&server, &run.thread, &run.workflow, after);
    let following = Following::begin(&server, &run, cancels, translator);
    let thread = run.thread.id().to_string();
    let mut stream = Stream {
        ids,
        tools,
        answered,
        next: VecDeque::new(),
        rested: None,
        following,
        subagents,
        ledger: Ledger::default(),
        usage: BTreeMap::new(),
        last_text: String::new(),
    };
    let opening = stream.opening(warnings, opening);
    let events = futures::stream::unfold((stream, Next::Opening(opening)), |(mut stream, next)| async move {
        let (text, next) = match next {
            Next::Opening(text) => (text, Next::Events),
            Next::Events => stream.next().await,
            Next::Nothing => return None,
        };
        Some((Ok(Written { text: text.into(), last: stream.following.at() }), (stream, next)))
    });
    Ok(feed::response("text/event-stream").insert_header((THREAD, thread)).streaming(feed::body(
        server,
        slot,
        guard::by(&request),
        Frame::Agui,
        events.boxed(),
        None,
    )))
}

/// Whether the run is cancelled if the client disconnects.
fn cancels(server: &Server, request: &HttpRequest) -> Result<bool, Problem> {
    match request.headers().get(ON_DISCONNECT).map(|value| value.as_bytes()) {
        None => Ok(server.settings.doors.cancel_on_disconnect),
        Some(b"cancel") => Ok(true),
        Some(b"continue") => Ok(false),
        Some(_) => {
            let detail = format!("the header {ON_DISCONNECT} is `cancel` or `continue`");
            Err(Problem::new(Kind::InvalidRequest, detail).at("parameter", ON_DISCONNECT))
        }
    }
}

/// What a stream writes next.
enum Next {
    Opening(String),
    Events,
    Nothing,
}

/// The ids that the client gave.
struct Ids {
    thread: String,
    run: String,
    parent: Option<String>,
}

/// The stream of a run.
struct Stream {
    ids: Ids,
    /// The tools that the client runs.
    tools: BTreeSet<String>,
    /// The tool calls whose results the client sent: they are not emitted again.
    answered: BTreeSet<String>,
    /// What is sent before the next event of the run.
    next: VecDeque<Piece>,
    /// The run waits for a person, or is paused. What its sub-agents did comes first.
    rested: Option<Status>,
    following: Following<Piece>,
    subagents: Subagents,
    ledger: Ledger,
    /// The tokens of each provider and model.
    usage: BTreeMap<(Option<String>, Option<String>), Usage>,
    /// The last message that was emitted.
    last_text: String,
}

impl Stream {
    fn thread(&self) -> &ThreadHandle {
        self.following.thread()
    }

    /// The first events.
    fn opening(&mut self, warnings: Vec<String>, opening: Vec<Piece>) -> String {
        let about = json!({
            "thread_id": self.thread().id(), "run_id": self.following.run(),
        });
        let started = Event::RunStarted {
            thread_id: self.ids.thread.clone(),
            run_id: self.ids.run.clone(),
            protocol_version: PROTOCOL_VERSION,
            parent_run_id: self.ids.parent.clone(),
            metadata: Map::from_iter([("rethread".to_owned(), about)]),
        };
        let mut text = started.sse();
        for message in warnings {
            text.push_str(&Event::Custom { name: "rethread.warning", value: json!({ "message": message }) }.sse());
        }
        for piece in opening {
            text.push_str(&self.write(piece));
        }
        text
    }

    fn write(&mut self, piece: Piece) -> String {
        match piece {
            Piece::Sent(sent) => {
                if let Event::ToolCallResult { tool_call_id, .. } = &sent.event
                    && self.answered.contains(tool_call_id)
                {
                    return String::new();
                }
                let is_own = sent.subagent_run_id.is_none();
                if let Event::TextMessageStart { .. } = &sent.event
                    && is_own
                {
                    self.last_text.clear();
                } else if let Event::TextMessageContent { delta, .. } = &sent.event
                    && is_own
                {
                    self.last_text.push_str(delta);
                }
                let mut text = String::new();
                if let (Event::SubagentStarted { .. }, Some(child)) = (&sent.event, sent.subagent_run_id) {
                    self.subagents.begin(child);
                } else if let (Event::SubagentFinished { .. } | Event::SubagentError { .. }, Some(child)) =
                    (&sent.event, sent.subagent_run_id)
                {
                    self.subagents.end(child);
                    text = self.ledger.close_of(child).iter().map(Sent::sse).collect();
                }
                self.ledger.note(&sent);
                text + &sent.sse()
            }
            Piece::Did(_) => String::new(),
            Piece::Used { provider, model, usage } => {
                self.usage.entry((provider, model)).or_default().add(&usage);
                String::new()
            }
        }
    }

    async fn next(&mut self) -> (String, Next) {
        let queued = self.next.pop_front().or_else(|| self.rested.and(self.subagents.untold()).map(Piece::Did));
        let happening = match (queued, self.rested) {
            (Some(piece), _) => Ok(Happening::Piece(piece)),
            (None, Some(status)) => match self.rests(status).await {
                Ok(None) => {
                    self.rested = None;
                    self.subagents.go_on();
                    return (String::new(), Next::Events);
                }
                end => return self.last(end.map(Option::unwrap_or_default)),
            },
            (None, None) => tokio::select! {
                biased;
                happening = self.following.next() => happening,
                pieces = self.subagents.next() => {
                    self.next.extend(pieces);
                    return (String::new(), Next::Events);
                }
            },
        };
        let end = match happening {
            Ok(Happening::Piece(Piece::Did(child))) => {
                if let Some(pieces) = self.subagents.rest_of(child).await {
                    let pieces = pieces.into_iter().chain([Piece::Did(child)]);
                    pieces.rev().for_each(|piece| self.next.push_front(piece));
                }
                return (String::new(), Next::Events);
            }
            Ok(Happening::Piece(piece)) => return (self.write(piece), Next::Events),
            Ok(Happening::Ended) => self.ended().await,
            Ok(Happening::Rests(rested)) => {
                self.rested = Some(rested.status);
                return (String::new(), Next::Events);
            }
            Err(problem) => Err(problem),
        };
        self.last(end)
    }

    /// Writes the last events.
    fn last(&mut self, end: Result<String, Problem>) -> (String, Next) {
        self.following.leave();
        (end.unwrap_or_else(|problem| Error::from(problem).sse()), Next::Nothing)
    }

    fn usage(&mut self) -> Vec<TokenUsage> {
        let usage = std::mem::take(&mut self.usage);
        usage.into_iter().map(|((provider, model), usage)| TokenUsage::of(provider, model, &usage)).collect()
    }

    /// The events of the end of a run that did not fail.
    fn finish(&mut self, result: Option<Value>, outcome: Outcome) -> String {
        let mut text: String = self.ledger.close().iter().map(Sent::sse).collect();
        let usage = self.usage();
        let (thread_id, run_id) = (self.ids.thread.clone(), self.ids.run.clone());
        text.push_str(&Event::RunFinished { thread_id, run_id, result, usage, outcome }.sse());
        text
    }

    fn fail(&mut self, message: String, code: String) -> String {
        let usage = self.usage();
        Event::RunError { message, code: Some(code), usage }.sse()
    }

    /// The run has ended.
    async fn ended(&mut self) -> Result<String, Problem> {
        let outcome = match self.thread().run_outcome(self.following.run()).await {
            Ok(outcome) => outcome,
            // It was cancelled while it waited.
            Err(RunError::NoRun { .. }) => return Ok(self.finish(None, Outcome::Cancelled)),
            Err(error) => return Err(error.into()),
        };
        if outcome.status == Status::Cancelled {
            return Ok(self.finish(None, Outcome::Cancelled));
        }
        if let Some(error) = &outcome.error {
            return Ok(self.fail(error.message.clone(), error.kind.to_string()));
        }
        let output = outcome.output.filter(|output| !output.is_null());
        let mut text = String::new();
        if let Some(Value::String(answer)) = &output
            && !answer.is_empty()
            && *answer != self.last_text
        {
            // What is no answer of a model, or was checked first.
            let id = format!("{}-{}-output", self.thread().id(), self.following.run());
            text = whole(id, answer).iter().map(Event::sse).collect();
        }
        text.push_str(&self.finish(output, Outcome::Success { pending_tool_call_ids: Vec::new() }));
        Ok(text)
    }

    /// The run waits for a person, or is paused. `None` if its questions were answered meanwhile.
    async fn rests(&mut self, status: Status) -> Result<Option<String>, Problem> {
        let id = self.thread().id();
        if status == Status::Paused {
            let message = format!("the run is paused: it continues after POST /v1/threads/{id}/resume");
            return Ok(Some(self.fail(message, "paused".into())));
        }
        let open = self.thread().inbox().await?;
        if open.is_empty() && self.following.may_go_on().await {
            return Ok(None);
        }
        if open.is_empty() {
            let message = format!("the run waits for a person: GET /v1/threads/{id}/interactions lists the questions");
            return Ok(Some(self.fail(message, "needs_person".into())));
        }
        let (state, workflow) = (self.thread().state().await?, self.thread().definition(None).await?);
        let now = Translator::new(workflow, id, self.following.run(), Some(state));
        let configured = &self.following.server().settings.client_tools;
        let calls: Option<Vec<_>> = open
            .iter()
            .map(|question| interrupts::client_call(question, &now, id, configured, Some(&self.tools)))
            .collect();
        if let Some(calls) = calls {
            let pending_tool_call_ids = calls.into_iter().map(str::to_owned).collect();
            return Ok(Some(self.finish(None, Outcome::Success { pending_tool_call_ids })));
        }
        let interrupt = |question| interrupts::interrupt(question, id, interrupts::known_call(question, &now, id));
        let mut interrupts: Vec<_> = open.iter().map(interrupt).collect();
        for (interrupt, question) in interrupts.iter_mut().zip(&open) {
            if question.thread == id {
                continue;
            }
            match self.ledger.has_subagent(question.thread) {
                true => {
                    interrupt.tool_call_id = self.subagents.asked(question.thread, question.request.id).await?;
                }
                false => interrupt.subagent_run_id = None,
            }
        }
        Ok(Some(self.finish(None, Outcome::Interrupt { interrupts })))
    }
}
