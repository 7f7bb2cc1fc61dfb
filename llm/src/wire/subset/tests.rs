use expect_test::expect;
use serde_json::{Value, json};

use super::{ANTHROPIC, OPENAI};

fn both(schema: Value) -> String {
    let said = |schema: Option<Value>| schema.map_or_else(|| "not sent".to_owned(), |schema| schema.to_string());
    format!("{}\n{}", said(OPENAI.of(&schema)), said(ANTHROPIC.of(&schema)))
}

#[test]
fn unsupported_schema_keywords_are_left_out() {
    expect![[r#"
        {"type":"object","properties":{"n":{"type":"integer","minimum":0},"s":{"type":["string","null"],"pattern":"^a"},"l":{"type":"array","maxItems":3,"items":{"anyOf":[{"const":"a"},{"enum":[1,2]},{"type":"string","format":"date"}]}}},"required":["n","s","l"],"additionalProperties":false}
        {"type":"object","properties":{"n":{"type":"integer"},"s":{"type":["string","null"]},"l":{"type":"array","items":{"anyOf":[{"const":"a"},{"enum":[1,2]},{"type":"string","format":"date"}]}}},"required":["n","s","l"],"additionalProperties":false}"#]].assert_eq(&both(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["n", "s", "l"],
        "properties": {
            "n": { "type": "integer", "minimum": 0, "format": "uint8", "default": 1 },
            "s": { "type": ["string", "null"], "minLength": 1, "pattern": "^a", "examples": ["a"] },
            "l": { "type": "array", "maxItems": 3, "uniqueItems": true, "items": { "oneOf": [
                { "const": "a" }, { "enum": [1, 2] }, { "type": "string", "format": "date" },
            ] } },
        },
    })));
}

#[test]
fn optional_properties_are_only_in_one_subset() {
    expect![[r#"
        not sent
        {"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}"#]]
    .assert_eq(&both(json!({ "type": "object", "properties": { "a": { "type": "string" } } })));
}

#[test]
fn recursive_schema_is_only_in_one_subset() {
    let node = json!({ "type": "object", "required": ["next"], "properties": { "next": { "anyOf": [
        { "$ref": "#/$defs/node" }, { "type": "null" },
    ] } } });
    let mut schema = json!({ "type": "object", "required": ["a"], "properties": { "a": { "$ref": "#/$defs/node" } } });
    schema["$defs"]["node"] = node;
    assert!(OPENAI.of(&schema).is_some());
    assert_eq!(ANTHROPIC.of(&schema), None);
    schema["$defs"] = json!({ "node": { "$ref": "#/$defs/leaf" }, "leaf": { "type": "string" } });
    assert!(ANTHROPIC.of(&schema).is_some());
}

#[test]
fn schema_that_would_be_tightened_is_not_sent() {
    let with = |part: Value| json!({ "type": "object", "required": ["a"], "properties": { "a": part } });
    for schema in [
        json!(true),
        json!({ "type": "array", "items": { "type": "string" } }),
        json!({ "type": "object" }),
        json!({ "type": "object", "properties": {}, "additionalProperties": true }),
        json!({ "type": "object", "properties": {}, "required": ["b"] }),
        json!({ "type": "object", "properties": {}, "patternProperties": { "^a": true } }),
        with(json!({})),
        with(json!(true)),
        with(json!({ "type": "array" })),
        with(json!({ "type": "array", "prefixItems": [{ "type": "string" }], "items": { "type": "null" } })),
        with(json!({ "type": "object", "additionalProperties": { "type": "string" } })),
        with(json!({ "properties": { "b": { "type": "string" } } })),
        with(json!({ "minimum": 1 })),
        with(json!({ "$ref": "#" })),
    ] {
        assert_eq!(both(schema.clone()), "not sent\nnot sent", "{schema}");
    }
}
