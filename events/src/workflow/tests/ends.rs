//! Schemas of inputs and outputs.

use serde_json::json;

use super::*;

const NODES: &str = "nodes: [{id: a, end: {}}]\n";

#[track_caller]
fn head(text: &str, expected: Expect) {
    check(&format!("version: '1'\nname: w\n{text}{NODES}"), expected);
}

#[test]
fn schema_that_is_none_is_a_fault_with_its_place() {
    head(
        "input_schema: {type: object, properties: {a: {type: integr}}}\noutput_schema: 7\n",
        expect![[r#"
        3:53: input_schema.properties.a.type: not a self-contained JSON Schema: "integr" is not valid under any of the schemas listed in the 'anyOf' keyword
        4:16: output_schema: not a self-contained JSON Schema: 7 is not of types "boolean", "object"
    "#]],
    );
    head(
        "input_schema: {$ref: 'http://127.0.0.1:1/a.json'}\n",
        expect![[r#"
        3:15: input_schema: not a self-contained JSON Schema: Resource 'http://127.0.0.1:1/a.json' is not present in a registry and retrieving it failed: Retrieval is disabled, cannot fetch http://127.0.0.1:1/a.json
    "#]],
    );
    head(
        "inputSchema: {type: object}\noutput_schema: true\n",
        expect![[r#"
        valid, 1 nodes
    "#]],
    );
    head(
        &format!("input_schema: {{description: {}}}\n", "x".repeat(70_000)),
        expect![[r#"
            3:15: input_schema: not a self-contained JSON Schema: it has 70018 bytes, the limit is 65536
        "#]],
    );
    let deep = format!("input_schema: {}1{}\n", "{not: ".repeat(30), "}".repeat(30));
    head(
        &deep,
        expect![[r#"
        3:195: input_schema.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not.not: not a self-contained JSON Schema: 1 is not of types "boolean", "object"
    "#]],
    );
}

#[test]
fn example_that_does_not_fit_its_schema_is_a_fault() {
    head(
        "\
input_schema:
  type: object
  default: {}
  required: [n]
  properties:
    n: {$ref: '#/$defs/small', default: 12}
    default: {type: string, default: 1}
    list: {type: array, items: {type: integer, examples: [1, two]}}
    any: {anyOf: [{type: string, default: x}, {type: boolean, default: x}]}
    data: {const: {default: 1}, enum: [{type: string, default: 1}]}
  $defs:
    small: {type: integer, maximum: 10}
output_schema: {type: string, default: fine}
",
        expect![[r#"
            5:12: input_schema.default: does not fit the schema: "n" is a required property
            8:41: input_schema.properties.n.default: does not fit the schema: 12 is greater than the maximum of 10
            9:38: input_schema.properties.default.default: does not fit the schema: 1 is not of type "string"
            10:62: input_schema.properties.list.items.examples.1: does not fit the schema: "two" is not of type "integer"
            11:72: input_schema.properties.any.anyOf.1.default: does not fit the schema: "x" is not of type "boolean"
        "#]],
    );
}

#[test]
fn inputs_that_are_known_and_do_not_fit_are_faults() {
    check(
        "\
version: '1'
name: w
nodes:
  - id: a
    sub_workflow: {workflow: one, inputs: {n: ten, m: 1, k: '{{ input }}'}}
  - {id: b, sub_workflow: {workflow: one}}
workflows:
  one:
    input_schema: {required: [n], properties: {n: {type: integer}, k: {type: integer}}, additionalProperties: false}
    output_schema: {type: nothing}
    nodes: [{id: x, end: {}}]
",
        expect![[r#"
            5:47: nodes[0].sub_workflow.inputs.n: workflow `one`: "ten" is not of type "integer"
            5:55: nodes[0].sub_workflow.inputs.m: workflow `one`: there is no parameter `m`
            6:27: nodes[1].sub_workflow.inputs: workflow `one`: "n" is a required property
            10:27: workflows.one.output_schema.type: not a self-contained JSON Schema: "nothing" is not valid under any of the schemas listed in the 'anyOf' keyword
        "#]],
    );
}

#[derive(schemars::JsonSchema)]
#[allow(dead_code)]
struct Order {
    /// How many.
    n: u8,
    note: Option<String>,
}

#[test]
fn builder_takes_schemas_and_types() {
    let built = AgentBuilder::new("w")
        .set_input_type::<Order>()
        .set_output_schema(json!({ "type": "string" }))
        .add_end_node("a")
        .build()
        .unwrap();
    expect![[r#"{"version":"1","name":"w","input_schema":{"type":"object","properties":{"n":{"type":"integer","format":"uint8","minimum":0,"maximum":255,"description":"How many."},"note":{"type":["string","null"]}},"required":["n"]},"output_schema":{"type":"string"},"nodes":[{"id":"a","end":{}}]}"#]].assert_eq(built.json());
    assert!(built.accept_input(json!({ "n": 3 }).into()).is_ok());
    let refused = built.accept_input(json!({ "n": 300, "note": 1 }).into()).unwrap_err();
    expect![[r#"
        input/n: 300 is greater than the maximum of 255
        input/note: 1 is not of types "null", "string""#]]
    .assert_eq(&refused.to_string());
}

#[test]
fn faults_of_an_input_are_limited() {
    let schema = json!({ "items": { "type": "integer" } });
    let workflow = AgentBuilder::new("w").set_input_schema(schema).add_end_node("a").build().unwrap();
    let refused = workflow.accept_input(json!(vec!["x".repeat(10_000); 10_000]).into()).unwrap_err();
    assert_eq!(refused.0.len(), FAULTS_MAX);
    assert!(refused.to_string().len() < 50_000);
}

#[test]
fn schema_with_references_is_not_cheap() {
    let is_cheap = |schema: &str| valid(&format!("version: '1'\nname: w\noutput_schema: {schema}\n{NODES}")).is_cheap();
    assert!(is_cheap("{type: object, properties: {a: {type: string}}}"));
    assert!(!is_cheap("{type: object, properties: {a: {$ref: '#'}}}"));
}

#[test]
fn stored_schema_that_cannot_be_used_accepts_nothing() {
    let json = r#"{"version":"1","name":"w","input_schema":{"type":"integr"},"nodes":[{"id":"a","end":{}}]}"#;
    let workflow = Workflow::from_json(json).unwrap();
    assert_eq!(workflow.json(), json);
    let refused = workflow.accept_input("x".into()).unwrap_err().to_string();
    assert!(refused.starts_with("input: not a self-contained JSON Schema: "), "{refused}");
}

#[track_caller]
fn node(more: &str, expected: Expect) {
    let llm = format!("{{provider: mock, model: m, user_prompt: hello, {more}}}");
    check(&format!("version: '1'\nname: w\nnodes:\n  - id: a\n    llm: {llm}\n"), expected);
}

#[test]
fn schema_of_an_answer_is_checked_with_the_file() {
    node(
        "output_schema: {type: object}, repair: {attempts: 0}",
        expect![[r#"
        valid, 1 nodes
    "#]],
    );
    node(
        "outputSchema: {type: integr}",
        expect![[r#"
        5:78: nodes[0].llm.output_schema.type: not a self-contained JSON Schema: "integr" is not valid under any of the schemas listed in the 'anyOf' keyword
    "#]],
    );
    node(
        "output_schema: {type: integer, default: x}",
        expect![[r#"
        5:97: nodes[0].llm.output_schema.default: does not fit the schema: "x" is not of type "integer"
    "#]],
    );
    node(
        "output_schema: {$ref: 'http://127.0.0.1:1/a.json'}",
        expect![[r#"
        5:72: nodes[0].llm.output_schema: not a self-contained JSON Schema: Resource 'http://127.0.0.1:1/a.json' is not present in a registry and retrieving it failed: Retrieval is disabled, cannot fetch http://127.0.0.1:1/a.json
    "#]],
    );
    node(
        "output_schema: {}, repair: {attempts: 101}",
        expect![[r#"
        5:95: nodes[0].llm.repair.attempts: 101 is not between 0 and 100
    "#]],
    );
    node(
        "repair: {attempts: 1}",
        expect![[r#"
        5:65: nodes[0].llm.repair: no answer is repaired without an output_schema (give output_schema, or take it out)
    "#]],
    );
    node(
        "output_schema: {}, repair: {times: 1}",
        expect![[r#"
        5:84: nodes[0].llm.repair: missing field `attempts`
        5:85: nodes[0].llm.repair.times: unknown field `times`, expected one of attempts
    "#]],
    );
    node(
        "output_schema: {}, strategy: {plan_and_execute: {}}",
        expect![[r#"
            valid, 1 nodes
        "#]],
    );
}

#[test]
fn type_of_an_answer_is_its_schema() {
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code)]
    struct Price {
        /// In euros.
        total: f64,
    }
    let schema = LlmNode::default().answers::<Price>().output_schema.unwrap();
    expect![[r#"{"type":"object","properties":{"total":{"type":"number","format":"double","description":"In euros."}},"required":["total"]}"#]].assert_eq(&schema.0.to_string());
}
