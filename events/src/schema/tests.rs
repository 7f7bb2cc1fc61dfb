//! Bounds of schemas.

use serde_json::{Value, json};

use super::*;

fn refused(schema: &Value) -> String {
    compile(schema).unwrap_err().message
}

/// `levels` schemas, of which each refers twice to the next one.
fn doubled(levels: usize, within: impl Fn(&str) -> Value) -> Value {
    let mut parts = serde_json::Map::new();
    for n in 0..levels {
        parts.insert(format!("s{n}"), within(&format!("#/$defs/s{}", n + 1)));
    }
    parts.insert(format!("s{levels}"), json!({ "type": ["string", "object", "array"] }));
    json!({ "$defs": parts, "$ref": "#/$defs/s0" })
}

#[test]
fn references_that_multiply_are_counted_before_the_check() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let twice = |name: &str| json!({ keyword: [{ "$ref": name }, { "$ref": name }] });
        let few = compile(&doubled(8, twice)).unwrap();
        assert_eq!(few.mismatches(&json!("x")).is_empty(), keyword != "oneOf", "{keyword}");
        let many = compile(&doubled(30, twice)).unwrap();
        let found = many.mismatches(&json!("x"));
        assert!(found[0].message.contains("too complex"), "{keyword}: {found:?}");
    }
    // The value multiplies as well: each level of it is looked at twice by each look at the one before.
    let below = json!({ "$defs": { "t": { "allOf": [
        { "properties": { "x": { "$ref": "#/$defs/t" } } }, { "additionalProperties": { "$ref": "#/$defs/t" } }
    ] } }, "$ref": "#/$defs/t" });
    let schema = compile(&below).unwrap();
    let nested = |levels| (0..levels).fold(json!({}), |inner, _| json!({ "x": inner }));
    assert_eq!(schema.mismatches(&nested(10)), []);
    assert!(schema.mismatches(&nested(60))[0].message.contains("too complex"));
}

#[test]
fn unevaluated_parts_are_counted_as_often_as_they_are_looked_at() {
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        for applies in ["allOf", "anyOf", "oneOf"] {
            let within = |name: &str| json!({ applies: [{ "$ref": name }], keyword: { "type": "object" } });
            let few = compile(&doubled(6, within)).unwrap();
            assert_eq!(few.mismatches(&json!({ "x": {} })), [], "{keyword} {applies}");
            let many = compile(&doubled(40, within)).unwrap();
            let found = many.mismatches(&json!({ "x": {} }));
            assert!(found[0].message.contains("too complex"), "{keyword} {applies}: {found:?}");
        }
    }
}

#[test]
fn of_very_many_faults_one_is_found() {
    let names: Vec<_> = (0..300).map(|n| format!("n{n}")).collect();
    let schema = compile(&json!({ "items": { "required": names } })).unwrap();
    let items = |n: usize| Value::from(vec![json!({}); n]);
    assert_eq!(schema.mismatches(&items(10)).len(), N_MISMATCHES_MAX);
    assert_eq!(schema.mismatches(&items(1_000)).len(), 1);
    assert!(schema.mismatches(&items(20_000))[0].message.contains("too complex"));
}

#[test]
fn large_patterns_read_little() {
    let schema = compile(&json!({ "pattern": "^[ab]*a[ab]{1000}c" })).unwrap();
    assert_eq!(schema.mismatches(&"ab".repeat(100).into()).len(), 1);
    let found = schema.mismatches(&"ab".repeat(250_000).into());
    assert!(found[0].message.contains("too complex"), "{found:?}");
    let small = compile(&json!({ "pattern": "^[a-z0-9 ]*$" })).unwrap();
    assert_eq!(small.mismatches(&"ab".repeat(250_000).into()), []);
}

#[test]
fn schemas_that_refer_to_themselves_in_place_are_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$defs": { "a": { "not": { "$ref": "#/$defs/b" } }, "b": { "if": { "$ref": "#/$defs/a" } } }, "$ref": "#/$defs/a" }),
        json!({ "$anchor": "top", "anyOf": [{ "$ref": "#top" }] }),
    ] {
        assert!(refused(&schema).contains("refer to themselves"), "{schema}");
    }
    let chain = doubled(200, |next| json!({ "$ref": next }));
    assert!(refused(&chain).contains("one inside of the other"));
    let inside = json!({ "$id": "https://a.example", "properties": { "a": { "$id": "b", "$ref": "#" } } });
    assert!(refused(&inside).contains("$id"));
}

#[test]
fn recursive_values_and_long_lists_are_checked() {
    let tree = json!({ "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#" } } } });
    let schema = compile(&tree).unwrap();
    let leaf = json!({ "children": [] });
    let level = |inner: &Value| json!({ "children": (0..20).map(|_| inner.clone()).collect::<Vec<_>>() });
    let value = level(&level(&level(&leaf)));
    assert_eq!(schema.mismatches(&value), []);
    assert_eq!(schema.mismatches(&json!({ "children": [{ "children": 1 }] })).len(), 1);
    let list = compile(&json!({ "type": "array", "items": { "type": "object", "required": ["a"] } })).unwrap();
    let items: Vec<_> = (0..100_000).map(|n| json!({ "a": n })).collect();
    assert_eq!(list.mismatches(&items.into()), []);
}

#[test]
fn patterns_are_few_and_small() {
    let large = json!({ "type": "string", "pattern": "((a{100}){100}){100}" });
    compile(&large).unwrap_err();
    let named: serde_json::Map<_, _> = (0..200).map(|n| (format!("^a{n}"), json!(true))).collect();
    assert!(refused(&json!({ "patternProperties": named })).contains("regular expressions"));
}

#[test]
fn names_in_references_may_be_escaped() {
    let schema = json!({ "$defs": { "a b/c~d": { "type": "integer" } }, "$ref": "#/$defs/a%20b~1c~0d" });
    let schema = compile(&schema).unwrap();
    assert_eq!((schema.mismatches(&json!(1)).len(), schema.mismatches(&json!("x")).len()), (0, 1));
}
