//! OpenAI Responses. <https://platform.openai.com/docs/api-reference/responses>

mod read;
mod stream;
mod write;

use std::sync::Arc;

use serde_json::Value;

use super::openai_chat;
use super::{AnswerContext, Assembler, Background, Built, Wire, json};
use crate::client::ModelEntry;
use crate::error::LlmError;
use crate::models::KnownModels;
use crate::profile::Profile;
use crate::request::Request;
use crate::response::Response;
pub(crate) use read::push_item_of_answer;

/// The provider's name, which marks the parts of messages that only it understands.
pub(crate) const NAME: &str = "openai_responses";

/// The protocol, with what differs between those who speak it.
#[derive(Debug, Clone)]
pub(crate) struct OpenaiResponses {
    /// Azure's `api-version` query.
    pub(crate) api_version: Option<String>,
    /// What is known of the models.
    pub(crate) models: Arc<KnownModels>,
}

/// The protocol as a profile speaks it.
pub(crate) fn of_profile(profile: &Profile, known: &Arc<KnownModels>) -> Arc<dyn Wire> {
    let api_version = profile.api_version.clone();
    Arc::new(OpenaiResponses { api_version, models: Arc::clone(known) })
}

impl Wire for OpenaiResponses {
    fn call_path(&self, _: &Request) -> String {
        openai_chat::with_version("/responses", self.api_version.as_deref())
    }

    fn build(&self, request: &Request) -> Result<Built, LlmError> {
        Ok(write::build(self, request))
    }

    fn answer(&self, body: &Value, cx: AnswerContext) -> Result<Response, LlmError> {
        read::answer(body, &[], cx)
    }

    fn unfinished(&self, body: &Value) -> Option<Background> {
        let waits = matches!(json::text(body, "status"), Some("queued" | "in_progress"));
        let id = json::filled(body, "id").filter(|_| waits)?;
        // An id is a word; anything else would be another path.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let path = |path: String| openai_chat::with_version(&path, self.api_version.as_deref());
        id.chars().all(plain).then(|| Background {
            poll: path(format!("/responses/{id}")),
            cancel: path(format!("/responses/{id}/cancel")),
        })
    }

    fn assembler(&self, cx: AnswerContext) -> Box<dyn Assembler> {
        Box::new(stream::ResponsesStream::new(cx))
    }

    fn embed(&self, model: &str, text: &str) -> Option<(String, Value)> {
        Some(openai_chat::embed(model, text, self.api_version.as_deref()))
    }

    fn embedded(&self, body: &Value) -> Option<Vec<f32>> {
        openai_chat::embedded(body)
    }

    fn models_path(&self) -> &'static str {
        "/models"
    }

    fn models(&self, body: &Value) -> (Vec<ModelEntry>, Option<String>) {
        openai_chat::models(body)
    }
}
