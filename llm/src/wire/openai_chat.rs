//! OpenAI Chat Completions, and everybody who speaks it: vLLM, Ollama, llama.cpp, OpenRouter, Azure, Gemini's
//! compatible endpoint. <https://platform.openai.com/docs/api-reference/chat>

mod plain;
mod read;
pub(in crate::wire) mod sources;
mod stream;
mod think;
pub(in crate::wire) mod write;

use std::sync::Arc;

use serde_json::{Value, json};
use url::Url;

use super::{AnswerContext, Assembler, Built, Wire, json};
use crate::client::ModelEntry;
use crate::error::LlmError;
use crate::models::KnownModels;
use crate::profile::Profile;
use crate::provider::Provider;
use crate::request::Request;
use crate::response::Response;

/// The `provider` of opaque parts of this protocol: fields of an assistant message that go back as they came.
pub(crate) const OPAQUE: &str = "openai_chat";

/// The protocol, with what differs between those who speak it.
#[derive(Debug, Clone)]
pub(crate) struct OpenaiChat {
    /// Gemini's compatible endpoint: signatures ride in `extra_content`.
    pub(crate) gemini: bool,
    /// Azure's `api-version` query.
    pub(crate) api_version: Option<String>,
    /// The name under which reasoning text goes back, for servers that want it back.
    pub(crate) reasoning_field: Option<String>,
    /// What is known of the models.
    pub(crate) models: Arc<KnownModels>,
}

impl Wire for OpenaiChat {
    fn call_path(&self, _: &Request) -> String {
        with_version("/chat/completions", self.api_version.as_deref())
    }

    fn build(&self, request: &Request) -> Result<Built, LlmError> {
        let splits_think_tag = self.models.of(&request.model).facts.think_tag == Some(true);
        Ok(Built { body: write::body(self, request), splits_think_tag, ..Built::default() })
    }

    fn answer(&self, body: &Value, cx: AnswerContext) -> Result<Response, LlmError> {
        read::answer(body, cx)
    }

    fn assembler(&self, cx: AnswerContext) -> Box<dyn Assembler> {
        Box::new(stream::ChatStream::new(cx))
    }

    fn embed(&self, model: &str, text: &str) -> Option<(String, Value)> {
        Some(embed(model, text, self.api_version.as_deref()))
    }

    fn embedded(&self, body: &Value) -> Option<Vec<f32>> {
        embedded(body)
    }

    fn models_path(&self) -> &'static str {
        "/models"
    }

    fn models(&self, body: &Value) -> (Vec<ModelEntry>, Option<String>) {
        models(body)
    }
}

/// The protocol as a profile speaks it.
pub(crate) fn of_profile(profile: &Profile, base: &Url, known: &Arc<KnownModels>) -> Arc<dyn Wire> {
    let gemini = profile.provider == Provider::GeminiOpenai;
    let own = profile.reasoning_field.clone();
    Arc::new(OpenaiChat {
        gemini,
        api_version: profile.api_version.clone(),
        reasoning_field: own.or_else(|| if gemini { None } else { reasoning_field(base) }),
        models: Arc::clone(known),
    })
}

/// Servers that are known to want their reasoning back in a conversation with tools.
fn reasoning_field(base: &Url) -> Option<String> {
    let host = base.host_str()?;
    ["deepseek.com", "moonshot.ai", "moonshot.cn"]
        .iter()
        .any(|wants| host.ends_with(wants))
        .then(|| "reasoning_content".to_owned())
}

/// A path with Azure's query.
pub(crate) fn with_version(path: &str, api_version: Option<&str>) -> String {
    match api_version {
        Some(version) => format!("{path}?api-version={version}"),
        None => path.to_owned(),
    }
}

/// OpenAI's request for a vector. <https://platform.openai.com/docs/api-reference/embeddings>
pub(crate) fn embed(model: &str, text: &str, api_version: Option<&str>) -> (String, Value) {
    let body = json!({ "model": model, "input": [text], "encoding_format": "float" });
    (with_version("/embeddings", api_version), body)
}

/// The vector in the answer.
pub(crate) fn embedded(body: &Value) -> Option<Vec<f32>> {
    json::numbers(json::list(body, "data").first()?, "embedding")
}

/// OpenAI's list of models; some imitators send a bare list or add the context length.
pub(crate) fn models(body: &Value) -> (Vec<ModelEntry>, Option<String>) {
    let list = body.as_array().map_or_else(|| json::list(body, "data"), Vec::as_slice);
    let entries = list.iter().filter_map(|item| {
        Some(ModelEntry {
            id: json::filled(item, "id")?.to_owned(),
            display_name: json::owned(item, "name").or_else(|| json::owned(item, "display_name")),
            owned_by: json::owned(item, "owned_by"),
            context_tokens_max: ["context_length", "max_model_len", "context_window"]
                .iter()
                .find_map(|key| json::count(item, key)),
            output_tokens_max: json::count(item, "max_completion_tokens"),
        })
    });
    (entries.collect(), None)
}
