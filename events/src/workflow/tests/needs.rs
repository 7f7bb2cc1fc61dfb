//! What a definition needs of the place where it runs, as far as it is known there.

use super::*;
use crate::workflow::{Env, Unknown, parse_in};

fn faults(yaml: &str, there: &Env) -> String {
    parse_in(yaml.as_bytes(), there).err().map(|faults| faults.to_string()).unwrap_or_default()
}

fn there() -> Env {
    let schema = serde_json::json!({
        "type": "object", "additionalProperties": false, "required": ["path"],
        "properties": { "path": { "type": "string" }, "limit": { "type": "integer", "minimum": 1 } },
    });
    Env {
        tools: ["read".to_owned()].into(),
        schemas: [("read".to_owned(), Json::from(schema))].into(),
        ..Env::default()
    }
}

fn reading(parameters: &str) -> String {
    format!("version: '1'\nname: w\nnodes:\n  - {{id: a, tool: {{tool_name: read, parameters: {parameters}}}}}\n")
}

#[test]
fn constant_parameters_are_checked_and_open_ones_are_not() {
    let of = |parameters: &str| faults(&reading(parameters), &there());
    assert_eq!(of("{path: a, limit: 2}"), "");
    assert_eq!(of("{path: '{{ input }}', limit: '{{ input }}'}"), "");
    expect![[r#"4:66: nodes[0].tool.parameters.limit: tool `read`: 0 is less than the minimum of 1"#]]
        .assert_eq(&of("{path: a, limit: 0}"));
    expect![[r#"
        4:49: nodes[0].tool.parameters: tool `read`: "path" is a required property
        4:55: nodes[0].tool.parameters.pth: tool `read`: there is no parameter `pth` (did you mean `path`?)"#]]
    .assert_eq(&of("{pth: '{{ input }}'}"));
}

#[test]
fn unknown_facts_are_no_fault() {
    let yaml = "\
version: '1'
name: w
nodes:
  - {id: a, llm: {profile_id: p, user_prompt: hi, tool_mode: auto, available_tools: [shop__order, fly]}}
  - {id: b, context_processor: {processor_name: own}}
";
    let nothing = Unknown { profiles: true, tools: true, ..Unknown::default() };
    assert_eq!(faults(yaml, &Env { unknown: nothing, ..there() }), "");
    let shop = Unknown { tools_with_prefix: vec!["shop__".to_owned()], ..Unknown::default() };
    let found = faults(yaml, &Env { unknown: shop, ..there() });
    assert!(!found.contains("shop__order") && found.contains("`fly`") && found.contains("profile `p`"), "{found}");
}

#[test]
fn a_filter_or_test_that_is_not_there_is_a_fault() {
    let yaml = "\
version: '1'
name: w
nodes:
  - {id: a, llm: {provider: mock, model: m, user_prompt: '{{ input | uper }} {{ input | upper }} a | b'}}
  - {id: b, route: {conditions: [{when: input is oddd, to: c}, {when: input is not defined, to: c}], default: c}}
  - {id: c, end: {}}
";
    expect![[r#"
        4:58: nodes[0].llm.user_prompt: there is no filter `uper`
        5:41: nodes[1].route.conditions[0].when: there is no test `oddd`"#]]
    .assert_eq(&parse(yaml.as_bytes()).unwrap_err().to_string());
}

#[test]
fn a_sub_workflow_that_cannot_end_is_a_fault() {
    let yaml = |way: &str| {
        format!(
            "version: '1'\nname: w\nnodes: [{{id: a, sub_workflow: {{workflow: one}}}}]\nworkflows:\n  one:\n    nodes:\n      \
             - {{id: b, sub_workflow: {{workflow: two}}}}\n  two:\n    nodes:\n{way}      \
             - {{id: c, sub_workflow: {{workflow: one}}}}\n"
        )
    };
    let found = faults(&yaml(""), &there());
    assert!(found.contains("sub-workflow `one` runs itself on every way, and never ends"), "{found}");
    let around = "      - {id: which, route: {conditions: [{when: 1 > 2, to: c}], default: done}}\n      - {id: done, end: {}}\n";
    assert_eq!(faults(&yaml(around), &there()), "");
}
