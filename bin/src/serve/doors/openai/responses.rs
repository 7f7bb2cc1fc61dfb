//! `/v1/responses`: a response is an answer of a thread, and its id names the run and the message that it answers. Nothing
//! is stored beside the thread.

pub(crate) mod input_items;
mod stream;

use actix_web::{HttpRequest, HttpResponse, web};
use rethread::errors::{ControlError, RunError};
use rethread::operate::LogAccess as _;
use rethread::{Event, RecordedEvent, Seq, Status};
use rethread_events::message::SourceKind;
use rethread_events::text::with_sources;
use rethread_events::thread::ThreadUsage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::{self, Answering, End, Metadata, RunKey, ToolCall};
use super::begin::begin;
use super::chat::whole;
use super::input::Input;
use super::{CONVERSATION, Error, RESPONSE, THREAD};
use crate::answer::{Made, Placed};
use crate::serve::doors::following::{Inside, Run};
use crate::serve::guard;
use crate::serve::idempotency::blocking;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::{Server, Shared};

/// The answer to a message, as it is now.
struct Response {
    key: RunKey,
    created: u64,
    model: String,
    metadata: Metadata,
    background: bool,
}

/// How far a response is.
enum Progress {
    Queued,
    Running,
    /// The answer is whole, or as long as the model was allowed to make it.
    Answered(End),
    Failed(Error),
}

#[derive(Serialize)]
struct Tokens {
    input_tokens: u64,
    input_tokens_details: Value,
    output_tokens: u64,
    output_tokens_details: Value,
    total_tokens: u64,
}

impl From<&ThreadUsage> for Tokens {
    fn from(usage: &ThreadUsage) -> Self {
        let (input, output) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
        Self {
            input_tokens: input,
            input_tokens_details: json!({
                "cached_tokens": usage.cached_input_tokens, "cache_write_tokens": usage.cache_write_tokens,
            }),
            output_tokens: output,
            output_tokens_details: json!({ "reasoning_tokens": usage.reasoning_tokens }),
            total_tokens: usage.total_tokens.unwrap_or_else(|| input.saturating_add(output)),
        }
    }
}

impl Response {
    fn of(run: &Run, model: String, background: bool) -> Self {
        let created = run.thread.runtime().now().unix_us() / 1_000_000;
        Self { key: run.key(), created, model, metadata: Metadata::of(run), background }
    }

    /// The message that the answer is.
    fn item(&self, status: &str, content: &[Value]) -> Value {
        json!({
            "type": "message", "id": format!("msg_{}", self.key), "role": "assistant", "status": status,
            "content": content,
        })
    }

    /// The images that the model made.
    fn images(&self, end: &End) -> Vec<Value> {
        let image = |(n, made): (usize, Made<'_>)| {
            let data = made.media.data.as_ref()?;
            let id = format!("ig_{}-{n}", self.key);
            Some(json!({ "type": "image_generation_call", "id": id, "status": "completed", "result": data }))
        };
        end.images().into_iter().enumerate().filter_map(image).collect()
    }

    fn json(&self, progress: &Progress) -> Value {
        let (mut status, mut output, mut error, mut incomplete, mut usage) =
            ("completed", Vec::new(), Value::Null, Value::Null, None);
        match progress {
            Progress::Queued => status = "queued",
            Progress::Running => status = "in_progress",
            Progress::Answered(end) => {
                if let Some(reason) = cut(end) {
                    status = "incomplete";
                    incomplete = json!({ "reason": reason });
                }
                if has_message(end) {
                    output.push(self.item(status, &[part(&end.text, &annotations(end, &end.text))]));
                }
                output.extend(self.images(end));
                output.extend(end.calls.iter().map(|call| function_call(call, "completed", &call.arguments)));
                usage = Some(Tokens::from(&end.usage));
            }
            Progress::Failed(failed) if failed.is_cancellation() => status = "cancelled",
            Progress::Failed(failed) if failed.needs_a_person() => {
                status = "incomplete";
                incomplete = json!({ "reason": "needs_person", "message": failed.to_string() });
            }
            Progress::Failed(failed) => {
                status = "failed";
                error = json!({ "code": "server_error", "message": failed.to_string() });
            }
        }
        json!({
            "id": format!("{RESPONSE}{}", self.key), "object": "response", "created_at": self.created, "status": status,
            "background": self.background, "conversation": { "id": format!("{CONVERSATION}{}", self.key.thread) },
            "error": error, "incomplete_details": incomplete, "instructions": null, "max_output_tokens": null,
            "metadata": self.metadata, "model": self.model, "output": output, "parallel_tool_calls": false,
            "previous_response_id": null, "reasoning": { "effort": null, "summary": null }, "store": true,
            "temperature": null, "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [],
            "top_p": null, "truncation": "disabled", "usage": usage,
        })
    }

