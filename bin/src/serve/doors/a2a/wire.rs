//! The objects of the protocol, as JSON of Protocol Buffers. Fields that are not known are ignored, as the protocol asks for.

use std::borrow::Cow;
use std::sync::Arc;

use rethread::Time;
use rethread_events::message::{Annotation, Media};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::error::Error;
use crate::answer::{Made, Placed};

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum TaskState {
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
}

impl TaskState {
    /// Whether nothing follows.
    pub(super) fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }
}

/// A part of a message or an artifact that the server sends.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Value>,
    /// The bytes of a file, base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw: Option<Arc<str>>,
    /// The address of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) media_type: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Value>,
}

impl Part {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    pub(super) fn data(data: Value) -> Self {
        Self { data: Some(data), media_type: Some(Cow::Borrowed("application/json")), ..Self::default() }
    }

    /// A file that a model made; `None` if neither its bytes nor its address are known.
    pub(super) fn file(made: &Made<'_>, stem: &str) -> Option<Self> {
        let Media { data, url, .. } = made.media;
        if data.is_none() && url.is_none() {
            return None;
        }
        Some(Self {
            raw: data.clone(),
            url: url.clone().filter(|_| data.is_none()),
            filename: Some(made.file_name(stem)),
            media_type: Some(made.media_type().to_owned().into()),
            ..Self::default()
        })
    }

    /// The part with the sources of its text as metadata, if there are any.
    pub(super) fn with_sources(self, sources: &[Placed<'_>]) -> Self {
        let source = |placed: &Placed<'_>| {
            let Placed { annotation, start, end } = *placed;
            let Annotation { kind, url, document, title, quote, .. } = annotation;
            let mut source = json!({ "kind": kind, "start": start, "end": end });
            for (name, value) in [("url", url), ("document", document), ("title", title), ("quote", quote)] {
                if let Some(value) = value {
                    source[name] = json!(value);
                }
            }
            source
        };
        let sources: Vec<_> = sources.iter().map(source).collect();
        let metadata = (!sources.is_empty()).then(|| json!({ "sources": sources }));
        Self { metadata, ..self }
    }
}

/// A message that the server sends.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    pub(super) message_id: String,
    pub(super) context_id: String,
    pub(super) task_id: String,
    pub(super) role: &'static str,
    pub(super) parts: Vec<Part>,
}

/// The status of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Status {
    pub(super) state: TaskState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Message>,
    pub(super) timestamp: String,
}

/// A result of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Artifact {
    pub(super) artifact_id: &'static str,
    pub(super) name: &'static str,
    pub(super) parts: Vec<Part>,
}

/// The time as the protocol writes it, with milliseconds.
pub(super) fn timestamp(time: Time) -> String {
    let text = time.to_string();
    // The log has microseconds.
    match text.strip_suffix('Z').and_then(|text| text.split_once('.')) {
        Some((seconds, fraction)) => format!("{seconds}.{}Z", fraction.get(..3).unwrap_or(fraction)),
        None => text,
    }
}

/// The forms of an answer that a client accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Modes {
    pub(super) text: bool,
    pub(super) json: bool,
    /// The media types of files, such as `image/png`, `image/*` or `*/*`; any if absent.
    pub(super) files: Option<Vec<String>>,
}

impl Modes {
    pub(super) const ALL: Self = Self { text: true, json: true, files: None };

    /// Whether a file of this media type is accepted.
    pub(super) fn accepts(&self, media_type: &str) -> bool {
        let fits = |mode: &String| match mode.strip_suffix("/*") {
            Some("*") => true,
            Some(main) => media_type.split('/').next().is_some_and(|of| of.eq_ignore_ascii_case(main)),
            None => mode.eq_ignore_ascii_case(media_type),
        };
        self.files.as_ref().is_none_or(|files| files.iter().any(fits))
    }
}

/// `SendMessageRequest`.
#[derive(Deserialize)]
pub(super) struct SendMessage {
    #[serde(default)]
    pub(super) tenant: Option<String>,
    pub(super) message: Value,
    #[serde(default)]
    pub(super) configuration: Option<Configuration>,
}

