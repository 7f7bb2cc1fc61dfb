//! The interface of every protocol.

use reqwest::header::HeaderMap;
use rethread_events::event::RequestChange;
use rethread_events::ids::Hash;
use rethread_events::message::Usage;
use serde_json::{Map, Value};

use super::AnswerContext;
use crate::client::{Listener, ModelEntry};
use crate::error::LlmError;
use crate::request::Request;
use crate::response::Response;
use crate::sse::Event;

/// The header with the betas that a request uses, a list.
pub(crate) const BETAS: &str = "anthropic-beta";

/// One protocol: the address and the form of a request, and how to read its answer.
pub(crate) trait Wire: Send + Sync {
    /// The path that is added to the base URL, and the query.
    fn call_path(&self, request: &Request) -> String;

    /// Adds the headers of every request besides the key.
    fn headers(&self, headers: &mut HeaderMap) {
        let _ = headers;
    }

    /// What is sent for a call.
    fn build(&self, request: &Request) -> Result<Built, LlmError>;

    /// The body of a call.
    #[cfg(test)]
    fn body(&self, request: &Request) -> Result<Value, LlmError> {
        self.build(request).map(|built| built.json())
    }

    /// Reads a whole answer.
    fn answer(&self, body: &Value, cx: AnswerContext) -> Result<Response, LlmError>;

    /// Returns the URL from which an unfinished answer can be requested again; `None` if it is ready.
    fn unfinished(&self, body: &Value) -> Option<Background> {
        let _ = body;
        None
    }

    /// Begins to read an answer in pieces.
    fn assembler(&self, cx: AnswerContext) -> Box<dyn Assembler>;

    /// The path and the body of a request for the vector of a text; `None` where the provider makes none.
    fn embed(&self, model: &str, text: &str) -> Option<(String, Value)> {
        let _ = (model, text);
        None
    }

    /// Reads the vector.
    fn embedded(&self, body: &Value) -> Option<Vec<f32>> {
        let _ = body;
        None
    }

    /// The path of the list of models.
    fn models_path(&self) -> &'static str;

    /// Reads the list of models, and the query that asks for its next page.
    fn models(&self, body: &Value) -> (Vec<ModelEntry>, Option<String>);
}

/// What is sent for a call.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// The body, as JSON.
    pub(crate) body: Vec<u8>,
    /// Headers of this request, which replace those of every request.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The hash of all that an answer is bound to, where the model binds its thoughts.
    pub(crate) prefix: Option<Hash>,
    /// What is left out of the request.
    pub(crate) changes: Vec<RequestChange>,
    /// Whether the model writes its thoughts into the text, between `<think>` and `</think>`.
    pub(crate) splits_think_tag: bool,
}

impl From<Vec<u8>> for Built {
    fn from(body: Vec<u8>) -> Self {
        Self { body, ..Self::default() }
    }
}

#[cfg(test)]
impl Built {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// An answer that the provider writes in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Background {
    /// The path to GET it from.
    pub(crate) poll: String,
    /// The path to POST to, so that it is not written any further.
    pub(crate) cancel: String,
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More must come.
    More,
    /// The answer is whole, but figures may follow.
    Ending,
    /// The rest of the stream can be ignored.
    Done,
}

/// An answer that is coming in.
pub(crate) trait Assembler: Send {
    /// Handles the next event.
    fn event(&mut self, event: &Event, listener: &mut dyn Listener) -> Result<Progress, LlmError>;

    /// Returns the usage that the provider has reported so far; all figures are absent if it reported none.
    fn usage(&self) -> Usage;

    /// Returns whether the requested figures have arrived, so that a connection that breaks after the end of the answer
    /// costs nothing.
    fn has_figures(&self) -> bool {
        true
    }

    /// The stream ended.
    fn finish(self: Box<Self>) -> Result<Response, LlmError>;
}

/// Merges a request's `extra` into a body: objects are merged, the list `tools` is appended to, anything else
/// replaces.
pub(crate) fn merge_extra(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (key, value) in extra {
        match (body.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge_extra(into, from),
            (Some(Value::Array(into)), Value::Array(from)) if key == "tools" => {
                into.extend(from.iter().cloned());
            }
            _ => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}
