use expect_test::expect;

use super::*;

fn shown(schema: &Value) -> String {
    match rewritten(schema, false) {
        Ok(schema) => schema.to_string(),
        Err(why) => why,
    }
}

#[test]
fn old_forms_are_written_in_the_present_dialect() {
    let mut seen = String::new();
    for schema in [
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "number", "minimum": 1, "exclusiveMinimum": true }),
        json!({ "maximum": 3, "exclusiveMaximum": false, "exclusiveMinimum": true }),
        json!({ "type": "array", "items": [{ "type": "string" }], "additionalItems": false }),
        json!({ "items": [{}] }),
        json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "properties": { "x": { "type": ["array", "null"] } } }),
        json!({ "type": "string", "description": null, "default": null }),
    ] {
        seen += &format!("{}\n", shown(&schema));
    }
    expect![[r#"
        {"type":"number","exclusiveMinimum":1}
        {"maximum":3}
        {"type":"array","items":false,"prefixItems":[{"type":"string"}]}
        {"prefixItems":[{}]}
        {"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"x":{"type":["array","null"],"items":{}}}}
        {"type":"string","default":null}
    "#]]
    .assert_eq(&seen);
}

#[test]
fn what_is_no_schema_is_named() {
    let mut seen = String::new();
    for schema in [
        json!({ "properties": [] }),
        json!({ "properties": { "x": { "type": ["strng"] } } }),
        json!({ "properties": { "default": { "type": "strng" } } }),
        json!({ "properties": { "x": { "$ref": "#/x" } } }),
        json!({ "properties": { "x": { "pattern": "(a" } } }),
        json!({ "anyOf": [{ "enum": [] }] }),
        json!({ "properties": { "x": { "required": true } } }),
        json!({ "additionalProperties": "no" }),
    ] {
        seen += &format!("{}\n", shown(&schema));
    }
    expect![[r#"
        `properties` in its schema is not valid
        `strng` in its schema is no type
        `strng` in its schema is no type
        its schema refers to `#/x`, which is not in it
        `pattern` in its schema is not valid
        `enum` in its schema is not valid
        `required` in its schema is not valid
        `"no"` in its schema is no schema
    "#]]
    .assert_eq(&seen);
}

#[test]
fn unknown_keywords_and_data_are_not_read_as_schemas() {
    for schema in [
        json!({ "x-ui": { "type": "slider" }, "properties": { "x": { "x-ui": { "$ref": "ui.json" } } } }),
        json!({ "properties": { "x": { "enum": ["type"], "const": { "type": "slider" }, "default": { "items": [] } } } }),
        json!({ "dependencies": { "a": ["b"], "c": { "required": ["d"] } } }),
    ] {
        assert_eq!(rewritten(&schema, false), Ok(schema));
    }
}

#[test]
fn reference_to_the_own_id_stays_within_the_schema() {
    let schema = json!({ "$id": "https://a.b/c", "properties": {
        "x": { "$ref": "https://a.b/c" }, "y": { "$ref": "https://a.b/c#/properties/x" } } });
    let read = rewritten(&schema, false).unwrap();
    assert_eq!(read["properties"], json!({ "x": { "$ref": "#" }, "y": { "$ref": "#/properties/x" } }));
    assert!(rewritten(&json!({ "$id": "https://a.b/c", "not": { "$ref": "https://a.b/cd" } }), false).is_err());
}

#[test]
fn reference_to_an_id_within_the_schema_is_its_place() {
    let mut seen = String::new();
    for schema in [
        json!({ "$id": "https://a.b/c/tool.json", "properties": { "x": { "$ref": "item.json" }, "y": { "$ref": "/c/item.json#/$defs/n" } },
            "$defs": { "it": { "$id": "item.json", "properties": { "n": { "$ref": "#/$defs/n" } }, "$defs": { "n": { "type": "number" } } } } }),
        json!({ "properties": { "x": { "$ref": "urn:item" } }, "$defs": { "a/b": { "$id": "urn:item", "items": { "$ref": "#" } } } }),
        json!({ "properties": { "x": { "$ref": "#item" }, "y": { "$ref": "#old" } },
            "definitions": { "i": { "$anchor": "item", "type": "string" }, "o": { "$id": "#old", "type": "number" } } }),
        json!({ "properties": { "$id": { "type": "string" }, "x": { "$ref": "item.json" } }, "const": { "$id": "item.json" } }),
    ] {
        seen += &format!("{}\n", shown(&schema));
    }
    expect![[r##"
        {"$id":"https://a.b/c/tool.json","properties":{"x":{"$ref":"#/$defs/it"},"y":{"$ref":"#/$defs/it/$defs/n"}},"$defs":{"it":{"properties":{"n":{"$ref":"#/$defs/it/$defs/n"}},"$defs":{"n":{"type":"number"}}}}}
        {"properties":{"x":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":{"items":{"$ref":"#/$defs/a~1b"}}}}
        {"properties":{"x":{"$ref":"#/definitions/i"},"y":{"$ref":"#/definitions/o"}},"definitions":{"i":{"$anchor":"item","type":"string"},"o":{"type":"number"}}}
        its schema refers to `item.json`, which is not in it
    "##]].assert_eq(&seen);
}

#[test]
fn pattern_of_any_dialect_is_taken() {
    for pattern in ["", "^[\\w-.]+$", "a{2,}?", "(?=a)(?<n>b)\\k<n>", "[^]]", "[(*]", "a*?", "\\(", "a|b"] {
        assert!(is_pattern(pattern), "{pattern}");
    }
    for pattern in ["(", ")", "[a", "*a", "a|*", "a**", "a\\"] {
        assert!(!is_pattern(pattern), "{pattern}");
    }
}
