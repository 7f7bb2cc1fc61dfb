//! Begins what a request asks for: a thread, its next run, an answer to its question, or a run that is made again.

use std::sync::Arc;

use actix_web::HttpRequest;
use bytes::Bytes;
use rethread::event::ForkChanges;
use rethread::operate::{Labels, OpenInteraction};
use rethread::runs::{OnMessage, RunAgain, RunId, RunRequest};
use rethread::{ForkRequest, Json, Seq, StartThread, State, ThreadHandle, Workflow};

use super::Error;
use super::answer::{self, Run};
use super::input::{Input, Place};
use crate::serve::beginning::{self, Begun, Repeatable};
use crate::serve::guard;
use crate::serve::idempotency::Key;
use crate::serve::problem::{Kind, Problem};
use crate::serve::server::Shared;
use crate::serve::workflows::{Chosen, For};

/// How many runs are read at once where the one after another is looked for.
const PAGE: usize = 100;

/// Begins the run that answers a request.
pub(super) async fn begin(server: &Shared, request: &HttpRequest, body: Bytes, input: Input) -> Result<Run, Error> {
    let chosen = Chosen { workflow: Some(input.model.clone()), hash: None, definition: None };
    let workflow = chosen.find(server, For::Running).await.map_err(|problem| match problem.kind() {
        Kind::NoWorkflow => problem.at("parameter", "model"),
        _ => problem,
    })?;
    let workflow = workflow.ok_or_else(|| Problem::new(Kind::InvalidRequest, "name a workflow in `model`"))?;
    let (id, after) = match input.place {
        Place::New => return Ok(start(server, request, body, input, workflow).await?),
        Place::Thread(id) => (id, None),
        Place::After(key) => (key.thread, Some(key)),
    };
    guard::check_thread(server, request, id).await?;
    let thread = server.runtime.thread(id).by(guard::principal(server, request));
    let state = thread.state().await.map_err(Problem::from)?;
    input.conversation.refuse_media()?;
    let is_last = after.is_none_or(|key| state.is_open_run(key.run) || state.run_id() == key.run);
    match after {
        Some(key) if !is_last => Ok(fork(server, request, body, &thread, key.run, input, workflow).await?),
        _ => go_on(request, thread, &state, input, workflow).await,
    }
}

/// Starts a thread with the conversation.
async fn start(
    server: &Shared,
    request: &HttpRequest,
    body: bytes::Bytes,
    mut input: Input,
    workflow: Arc<Workflow>,
) -> Result<Run, Problem> {
    let labels = guard::bound(request, Labels::new())?;
    let variables = input.conversation.variables(&workflow)?;
    let (text, past) = (input.conversation.input(), input.conversation.past_with_media());
    // Tokens that are bound to other labels have keys of their own.
    let operation = format!("openai {} {}", request.path(), guard::bound_to(request));
    let (sent, of_work, of_thread) = (Repeatable::of(request, operation, body)?, server.clone(), workflow.clone());
    let begun = beginning::begin(server, sent, move |id| async move {
        let mut start = StartThread::new(of_thread, text).id(id).labels(labels).messages(past).variables(variables);
        if let Some(folder) = &of_work.settings.workspace {
            start = start.workspace(folder);
        }
        Ok(of_work.runtime.start(start).await?)
    });
    let (Begun::Now(thread) | Begun::Before(thread)) = begun.await?;
    let thread = thread.by(guard::principal(server, request));
    Ok(Run { thread, id: RunId(Seq(0)), from: Seq(0), workflow })
}

/// Answers the question that a thread waits for, or starts its next run.
async fn go_on(
    request: &HttpRequest,
    thread: ThreadHandle,
    state: &State,
    input: Input,
    workflow: Arc<Workflow>,
) -> Result<Run, Error> {
    let open = if state.is_ended() { Vec::new() } else { thread.inbox().await.map_err(Problem::from)? };
    let text = input.conversation.input();
    if let Some(question) = open.iter().find(|question| answer::is_answered_by_message(question)) {
        let from = thread.summary().await.map_err(Problem::from)?.last_seq.next();
        thread
            .sibling(question.thread)
            .respond(question.request.id, answer_of(question, text))
            .await
            .map_err(Problem::from)?;
        return Ok(Run { id: state.run_id(), from, workflow, thread });
    }
    if !open.is_empty() {
        return Err(answer::waits_elsewhere(&open).of_thread(thread.id()));
    }
    // Each request has an answer of its own, so it waits for the run in progress.
    let mut run =
        RunRequest::new(text).variables(input.conversation.variables(&workflow)?).on_message(OnMessage::Queue);
    if state.workflow().is_some_and(|present| present.name != workflow.name()) {
        run = run.workflow(workflow.clone());
    }
    if let Some(key) = Key::of(request)? {
        run = run.key(key.text());
    }
    let accepted = thread.run(run).await.map_err(Problem::from)?;
    Ok(Run { id: accepted.run_id, from: accepted.seq, workflow, thread })
}

/// Continues a conversation after a run that is not its last one: the run after it is made again with this message, in a
/// fork.
async fn fork(
    server: &Shared,
    request: &HttpRequest,
    body: Bytes,
    thread: &ThreadHandle,
    after: RunId,
    input: Input,
    workflow: Arc<Workflow>,
) -> Result<Run, Problem> {
    let run = run_after(thread, after).await?;
    let variables = input.conversation.variables(&workflow)?;
    let operation = format!("openai {} {} {after}", request.path(), thread.id());
    let (sent, of_work, text) = (Repeatable::of(request, operation, body)?, thread.clone(), input.conversation.input());
    let on = workflow.clone();
    let begun = beginning::begin(server, sent, move |id| async move {
        let fork = ForkRequest {
            id: Some(id),
            again: Some(RunAgain { run, input: Some(text) }),
            changes: ForkChanges { variables, ..ForkChanges::default() },
            workflow: Some(on),
            ..ForkRequest::default()
        };
        Ok(of_work.fork(fork).await?)
    });
    let (Begun::Now(thread) | Begun::Before(thread)) = begun.await?;
    let thread = thread.by(guard::principal(server, request));
    Ok(Run { thread, id: run, from: run.0, workflow })
}

/// Returns the run that began after this one had ended.
async fn run_after(thread: &ThreadHandle, run: RunId) -> Result<RunId, Problem> {
    let (mut next, mut before) = (None, None);
    loop {
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
}

/// The answer that a message gives: a text if the question has a type, otherwise JSON if it is JSON, as on a terminal.
fn answer_of(question: &OpenInteraction, text: Json) -> Json {
    if question.request.answer.is_some() {
        return text;
    }
    let parsed = text.0.as_str().and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    parsed.map_or(text, Json::from)
}
