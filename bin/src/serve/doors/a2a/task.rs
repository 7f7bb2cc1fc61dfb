//! Tasks: a task is a run of a thread, and its id names both, so nothing is stored beside the thread.

use rethread::errors::{ReadError, RunError};
use rethread::operate::{LogAccess as _, OpenInteraction};
use rethread::runs::{RunId, RunSummary};
use rethread::{Event, Json, RecordedEvent, Seq, Status, ThreadHandle, ThreadId, Time};
use serde_json::{Value, json};

use super::agent::{Agent, message_of_key};
use super::error::Error;
use super::key::{TaskKey, no_task};
use super::wire::{self, Artifact, Message, Modes, Part, TaskState, timestamp};
use crate::answer as said;
use crate::serve::doors::following::{Inside, Run};
use crate::serve::doors::question;
use crate::serve::idempotency::blocking;
use crate::serve::problem::{Kind, Problem};

/// The id of the artifact with the answer of a run, and its name.
pub(super) const ARTIFACT: &str = "answer";
/// The label of a thread that this door started: the id of its first message.
pub(super) const MESSAGE_LABEL: &str = "a2a_message";
/// How many events of a run are searched for its questions and their answers.
const HISTORY_EVENTS_MAX: u64 = 10_000;
const USER: &str = "ROLE_USER";
const AGENT: &str = "ROLE_AGENT";

/// The message that began a task.
struct Began {
    at: Time,
    id: Option<String>,
    input: Json,
    is_queued: bool,
}

/// A task as it is now.
pub(super) struct Task {
    pub(super) key: TaskKey,
    pub(super) thread: ThreadHandle,
    pub(super) state: TaskState,
    /// When it got this state.
    pub(super) at: Time,
    /// What the status says.
    said: Vec<Part>,
    /// The questions that it waits for.
    pub(super) open: Vec<OpenInteraction>,
    /// The run; `None` before it begins.
    run: Option<RunSummary>,
    began: Began,
}

impl Task {
    /// Reads a task of the agent.
    ///
    /// # Errors
    /// That there is no such task, also if it is one of another agent, or its thread has other labels than the token.
    pub(super) async fn read(agent: &Agent, key: TaskKey) -> Result<Self, Problem> {
        let thread = match agent.thread(key.thread).await {
            Ok(thread) => thread,
            Err(problem) if problem.kind() == Kind::NoThread => return Err(no_task(&key.to_string())),
            Err(problem) => return Err(problem),
        };
        Self::of(agent, thread, key.run).await
    }

    /// Reads a run of a thread that the caller may see.
    pub(super) async fn of(agent: &Agent, thread: ThreadHandle, run: RunId) -> Result<Self, Problem> {
        let key = TaskKey { thread: thread.id(), run };
        let no_such = || no_task(&key.to_string());
        let began = began(&thread, key).await?.ok_or_else(no_such)?;
        let (summary, unbegun) = match thread.run_summary(run).await {
            Ok(summary) => (Some(summary), TaskState::Working),
            Err(RunError::NotBegun { .. }) => (None, TaskState::Submitted),
            Err(RunError::NoRun { .. }) if began.is_queued => (None, TaskState::Canceled),
            Err(RunError::NoRun { .. }) => return Err(no_such()),
            Err(error) => return Err(error.into()),
        };
        let on = match &summary {
            Some(summary) => Some(summary.workflow.name.clone()),
            None => thread.state().await?.workflow().map(|on| on.name.clone()),
        };
        if on.is_none_or(|on| on != agent.name) {
            return Err(no_such());
        }
        let (at, ended) = match &summary {
            Some(run) => (run.ended_at.unwrap_or(run.started_at), run.ended_at.map(|_| run.status)),
            None => (began.at, None),
        };
        let mut task =
            Self { key, thread, state: unbegun, at, said: Vec::new(), open: Vec::new(), run: summary, began };
        match (ended, unbegun) {
            (Some(status), _) => task.ended(status),
            (None, TaskState::Working) => task.goes_on().await?,
            (None, TaskState::Canceled) => task.said.push(Part::text("the task was cancelled before it began")),
            (None, _) => {}
        }
        Ok(task)
    }

    fn ended(&mut self, status: Status) {
        self.state = match status {
            Status::Error => TaskState::Failed,
            Status::Cancelled => TaskState::Canceled,
            _ => TaskState::Completed,
        };
        if let Some(error) = self.run.as_ref().and_then(|run| run.error.as_ref()) {
            self.said.push(Part::text(format!("the run failed: {}: {}", error.kind, error.message)));
            self.said.push(Part::data(json!({ "error": { "kind": error.kind.to_string() } })));
        }
    }

