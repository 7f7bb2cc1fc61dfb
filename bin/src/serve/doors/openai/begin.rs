//! Begins what a request asks for: a thread, its next run, an answer to its question, or a run that is made again.

use std::sync::Arc;

use actix_web::HttpRequest;
use bytes::Bytes;
use rethread::errors::{ControlError, Rejected, RunError};
use rethread::event::ForkChanges;
use rethread::operate::Labels;
use rethread::runs::{OnMessage, RunAgain, RunId, RunRequest};
use rethread::{ForkRequest, Json, OrderedMap, Seq, StartThread, State, Status, ThreadHandle, Workflow};
use rethread_events::client_tools::VARIABLE;

use super::input::{Input, Place};
use super::{Error, answer, results};
use crate::serve::beginning::{self, Begun, Repeatable};
use crate::serve::doors::client_tools::ClientTools;
use crate::serve::doors::conversation::{Conversation, Said};
use crate::serve::doors::following::{Inside, Run};
use crate::serve::doors::question::{answer_of, check_seen, is_answered_by_message};
use crate::serve::guard;
use crate::serve::idempotency::Key;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::Shared;
use crate::serve::workflows::{Chosen, For};

/// How many runs are read at once where the one after another is looked for.
const PAGE: usize = 100;
/// The most pages that are read: each is looked for from the last run on.
const PAGES_MAX: usize = 20;

/// Begins the run that answers a request.
pub(super) async fn begin(server: &Shared, request: &HttpRequest, body: Bytes, input: Input) -> Result<Run, Error> {
    let chosen = Chosen { workflow: Some(input.model.clone()), hash: None, definition: None };
    let workflow = chosen.find(server, For::Running).await.map_err(|problem| match problem.kind() {
        Kind::NoWorkflow => problem.at("parameter", "model"),
        _ => problem,
    })?;
    let workflow = workflow.ok_or_else(|| Problem::new(Kind::InvalidRequest, "name a workflow in `model`"))?;
    let tools = input.tools;
    let conversation = match input.said {
        Said::Message(conversation) => conversation,
        Said::Results(results) => return results::give(server, request, input.place, results).await,
    };
    let (id, after) = match input.place {
        Place::New => return Ok(start(server, request, body, (conversation, tools), workflow).await?),
        Place::Thread(id) => (id, None),
        Place::After(key) => (key.thread, Some(key)),
    };
    guard::check_thread(server, request, id).await?;
    let thread = server.runtime.thread(id).by(guard::principal(server, request));
    conversation.refuse_media()?;
    let Some(after) = after else {
        return go_on(server, request, thread, None, (&conversation, &tools), workflow).await;
    };
    match go_on(server, request, thread.clone(), Some(after.run), (&conversation, &tools), workflow.clone()).await {
        // Another run came after the response.
        Err(error) if error.is_gone_on() => {
            Ok(fork(server, request, body, &thread, after.run, (conversation, tools), workflow).await?)
        }
        run => run,
    }
}

/// Returns the variables that a request sets as its run begins.
fn variables(
    conversation: &Conversation,
    tools: &ClientTools,
    workflow: &Workflow,
) -> Result<OrderedMap<Json>, Problem> {
    let mut variables = conversation.variables(workflow)?;
    variables.extend(tools.value_for(workflow)?.map(|tools| (VARIABLE.to_owned(), tools)));
    Ok(variables)
}

/// Starts a thread with the conversation.
async fn start(
    server: &Shared,
    request: &HttpRequest,
    body: bytes::Bytes,
    (mut conversation, tools): (Conversation, ClientTools),
    workflow: Arc<Workflow>,
) -> Result<Run, Problem> {
    let labels = guard::bound(request, Labels::new())?;
    let variables = variables(&conversation, &tools, &workflow)?;
    let (text, past) = (conversation.input(), conversation.past_with_media());
    // Tokens that are bound to other labels have keys of their own.
    let operation = format!("openai {} {}", request.path(), guard::bound_to(request));
    let caller = request::traceparent(request);
    let (sent, of_work, of_thread) = (Repeatable::of(request, operation, body)?, server.clone(), workflow.clone());
    let begun = beginning::begin(server, sent, move |id| async move {
        let start = StartThread::new(of_thread, text).id(id).labels(labels).messages(past).variables(variables);
        let mut start = start.traceparent(caller);
        if let Some(folder) = &of_work.settings.workspace {
            start = start.workspace(folder);
        }
        Ok(of_work.runtime.start(start).await?)
    });
    let (Begun::Now(thread) | Begun::Before(thread)) = begun.await?;
    let thread = thread.by(guard::principal(server, request));
    Ok(Run { thread, id: RunId(Seq(0)), from: Seq(0), inside: Inside::default(), workflow })
}

