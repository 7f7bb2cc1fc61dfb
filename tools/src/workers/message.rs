//! The messages between callers and workers, in JSON. docs/guides/workers.md describes them for those who write a worker.

use rethread_events::fault::ErrorKind;
use rethread_events::ids::ThreadId;
use rethread_events::labels::Labels;
use rethread_events::message::Part;
use rethread_events::tool::Recovery;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the protocol.
pub(super) const PROTOCOL: u32 = 1;

/// What a caller publishes for the workers of a pool. What they answer goes to its reply subject, as requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) protocol: u32,
    pub(super) tool: String,
    pub(super) arguments: Value,
    /// The same for every attempt at this call.
    pub(super) key: String,
    pub(super) attempt: u32,
    pub(super) recovery: Recovery,
    pub(super) timeout_ms: u64,
    pub(super) heartbeat_ms: u64,
    pub(super) lost_after_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) thread: Option<ThreadId>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(super) labels: Labels,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<String>,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FromWorker {
    /// It would run the call. It does not begin before it is told to.
    Offer {
        /// Its name, for people.
        worker: String,
    },
    /// It has no room: another one is to be asked.
    Busy,
    /// It works.
    Heartbeat {
        /// How far it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<String>,
    },
    /// The tool has run.
    Completed {
        /// The text for the model; the JSON of `value` unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
        /// Pictures and documents.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part>,
    },
    /// The tool has failed.
    Failed {
        message: String,
        /// `failed` unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<ErrorKind>,
        /// Whether another attempt may help.
        #[serde(default)]
        retryable: bool,
        /// Whether nothing was changed.
        #[serde(default)]
        not_started: bool,
    },
}

/// What a caller answers to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToWorker {
    /// To an offer: it runs the call.
    Begin,
    /// To a heartbeat: it goes on.
    Continue,
    /// To an offer: it does not run the call. To a heartbeat: it stops, and nobody waits for a result.
    Cancel,
    /// To a result: it is taken.
    Received,
    /// To what is not a message of a worker.
    Invalid {
        /// What is wrong with it.
        message: String,
    },
}

pub(super) fn encode(message: &impl Serialize) -> bytes::Bytes {
    // Numbers, texts and maps with texts as keys: nothing that JSON cannot have.
    serde_json::to_vec(message).unwrap_or_default().into()
}

pub(super) fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
    serde_json::from_slice(payload).map_err(|error| error.to_string())
}
