//! The values under `default` and `examples` in a schema.

use serde_json::Value;

use super::keywords::children;

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
    children(schema, |keyword, within, _, inner| {
        at.push('/');
        at.push_str(keyword);
        if let Some(within) = within {
            at.push('/');
            at.push_str(&within.replace('~', "~0").replace('/', "~1"));
        }
        visit(inner, at, found);
        at.truncate(n_bytes);
    });
}