/// `SendMessageConfiguration`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Configuration {
    pub(super) accepted_output_modes: Option<Vec<String>>,
    pub(super) task_push_notification_config: Option<Value>,
    #[serde(deserialize_with = "whole")]
    pub(super) history_length: Option<i64>,
    #[serde(deserialize_with = "flag")]
    pub(super) return_immediately: Option<bool>,
}

/// `Message`, as a client sends it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClientMessage {
    #[serde(default)]
    pub(super) message_id: Option<String>,
    #[serde(default)]
    pub(super) context_id: Option<String>,
    #[serde(default)]
    pub(super) task_id: Option<String>,
    #[serde(default)]
    pub(super) role: Value,
    #[serde(default)]
    pub(super) parts: Option<Vec<ClientPart>>,
    #[serde(default)]
    pub(super) metadata: Option<Map<String, Value>>,
}

/// `Part`, as a client sends it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClientPart {
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) raw: Option<String>,
    #[serde(default)]
    pub(super) url: Option<String>,
    /// Null is a value.
    #[serde(default, deserialize_with = "present")]
    pub(super) data: Option<Value>,
    #[serde(default)]
    pub(super) filename: Option<String>,
    #[serde(default)]
    pub(super) media_type: Option<String>,
}

/// The parameters of a request about one task: `GetTaskRequest`, `CancelTaskRequest`, `SubscribeToTaskRequest`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfTask {
    #[serde(default)]
    pub(super) tenant: Option<String>,
    pub(super) id: String,
    #[serde(default, deserialize_with = "whole")]
    pub(super) history_length: Option<i64>,
}

/// `ListTasksRequest`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListTasks {
    pub(super) tenant: Option<String>,
    pub(super) context_id: Option<String>,
    #[serde(deserialize_with = "state")]
    pub(super) status: Option<TaskState>,
    #[serde(deserialize_with = "whole")]
    pub(super) page_size: Option<i64>,
    pub(super) page_token: Option<String>,
    #[serde(deserialize_with = "whole")]
    pub(super) history_length: Option<i64>,
    pub(super) status_timestamp_after: Option<String>,
    #[serde(deserialize_with = "flag")]
    pub(super) include_artifacts: Option<bool>,
}

/// Reads the parameters of a method.
pub(super) fn params<T: DeserializeOwned>(params: Value) -> Result<T, Error> {
    serde_json::from_value(params).map_err(|error| Error::parameter("params", error))
}

/// Returns a text, unless it is empty, which says nothing in Protocol Buffers.
pub(super) fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Refuses a tenant: the cards name none.
pub(super) fn check_tenant(tenant: Option<String>) -> Result<(), Error> {
    match given(tenant) {
        None => Ok(()),
        Some(_) => Err(Error::parameter("tenant", "the agent has no tenants: leave it out")),
    }
}

/// Reads `historyLength`.
pub(super) fn history_length(given: Option<i64>) -> Result<Option<usize>, Error> {
    let length = given.map(usize::try_from).transpose();
    length.map_err(|_| Error::parameter("historyLength", "expected 0 or more"))
}

/// A number, which may be written as a text.
fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    let whole = match Option::<Value>::deserialize(from)? {
        None => return Ok(None),
        Some(Value::String(text)) => text.parse().ok(),
        Some(Value::Number(number)) => number.as_i64(),
        Some(_) => None,
    };
    let whole = whole.filter(|whole| i32::try_from(*whole).is_ok());
    whole.map(Some).ok_or_else(|| D::Error::custom("expected a whole number of 32 bits"))
}

/// A truth value, which a query writes as a text.
fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    match Option::<Value>::deserialize(from)? {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(flag)),
        Some(Value::String(text)) if text == "true" || text == "false" => Ok(Some(text == "true")),
        Some(_) => Err(D::Error::custom("expected `true` or `false`")),
    }
}

/// The name of a state; no state where it is not specified.
fn state<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TaskState>, D::Error> {
    let Some(value) = Option::<Value>::deserialize(from)? else { return Ok(None) };
    if value == "TASK_STATE_UNSPECIFIED" || value == "" || value == 0 {
        return Ok(None);
    }
    TaskState::deserialize(value).map(Some).map_err(D::Error::custom)
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests;
