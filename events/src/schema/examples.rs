//! The values under `default` and `examples` in a schema.

use serde_json::Value;

/// Keywords whose value is a schema.
const SCHEMA: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

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

/// Calls `found` with each of them: the pointer to the schema that it is in, its own pointer, and the value. `at` is the
/// pointer to `schema`.
pub(super) fn visit(schema: &Value, at: &mut String, found: &mut impl FnMut(&str, &str, &Value)) {
    let Value::Object(keywords) = schema else { return };
    if let Some(value) = keywords.get("default") {
        found(at, &format!("{at}/default"), value);
    }
    for (i, value) in keywords.get("examples").and_then(Value::as_array).into_iter().flatten().enumerate() {
        found(at, &format!("{at}/examples/{i}"), value);
    }
    let n_bytes = at.len();
    for (keyword, value) in keywords {
        at.push('/');
        at.push_str(keyword);
        let keyword = keyword.as_str();
        match value {
            Value::Object(named) if NAMED.contains(&keyword) => {
                let n_bytes = at.len();
                for (name, inner) in named {
                    at.push('/');
                    at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    visit(inner, at, found);
                    at.truncate(n_bytes);
                }
            }
            Value::Array(items) if LIST.contains(&keyword) => {
                let n_bytes = at.len();
                for (i, inner) in items.iter().enumerate() {
                    at.push_str(&format!("/{i}"));
                    visit(inner, at, found);
                    at.truncate(n_bytes);
                }
            }
            inner if SCHEMA.contains(&keyword) => visit(inner, at, found),
            _ => {}
        }
        at.truncate(n_bytes);
    }
}
