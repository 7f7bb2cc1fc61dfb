//! Schemas of inputs and outputs, as the server checks them.

use serde_json::json;

use crate::place::Place;

const TYPED: &str = r#"
version: "1"
name: typed
input_schema: {type: object, required: [items], properties: {items: {type: array, items: {type: string}}}}
output_schema: {type: object, required: [total], properties: {total: {type: number}}}
nodes:
  - {id: price, llm: {provider: mock, model: m, user_prompt: "{{ input.items | join(' ') }}", extra: {script: {answers: [{match: milk, text: '{"total": 4.5}'}, {text: '{"total": "much"}'}]}}}}
"#;

#[test]
fn start_over_http_checks_the_input() {
    let place = Place::new();
    let start = |input| place.post("/v1/threads", &json!({ "definition": TYPED, "input": input }));
    let refused = start(json!({ "items": ["milk", 7, true] })).problem(422, "invalid-input");
    assert_eq!(refused["faults"][0]["path"], "input/items/1", "{refused}");
    assert_eq!(refused["faults"][1]["message"], r#"true is not of type "string""#, "{refused}");
    place.post("/v1/threads", &json!({ "definition": TYPED })).problem(422, "invalid-input");
    assert_eq!(place.get("/v1/threads").is(200).value()["threads"], json!([]));
    assert_eq!(place.get("/v1/workflows").is(200).value()["workflows"], json!([]), "no definition is stored");
    assert_eq!(place.get("/v1/log").is(200).value()["records"].as_u64().unwrap_or(0), 0);

    let started = start(json!({ "items": ["milk"] })).is(201).value();
    let outcome = place.at_rest(started["thread_id"].as_str().unwrap());
    assert_eq!((&outcome["status"], &outcome["output"]), (&json!("completed"), &json!({ "total": 4.5 })));
    let shown = place.get(&format!("/v1/definitions/{}", started["workflow_hash"].as_str().unwrap())).is(200).value();
    assert_eq!(shown["definition"]["input_schema"]["required"], json!(["items"]));

    let started = start(json!({ "items": ["gold"] })).is(201).value();
    let outcome = place.at_rest(started["thread_id"].as_str().unwrap());
    assert_eq!((&outcome["status"], &outcome["error"]["kind"]), (&json!("error"), &json!("invalid_output")));
}

#[test]
fn refused_start_leaves_its_key_free() {
    let place = Place::new();
    let start = |input| {
        let body = json!({ "definition": TYPED, "input": input });
        place.request("POST", "/v1/threads").header("Idempotency-Key", "one").json(&body).send()
    };
    start(json!({})).problem(422, "invalid-input");
    start(json!({ "items": [] })).is(201);
}

#[test]
fn command_at_a_server_names_the_same_faults() {
    let place = Place::new();
    place.scene.write("typed.yaml", TYPED);
    let run = |input| place.scene.run_args(["run", "typed.yaml", "--json", "--input-json", input]);
    run(r#"{"items": 7}"#).code(3).says(r#"input/items: 7 is not of type "array""#);
    place.scene.run("run typed.yaml").code(3).says(r#"input: null is not of type "object" (give an input"#);
    assert_eq!(run(r#"{"items": ["milk"]}"#).ok().json()["output"]["total"], 4.5);
}
