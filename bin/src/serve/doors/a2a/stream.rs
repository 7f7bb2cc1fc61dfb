//! Follows a task: its updates as a stream, or the task once it has ended or waits for a person.

use std::time::Duration;

use actix_web::HttpResponse;
use futures::StreamExt as _;
use rethread::{Position, RecordedEvent, Time};
use serde_json::{Value, json};

use super::agent::Agent;
use super::error::{Envelope, Error};
use super::key::TaskKey;
use super::task::{self, Task};
use super::wire::{self, Modes, Part, TaskState, timestamp};
use crate::serve::doors::answer_text::{AnswerText, Piece, Said};
use crate::serve::doors::following::{Fold, Following, Happening, Run, RunSpan};
use crate::serve::feed::{self, Frame};
use crate::serve::problem::Problem;
use crate::serve::server::SubscriberSlot;
use crate::serve::written::Written;

/// How long a request waits for a task that is not streamed. Then the client gets the task as it is.
const WAIT_MAX: Duration = Duration::from_secs(1_500);

/// What happens in a run.
enum Update {
    /// It has begun, at this time.
    Begun(Time),
    Text(Piece),
}

/// A fold of the events of a thread that gives what a task does.
struct Updates {
    span: RunSpan,
    has_begun: bool,
    text: AnswerText,
}

impl Updates {
    fn of(run: &Run) -> Self {
        let text = AnswerText::of(run);
        Self { span: RunSpan::new(run.id, false), has_begun: false, text }
    }
}

impl Fold for Updates {
    type Piece = Update;

    fn take(&mut self, event: &RecordedEvent) -> Vec<Update> {
        self.span.takes(event);
        let begins = self.span.has_begun() && !std::mem::replace(&mut self.has_begun, self.span.has_begun());
        let said = self.text.take(event).into_iter().filter_map(|said| match said {
            Said::Text(piece) => Some(Update::Text(piece)),
            Said::Finish(_) => None,
        });
        begins.then_some(Update::Begun(event.record.recorded_at)).into_iter().chain(said).collect()
    }

    fn is_over(&self) -> bool {
        self.span.is_over()
    }
}

/// A task that is followed.
struct Follower {
    agent: Agent,
    key: TaskKey,
    following: Following<Update>,
}

/// What follows in a task.
enum Step {
    Update(Update),
    /// The task has ended, or waits for a person.
    Rests(Box<Task>),
}

impl Follower {
    async fn begin(agent: &Agent, task: &Task) -> Result<Self, Problem> {
        let run = task.follow().await?;
        let following = Following::begin(&agent.server, &run, false, Updates::of(&run));
        Ok(Self { agent: agent.clone(), key: task.key, following })
    }

    async fn next(&mut self) -> Result<Step, Problem> {
        loop {
            let is_over = match self.following.next().await? {
                Happening::Piece(update) => return Ok(Step::Update(update)),
                Happening::Ended => true,
                Happening::Rests(_) => false,
            };
            let thread = self.following.thread().clone();
            let mut task = Task::of(&self.agent, thread, self.key.run).await?;
            if is_over || task.state.is_terminal() || task.state == TaskState::InputRequired {
                return Ok(Step::Rests(Box::new(task)));
            }
            if !self.following.may_go_on().await {
                task.needs_person();
                return Ok(Step::Rests(Box::new(task)));
            }
        }
    }
}

/// Waits until a task has ended or needs a person, and returns it. `slot` is the place of the client that waits.
pub(super) async fn wait(agent: &Agent, task: Task, slot: SubscriberSlot) -> Result<Task, Error> {
    if task.state.is_terminal() || task.state == TaskState::InputRequired {
        return Ok(task);
    }
    let mut follower = Follower::begin(agent, &task).await?;
    let rests = async {
        loop {
            if let Step::Rests(task) = follower.next().await? {
                return Ok::<_, Problem>(*task);
            }
        }
    };
    let waited = tokio::select! {
        rested = tokio::time::timeout(WAIT_MAX, rests) => match rested {
            Ok(rested) => rested,
            // It goes on, and the client has its id.
            Err(_) => Task::of(agent, task.thread, task.key.run).await,
        },
        () = agent.server.stopping.cancelled() => Err(Problem::stopping()),
    };
    drop(slot);
    agent.caller.check_still_allowed(&agent.server)?;
    Ok(waited?)
}

/// The artifact of a task, as far as it was sent.
struct Sent {
    modes: Modes,
    /// The text of the last model call; `None` before the first piece.
    text: Option<String>,
}

impl Sent {
    fn update(key: TaskKey, parts: Vec<Part>, append: bool, last: bool) -> Value {
        json!({ "artifactUpdate": {
            "taskId": key.to_string(), "contextId": key.thread.to_string(),
            "artifact": task::artifact(parts), "append": append, "lastChunk": last,
        } })
    }

