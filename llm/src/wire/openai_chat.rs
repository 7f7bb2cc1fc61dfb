//! OpenAI Chat Completions, and everybody who speaks it: vLLM, Ollama, llama.cpp, OpenRouter, Azure, Gemini's
//! compatible endpoint. <https://platform.openai.com/docs/api-reference/chat>

mod plain;
mod read;
mod stream;
mod write;

use std::sync::Arc;

use serde_json::{Value, json};
use url::Url;

use super::{AnswerContext, Assembler, Wire, json};
use crate::client::ModelEntry;
use crate::error::LlmError;
use crate::prices::PriceTable;
use crate::profile::Profile;
use crate::provider::Provider;
use crate::request::Request;
use crate::response::Response;

/// The `provider` of opaque parts of this protocol: fields of an assistant message that go back as they came.
pub(crate) const OPAQUE: &str = "openai_chat";

/// The protocol, with what differs between those who speak it.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenaiChat {
    /// Gemini's compatible endpoint: signatures ride in `extra_content`.
    pub(crate) gemini: bool,
    /// Azure's `api-version` query.
    pub(crate) api_version: Option<String>,
    /// The name under which reasoning text goes back, for servers that want it back.
    pub(crate) reasoning_field: Option<String>,
    /// Which models reason.
    pub(crate) reasoning: Reasoning,
}

impl Wire for OpenaiChat {
    fn call_path(&self, _: &Request) -> String {
        with_version("/chat/completions", self.api_version.as_deref())
    }

    fn body(&self, request: &Request) -> Result<Value, LlmError> {
        Ok(write::body(self, request))
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
pub(crate) fn of_profile(profile: &Profile, base: &Url, table: &Arc<PriceTable>) -> Arc<dyn Wire> {
    let gemini = profile.provider == Provider::GeminiOpenai;
    let own = profile.reasoning_field.clone();
    Arc::new(OpenaiChat {
        gemini,
        api_version: profile.api_version.clone(),
        reasoning_field: own.or_else(|| if gemini { None } else { reasoning_field(base) }),
        reasoning: Reasoning::of_profile(profile, table),
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

/// Whether a profile's model reasons, to be recorded; none for a protocol that does not ask.
pub(crate) fn recorded_reasoning(profile: &Profile, table: &Arc<PriceTable>) -> Option<bool> {
    match profile.provider {
        Provider::OpenaiChat | Provider::OpenaiResponses | Provider::GeminiOpenai => {
            Reasoning::of_profile(profile, table).recorded_reasoning(&profile.model)
        }
        Provider::Anthropic | Provider::Gemini | Provider::Mock | Provider::Human => None,
    }
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

/// Which models reason before they answer: they take `max_completion_tokens` and refuse `max_tokens`.
#[derive(Debug, Clone)]
pub(crate) struct Reasoning {
    /// The setting of the profile.
    pub(crate) configured: Option<bool>,
    /// The table that decides otherwise.
    pub(crate) table: Arc<PriceTable>,
}

impl Default for Reasoning {
    fn default() -> Self {
        Self { configured: None, table: PriceTable::built_in() }
    }
}

impl Reasoning {
    pub(crate) fn of_profile(profile: &Profile, table: &Arc<PriceTable>) -> Self {
        Self { configured: profile.reasoning_model, table: Arc::clone(table) }
    }

    /// Whether this model reasons.
    pub(crate) fn of(&self, model: &str) -> bool {
        self.configured.unwrap_or_else(|| self.table.reasons(model))
    }

    /// Returns whether this model's reasoning can be requested in encrypted form. A chat model of a reasoning family
    /// rejects that.
    pub(crate) fn is_encrypted_for(&self, model: &str) -> bool {
        self.of(model) && (self.configured.is_some() || !is_chat_model(model))
    }

    /// The settings with which a profile without a table gets the same result for this model.
    pub(crate) fn recorded_reasoning(&self, model: &str) -> Option<bool> {
        self.configured.or_else(|| (!is_chat_model(model)).then(|| self.of(model)))
    }
}

fn is_chat_model(model: &str) -> bool {
    model.contains("-chat") || model.starts_with("chat-")
}
