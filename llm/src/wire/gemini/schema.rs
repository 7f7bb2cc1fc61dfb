//! JSON Schemas as Gemini reads them.

use serde_json::{Map, Value};

/// A JSON Schema with the type names of JSON Schema: Google's own dialect writes them in capitals.
pub(super) fn lower(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| {
                    let value = match (key.as_str(), value) {
                        ("type", Value::String(name)) => name.to_ascii_lowercase().into(),
                        _ => lower(value),
                    };
                    (key.clone(), value)
                })
                .collect(),
        ),
        Value::Array(list) => list.iter().map(lower).collect(),
        other => other.clone(),
    }
}

/// The keywords of the older dialect; models before 2.5 reject all others.
const KNOWN: [&str; 19] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "items",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "propertyOrdering",
    "anyOf",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "default",
];

/// A schema in the older dialect. What it does not know is left out.
pub(super) fn dialect(schema: &Value) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let mut out = Map::new();
    for (key, value) in map {
        let value = match key.as_str() {
            "properties" => match value {
                Value::Object(inner) => {
                    inner.iter().map(|(name, schema)| (name.clone(), dialect(schema))).collect::<Map<_, _>>().into()
                }
                other => other.clone(),
            },
            "items" => dialect(value),
            "anyOf" => value.as_array().map_or(Value::Null, |list| list.iter().map(dialect).collect()),
            "type" => match value {
                Value::String(name) => name.to_ascii_uppercase().into(),
                // `["string", "null"]` is said with `nullable`.
                Value::Array(names) => {
                    if names.iter().any(|name| name == "null") {
                        out.insert("nullable".into(), true.into());
                    }
                    let name = names.iter().filter_map(Value::as_str).find(|name| *name != "null");
                    name.unwrap_or("string").to_ascii_uppercase().into()
                }
                other => other.clone(),
            },
            key if KNOWN.contains(&key) => value.clone(),
            _ => continue,
        };
        out.insert(key.clone(), value);
    }
    Value::Object(out)
}
