//! Anthropic Messages. <https://docs.anthropic.com/en/api/messages>

mod prefix;
mod read;
mod refusals;
mod stream;
mod write;

use std::sync::Arc;

use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::{AnswerContext, Assembler, Built, Wire, json};
use crate::client::ModelEntry;
use crate::error::LlmError;
use crate::models::KnownModels;
use crate::request::Request;
use crate::response::Response;
pub(crate) use read::part_of_answer;

/// The provider's name, which marks the parts of messages that only it understands.
pub(crate) const NAME: &str = "anthropic";

/// The protocol.
#[derive(Debug, Clone)]
pub(crate) struct Anthropic {
    /// What is known of the models.
    pub(crate) models: Arc<KnownModels>,
}

impl Wire for Anthropic {
    fn call_path(&self, _: &Request) -> String {
        "/v1/messages".into()
    }

    fn headers(&self, headers: &mut HeaderMap) {
        headers.insert("anthropic-version", HeaderValue::from_static(write::VERSION));
    }

    fn build(&self, request: &Request) -> Result<Built, LlmError> {
        write::build(&self.models.of(&request.model).facts, request)
    }

    fn answer(&self, body: &Value, cx: AnswerContext) -> Result<Response, LlmError> {
        read::answer(body, cx)
    }

    fn assembler(&self, cx: AnswerContext) -> Box<dyn Assembler> {
        Box::new(stream::MessageStream::new(cx))
    }

    fn models_path(&self) -> &'static str {
        "/v1/models"
    }

    fn models(&self, body: &Value) -> (Vec<ModelEntry>, Option<String>) {
        let entries = json::list(body, "data").iter().filter_map(|item| {
            Some(ModelEntry {
                id: json::filled(item, "id")?.to_owned(),
                display_name: json::owned(item, "display_name"),
                owned_by: Some("anthropic".into()),
                context_tokens_max: json::count(item, "max_input_tokens"),
                output_tokens_max: json::count(item, "max_tokens"),
            })
        });
        let next = body.get("has_more").and_then(Value::as_bool) == Some(true);
        let next = next.then(|| json::filled(body, "last_id").map(|id| format!("after_id={id}"))).flatten();
        (entries.collect(), next)
    }
}
