//! Schemas of arguments: made from Rust types, compiled once, asked at every call.

use jsonschema::Validator;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// The bytes of a schema's JSON. A schema travels with every request to the model.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// The schema of a Rust type as a model should see it: draft 2020-12, everything in one place, without the titles
/// that only repeat type names. Doc comments become descriptions.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.with_transform(WithoutTitles).into_generator().into_root_schema_for::<T>();
    // `()` and types without fields take no arguments, which a model expresses as an empty object.
    let no_arguments = schema.get("type").and_then(Value::as_str) == Some("null");
    if no_arguments {
        return json!({ "type": "object", "properties": {} });
    }
    if schema.get("type").and_then(Value::as_str) == Some("object") {
        // Some providers insist on the word.
        schema.ensure_object().entry("properties").or_insert_with(|| json!({}));
    }
    schema.to_value()
}

#[derive(Clone)]
struct WithoutTitles;

impl Transform for WithoutTitles {
    fn transform(&mut self, schema: &mut Schema) {
        schema.remove("title");
        transform_subschemas(self, schema);
    }
}

/// A schema that cannot be used for arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Arguments are always an object.
    #[error("the schema must have `\"type\": \"object\"` at its top, it has {found}")]
    NotAnObject {
        /// What was found.
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
        /// What the compiler found.
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
        if bytes > SCHEMA_BYTES_MAX {
            return Err(SchemaError::TooLarge { bytes, bytes_max: SCHEMA_BYTES_MAX });
        }
        match schema::compile(schema) {
            Ok(validator) => Ok(Self(validator)),
            Err(reason) => Err(SchemaError::Invalid { reason }),
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
            format!("the arguments do not fit the tool's schema: {faults}"),
        ))
    }
}

#[cfg(test)]
mod tests;
