//! OpenAI Chat Completions, and everybody who speaks it: vLLM, Ollama, llama.cpp, OpenRouter, Azure, Gemini's
//! compatible endpoint. <https://platform.openai.com/docs/api-reference/chat>

mod plain;
mod read;
mod stream;
mod write;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;

use super::{AnswerContext, Assembler, Wire, json};
use crate::client::ModelEntry;
use crate::error::LlmError;
use crate::request::Request;
use crate::response::Response;
use crate::secret::Key;

/// The `provider` of opaque parts of this protocol: fields of an assistant message that go back as they came.
pub(crate) const OPAQUE: &str = "openai_chat";

/// The protocol, with what differs between those who speak it.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenaiChat {
    /// Gemini's compatible endpoint: signatures ride in `extra_content`.
    pub(crate) gemini: bool,
    /// Azure and others take the key in a header `api-key`.
    pub(crate) api_key_header: bool,
    /// Azure's `api-version` query.
    pub(crate) api_version: Option<String>,
    /// The name under which reasoning text goes back, for servers that want it back.
    pub(crate) reasoning_field: Option<String>,
}

impl Wire for OpenaiChat {
    fn call_path(&self, _: &Request) -> String {
        with_version("/chat/completions", self.api_version.as_deref())
    }

    fn headers(&self, key: Option<&Key>, headers: &mut HeaderMap) {
        key_header(key, self.api_key_header, headers);
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

    fn models_path(&self) -> &'static str {
        "/models"
    }

    fn models(&self, body: &Value) -> (Vec<ModelEntry>, Option<String>) {
        models(body)
    }
}

/// `Authorization: Bearer …`, or Azure's `api-key: …`.
pub(crate) fn key_header(key: Option<&Key>, api_key_header: bool, headers: &mut HeaderMap) {
    let Some(key) = key else { return };
    let text = if api_key_header { key.expose().to_owned() } else { format!("Bearer {}", key.expose()) };
    if let Ok(mut value) = HeaderValue::from_str(&text) {
        value.set_sensitive(true);
        if api_key_header {
            headers.insert("api-key", value);
        } else {
            headers.insert(AUTHORIZATION, value);
        }
    }
}

/// A path with Azure's query.
pub(crate) fn with_version(path: &str, api_version: Option<&str>) -> String {
    match api_version {
        Some(version) => format!("{path}?api-version={version}"),
        None => path.to_owned(),
    }
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

/// Whether a model thinks before it answers, by its name; such models take `max_completion_tokens` and refuse
/// `max_tokens`.
pub(crate) fn is_reasoning_model(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let o_series = name.strip_prefix('o').is_some_and(|rest| rest.starts_with(['1', '3', '4']));
    o_series || name.starts_with("gpt-5") || name.starts_with("codex-") || name.starts_with("gpt-oss")
}
