//! `/v1/chat/completions`: a request is the first run of a new thread, or the next run of the thread that it names.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use futures::StreamExt as _;
use rethread::ThreadId;
use rethread_events::thread::ThreadUsage;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{Answering, End, Metadata, Step, ToolCall};
use super::begin::begin;
use super::input::Input;
use super::{Error, THREAD};
use crate::answer::{Made, Placed};
use crate::serve::doors::following::Run;
use crate::serve::event_filter::EventTextStream;
use crate::serve::feed::{self, Frame};
use crate::serve::guard;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::{Shared, SubscriberSlot};
use crate::serve::written::Written;

/// How long a client waits for an answer that is not streamed.
const WAIT_MAX: Duration = Duration::from_secs(1_500);

/// Answers the last message of a conversation.
pub(crate) async fn create(server: Shared, request: HttpRequest, payload: web::Payload) -> Result<HttpResponse, Error> {
    let body = request::body(payload, server.settings.body_bytes_max).await?;
    let input = Input::of_chat(request::json(&request, &body)?, &server.settings.client_tools)?;
    let (stream, include_usage, model) = (input.stream, input.include_usage, input.model.clone());
    let tools = Some(input.tools.names.clone());
    let slot = server.subscribe()?;
    let run = begin(&server, &request, body, input).await?;
    let shape = Shape::of(&run, model, include_usage);
    let answering = Answering::begin(&server, &run, tools);
    if stream {
        return Ok(streaming(server, &request, slot, shape, answering));
    }
    let end = whole(&server, answering, slot).await.map_err(|error| error.of_thread(shape.thread))?;
    guard::check_still_allowed(&server, guard::by(&request))?;
    let content = Some(&*end.text).filter(|text| !text.is_empty() || end.calls.is_empty());
    let tool_calls = end.calls.iter().map(|call| Call::of(call, None)).collect();
    let (annotations, images) = (annotations(&end, &end.text), images(&end));
    let message = Message { role: "assistant", content, refusal: None, tool_calls, annotations, images };
    let choices = [Choice { index: 0, message, logprobs: None, finish_reason: end.finish_reason }];
    let object = shape.object("chat.completion", &choices, Some(Some(Usage::from(&end.usage))));
    Ok(HttpResponse::Ok().insert_header((THREAD, shape.thread.to_string())).json(object))
}

/// What all objects of a response have in common.
struct Shape {
    id: String,
    created: u64,
    model: String,
    metadata: Metadata,
    thread: ThreadId,
    include_usage: bool,
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
    metadata: &'a Metadata,
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
    content: Option<&'a str>,
    refusal: Option<()>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<Value>,
}

/// The pages of the web that the answer names; the protocol has no other sources here.
fn annotations(end: &End, whole: &str) -> Vec<Value> {
    let citation = |placed: Placed<'_>| {
        let Placed { annotation, start, end } = placed;
        let title = annotation.title.as_deref().unwrap_or_default();
        Some(json!({ "type": "url_citation", "url_citation": {
            "start_index": start, "end_index": end, "url": annotation.url.as_deref()?, "title": title,
        } }))
    };
    end.sources(whole).into_iter().filter_map(citation).collect()
}

/// The images that the model made, in the form of OpenRouter: the protocol of OpenAI has none.
fn images(end: &End) -> Vec<Value> {
    let image = |made: Made<'_>| Some(json!({ "type": "image_url", "image_url": { "url": made.url()? } }));
    end.images().into_iter().filter_map(image).collect()
}

/// A call of a tool that the client runs.
#[derive(Serialize)]
struct Call<'a> {
    /// Its place in the answer, in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCall, index: Option<usize>) -> Self {
        let ToolCall { id, name, arguments } = call;
        Self { index, id, r#type: "function", function: Function { name, arguments } }
    }
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<Value>,
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
        let thread = run.thread.id();
        let created = run.thread.runtime().now().unix_us() / 1_000_000;
        Self {
            id: format!("chatcmpl-{}", run.key()),
            created,
            model,
            metadata: Metadata::of(run),
            thread,
            include_usage,
        }
    }

    fn object<'a, C>(&'a self, object: &'static str, choices: &'a [C], usage: Option<Option<Usage>>) -> Object<'a, C> {
        let Self { id, created, model, metadata, .. } = self;
        Object { id, object, created: *created, model, choices, usage, metadata }
    }

    fn chunk(&self, delta: Delta<'_>, finish_reason: Option<&str>) -> String {
        let choices = [Piece { index: 0, delta, logprobs: None, finish_reason }];
        sse(&self.object("chat.completion.chunk", &choices, self.include_usage.then_some(None)))
    }

    fn text(&self, text: &str) -> String {
        self.chunk(Delta { content: Some(text), ..Delta::default() }, None)
    }

    /// The chunks after which nothing follows.
    /// `sent` is the text of the chunks before.
    fn end(&self, end: &End, sent: &str) -> String {
        let mut chunks = if end.rest.is_empty() { String::new() } else { self.text(&end.rest) };
        let (annotations, images) = (annotations(end, &format!("{sent}{}", end.rest)), images(end));
        if !annotations.is_empty() || !images.is_empty() {
            chunks.push_str(&self.chunk(Delta { annotations, images, ..Delta::default() }, None));
        }
        for (index, call) in end.calls.iter().enumerate() {
            let tool_calls = vec![Call::of(call, Some(index))];
            chunks.push_str(&self.chunk(Delta { tool_calls, ..Delta::default() }, None));
        }
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

/// Waits for the whole answer. `slot` is the place of the client that waits.
pub(super) async fn whole(server: &Shared, mut answering: Answering, slot: SubscriberSlot) -> Result<End, Error> {
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
    drop(slot);
    end
}

/// What a stream writes next.
enum Next {
    Opening,
    /// The text that was written so far.
    Steps(String),
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
                Next::Opening => {
                    let delta = Delta { role: Some("assistant"), content: Some(""), ..Delta::default() };
                    (shape.chunk(delta, None), Next::Steps(String::new()))
                }
                Next::Steps(mut sent) => match answering.next().await {
                    Step::Text(text) => {
                        sent.push_str(&text);
                        (shape.text(&text), Next::Steps(sent))
                    }
                    Step::End(Ok(end)) => (shape.end(&end, &sent), Next::Nothing),
                    Step::End(Err(error)) => (error.chunk(), Next::Nothing),
                },
                Next::Nothing => return None,
            };
            let written = Written { text: text.into(), last: answering.at() };
            Some((Ok(written), (shape, answering, next)))
        });
    event_stream(server, request, slot, &thread, chunks.boxed())
}

/// The response with a stream of chunks about this thread.
pub(super) fn event_stream(
    server: Shared,
    request: &HttpRequest,
    slot: SubscriberSlot,
    thread: &str,
    chunks: EventTextStream,
) -> HttpResponse {
    feed::response("text/event-stream").insert_header((THREAD, thread)).streaming(feed::body(
        server,
        slot,
        guard::by(request),
        Frame::Openai,
        chunks,
        None,
    ))
}