    fn answer(&self, progress: &Progress) -> HttpResponse {
        HttpResponse::Ok().insert_header((THREAD, self.key.thread.to_string())).json(self.json(progress))
    }
}

/// Why the answer is not whole; `None` if it is.
fn cut(end: &End) -> Option<&'static str> {
    match end.finish_reason {
        "length" => Some("max_output_tokens"),
        "content_filter" => Some("content_filter"),
        _ => None,
    }
}

/// A call of a tool that the client runs, as an item.
fn function_call(call: &ToolCall, status: &str, arguments: &str) -> Value {
    json!({
        "type": "function_call", "id": call_item(call), "call_id": call.id, "name": call.name, "arguments": arguments,
        "status": status,
    })
}

fn call_item(call: &ToolCall) -> String {
    format!("fc_{}", call.id)
}

/// Whether the output has a message: it has one unless the answer consists of calls or images alone.
fn has_message(end: &End) -> bool {
    !end.text.is_empty() || end.calls.is_empty() && end.images().is_empty()
}

/// The text of a message, with its sources.
fn part(text: &str, annotations: &[Value]) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": annotations, "logprobs": [] })
}

/// The sources of an answer, with their places in a text that ends with it.
fn annotations(end: &End, whole: &str) -> Vec<Value> {
    end.sources(whole).into_iter().filter_map(annotation).collect()
}

/// A source of a text in the form of the protocol; `None` for one that it has no form for.
fn annotation(placed: Placed<'_>) -> Option<Value> {
    let Placed { annotation, start, end } = placed;
    let title = annotation.title.as_deref().unwrap_or_default();
    match annotation.kind {
        SourceKind::Url | SourceKind::SearchResult | SourceKind::Map => Some(json!({
            "type": "url_citation", "url": annotation.url.as_deref()?, "title": title, "start_index": start,
            "end_index": end,
        })),
        SourceKind::Document | SourceKind::File => Some(json!({
            "type": "file_citation", "file_id": annotation.document.as_deref().unwrap_or_default(), "filename": title,
            "index": start,
        })),
    }
}

/// Answers the last message of a conversation.
pub(crate) async fn create(server: Shared, request: HttpRequest, payload: web::Payload) -> Result<HttpResponse, Error> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let input = Input::of_response(request::json(&request, &body)?, &server.settings.client_tools)?;
    let (stream, background, model) = (input.stream, input.background, input.model.clone());
    let tools = Some(input.tools.names.clone());
    let slot = server.subscribe()?;
    let run = begin(&server, &request, body, input).await?;
    let response = Response::of(&run, model, background);
    if !stream && background {
        return Ok(response.answer(&Progress::Queued));
    }
    let answering = Answering::begin(&server, &run, tools);
    if stream {
        return Ok(stream::respond(server, &request, slot, response, answering, None));
    }
    let whole = whole(&server, answering, slot).await;
    guard::check_still_allowed(&server, guard::by(&request))?;
    match whole {
        Ok(end) => Ok(response.answer(&Progress::Answered(end))),
        Err(error) if error.is_of_run() => Ok(response.answer(&Progress::Failed(error))),
        Err(error) => Err(error.of_thread(response.key.thread)),
    }
}

/// The parameters of a request for a response that was begun before.
#[derive(Deserialize)]
pub(crate) struct Retrieve {
    #[serde(default)]
    stream: bool,
    /// Only the events of the stream after this one.
    starting_after: Option<u64>,
}

/// Returns a response, or its events from the first one on.
pub(crate) async fn retrieve(server: Shared, request: HttpRequest) -> Result<HttpResponse, Error> {
    let query: Retrieve = request::query(&request)?;
    let (run, response) = find(&server, &request).await?;
    if query.stream {
        let slot = server.subscribe()?;
        let answering = Answering::begin(&server, &run, None);
        return Ok(stream::respond(server, &request, slot, response, answering, query.starting_after));
    }
    Ok(response.answer(&progress(&server, &run).await?))
}

