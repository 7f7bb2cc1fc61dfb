//! Gemini's own API. <https://ai.google.dev/api/generate-content>

mod grounding;
mod partial;
mod plain;
mod read;
mod schema;
mod stream;
mod write;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{AnswerContext, Assembler, Built, Wire, json};
use crate::client::ModelEntry;
use crate::error::LlmError;
use crate::models::KnownModels;
use crate::request::Request;
use crate::response::Response;

/// The provider's name, which marks the parts of messages that only it understands.
pub(crate) const NAME: &str = "gemini";

/// The protocol.
#[derive(Debug, Clone)]
pub(crate) struct Gemini {
    /// What is known of the models.
    pub(crate) models: Arc<KnownModels>,
}

impl Wire for Gemini {
    fn call_path(&self, request: &Request) -> String {
        let model = resource(&request.model);
        if request.stream {
            format!("/v1beta/{model}:streamGenerateContent?alt=sse")
        } else {
            format!("/v1beta/{model}:generateContent")
        }
    }

    fn build(&self, request: &Request) -> Result<Built, LlmError> {
        Ok(write::body(&self.models.of(&request.model).facts, request).into())
    }

    fn answer(&self, body: &Value, cx: AnswerContext) -> Result<Response, LlmError> {
        read::answer(body, cx)
    }

    fn assembler(&self, cx: AnswerContext) -> Box<dyn Assembler> {
        Box::new(stream::GeminiStream::new(cx))
    }

    /// <https://ai.google.dev/api/embeddings>
    fn embed(&self, model: &str, text: &str) -> Option<(String, Value)> {
        let model = resource(model);
        let body = json!({ "model": model, "content": { "parts": [{ "text": text }] } });
        Some((format!("/v1beta/{model}:embedContent"), body))
    }

    fn embedded(&self, body: &Value) -> Option<Vec<f32>> {
        json::numbers(json::object(body, "embedding"), "values")
    }

    fn models_path(&self) -> &'static str {
        "/v1beta/models"
    }

    fn models(&self, body: &Value) -> (Vec<ModelEntry>, Option<String>) {
        let entries = json::list(body, "models").iter().filter_map(|item| {
            let name = json::filled(item, "name")?;
            Some(ModelEntry {
                id: name.strip_prefix("models/").unwrap_or(name).to_owned(),
                display_name: json::owned(item, "displayName"),
                owned_by: Some("google".into()),
                context_tokens_max: json::count(item, "inputTokenLimit"),
                output_tokens_max: json::count(item, "outputTokenLimit"),
            })
        });
        let next = json::filled(body, "nextPageToken").map(|token| format!("pageToken={token}"));
        (entries.collect(), next)
    }
}

/// The path of a model. Tuned models name their own collection.
fn resource(model: &str) -> String {
    let prefix = if model.contains('/') { "" } else { "models/" };
    let model: String = model.chars().filter(|c| !matches!(c, '?' | '#' | '%')).collect();
    format!("{prefix}{model}")
}
