use super::*;

#[test]
fn maximum_of_a_count_is_that_of_its_type() {
    let mut document = json!({ "a": { "type": "integer", "format": "int64", "minimum": 0 },
        "b": [{ "type": "integer", "format": "int32", "minimum": 1, "maximum": 500 }, { "format": "int64" }] });
    counts(&mut document);
    let expected = json!({ "a": { "type": "integer", "minimum": 0, "maximum": u64::MAX },
        "b": [{ "type": "integer", "minimum": 1, "maximum": 500 }, { "format": "int64" }] });
    assert_eq!(document, expected);
}

#[test]
fn each_choice_requires_one_field_and_nulls_the_others() {
    let properties =
        json!({ "a": { "type": ["string", "null"] }, "b": { "oneOf": [{ "$ref": "#/x" }, { "type": "null" }] } });
    let choice = one_of(&properties, &["a", "b"], false);
    assert_eq!(
        choice["oneOf"][0],
        json!({ "properties": { "a": { "type": ["string"] }, "b": { "type": "null" } }, "required": ["a"] })
    );
    assert_eq!(choice["oneOf"][1]["properties"]["b"], json!({ "oneOf": [{ "$ref": "#/x" }] }));
    assert_eq!(choice["oneOf"][2], json!({ "properties": { "a": { "type": "null" }, "b": { "type": "null" } } }));
    assert_eq!(one_of(&properties, &["a", "b"], true)["oneOf"].as_array().map(Vec::len), Some(2));
}

/// Schemas of objects that say nothing of their fields, by their places.
fn bare_objects(place: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let of = fields.get("type");
            let is_object =
                of.is_some_and(|of| *of == "object" || of.as_array().is_some_and(|of| of.contains(&json!("object"))));
            let allows =
                |key| fields.get(key).is_some_and(|said: &Value| said.as_object().is_none_or(|said| !said.is_empty()));
            if is_object && !allows("properties") && !allows("additionalProperties") {
                found.push(place.to_owned());
            }
            fields.iter().for_each(|(name, inner)| bare_objects(&format!("{place}/{name}"), inner, found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, inner)| bare_objects(&format!("{place}/{i}"), inner, found));
        }
        _ => {}
    }
}

#[test]
fn every_object_lists_its_fields() {
    let mut document = serde_json::to_value(super::super::api()).unwrap_or_default();
    let mut found = Vec::new();
    bare_objects("", &document, &mut found);
    assert!(!found.is_empty(), "the handlers' types leave it to this module");
    refine(&mut document);
    found.clear();
    bare_objects("", &document, &mut found);
    assert_eq!(found, Vec::<String>::new());
}
