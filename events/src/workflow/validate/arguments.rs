//! Checks whether the parameters of a `tool` node fit the schema of the tool, and the inputs of a `sub_workflow` node
//! that of the workflow, as far as their values are known before a run.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::codec::OrderedMap;
use crate::expression::{has_expression, nearest};
use crate::json::Json;
use crate::schema::Mismatch;
use crate::workflow::fault::Fault;

/// The most faults of one node that are reported.
const FAULTS_MAX: usize = 20;

/// Checks the parameters of a node, which are at `path`, for `callee`. A parameter with an expression in it can have any
/// value; its name, and that it is there, are checked all the same.
pub(super) fn check(path: &str, callee: &str, parameters: &OrderedMap<Json>, schema: &Json, faults: &mut Vec<Fault>) {
    // A schema that cannot be compiled is one of a tool that cannot be registered, or a fault of its own.
    let Ok(validator) = crate::schema::compile(&schema.0) else { return };
    let parameters: Value = parameters.iter().map(|(name, value)| (name.clone(), value.0.as_ref().clone())).collect();
    let found = validator.errors(&parameters, |error| faults_of(error, &parameters, schema));
    faults.extend(found.into_iter().flat_map(|Faults(found)| found).take(FAULTS_MAX).map(|(place, message)| {
        Fault::new(format!("{path}{}", place.replace('/', ".")), format!("{callee}: {message}"))
    }));
}

/// Places and faults.
struct Faults(Vec<(String, String)>);

impl From<Mismatch> for Faults {
    fn from(found: Mismatch) -> Self {
        Self(vec![(found.pointer, found.message)])
    }
}

fn faults_of(error: &ValidationError<'_>, parameters: &Value, schema: &Json) -> Faults {
    let place = error.instance_path().as_str().to_owned();
    let at = parameters.pointer(&place);
    Faults(match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = schema.0["properties"].as_object().filter(|_| place.is_empty());
            let hint = |name: &str| {
                let known = known.into_iter().flatten().map(|(name, _)| name.as_str());
                nearest(name, known).map(|known| format!(" (did you mean `{known}`?)")).unwrap_or_default()
            };
            unexpected
                .iter()
                .map(|name| (format!("{place}/{name}"), format!("there is no parameter `{name}`{}", hint(name))))
                .collect()
        }
        ValidationErrorKind::Required { .. } => vec![(place, error.to_string())],
        _ if at.is_some_and(is_open) => Vec::new(),
        _ => vec![(place, error.to_string())],
    })
}

/// Whether a value is known only in a run.
fn is_open(value: &Value) -> bool {
    match value {
        Value::String(text) => has_expression(text),
        Value::Array(items) => items.iter().any(is_open),
        Value::Object(entries) => entries.values().any(is_open),
        _ => false,
    }
}
