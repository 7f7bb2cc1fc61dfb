//! `/v1/responses/{id}/input_items`: what a response answers, read from the event that brought it.

use actix_web::{HttpRequest, HttpResponse};
use rethread::errors::ReadError;
use rethread::event::OperationType;
use rethread::operate::LogAccess as _;
use rethread::{CallId, Event, Json, Message, Part, RecordedEvent, Role, Seq};
use rethread_events::message::{Media, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{annotation, find, part as output_text};
use crate::answer::placed;
use crate::serve::doors::conversation::invalid;
use crate::serve::doors::following::Run;
use crate::serve::doors::openai::Error;
use crate::serve::idempotency::blocking;
use crate::serve::problem::Problem;
use crate::serve::request;
use crate::serve::server::Shared;

/// How many items a page has.
const PAGE: usize = 20;
const PAGE_MAX: usize = 100;
/// The most events among which the results of tool calls are looked for that came with the first one.
const RESULTS_SEARCH_MAX: u64 = 1_000;

/// The parameters of a request.
#[derive(Deserialize)]
pub(crate) struct Query {
    limit: Option<usize>,
    order: Option<Order>,
    /// Only items after this one.
    after: Option<String>,
}

/// The order of a list.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Asc,
    Desc,
}

/// Returns a page of the items that a response answers.
pub(crate) async fn list(server: Shared, request: HttpRequest) -> Result<HttpResponse, Error> {
    let Query { limit, order, after } = request::query(&request)?;
    let limit = limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(invalid("limit", format!("expected a number from 1 to {PAGE_MAX}")).into());
    }
    let (run, response) = find(&server, &request).await?;
    let key = response.key.to_string();
    let mut items = items(&input(&run).await?, &key);
    if order != Some(Order::Asc) {
        items.reverse();
    }
    if let Some(after) = after {
        let at = items.iter().position(|item| item["id"] == *after);
        let at = at.ok_or_else(|| invalid("after", "the response has no such item: send the `last_id` of a page"))?;
        items.drain(..=at);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let id_of = |item: Option<&Value>| item.map(|item| item["id"].clone());
    let (first, last) = (id_of(items.first()), id_of(items.last()));
    let list = json!({ "object": "list", "data": items, "first_id": first, "last_id": last, "has_more": has_more });
    Ok(HttpResponse::Ok().json(list))
}

/// The messages that a run answers from an event on.
async fn input(run: &Run) -> Result<Vec<Message>, Problem> {
    let (store, thread, from) = (run.thread.runtime().store(), run.thread.id(), run.from);
    let before = match from.0.checked_sub(1) {
        Some(last) => Some(run.thread.state_at(Seq(last)).await?),
        None => None,
    };
    let is_call = move |question: CallId| {
        let asked = before.iter().flat_map(|state| state.interactions()).find(|ask| ask.id == question);
        asked.is_some_and(|ask| ask.operation_type == OperationType::ApproveTool)
    };
    let read = move || {
        let mut said = Vec::new();
        for record in store.records(thread, from..Seq(from.0.saturating_add(RESULTS_SEARCH_MAX))) {
            let event = RecordedEvent::decode(record?)?.event;
            if let Event::ThreadStarted(e) = &event {
                said.extend(e.messages.iter().map(|message| Message::clone(message)));
                said.push(Message::text(Role::User, text_of(&e.input)));
            } else if let Event::RunStarted(e) = &event {
                said.push(Message::text(Role::User, text_of(&e.input)));
            } else if let Event::RunQueued(e) = &event {
                said.push(Message::text(Role::User, text_of(&e.input)));
            } else if let Event::UserInteractionResponded(e) = &event {
                if is_call(e.interaction_id) {
                    said.push(result(e.interaction_id.key(thread), &e.input_data));
                    // Others may come with it.
                    continue;
                }
                said.push(Message::text(Role::User, text_of(&e.input_data)));
            } else if !matches!(event, Event::LlmCallRequested(_)) {
                continue;
            }
            break;
        }
        Ok::<_, ReadError>(said)
    };
    Ok(blocking(read).await??)
}

fn text_of(value: &Json) -> String {
    value.0.as_str().map_or_else(|| value.0.to_string(), str::to_owned)
}

fn result(tool_call_id: String, answer: &Json) -> Message {
    let content = match answer.0.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(content) => content.to_string(),
        None => answer.0.to_string(),
    };
    let result = ToolResult { tool_call_id, name: None, content: vec![Part::text(content)], is_error: false };
    Message { role: Role::Tool, content: vec![Part::ToolResult(result)] }
}

/// The items that messages are, with ids that are made of that of the response.
fn items(messages: &[Message], key: &str) -> Vec<Value> {
    let mut items = Vec::new();
    for message in messages {
        let (mut content, mut own) = (Vec::new(), Vec::new());
        for part in &message.content {
            match part {
                Part::Text { text, .. } if message.role == Role::Assistant => {
                    let placed = placed(std::slice::from_ref(part), 0);
                    content.push(output_text(text, &placed.into_iter().filter_map(annotation).collect::<Vec<_>>()));
                }
                Part::Text { text, .. } => content.push(json!({ "type": "input_text", "text": text })),
                Part::Refusal { text } => content.push(json!({ "type": "refusal", "refusal": text })),
                Part::Image(media) => {
                    content.push(json!({ "type": "input_image", "detail": "auto", "image_url": url_of(media) }));
                }
                Part::Document(media) => {
                    let name = if media.data.is_some() { "file_data" } else { "file_url" };
                    content.push(json!({ "type": "input_file", name: url_of(media) }));
                }
                Part::ToolCall(call) => {
                    let arguments = call.arguments_raw.clone().unwrap_or_else(|| call.arguments.0.to_string());
                    own.push(json!({
                        "type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments,
                    }));
                }
                Part::ToolResult(result) => own.push(json!({
                    "type": "function_call_output", "call_id": result.tool_call_id,
                    "output": result.content.iter().filter_map(Part::as_text).collect::<String>(),
                })),
                Part::Reasoning(_) | Part::Opaque { .. } | Part::Audio(_) | Part::ProviderTool(_) => {}
            }
        }
        if !content.is_empty() {
            let role = match message.role {
                Role::Assistant => "assistant",
                Role::System => "system",
                Role::User | Role::Tool => "user",
            };
            own.insert(0, json!({ "type": "message", "role": role, "content": content }));
        }
        for mut item in own {
            item["id"] = json!(format!("item_{key}-{}", items.len()));
            item["status"] = json!("completed");
            items.push(item);
        }
    }
    items
}

fn url_of(media: &Media) -> Option<String> {
    let media_type = media.media_type.as_deref().unwrap_or("application/octet-stream");
    let data = media.data.as_ref().map(|data| format!("data:{media_type};base64,{data}"));
    data.or_else(|| media.url.clone())
}
