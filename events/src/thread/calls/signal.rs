//! A wait for a signal.

use bincode::{Decode, Encode};
use serde_json::Value;

use crate::codec::OrderedMap;
use crate::event::SignalAwaited;
use crate::ids::{CallId, Time};
use crate::json::Json;

/// A node that waits for a signal.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct SignalRun {
    /// Its id in the thread.
    pub id: CallId,
    /// The name of the signal.
    pub name: String,
    /// Fields of the payload, and the values that they must have.
    pub fields: OrderedMap<Json>,
    /// The JSON Schema of the payload; any value when absent.
    pub schema: Option<Json>,
    /// When it began.
    pub requested_at: Time,
    /// Until when it waits.
    pub deadline: Option<Time>,
}

impl SignalRun {
    pub(in crate::thread) fn new(id: CallId, at: Time, e: &SignalAwaited) -> Self {
        let SignalAwaited { node_id: _, name, fields, schema, deadline } = e.clone();
        Self { id, name, fields, schema, requested_at: at, deadline }
    }

    /// Whether this is the signal that is waited for.
    pub fn matches(&self, name: &str, payload: &Value) -> bool {
        self.name == name && self.fields.iter().all(|(field, value)| payload.get(field) == Some(&*value.0))
    }
}
