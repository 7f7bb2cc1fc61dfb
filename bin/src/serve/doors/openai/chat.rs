//! `/v1/chat/completions`: a request is the first run of a new thread, or the next run of the thread that it names.

use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use futures::StreamExt as _;
use rethread::operate::{Labels, OpenInteraction};
use rethread::runs::{OnMessage, RunId, RunRequest, Taken};
use rethread::{Json, Seq, StartThread, ThreadId, Workflow};
use rethread_events::thread::ThreadUsage;
use serde::Serialize;

use super::answer::{self, Answering, End, Run, Step};
use super::input::Input;
use super::{Error, THREAD};
use crate::serve::beginning::{self, Begun, Repeatable};
use crate::serve::event_filter::EventTextStream;
use crate::serve::feed::{self, Frame};
use crate::serve::guard;
use crate::serve::idempotency::Key;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::{Shared, SubscriberSlot};
use crate::serve::workflows::{Chosen, For};
use crate::serve::written::Written;

/// How long a client waits for an answer that is not streamed.
const WAIT_MAX: Duration = Duration::from_secs(1_500);

/// Answers the last message of a conversation.
pub(crate) async fn create(server: Shared, request: HttpRequest, payload: web::Payload) -> Result<HttpResponse, Error> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let input = Input::read(request::json(&request, &body)?)?;
    let (stream, include_usage) = (input.stream, input.include_usage);
    let slot = server.subscribe()?;
    let model = input.model.clone();
    let chosen = Chosen { workflow: Some(model.clone()), hash: None, definition: None };
    let workflow = chosen.find(&server, For::Running).await.map_err(|problem| match problem.kind() {
        Kind::NoWorkflow => problem.at("parameter", "model"),
        _ => problem,
    })?;
    let workflow = workflow.ok_or_else(|| Problem::new(Kind::InvalidRequest, "name a workflow in `model`"))?;
    let run = match input.thread {
        None => start(&server, &request, body, input, workflow).await?,
        Some(thread) => go_on(&server, &request, thread, input, workflow).await?,
    };
    let shape = Shape::of(&run, model, include_usage);
    let answering = Answering::begin(&server, run);
    if stream {
        Ok(streaming(server, &request, slot, shape, answering))
    } else {
        // The slot is held until the answer is complete.
        let answer = complete(&server, &shape, answering).await;
        drop(slot);
        answer
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
    let operation = format!("chat completion {}", guard::bound_to(request));
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
    Ok(Run { thread, id: RunId(Seq(0)), from: Seq(0), has_begun: true, workflow })
}

/// Answers the question that a thread waits for, or starts its next run.
async fn go_on(
    server: &Shared,
    request: &HttpRequest,
    thread: ThreadId,
    input: Input,
    workflow: Arc<Workflow>,
) -> Result<Run, Error> {
    guard::check_thread(server, request, thread).await?;
    let principal = guard::principal(server, request);
    let thread = server.runtime.thread(thread).by(principal);
    let state = thread.state().await.map_err(|error| Problem::from(error).at("parameter", "metadata"))?;
    input.conversation.refuse_media()?;
    let open = if state.is_ended() { Vec::new() } else { thread.inbox().await.map_err(Problem::from)? };
    let text = input.conversation.input();
    if let Some(question) = open.iter().find(|question| answer::is_answered_by_message(question)) {
        let from = thread.summary().await.map_err(Problem::from)?.last_seq.next();
        thread
            .sibling(question.thread)
            .respond(question.request.id, answer_of(question, text))
            .await
            .map_err(Problem::from)?;
        return Ok(Run { id: state.run_id(), from, has_begun: true, workflow, thread });
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
    let has_begun = accepted.taken != Taken::Queued;
    Ok(Run { id: accepted.run_id, from: accepted.seq, has_begun, workflow, thread })
}

/// The answer that a message gives: a text if the question has a type, otherwise JSON if it is JSON, as on a terminal.
fn answer_of(question: &OpenInteraction, text: Json) -> Json {
    if question.request.answer.is_some() {
        return text;
    }
    let parsed = text.0.as_str().and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    parsed.map_or(text, Json::from)
}

/// What all objects of a response have in common.
struct Shape {
    id: String,
    created: u64,
    model: String,
    place: Place,
    thread: ThreadId,
    include_usage: bool,
}

/// Names the thread and the run that answer.
#[derive(Serialize)]
struct Place {
    thread_id: ThreadId,
    /// A text, as all values of metadata.
    run_id: String,
}

#[derive(Serialize)]
struct Object<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [C],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<Usage>>,
    metadata: &'a Place,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: Message<'a>,
    logprobs: Option<()>,
    finish_reason: &'a str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
    refusal: Option<()>,
}

#[derive(Serialize)]
struct Piece<'a> {
    index: u32,
    delta: Delta<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'a str>,
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

/// Tokens of the run. What the provider did not report was counted.
#[derive(Clone, Copy, Serialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptTokens,
    completion_tokens_details: CompletionTokens,
}

