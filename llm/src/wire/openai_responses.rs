//! OpenAI Responses. <https://platform.openai.com/docs/api-reference/responses>

mod read;
mod stream;
mod write;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::openai_chat;
use super::{AnswerContext, Assembler, Wire};
use crate::client::ModelEntry;
use crate::error::LlmError;
use crate::request::Request;
use crate::response::Response;
use crate::secret::Key;

/// The provider's name, which marks the parts of messages that only it understands.
pub(crate) const NAME: &str = "openai_responses";

/// The protocol, with what differs between those who speak it.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenaiResponses {
    /// Azure takes the key in a header `api-key`.
    pub(crate) api_key_header: bool,
    /// Azure's `api-version` query.
    pub(crate) api_version: Option<String>,
}

impl Wire for OpenaiResponses {
    fn call_path(&self, _: &Request) -> String {
        openai_chat::with_version("/responses", self.api_version.as_deref())
    }

    fn headers(&self, key: Option<&Key>, headers: &mut HeaderMap) {
        openai_chat::key_header(key, self.api_key_header, headers);
    }

    fn body(&self, request: &Request) -> Result<Value, LlmError> {
        Ok(write::body(request))
    }

    fn answer(&self, body: &Value, cx: AnswerContext) -> Result<Response, LlmError> {
        read::answer(body, &[], cx)
    }

    fn assembler(&self, cx: AnswerContext) -> Box<dyn Assembler> {
        Box::new(stream::ResponsesStream::new(cx))
    }

    fn models_path(&self) -> &'static str {
        "/models"
    }

    fn models(&self, body: &Value) -> (Vec<ModelEntry>, Option<String>) {
        openai_chat::models(body)
    }
}
