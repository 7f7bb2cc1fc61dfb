//! A JSON value that can be stored.

use std::fmt;
use std::sync::Arc;

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON value. bincode cannot decode `serde_json::Value`, so it is stored as JSON text; object keys keep the
/// order they came in. A clone shares the value: threads that fork by the thousand inherit their variables for nothing.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Json(pub Arc<Value>);

impl Json {
    /// JSON's `null`.
    pub fn null() -> Self {
        Self::default()
    }

    /// The value itself; copied only where it is shared.
    pub fn into_value(self) -> Value {
        Arc::unwrap_or_clone(self.0)
    }

    /// The deepest nesting of lists and objects. serde_json reads 128 levels; the rest is for what wraps an exported
    /// event or a state.
    pub const DEPTH_MAX: usize = 100;

    /// Whether the value is nested deeper than [`Self::DEPTH_MAX`]: it cannot be stored.
    pub fn is_too_deep(&self) -> bool {
        Self::is_nested_too_deep(&self.0)
    }

    pub(crate) fn is_nested_too_deep(value: &Value) -> bool {
        fn deeper_than(value: &Value, levels: usize) -> bool {
            let next = |inner: &Value| deeper_than(inner, levels - 1);
            match value {
                Value::Array(items) => levels == 0 || items.iter().any(next),
                Value::Object(entries) => levels == 0 || entries.values().any(next),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
            }
        }
        deeper_than(value, Self::DEPTH_MAX)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self(Arc::new(value.into()))
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self(Arc::new(value.into()))
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(Arc::new(value))
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self(Arc::new(Value::from(text)))
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self(Arc::new(Value::from(text)))
    }
}

impl Encode for Json {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        if self.is_too_deep() {
            return Err(EncodeError::OtherString(format!("nested deeper than {} levels", Self::DEPTH_MAX)));
        }
        // Not by `Display`, which writes each piece by way of the formatter.
        serde_json::to_string(&*self.0).map_err(|e| EncodeError::OtherString(e.to_string()))?.encode(encoder)
    }
}

impl<C> Decode<C> for Json {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let text = String::decode(decoder)?;
        serde_json::from_str(&text)
            .map(|value| Self(Arc::new(value)))
            .map_err(|e| DecodeError::OtherString(format!("not JSON: {e}")))
    }
}

impl<'de, C> bincode::BorrowDecode<'de, C> for Json {
    fn borrow_decode<D: bincode::de::BorrowDecoder<'de, Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Self::decode(decoder)
    }
}
