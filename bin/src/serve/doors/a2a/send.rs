//! What a message does: it begins a context, or a task of one, answers a question, or goes into a task in progress. A message
//! that comes again is done once.

use rethread::errors::{ControlError, Rejected};
use rethread::operate::OpenInteraction;
use rethread::runs::{OnMessage, RunId, RunRequest};
use rethread::{Seq, StartThread, ThreadHandle};
use serde_json::Value;

use super::agent::Agent;
use super::error::{Error, Fault};
use super::key::TaskKey;
use super::message::{Content, Place, Sent};
use super::task::{MESSAGE_LABEL, Task};
use super::wire::{Modes, TaskState};
use crate::serve::beginning::{self, Begun, Repeatable};
use crate::serve::doors::question;
use crate::serve::idempotency::{Key, Keyed};
use crate::serve::problem::{Kind, Problem};

/// Does what a message asks for, and returns the task.
pub(super) async fn send(agent: &Agent, sent: Sent) -> Result<Task, Error> {
    agent.check_may_run()?;
    let thread = match sent.place {
        Place::New => return start(agent, sent).await,
        Place::Context(thread) => agent.thread(thread).await.map_err(no_context)?,
        // Without a task, the message has no effect.
        Place::Task(key) => Task::read(agent, key).await?.thread,
    };
    sent.refuse_media()?;
    let state = thread.state().await.map_err(Problem::from)?;
    if state.workflow().is_none_or(|on| on.name != agent.name) {
        return Err(no_context(Problem::new(Kind::NoThread, "another agent works on this context")));
    }
    let agent = agent.clone();
    // If the client leaves, the handler is dropped, and what was begun is completed.
    let done = tokio::spawn(async move {
        let key = Key::named(&sent.id);
        let mut keyed =
            agent.server.keys.begin(&key, &agent.scope(), &sent.bytes, thread.id()).await.map_err(of_key)?;
        let done = once(&agent, &thread, &sent, &mut keyed).await;
        match &done {
            Ok(_) => keyed.has_begun().await,
            Err(error) if error.is_refusal() && !keyed.is_repeated => keyed.forget().await,
            Err(_) => {}
        }
        Ok::<_, Error>(Task::of(&agent, thread, done?).await?)
    });
    done.await.map_err(|_| Problem::stopping())?
}

fn no_context(problem: Problem) -> Error {
    match problem.kind() {
        Kind::NoThread => {
            let detail = "there is no such context: leave `contextId` out to begin one";
            Problem::new(Kind::NoThread, detail).at("parameter", "message.contextId").into()
        }
        _ => problem.into(),
    }
}

/// A problem with the id of a message, in the words of the protocol.
fn of_key(problem: Problem) -> Problem {
    let detail = match problem.kind() {
        Kind::KeyInProgress => "the same message is at work: wait for its answer, or send it again in a moment",
        Kind::KeyReused => "the id was used for another message: give each message an id of its own",
        _ => return problem,
    };
    Problem::new(problem.kind(), format!("`messageId`: {detail}")).at("parameter", "message.messageId")
}

/// Begins a context.
async fn start(agent: &Agent, sent: Sent) -> Result<Task, Error> {
    let workflow = agent.workflow().await?;
    let input = sent.input();
    let past = match sent.content {
        Content::Data(_) => Vec::new(),
        Content::Said(mut said) => said.past_with_media(),
    };
    let labels = agent.labels();
    // The history of the task names its first message as the client does, if a label can hold the id.
    let labels = labels.clone().with(MESSAGE_LABEL, &*sent.id).unwrap_or(labels);
    let request = Repeatable::keyed(Key::named(&sent.id), agent.scope(), sent.bytes);
    let (of_work, span) = (agent.server.clone(), agent.span);
    let begun = beginning::begin(&agent.server, request, move |id| async move {
        let start = StartThread::new(workflow, input).id(id).labels(labels).messages(past).traceparent(span);
        let start = match &of_work.settings.workspace {
            Some(folder) => start.workspace(folder),
            None => start,
        };
        Ok(of_work.runtime.start(start).await?)
    });
    let (Begun::Now(thread) | Begun::Before(thread)) = begun.await.map_err(of_key)?;
    Ok(Task::of(agent, agent.caller.acting_on(&thread), RunId(Seq(0))).await?)
}

