//! Schemas of arguments: made from Rust types, compiled once, asked at every call.

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::schema::{self, Validator};
use schemars::JsonSchema;
use serde_json::{Value, json};

/// The schema of a Rust type as a model should see it: draft 2020-12, everything in one place, without the titles
/// that only repeat type names. Doc comments become descriptions.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = schema::schema_of::<T>();
    match schema.get("type").and_then(Value::as_str) {
        // `()` and types without fields take no arguments, which a model expresses as an empty object.
        Some("null") => return json!({ "type": "object", "properties": {} }),
        // Some providers insist on the word.
        Some("object") if schema.get("properties").is_none() => schema["properties"] = json!({}),
        _ => {}
    }
    schema
}

/// A schema that cannot be used for arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Arguments are always an object.
    #[error("the schema must have `\"type\": \"object\"` at its top, it has {found}")]
    NotAnObject {
        /// The type that was found.
        found: String,
    },
    /// It would weigh on every request.
    #[error("the schema has {bytes} bytes, the limit is {bytes_max}")]
    TooLarge {
        /// Its length as JSON.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// It is no JSON Schema, or it refers to something outside itself.
    #[error("the schema is not a self-contained JSON Schema: {reason}")]
    Invalid {
        /// The error of the compiler.
        reason: String,
    },
}

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Arguments(Validator);

impl Arguments {
    /// Compiles. References to other documents are never fetched; patterns run in linear time, because schemas of
    /// foreign tool servers are not to be trusted.
    pub(crate) fn compile(schema: &Value) -> Result<Self, SchemaError> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            let found = match schema.get("type") {
                Some(found) => found.to_string(),
                None => "no `type`".to_owned(),
            };
            return Err(SchemaError::NotAnObject { found });
        }
        let bytes = schema.to_string().len();
        if bytes > schema::BYTES_MAX {
            return Err(SchemaError::TooLarge { bytes, bytes_max: schema::BYTES_MAX });
        }
        match schema::compile(schema) {
            Ok(validator) => Ok(Self(validator)),
            Err(why) => Err(SchemaError::Invalid { reason: why.message }),
        }
    }

    /// Whether the arguments fit; the error names each fault with its place, for the model to mend.
    pub(crate) fn check(&self, arguments: &Value) -> Result<(), ExecutionError> {
        let Err(faults) = schema::check(&self.0, arguments, "arguments") else {
            return Ok(());
        };
        if arguments.is_null() {
            return Err(ExecutionError::new(
                ErrorKind::InvalidArguments,
                "the arguments are missing, were cut off or are not JSON; send one JSON object",
            ));
        }
        Err(ExecutionError::new(
            ErrorKind::InvalidArguments,
            format!("the arguments do not match the tool's schema: {faults}"),
        ))
    }
}

#[cfg(test)]
mod tests;