#[derive(Clone, Copy, Serialize)]
struct PromptTokens {
    cached_tokens: u64,
}

#[derive(Clone, Copy, Serialize)]
struct CompletionTokens {
    reasoning_tokens: u64,
}

impl From<&ThreadUsage> for Usage {
    fn from(usage: &ThreadUsage) -> Self {
        let (prompt, completion) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
        Self {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: usage.total_tokens.unwrap_or_else(|| prompt.saturating_add(completion)),
            prompt_tokens_details: PromptTokens { cached_tokens: usage.cached_input_tokens },
            completion_tokens_details: CompletionTokens { reasoning_tokens: usage.reasoning_tokens },
        }
    }
}

impl Shape {
    fn of(run: &Run, model: String, include_usage: bool) -> Self {
        let (thread, run_id) = (run.thread.id(), run.id);
        let created = run.thread.runtime().now().unix_us() / 1_000_000;
        let place = Place { thread_id: thread, run_id: run_id.to_string() };
        Self { id: format!("chatcmpl-{thread}-{run_id}"), created, model, place, thread, include_usage }
    }

    fn object<'a, C>(&'a self, object: &'static str, choices: &'a [C], usage: Option<Option<Usage>>) -> Object<'a, C> {
        let Self { id, created, model, place, .. } = self;
        Object { id, object, created: *created, model, choices, usage, metadata: place }
    }

    fn chunk(&self, delta: Delta<'_>, finish_reason: Option<&str>) -> String {
        let choices = [Piece { index: 0, delta, logprobs: None, finish_reason }];
        sse(&self.object("chat.completion.chunk", &choices, self.include_usage.then_some(None)))
    }

    fn text(&self, text: &str) -> String {
        self.chunk(Delta { content: Some(text), ..Delta::default() }, None)
    }

    /// The chunks after which nothing follows.
    fn end(&self, end: &End) -> String {
        let mut chunks = if end.rest.is_empty() { String::new() } else { self.text(&end.rest) };
        chunks.push_str(&self.chunk(Delta::default(), Some(end.finish_reason)));
        if self.include_usage {
            let choices: [Piece<'_>; 0] = [];
            chunks.push_str(&sse(&self.object("chat.completion.chunk", &choices, Some(Some(Usage::from(&end.usage))))));
        }
        chunks.push_str("data: [DONE]\n\n");
        chunks
    }
}

fn sse(object: &impl Serialize) -> String {
    format!("data: {}\n\n", serde_json::to_string(object).unwrap_or_default())
}

/// Waits for the whole answer.
async fn complete(server: &Shared, shape: &Shape, mut answering: Answering) -> Result<HttpResponse, Error> {
    let ended = async {
        loop {
            if let Step::End(end) = answering.next().await {
                return end;
            }
        }
    };
    let end = tokio::select! {
        ended = tokio::time::timeout(WAIT_MAX, ended) => ended.unwrap_or_else(|_| {
            let detail = "no answer yet, and the run goes on: ask for a stream, which has no such limit; \
                          GET /v1/threads/{thread}/outcome says how the run ends";
            Err(Problem::new(Kind::Timeout, detail).into())
        }),
        () = server.stopping.cancelled() => Err(Problem::stopping().into()),
    };
    answering.leave();
    let end = end.map_err(|error| error.of_thread(shape.thread))?;
    let message = Message { role: "assistant", content: &end.text, refusal: None };
    let choices = [Choice { index: 0, message, logprobs: None, finish_reason: end.finish_reason }];
    let object = shape.object("chat.completion", &choices, Some(Some(Usage::from(&end.usage))));
    Ok(HttpResponse::Ok().insert_header((THREAD, shape.thread.to_string())).json(object))
}

/// What a stream writes next.
enum Next {
    Opening,
    Steps,
    Nothing,
}

/// Gives the answer as it is made.
fn streaming(
    server: Shared,
    request: &HttpRequest,
    slot: SubscriberSlot,
    shape: Shape,
    answering: Answering,
) -> HttpResponse {
    let thread = shape.thread.to_string();
    let chunks =
        futures::stream::unfold((shape, answering, Next::Opening), |(shape, mut answering, next)| async move {
            let (text, next) = match next {
                Next::Opening => (shape.chunk(Delta { role: Some("assistant"), content: Some("") }, None), Next::Steps),
                Next::Steps => match answering.next().await {
                    Step::Text(text) => (shape.text(&text), Next::Steps),
                    Step::End(Ok(end)) => (shape.end(&end), Next::Nothing),
                    Step::End(Err(error)) => (error.chunk(), Next::Nothing),
                },
                Next::Nothing => return None,
            };
            let written = Written { text: text.into(), last: answering.at() };
            Some((Ok(written), (shape, answering, next)))
        });
    let chunks: EventTextStream = chunks.boxed();
    HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header(("Cache-Control", "no-cache, no-transform"))
        .insert_header(("X-Accel-Buffering", "no"))
        .insert_header((THREAD, thread))
        .streaming(feed::body(server, slot, guard::by(request), Frame::Openai, chunks, None))
}