    /// A piece of the answer. What another model call says is in place of what the one before said.
    fn piece(&mut self, key: TaskKey, piece: Piece) -> Option<Value> {
        if !self.modes.text {
            return None;
        }
        let append = self.text.is_some() && !piece.begins;
        let text = self.text.get_or_insert_default();
        if !append {
            text.clear();
        }
        text.push_str(&piece.text);
        Some(Self::update(key, vec![Part::text(piece.text)], append, false))
    }

    /// What is missing of the answer: all of it, or the sources and the files after a text that was sent.
    fn rest(&self, key: TaskKey, mut parts: Vec<Part>) -> Option<Value> {
        if let (Some(sent), Some(first)) = (&self.text, parts.first_mut())
            && first.text.as_ref() == Some(sent)
        {
            first.text = Some(String::new());
            return Some(Self::update(key, parts, true, true));
        }
        (!parts.is_empty()).then(|| Self::update(key, parts, false, true))
    }
}

/// The stream of a task.
struct Stream {
    envelope: Envelope,
    follower: Follower,
    sent: Sent,
    /// Whether the client knows that the task has begun.
    is_working: bool,
}

impl Stream {
    async fn begin(
        agent: &Agent,
        envelope: Envelope,
        task: &Task,
        modes: Modes,
        is_working: bool,
    ) -> Result<Self, Problem> {
        let follower = Follower::begin(agent, task).await?;
        Ok(Self { envelope, follower, sent: Sent { modes, text: None }, is_working })
    }

    /// Returns the next events, and whether others follow.
    async fn next(&mut self) -> (String, bool) {
        match self.events().await {
            Ok(events) => events,
            Err(problem) => (self.envelope.last_event(problem), false),
        }
    }

    async fn events(&mut self) -> Result<(String, bool), Problem> {
        let key = self.follower.key;
        let (updates, goes_on) = match self.follower.next().await? {
            Step::Update(Update::Text(piece)) => (self.sent.piece(key, piece).into_iter().collect(), true),
            Step::Update(Update::Begun(_)) if self.is_working => (Vec::new(), true),
            Step::Update(Update::Begun(at)) => {
                self.is_working = true;
                let status = wire::Status { state: TaskState::Working, message: None, timestamp: timestamp(at) };
                (vec![task::status_update(key, &status)], true)
            }
            Step::Rests(task) => {
                let mut updates = Vec::new();
                if task.state == TaskState::Completed {
                    let parts = task.artifact(&self.sent.modes).await?.map(|artifact| artifact.parts);
                    updates.extend(self.sent.rest(key, parts.unwrap_or_default()));
                }
                updates.push(task::status_update(key, &task.status()));
                (updates, false)
            }
        };
        Ok((updates.into_iter().map(|update| self.envelope.event(update)).collect(), goes_on))
    }
}

/// Streams what a message began or continued, from the begin of its task on. The stream is the same if all of it has happened
/// already.
pub(super) async fn of_message(
    agent: Agent,
    envelope: Envelope,
    task: Task,
    modes: Modes,
    slot: SubscriberSlot,
) -> Result<HttpResponse, Error> {
    let stream = Stream::begin(&agent, envelope.clone(), &task, modes, false).await?;
    Ok(respond(agent, envelope, task.json(task.opening()), Some(stream), slot))
}

/// Streams a task as it is now, and what it has said and says.
pub(super) async fn of_task(
    agent: Agent,
    envelope: Envelope,
    task: Task,
    slot: SubscriberSlot,
) -> Result<HttpResponse, Error> {
    let is_working = task.state == TaskState::Working;
    let stream = match task.state {
        TaskState::InputRequired => None,
        _ => Some(Stream::begin(&agent, envelope.clone(), &task, Modes::ALL, is_working).await?),
    };
    Ok(respond(agent, envelope, task.json(task.status()), stream, slot))
}

fn respond(
    agent: Agent,
    envelope: Envelope,
    task: Value,
    stream: Option<Stream>,
    slot: SubscriberSlot,
) -> HttpResponse {
    let opening = envelope.event(json!({ "task": task }));
    let events = futures::stream::unfold((Some(opening), stream), |(opening, stream)| async move {
        if let Some(opening) = opening {
            let written = Written { text: opening.into(), last: Position::default() };
            return Some((Ok(written), (None, stream)));
        }
        let mut stream = stream?;
        let (text, goes_on) = stream.next().await;
        let written = Written { text: text.into(), last: stream.follower.following.at() };
        Some((Ok(written), (None, goes_on.then_some(stream))))
    });
    let Agent { server, caller, .. } = agent;
    let body = feed::body(server, slot, caller.by, Frame::A2a(envelope), events.boxed(), None);
    feed::response("text/event-stream").streaming(body)
}