    /// The run is in progress: whether it waits for a person, and for what.
    async fn goes_on(&mut self) -> Result<(), Problem> {
        let status = self.thread.summary().await?.status;
        let open = if status == Status::Waiting { self.thread.inbox().await? } else { Vec::new() };
        let state = self.thread.state().await?;
        if state.run_id() != self.key.run {
            // It has ended meanwhile, and what was read may be about the next run.
            return Ok(());
        }
        // Without a question, it was answered just now.
        if let Some(first) = open.first() {
            self.state = TaskState::InputRequired;
            self.at = first.request.requested_at;
            self.said = open.iter().flat_map(parts_of).collect();
            self.open = open;
        } else if status == Status::Paused {
            let reason = state.pause_reason().map(|reason| format!(": {reason}")).unwrap_or_default();
            let id = self.key.thread;
            self.state = TaskState::InputRequired;
            self.said = vec![Part::text(format!(
                "the run is paused{reason}; no message continues it, but POST /v1/threads/{id}/resume does"
            ))];
        }
        Ok(())
    }

    /// It waits for a person, and there is no question that says for what.
    pub(super) fn needs_person(&mut self) {
        self.state = TaskState::InputRequired;
        let id = self.key.thread;
        self.said = vec![Part::text(format!(
            "the run waits for a person: GET /v1/threads/{id}/interactions lists what it asks"
        ))];
    }

    /// The run, from its first event on.
    pub(super) async fn follow(&self) -> Result<Run, Problem> {
        let state = self.thread.state().await?;
        let on = self.run.as_ref().map(|run| &run.workflow).or(state.workflow());
        let missing = || Problem::new(Kind::NoWorkflow, "the log has no definition of this run");
        let workflow = self.thread.runtime().workflow(on.ok_or_else(missing)?.hash).await?.ok_or_else(missing)?;
        Ok(Run {
            thread: self.thread.clone(),
            id: self.key.run,
            from: self.key.run.0,
            inside: Inside::default(),
            workflow,
        })
    }

    fn message(&self, id: String, role: &'static str, parts: Vec<Part>) -> Message {
        let (context_id, task_id) = (self.key.thread.to_string(), self.key.to_string());
        Message { message_id: id, context_id, task_id, role, parts }
    }

    /// Its status, as it is sent.
    pub(super) fn status(&self) -> wire::Status {
        let id = match self.open.first() {
            Some(question) => question.key(),
            None => format!("{}-status", self.key),
        };
        let message = (!self.said.is_empty()).then(|| self.message(id, AGENT, self.said.clone()));
        wire::Status { state: self.state, message, timestamp: timestamp(self.at) }
    }

    /// Its status when it began.
    pub(super) fn opening(&self) -> wire::Status {
        wire::Status { state: TaskState::Submitted, message: None, timestamp: timestamp(self.began.at) }
    }

    /// The task with this status, without artifacts and history.
    pub(super) fn json(&self, status: wire::Status) -> Value {
        json!({
            "id": self.key.to_string(), "contextId": self.key.thread.to_string(), "status": status,
            "metadata": { "thread_id": self.key.thread, "run_id": self.key.run.to_string() },
        })
    }

    /// The task with its artifacts, and with the last messages of its history.
    pub(super) async fn whole(&self, modes: &Modes, history_length: Option<usize>) -> Result<Value, Problem> {
        let mut task = self.json(self.status());
        let artifacts: Vec<_> = self.artifact(modes).await?.into_iter().collect();
        if !artifacts.is_empty() {
            task["artifacts"] = json!(artifacts);
        }
        let length = history_length.unwrap_or(usize::MAX);
        if length > 0 {
            task["history"] = json!(self.history(length).await?);
        }
        Ok(task)
    }

    /// The answer, if the run has completed with one.
    pub(super) async fn artifact(&self, modes: &Modes) -> Result<Option<Artifact>, Problem> {
        if self.state != TaskState::Completed {
            return Ok(None);
        }
        let outcome = self.thread.run_outcome(self.key.run).await?;
        let said = said::of(&outcome.state, outcome.output.as_ref());
        let parts = answer(outcome.output, said.as_deref(), modes);
        Ok((!parts.is_empty()).then(|| artifact(parts)))
    }

    /// The messages between the client and the agent, the last ones, without the question that is open.
    pub(super) async fn history(&self, length: usize) -> Result<Vec<Message>, Problem> {
        let key = self.key;
        let id = self.began.id.clone().unwrap_or_else(|| format!("{key}-input"));
        let mut history = vec![self.message(id, USER, vec![part_of(&self.began.input)])];
        if let Some(run) = &self.run {
            let from = run.started;
            let end = run.ended.unwrap_or(run.last).next().min(Seq(from.0.saturating_add(HISTORY_EVENTS_MAX)));
            let store = self.thread.runtime().store();
            let read = move || {
                let mut asked = Vec::new();
                for record in store.records(key.thread, from..end) {
                    let recorded = RecordedEvent::decode(record?)?;
                    asked.extend(Exchange::of(key.thread, recorded));
                }
                Ok::<_, ReadError>(asked)
            };
            for Exchange { id, role, part, is_answer } in blocking(read).await?? {
                if is_answer || !self.open.iter().any(|open| open.key() == id) {
                    let id = if is_answer { format!("{id}-answer") } else { id };
                    history.push(self.message(id, role, vec![part]));
                }
            }
        }
        history.drain(..history.len().saturating_sub(length));
        Ok(history)
    }
}

