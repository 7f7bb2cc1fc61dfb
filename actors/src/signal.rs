//! A signal as it is sent, and what came of it.

use rethread_events::ids::ThreadId;
use rethread_events::json::Json;
use rethread_events::labels::Labels;
use rethread_events::principal::Principal;
use rethread_events::workflow::is_signal_name;
use serde::{Deserialize, Serialize};

use crate::error::SignalError;

/// The longest id of a signal, in bytes.
pub const SIGNAL_ID_BYTES_MAX: usize = 200;
/// How long a signal is kept at most: 30 days.
pub const SIGNAL_KEEP_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1000;

/// A signal to be sent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Signal {
    /// Its name: 1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`.
    pub name: String,
    /// Its id, at most [`SIGNAL_ID_BYTES_MAX`] bytes; one is made when absent. The same name and id again, within two
    /// days, is the same signal.
    pub id: Option<String>,
    /// Its payload.
    pub payload: Json,
    /// How long it is kept if no thread waits for it, in milliseconds, at most [`SIGNAL_KEEP_MS_MAX`]. If absent, it is
    /// refused then.
    pub keep_for_ms: Option<u64>,
    /// Only threads with these labels receive it.
    pub labels: Labels,
    /// The principal, for the events; the embedding program if absent.
    pub by: Option<Principal>,
}

impl Signal {
    /// Creates a signal with this name and payload.
    pub fn new(name: impl Into<String>, payload: impl Into<Json>) -> Self {
        Self { name: name.into(), payload: payload.into(), ..Self::default() }
    }
}

/// The result of sending a signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalSent {
    /// Its id.
    pub id: String,
    /// The threads that received it, by id.
    pub threads: Vec<ThreadId>,
    /// Whether it is kept for a thread that will wait for it.
    pub is_kept: bool,
    /// Whether it was sent before. Then nothing was sent now, and this is the result of the first time.
    pub is_known: bool,
}

pub(crate) fn check(signal: &Signal) -> Result<(), SignalError> {
    let invalid = |what: String| Err(SignalError::Invalid(what));
    if !is_signal_name(&signal.name) {
        return invalid("the name of a signal has 1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`".into());
    }
    let is_id = |id: &String| (1..=SIGNAL_ID_BYTES_MAX).contains(&id.len()) && !id.chars().any(char::is_control);
    if !signal.id.as_ref().is_none_or(is_id) {
        return invalid(format!("the id of a signal has 1 to {SIGNAL_ID_BYTES_MAX} bytes and no control characters"));
    }
    if signal.keep_for_ms.is_some_and(|ms| ms > SIGNAL_KEEP_MS_MAX) {
        return invalid(format!("a signal is kept for at most {SIGNAL_KEEP_MS_MAX} milliseconds"));
    }
    if signal.payload.is_too_deep() {
        return invalid("the payload is nested too deep: at most 100 levels".into());
    }
    Ok(())
}
