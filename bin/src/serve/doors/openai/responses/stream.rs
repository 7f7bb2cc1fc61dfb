//! The events of a response, which are numbered: a client that has lost the stream asks for those after the last one.

use actix_web::{HttpRequest, HttpResponse};
use futures::StreamExt as _;
use serde_json::{Map, Value, json};

use super::{Progress, Response, annotations, call_item, cut, function_call, part};
use crate::serve::doors::openai::answer::{Answering, End, Step, ToolCall};
use crate::serve::doors::openai::chat::event_stream;
use crate::serve::doors::openai::error::Error;
use crate::serve::server::{Shared, SubscriberSlot};
use crate::serve::written::Written;

/// The events of a response as they are written.
struct Events {
    response: Response,
    /// The number of the next event.
    next: u64,
    /// Only events after this one are written.
    after: Option<u64>,
    /// The text so far; `None` before the first piece.
    text: Option<String>,
}

impl Events {
    fn event(&mut self, kind: &str, fields: Value) -> String {
        let number = self.next;
        self.next += 1;
        if self.after.is_some_and(|after| number <= after) {
            return String::new();
        }
        let mut event =
            Map::from_iter([("type".to_owned(), json!(kind)), ("sequence_number".to_owned(), json!(number))]);
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
        format!("event: {kind}\ndata: {}\n\n", Value::Object(event))
    }

    fn of_response(&mut self, kind: &str, response: &Value) -> String {
        self.event(kind, json!({ "response": response }))
    }

    fn of_part(&mut self, kind: &str, field: &str, value: Value) -> String {
        let item = format!("msg_{}", self.response.key);
        let mut fields = json!({ "item_id": item, "output_index": 0, "content_index": 0 });
        fields[field] = value;
        if field != "part" {
            fields["logprobs"] = json!([]);
        }
        self.event(kind, fields)
    }

    fn opening(&mut self) -> String {
        let response = self.response.json(&Progress::Running);
        self.of_response("response.created", &response) + &self.of_response("response.in_progress", &response)
    }

    fn piece(&mut self, text: &str) -> String {
        let mut events = String::new();
        if self.text.is_none() {
            let item = self.response.item("in_progress", &[]);
            events += &self.event("response.output_item.added", json!({ "output_index": 0, "item": item }));
            events += &self.of_part("response.content_part.added", "part", part("", &[]));
        }
        self.text.get_or_insert_default().push_str(text);
        events + &self.of_part("response.output_text.delta", "delta", json!(text))
    }

    /// A source of the text.
    fn annotation(&mut self, index: usize, source: &Value) -> String {
        let item = format!("msg_{}", self.response.key);
        let fields = json!({
            "item_id": item, "output_index": 0, "content_index": 0, "annotation_index": index, "annotation": source,
        });
        self.event("response.output_text.annotation.added", fields)
    }

    /// An image that the model made.
    fn image(&mut self, index: usize, item: Value) -> String {
        let mut begun = item.clone();
        (begun["status"], begun["result"]) = (json!("in_progress"), Value::Null);
        let added = self.event("response.output_item.added", json!({ "output_index": index, "item": begun }));
        added + &self.event("response.output_item.done", json!({ "output_index": index, "item": item }))
    }

    /// A call of a tool that the client runs.
    fn call(&mut self, index: usize, call: &ToolCall) -> String {
        let item = |status: &str, arguments: &str| json!({ "output_index": index, "item": function_call(call, status, arguments) });
        let arguments = |field: &str| {
            let mut fields = json!({ "item_id": call_item(call), "output_index": index });
            fields[field] = json!(call.arguments);
            fields
        };
        let mut done = arguments("arguments");
        done["name"] = json!(call.name);
        [
            self.event("response.output_item.added", item("in_progress", "")),
            self.event("response.function_call_arguments.delta", arguments("delta")),
            self.event("response.function_call_arguments.done", done),
            self.event("response.output_item.done", item("completed", &call.arguments)),
        ]
        .concat()
    }

    fn end(&mut self, end: Result<End, Error>) -> String {
        let mut events = String::new();
        let progress = match end {
            Ok(end) => {
                let is_empty = end.calls.is_empty() && end.images().is_empty();
                if self.text.is_none() && is_empty || !end.rest.is_empty() {
                    events += &self.piece(&end.rest);
                }
                if let Some(text) = self.text.clone() {
                    let sources = annotations(&end, &text);
                    for (index, source) in sources.iter().enumerate() {
                        events += &self.annotation(index, source);
                    }
                    events += &self.of_part("response.output_text.done", "text", json!(text));
                    let part = part(&text, &sources);
                    events += &self.of_part("response.content_part.done", "part", part.clone());
                    let status = if cut(&end).is_some() { "incomplete" } else { "completed" };
                    let item = self.response.item(status, &[part]);
                    events += &self.event("response.output_item.done", json!({ "output_index": 0, "item": item }));
                }
                let mut first = usize::from(self.text.is_some());
                for image in self.response.images(&end) {
                    events += &self.image(first, image);
                    first += 1;
                }
                for (index, call) in (first..).zip(&end.calls) {
                    events += &self.call(index, call);
                }
                Progress::Answered(End { text: self.text.clone().unwrap_or_default(), ..end })
            }
            Err(error) if error.is_of_run() => Progress::Failed(error),
            Err(error) => return self.event("error", error.fields()),
        };
        let response = self.response.json(&progress);
        let kind = match response["status"].as_str() {
            Some("completed") => "response.completed",
            Some("incomplete") => "response.incomplete",
            _ => "response.failed",
        };
        events + &self.of_response(kind, &response)
    }
}

enum Next {
    Opening,
    Steps,
    Nothing,
}

/// Gives the events of a response from the first one on.
pub(super) fn respond(
    server: Shared,
    request: &HttpRequest,
    slot: SubscriberSlot,
    response: Response,
    mut answering: Answering,
    after: Option<u64>,
) -> HttpResponse {
    let thread = response.key.thread.to_string();
    if response.background {
        answering.leave();
    }
    let events = Events { response, next: 0, after, text: None };
    let chunks =
        futures::stream::unfold((events, answering, Next::Opening), |(mut events, mut answering, next)| async move {
            let (text, next) = match next {
                Next::Opening => (events.opening(), Next::Steps),
                Next::Steps => match answering.next().await {
                    Step::Text(text) => (events.piece(&text), Next::Steps),
                    Step::End(end) => (events.end(end), Next::Nothing),
                },
                Next::Nothing => return None,
            };
            let written = Written { text: text.into(), last: answering.at() };
            Some((Ok(written), (events, answering, next)))
        });
    event_stream(server, request, slot, &thread, chunks.boxed())
}
