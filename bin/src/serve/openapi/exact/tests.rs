use super::*;

#[test]
fn counts_can_be_as_large_as_what_they_are_read_into() {
    let mut document = json!({ "a": { "type": "integer", "format": "int64", "minimum": 0 },
        "b": [{ "type": "integer", "format": "int32", "minimum": 1, "maximum": 500 }, { "format": "int64" }] });
    counts(&mut document);
    let expected = json!({ "a": { "type": "integer", "minimum": 0, "maximum": u64::MAX },
        "b": [{ "type": "integer", "minimum": 1, "maximum": 500 }, { "format": "int64" }] });
    assert_eq!(document, expected);
}

#[test]
fn each_choice_names_one_field_and_takes_the_others_only_as_null() {
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
