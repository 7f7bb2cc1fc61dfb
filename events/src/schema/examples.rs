//! The values under `default` and `examples` in a schema.

use serde_json::Value;

use super::keywords::visit;

/// Returns whether a schema may have any of them.
pub(super) fn has_any(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(has_any),
        Value::Object(entries) => {
            entries.contains_key("default") || entries.contains_key("examples") || entries.values().any(has_any)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Calls `found` with each of them: the pointer to the schema that it is in, its own pointer, and the value.
pub(super) fn each(schema: &Value, found: &mut impl FnMut(&str, &str, &Value)) {
    visit(schema, &mut String::new(), &mut |at, part| {
        if let Some(value) = part.get("default") {
            found(at, &format!("{at}/default"), value);
        }
        for (i, value) in part.get("examples").and_then(Value::as_array).into_iter().flatten().enumerate() {
            found(at, &format!("{at}/examples/{i}"), value);
        }
    });
}