/// Answers the question that a thread waits for, or starts its next run: right `after` this run, if one is given.
async fn go_on(
    server: &Shared,
    request: &HttpRequest,
    thread: ThreadHandle,
    after: Option<RunId>,
    (conversation, tools): (&Conversation, &ClientTools),
    workflow: Arc<Workflow>,
) -> Result<Run, Error> {
    let state = thread.state().await.map_err(Problem::from)?;
    let key = Key::of(request)?;
    let text = conversation.input();
    // A message that came before is answered as it was then, also if the thread has continued.
    let is_repeated = key.as_ref().is_some_and(|key| state.request_of_key(key.text()).is_some());
    if !is_repeated {
        if after.is_some_and(|after| !state.is_open_run(after) && state.run_id() != after) {
            return Err(Error::gone_on());
        }
        if let Some(answered) = answer_question(server, &thread, &state, key.is_some(), text.clone()).await? {
            return Ok(answered);
        }
        if after.is_some() && !state.is_ended() {
            let detail = "the response is not complete: wait until it is, or send the message to its conversation";
            return Err(Problem::new(Kind::Conflict, detail).at("parameter", "previous_response_id").into());
        }
    }
    // Each request has an answer of its own, so it waits for the run in progress. What follows a response does not.
    let run = RunRequest::new(text).variables(variables(conversation, tools, &workflow)?).on_message(OnMessage::Queue);
    let mut run = run.traceparent(request::traceparent(request));
    if let Some(after) = after {
        run = run.after(after);
    }
    if state.workflow().is_some_and(|present| present.name != workflow.name()) {
        run = run.workflow(workflow.clone());
    }
    if let Some(key) = key {
        run = run.key(key.text());
    }
    let accepted = match thread.run(run).await {
        Ok(accepted) => accepted,
        Err(RunError::Control(ControlError::Rejected { source: Rejected::RunGoesOn { .. }, .. }))
            if after.is_some() =>
        {
            return Err(Error::gone_on());
        }
        Err(error) => return Err(Problem::from(error).into()),
    };
    Ok(Run { id: accepted.run_id, from: accepted.seq, inside: Inside::default(), workflow, thread })
}

/// Answers the question that a thread waits for. `None` if it waits for nothing.
async fn answer_question(
    server: &Shared,
    thread: &ThreadHandle,
    state: &State,
    has_key: bool,
    text: Json,
) -> Result<Option<Run>, Error> {
    if state.is_ended() {
        return Ok(None);
    }
    if state.status() == Status::Paused {
        return Err(answer::paused(thread, state).of_thread(thread.id()));
    }
    let open = thread.inbox().await.map_err(Problem::from)?;
    let Some(question) = open.iter().find(|question| is_answered_by_message(question)) else {
        return if open.is_empty() {
            Ok(None)
        } else {
            Err(answer::waits_elsewhere(server, &open).of_thread(thread.id()))
        };
    };
    if has_key {
        let detail = "the message answers a question, and a repeated answer would be a message of its own: send it \
                      without Idempotency-Key";
        return Err(Problem::new(Kind::InvalidRequest, detail).into());
    }
    let workflow = answer::definition(server, state).await?;
    let from = thread.summary().await.map_err(Problem::from)?.last_seq.next();
    let answer = answer_of(question, text);
    check_seen(question, &answer)?;
    thread.sibling(question.thread).respond(question.request.id, answer).await.map_err(Problem::from)?;
    Ok(Some(Run { id: state.run_id(), from, inside: Inside::of(state), workflow, thread: thread.clone() }))
}

/// Continues a conversation after a run that is not its last one: the run after it is made again with this message, in a
/// fork.
async fn fork(
    server: &Shared,
    request: &HttpRequest,
    body: Bytes,
    thread: &ThreadHandle,
    after: RunId,
    (conversation, tools): (Conversation, ClientTools),
    workflow: Arc<Workflow>,
) -> Result<Run, Problem> {
    let run = run_after(thread, after).await?;
    let variables = variables(&conversation, &tools, &workflow)?;
    let operation = format!("openai {} {} {after}", request.path(), thread.id());
    let (sent, of_work, text) = (Repeatable::of(request, operation, body)?, thread.clone(), conversation.input());
    let state = thread.state().await?;
    let on = state.workflow().is_none_or(|present| present.name != workflow.name()).then(|| workflow.clone());
    let begun = beginning::begin(server, sent, move |id| async move {
        let fork = ForkRequest {
            id: Some(id),
            again: Some(RunAgain { run, input: Some(text) }),
            changes: ForkChanges { variables, ..ForkChanges::default() },
            workflow: on,
            ..ForkRequest::default()
        };
        Ok(of_work.fork(fork).await?)
    });
    let (Begun::Now(thread) | Begun::Before(thread)) = begun.await?;
    let thread = thread.by(guard::principal(server, request));
    Ok(Run { thread, id: run, from: run.0, inside: Inside::default(), workflow })
}

/// Returns the run that began after this one had ended.
async fn run_after(thread: &ThreadHandle, run: RunId) -> Result<RunId, Problem> {
    let (mut next, mut before) = (None, None);
    // A run that is not there costs nothing.
    thread.run_summary(run).await?;
    for _ in 0..PAGES_MAX {
        let page = thread.runs(before, PAGE).await?;
        for found in &page {
            match next {
                Some(next) if found.run_id == run => return Ok(next),
                _ => next = Some(found.run_id),
            }
        }
        before = page.last().map(|last| last.run_id);
        if page.len() < PAGE {
            let detail = format!("thread {} has no run {run}: send the id of a response", thread.id());
            return Err(Problem::new(Kind::NoMoment, detail).at("parameter", "previous_response_id"));
        }
    }
    let detail = format!("more than {} runs came after this response: continue a later one", PAGE * PAGES_MAX);
    Err(Problem::new(Kind::NoMoment, detail).at("parameter", "previous_response_id"))
}