/// Does once what a message to a context or a task asks for, and returns the run that it is about.
async fn once(agent: &Agent, thread: &ThreadHandle, sent: &Sent, keyed: &mut Keyed<'_>) -> Result<RunId, Error> {
    let key = agent.key_of(&sent.id);
    let is_known = thread.state().await.map_err(Problem::from)?.request_of_key(&key).is_some();
    let request = RunRequest::new(sent.input()).key(key).traceparent(agent.span);
    let Place::Task(task) = sent.place else {
        if keyed.was_begun && !is_known {
            let detail = "the message came before, and too many came after it: ListTasks lists its task";
            return Err(Problem::new(Kind::KeyReused, detail).at("parameter", "message.messageId").into());
        }
        // Each request has a task of its own, so it waits for the one in progress.
        return run(thread, request.on_message(OnMessage::Queue)).await;
    };
    if is_known {
        return run(thread, request).await;
    }
    if keyed.was_begun {
        // It was given to a question, if the server did not end at that moment: then the question is open, and the task says so.
        return Ok(task.run);
    }
    let task = Task::of(agent, thread.clone(), task.run).await?;
    if let Some(asked) = asked(&task, sent)? {
        // Before the answer: a repeated message must not answer the question that comes next.
        keyed.has_begun().await;
        answer(thread, asked, sent).await?;
        return Ok(task.key.run);
    }
    match task.state {
        TaskState::Working => run(thread, request).await,
        TaskState::Submitted => {
            let detail =
                "the task has not begun: wait until it has, or send the message to its context as a task of its own";
            Err(Error::new(Fault::Unsupported, detail))
        }
        TaskState::InputRequired => {
            Err(Error::new(Fault::Unsupported, "no message continues the task: its status says what does"))
        }
        _ => {
            let detail = "the task has ended: send the message with its `contextId` and without `taskId` to go on";
            Err(Error::new(Fault::Unsupported, detail))
        }
    }
}

async fn run(thread: &ThreadHandle, request: RunRequest) -> Result<RunId, Error> {
    Ok(thread.run(request).await.map_err(Problem::from)?.run_id)
}

/// The question that a message answers: the one that it names, or the one that has waited longest.
fn asked<'a>(task: &'a Task, sent: &Sent) -> Result<Option<&'a OpenInteraction>, Error> {
    let Some(id) = &sent.interaction else { return Ok(task.open.first()) };
    task.open.iter().find(|open| open.key() == *id).map(Some).ok_or_else(|| {
        let detail = "the task waits for no such answer: its status lists the questions that are open";
        Problem::new(Kind::InteractionClosed, detail).at("parameter", "message.metadata.interactionId").into()
    })
}

/// Answers a question. A text decides about no tool call and no content: that takes a value.
async fn answer(thread: &ThreadHandle, asked: &OpenInteraction, sent: &Sent) -> Result<(), Error> {
    let answer = match &sent.content {
        Content::Data(data) => data.clone(),
        Content::Said(_) if asked.is_approval() => {
            let detail = "the task waits for a decision, and a text is none: send a part `data`, such as `true` or \
                          `{\"decision\": \"approve\"}`";
            return Err(Problem::new(Kind::Unusable, detail).at("parameter", "message.parts").into());
        }
        Content::Said(said) => question::answer_of(asked, said.input()),
    };
    question::check_seen(asked, &answer).map_err(|problem| problem.at("parameter", "message.parts"))?;
    match thread.sibling(asked.thread).respond(asked.request.id, answer).await {
        Ok(()) => Ok(()),
        Err(ControlError::Rejected { source: Rejected::InteractionClosed(_), .. }) => {
            let detail =
                "the question was answered differently before, or is closed: get the task to see how it goes on";
            Err(Problem::new(Kind::InteractionClosed, detail).into())
        }
        Err(error) => Err(Problem::from(error).into()),
    }
}

/// Cancels a task. Other tasks of its context that wait go on.
///
/// # Errors
/// `NotCancelable` if it has ended.
pub(super) async fn cancel(agent: &Agent, key: TaskKey) -> Result<Value, Error> {
    agent.check_may_run()?;
    let task = Task::read(agent, key).await?;
    let cancelled = task.thread.cancel_run(key.run, Some("the client cancelled the task".to_owned())).await;
    match cancelled {
        Ok(()) => Ok(Task::of(agent, task.thread, key.run).await?.whole(&Modes::ALL, None).await?),
        Err(error @ ControlError::Rejected { .. }) => {
            Err(Error::from(Problem::from(error)).called(Fault::NotCancelable))
        }
        Err(error) => Err(Problem::from(error).into()),
    }
}
