//! Configuration of a node that waits for a signal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::OrderedMap;
use crate::json::Json;

/// The longest name of a signal and of a field that it is found by, in bytes.
pub const SIGNAL_NAME_BYTES_MAX: usize = 64;
/// The most fields that a signal is found by.
pub const SIGNAL_FIELDS_MAX: usize = 4;

/// A node that waits for a signal: a named event from outside. Its output is what the signal carries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalNode {
    /// The name of the signal: a-z, A-Z, 0-9, `.`, `_` and `-`.
    pub name: String,
    /// Fields of the payload, and the values that they must have; a text that is exactly one `{{expression}}` has the
    /// expression's type.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty", rename = "where")]
    pub fields: OrderedMap<Json>,
    /// The JSON Schema of the payload; any value when absent. A signal with another payload is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// How long it waits; without limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
}

impl SignalNode {
    /// Waits for any signal of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// Whether this can be the name of a signal, or of a field that one is found by.
pub fn is_signal_name(name: &str) -> bool {
    let is_fit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=SIGNAL_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_fit)
}
