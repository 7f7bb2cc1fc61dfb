//! A JSON value that can be stored.

use std::fmt;

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON value. bincode cannot decode `serde_json::Value`, so it is stored as JSON text; object keys keep the
/// order they came in.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Json(pub Value);

impl Json {
    /// JSON's `null`.
    pub const NULL: Self = Self(Value::Null);
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self(Value::from(text))
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self(Value::from(text))
    }
}

impl Encode for Json {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.0.to_string().encode(encoder)
    }
}

impl<C> Decode<C> for Json {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let text = String::decode(decoder)?;
        serde_json::from_str(&text).map(Self).map_err(|e| DecodeError::OtherString(format!("not JSON: {e}")))
    }
}

impl<'de, C> bincode::BorrowDecode<'de, C> for Json {
    fn borrow_decode<D: bincode::de::BorrowDecoder<'de, Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Self::decode(decoder)
    }
}