/// Deletes a response with its thread. A thread with other runs is kept: their responses refer to it.
pub(crate) async fn delete(server: Shared, request: HttpRequest) -> Result<HttpResponse, Error> {
    let (run, response) = find(&server, &request).await?;
    let state = run.thread.state().await.map_err(Problem::from)?;
    if state.run_number() > 1 || !state.queued_runs().is_empty() {
        let detail = "the conversation has other responses: DELETE /v1/threads/{thread} deletes all of it";
        return Err(Problem::new(Kind::Conflict, detail).at("thread_id", response.key.thread).into());
    }
    match run.thread.delete().await {
        Ok(()) => {
            let id = format!("{RESPONSE}{}", response.key);
            Ok(HttpResponse::Ok().json(json!({ "id": id, "object": "response", "deleted": true })))
        }
        Err(error @ ControlError::Rejected { .. }) => Err(Problem::new(Kind::Conflict, with_sources(&error)).into()),
        Err(error) => Err(Problem::from(error).into()),
    }
}

/// Cancels the run of a response, unless it has ended.
pub(crate) async fn cancel(server: Shared, request: HttpRequest) -> Result<HttpResponse, Error> {
    let (run, response) = find(&server, &request).await?;
    match run.thread.cancel_run(run.id, None).await {
        // It has ended, or is about to.
        Ok(()) | Err(ControlError::Rejected { .. }) => Ok(response.answer(&progress(&server, &run).await?)),
        Err(error) => Err(Problem::from(error).into()),
    }
}

/// The response that the path names.
async fn find(server: &Server, request: &HttpRequest) -> Result<(Run, Response), Error> {
    let key = RunKey::of_response(&request::named(request, "response"))?;
    guard::check_thread(server, request, key.thread).await?;
    let thread = server.runtime.thread(key.thread).by(guard::principal(server, request));
    let state = thread.state().await.map_err(Problem::from)?;
    let summary = match thread.run_summary(key.run).await {
        Ok(summary) => Some(summary),
        Err(RunError::NotBegun { .. }) => None,
        Err(RunError::NoRun { .. }) if was_queued(server, key).await? => None,
        Err(error) => return Err(Problem::from(error).into()),
    };
    let no_such = || Problem::new(Kind::NoMoment, "there is no such response");
    let on = summary.as_ref().map(|summary| &summary.workflow).or(state.workflow()).ok_or_else(no_such)?;
    if summary
        .as_ref()
        .is_some_and(|summary| !(summary.started..=summary.last).contains(&key.from) && key.run.0 != key.from)
    {
        return Err(no_such().into());
    }
    let workflow = server.runtime.workflow(on.hash).await.map_err(Problem::from)?.ok_or_else(no_such)?;
    let created = summary.as_ref().map_or_else(|| server.runtime.now(), |summary| summary.started_at);
    let model = on.name.clone();
    let inside = match key.from.0.checked_sub(1).filter(|_| key.run.0 != key.from) {
        Some(last) => Inside::of(&thread.state_at(Seq(last)).await.map_err(Problem::from)?),
        None => Inside::default(),
    };
    let run = Run { thread, id: key.run, from: key.from, inside, workflow };
    let metadata = Metadata::of(&run);
    Ok((run, Response { key, created: created.unix_us() / 1_000_000, model, metadata, background: true }))
}

/// Whether a message waited as this run, which has not begun since.
async fn was_queued(server: &Server, key: RunKey) -> Result<bool, Problem> {
    let store = server.runtime.store();
    let record = blocking(move || store.record(key.thread, key.run.0)).await??;
    let event = record.map(RecordedEvent::decode).transpose()?;
    Ok(event.is_some_and(|event| matches!(event.event, Event::RunQueued(_))))
}

/// How far a run is now.
async fn progress(server: &Shared, run: &Run) -> Result<Progress, Error> {
    let summary = match run.thread.run_summary(run.id).await {
        Ok(summary) => summary,
        Err(RunError::NotBegun { .. }) => return Ok(Progress::Queued),
        Err(RunError::NoRun { .. }) => return Ok(Progress::Failed(Error::cancelled())),
        Err(error) => return Err(Problem::from(error).into()),
    };
    let answer = if summary.ended.is_some() {
        answer::whole(server, run).await
    } else if matches!(run.thread.summary().await.map_err(Problem::from)?.status, Status::Waiting | Status::Paused) {
        let state = run.thread.state().await.map_err(Problem::from)?;
        match answer::asks(server, &run.thread, &state, None).await {
            Ok(None) => return Ok(Progress::Running),
            Ok(Some(answer)) => Ok(End::from(answer)),
            Err(error) => Err(error),
        }
    } else {
        return Ok(Progress::Running);
    };
    match answer {
        Ok(end) => Ok(Progress::Answered(end)),
        Err(error) if error.is_of_run() => Ok(Progress::Failed(error)),
        Err(error) => Err(error),
    }
}
