//! Constraints that the handlers' types do not express: how large a count can be, and which fields exclude each other.

use rethread_events::event::EVENT_TYPES;
use rethread_events::labels::LABELS_MAX;
use serde_json::{Map, Value, json};

/// Bodies with fields of which only one may be given, and whether one must be.
const ONE_OF: [(&str, &[&str], bool); 6] = [
    ("Start", &["workflow", "hash", "definition"], true),
    ("NewRun", &["workflow", "hash", "definition"], false),
    ("Fork", &["seq", "checkpoint", "at"], false),
    ("Fork", &["workflow", "hash", "definition"], false),
    ("Rerun", &["workflow", "hash", "definition"], false),
    ("Migrate", &["workflow", "hash", "definition"], true),
];

/// The media types of files, in requests and responses.
const FILES: [&str; 4] = ["application/octet-stream", "application/x-ndjson", "application/x-tar", "application/yaml"];

/// How a question is named: by its id, or by its seq in the thread.
const QUESTION: &str = "^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-)?[0-9]{1,18}$";

/// The key and the value of a label. The value is shorter than a label allows, since that counts bytes.
const LABEL_KEY: &str = "^[A-Za-z0-9._/-]{1,64}$";
const LABEL_VALUE: &str = r"^[^,\x00-\x1f\x7f]{1,64}$";

/// Makes the document say it.
pub(super) fn refine(document: &mut Value) {
    counts(document);
    free_objects(document);
    let operations = document["paths"].as_object_mut().into_iter().flatten();
    let operations = operations.flat_map(|(_, item)| item.as_object_mut().into_iter().flatten());
    for parameter in operations.flat_map(|(_, operation)| operation["parameters"].as_array_mut().into_iter().flatten())
    {
        names_of_events(parameter);
    }
    bytes(&mut document["paths"]);
    document["components"]["schemas"]["Fork"]["properties"]["answers"]["propertyNames"] =
        json!({ "pattern": QUESTION });
    let problem = &mut document["components"]["schemas"]["Thread"]["properties"]["problem"];
    *problem = json!({ "description": problem["description"],
        "oneOf": [{ "type": "null" }, { "$ref": "#/components/schemas/Problem" }] });
    for with_labels in ["Start", "Gc", "NewSignal", "Schedule"] {
        let labels = &mut document["components"]["schemas"][with_labels]["properties"]["labels"];
        labels["propertyNames"] = json!({ "pattern": LABEL_KEY });
        labels["additionalProperties"] = json!({ "type": "string", "pattern": LABEL_VALUE });
        labels["maxProperties"] = LABELS_MAX.into();
    }
    for (name, fields, is_needed) in ONE_OF {
        let schema = &mut document["components"]["schemas"][name];
        if schema.get("allOf").is_none() {
            let description = schema["description"].clone();
            *schema = json!({ "description": description, "allOf": [schema.take()] });
        }
        let choice = one_of(&schema["allOf"][0]["properties"], fields, is_needed);
        if let Some(all) = schema["allOf"].as_array_mut() {
            all.push(choice);
        }
    }
}

/// A list of events is one of those that docs/EVENTS.md lists, with commas between them.
fn names_of_events(parameter: &mut Value) {
    if parameter["name"] == "types" {
        let names: Vec<_> = EVENT_TYPES.iter().map(|event_type| event_type.name).collect();
        parameter["schema"] = json!({ "type": "array", "items": { "type": "string", "enum": names } });
        parameter["style"] = json!("form");
        parameter["explode"] = json!(false);
    }
}

/// Whole numbers that are not negative have the limits of what they are read into: `int64` and `int32` would say half.
fn counts(value: &mut Value) {
    if let Value::Object(schema) = value
        && schema.get("minimum").and_then(Value::as_u64).is_some()
        && let Some(maximum) = schema.get("format").and_then(Value::as_str).and_then(largest)
    {
        schema.remove("format");
        schema.entry("maximum").or_insert(maximum.into());
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(counts),
        Value::Array(items) => items.iter_mut().for_each(counts),
        _ => {}
    }
}

/// An object whose fields are not listed may have any: without a word about that, generators of clients take it for one
/// that has none.
fn free_objects(value: &mut Value) {
    if let Value::Object(schema) = value {
        let is_object = match schema.get("type") {
            Some(Value::String(name)) => name == "object",
            Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
            _ => false,
        };
        let says_what = ["properties", "additionalProperties", "patternProperties"];
        if is_object && !says_what.iter().any(|key| schema.contains_key(*key)) {
            schema.insert("additionalProperties".into(), true.into());
        }
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(free_objects),
        Value::Array(items) => items.iter_mut().for_each(free_objects),
        _ => {}
    }
}

/// Files are bytes: as a `Vec<u8>` they would be lists of numbers, and generated clients cannot send a text as a file.
fn bytes(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match FILES.contains(&name.as_str()) && inner.get("schema").is_some() {
                    true => inner["schema"] = json!({ "type": "string", "format": "binary" }),
                    false => bytes(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(bytes),
        _ => {}
    }
}

fn largest(format: &str) -> Option<u64> {
    match format {
        "int64" => Some(u64::MAX),
        "int32" => Some(u32::MAX.into()),
        _ => None,
    }
}

fn one_of(properties: &Value, fields: &[&str], is_needed: bool) -> Value {
    let null = json!({ "type": "null" });
    let only = |chosen: Option<&str>| {
        let of = |field: &&str| {
            let is_chosen = chosen == Some(*field);
            ((*field).to_owned(), if is_chosen { without_null(&properties[*field]) } else { null.clone() })
        };
        let properties: Map<_, _> = fields.iter().map(of).collect();
        let mut schema = json!({ "properties": properties });
        if let Some(chosen) = chosen {
            schema["required"] = json!([chosen]);
        }
        schema
    };
    let mut choices: Vec<_> = fields.iter().map(|field| only(Some(field))).collect();
    if !is_needed {
        choices.push(only(None));
    }
    json!({ "oneOf": choices })
}

/// The same schema without null.
fn without_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|name| name != "null");
    }
    if let Some(choices) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| choice["type"] != "null");
    }
    schema
}

#[cfg(test)]
mod tests;