/// A question of a run, or its answer.
struct Exchange {
    /// The question.
    id: String,
    role: &'static str,
    part: Part,
    is_answer: bool,
}

impl Exchange {
    fn of(thread: ThreadId, recorded: RecordedEvent) -> Option<Self> {
        if let Event::UserInteractionRequested(e) = recorded.event {
            let id = rethread::CallId(recorded.record.seq).key(thread);
            let part = Part::text(question::shown(e.prompt.as_deref().unwrap_or("Your answer?")));
            return Some(Self { id, role: AGENT, part, is_answer: false });
        }
        if let Event::UserInteractionResponded(e) = recorded.event {
            let (id, part) = (e.interaction_id.key(thread), part_of(&e.input_data));
            return Some(Self { id, role: USER, part, is_answer: true });
        }
        None
    }
}

/// The message that began a run.
async fn began(thread: &ThreadHandle, key: TaskKey) -> Result<Option<Began>, Problem> {
    let store = thread.runtime().store();
    let Some(record) = blocking(move || store.record(key.thread, key.run.0)).await?? else { return Ok(None) };
    let recorded = RecordedEvent::decode(record)?;
    let at = recorded.record.recorded_at;
    let (of_key, input, is_queued) = if let Event::ThreadStarted(e) = recorded.event {
        let id = thread.state().await?.labels().get(MESSAGE_LABEL).map(str::to_owned);
        return Ok(Some(Began { at, id, input: e.input, is_queued: false }));
    } else if let Event::RunStarted(e) = recorded.event {
        (e.key, e.input, false)
    } else if let Event::RunQueued(e) = recorded.event {
        (e.key, e.input, true)
    } else if let Event::MessageAdded(e) = recorded.event {
        (e.key.clone(), Json::from(e.message.joined_text().as_str()), false)
    } else {
        return Ok(None);
    };
    let id = of_key.as_deref().and_then(message_of_key).map(str::to_owned);
    Ok(Some(Began { at, id, input, is_queued }))
}

/// A question in words, and what can be answered.
fn parts_of(asked: &OpenInteraction) -> [Part; 2] {
    let mut data = json!({ "interactionId": asked.key() });
    if let Some(schema) = question::schema(asked) {
        data["schema"] = schema;
    }
    if let Some(call) = &asked.request.tool_call {
        data["toolCall"] = json!({ "name": call.name, "arguments": call.arguments });
    }
    if let Some(metadata) = &asked.request.metadata {
        data["metadata"] = json!(metadata);
    }
    if let Some(deadline) = asked.request.deadline {
        data["expiresAt"] = json!(timestamp(deadline));
    }
    [Part::text(question::text_of(asked)), Part::data(data)]
}

/// A value of a client as a part.
fn part_of(value: &Json) -> Part {
    match &*value.0 {
        Value::String(text) => Part::text(text),
        value => Part::data(value.clone()),
    }
}

/// The output of a run as a part, in a form that the client accepts, and after it the files that the model made, as far as
/// the client accepts them. None if there is no output. `said` is the message that the output is.
pub(super) fn answer(output: Option<Value>, said: Option<&rethread::Message>, modes: &Modes) -> Vec<Part> {
    let answer = match output {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if modes.text => {
            let sources = said.filter(|said| said.joined_text() == text).map(|said| said::placed(&said.content, 0));
            Some(Part::text(text).with_sources(&sources.unwrap_or_default()))
        }
        Some(value) if modes.json => Some(Part::data(value)),
        Some(value) => Some(Part::text(value.to_string())),
    };
    let made = said.into_iter().flat_map(said::media).filter(|made| modes.accepts(made.media_type()));
    let files = made.filter_map(|made| Part::file(&made, &format!("{}-{}", made.kind, made.part)));
    answer.into_iter().chain(files).collect()
}

/// The update of the status of a task.
pub(super) fn status_update(key: TaskKey, status: &wire::Status) -> Value {
    json!({ "statusUpdate": { "taskId": key.to_string(), "contextId": key.thread.to_string(), "status": status } })
}

/// The answer as an artifact.
pub(super) fn artifact(parts: Vec<Part>) -> Artifact {
    Artifact { artifact_id: ARTIFACT, name: ARTIFACT, parts }
}

/// Returns a task.
pub(super) async fn get(agent: &Agent, key: TaskKey, history_length: Option<usize>) -> Result<Value, Error> {
    Ok(Task::read(agent, key).await?.whole(&Modes::ALL, history_length).await?)
}
