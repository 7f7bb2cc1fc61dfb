use expect_test::expect;

use super::*;

#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Args {
    /// What the book is called.
    title: String,
    /// How many.
    #[serde(default)]
    count: Option<u32>,
    place: Option<Place>,
}

#[derive(serde::Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Place {
    shelf: String,
}

#[test]
fn schema_is_self_contained_and_minimal() {
    expect![[r#"{"type":"object","additionalProperties":false,"properties":{"title":{"type":"string","description":"What the book is called."},"count":{"type":["integer","null"],"format":"uint32","minimum":0,"description":"How many.","default":null},"place":{"type":["object","null"],"properties":{"shelf":{"type":"string"}},"required":["shelf"]}},"required":["title"]}"#]]
    .assert_eq(&schema_of::<Args>().to_string());
}

#[test]
fn no_arguments_are_an_empty_object() {
    assert_eq!(schema_of::<()>(), json!({ "type": "object", "properties": {} }));
}

#[derive(serde::Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Tree {
    children: Vec<Tree>,
}

#[test]
fn a_recursive_type_compiles() {
    let arguments = Arguments::compile(&schema_of::<Tree>()).unwrap();
    assert!(arguments.check(&json!({ "children": [{ "children": [] }] })).is_ok());
    assert!(arguments.check(&json!({ "children": [{ "children": 1 }] })).is_err());
}

fn fault(arguments: Value) -> String {
    let schema = schema_of::<Args>();
    let error = Arguments::compile(&schema).unwrap().check(&arguments).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArguments);
    assert!(!error.retryable);
    error.message
}

#[test]
fn a_fault_names_its_place() {
    expect![[r#"the arguments do not match the tool's schema: arguments/count: -1 is less than the minimum of 0; arguments: Additional properties are not allowed ('x' was unexpected); arguments: "title" is a required property"#]]
        .assert_eq(&fault(json!({ "count": -1, "x": 1 })));
    expect!["the arguments are missing, were cut off or are not JSON; send one JSON object"]
        .assert_eq(&fault(Value::Null));
    expect![[r#"the arguments do not match the tool's schema: arguments: [1] is not of type "object""#]]
        .assert_eq(&fault(json!([1])));
}

#[test]
fn fault_quotes_only_a_part_of_a_large_value() {
    assert!(fault(json!({ "title": ["x".repeat(1_000_000)] })).len() < 1000);
    let many = (0..10_000).map(|n| (format!("k{n}"), json!(1))).collect::<serde_json::Map<_, _>>();
    assert!(fault(Value::Object(many)).len() < 2000);
}

#[test]
fn invalid_schema_is_refused() {
    let reason = |schema| Arguments::compile(&schema).map(|_| ()).unwrap_err().to_string();
    expect![[r#"the schema must have `"type": "object"` at its top, it has "string""#]]
        .assert_eq(&reason(json!({ "type": "string" })));
    expect![[r#"the schema must have `"type": "object"` at its top, it has no `type`"#]]
        .assert_eq(&reason(json!(true)));
    assert!(reason(json!({ "type": "object", "properties": 1 })).contains("not a self-contained JSON Schema"));
    assert!(reason(json!({ "type": "object", "$ref": "http://127.0.0.1:1/schema.json" })).contains("self-contained"));
    assert!(
        reason(json!({ "type": "object", "description": "x".repeat(100_000) })).contains("100000")
            || reason(json!({ "type": "object", "description": "x".repeat(100_000) })).contains("65536")
    );
}

#[test]
fn pattern_prone_to_backtracking_is_matched_fast() {
    let schema = json!({ "type": "object", "properties": { "s": { "type": "string", "pattern": "^(a+)+$" } } });
    let arguments = Arguments::compile(&schema).unwrap();
    assert!(arguments.check(&json!({ "s": format!("{}b", "a".repeat(50_000)) })).is_err());
}

#[test]
fn endlessly_recursive_schema_is_handled() {
    for schema in [
        json!({ "type": "object", "$ref": "#" }),
        json!({ "type": "object", "allOf": [{ "$ref": "#" }] }),
        json!({ "type": "object", "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
        json!({ "type": "object", "$dynamicAnchor": "x", "anyOf": [{ "$dynamicRef": "#x" }] }),
        json!({ "type": "object", "not": { "$ref": "#" } }),
    ] {
        let _ = Arguments::compile(&schema).map(|arguments| arguments.check(&json!({ "a": 1 })).is_ok());
    }
}

#[test]
fn deeply_nested_schema_is_handled() {
    let nested = |levels: usize| {
        let mut schema = json!({ "type": "object" });
        let mut value = json!({});
        for _ in 0..levels {
            schema = json!({ "type": "object", "properties": { "a": schema } });
            value = json!({ "a": value });
        }
        (schema, value)
    };
    let (schema, value) = nested(49);
    assert!(Arguments::compile(&schema).unwrap().check(&value).is_ok());
    let (schema, _) = nested(120);
    let refused = Arguments::compile(&schema).unwrap_err().to_string();
    assert!(refused.contains("nested deeper than 100 levels"), "{refused}");
}
