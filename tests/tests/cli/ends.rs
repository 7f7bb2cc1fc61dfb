//! Schemas of inputs and outputs, as the command line checks them.

use rethread_tests::binary::Scene;
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

const TYPED: &str = r#"
version: "1"
name: typed
input_schema: {type: object, required: [items], properties: {items: {type: array, items: {type: string}}}}
output_schema: {type: object, required: [total], properties: {total: {type: number}}}
nodes:
  - {id: price, llm: {provider: mock, model: m, user_prompt: "{{ input.items | join(' ') }}", extra: {script: {answers: [{match: milk, text: '{"total": 4.5}'}, {text: '{"total": "much"}'}]}}}}
"#;

const RIGHT: &str = r#"{"items": ["milk"]}"#;

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("typed.yaml", TYPED);
    scene.write("input.json", RIGHT);
    scene
}

#[test]
fn refused_input_leaves_an_empty_log() {
    let scene = scene();
    let wrong = scene.run_args(["run", "typed.yaml", "--input-json", r#"{"items": ["milk", 7], "more": 1}"#]).code(3);
    assert!(wrong.stderr.contains("cannot begin with this"), "{wrong}");
    assert!(wrong.stderr.contains(r#"input/items/1: 7 is not of type "string""#), "{wrong}");
    let missing = scene.run("run typed.yaml").code(3);
    assert!(missing.stderr.contains(r#"input: null is not of type "object" (give an input"#), "{missing}");
    let text = scene.run("run typed.yaml --input milk").code(3);
    assert!(text.stderr.contains(r#"input: "milk" is not of type "object""#), "{text}");
    assert!(!scene.run("threads --json").ok().stdout.contains("typed"));
    assert_eq!(scene.run("tail").ok().stdout, "");
}

#[test]
fn valid_input_is_accepted_as_json_or_text() {
    let scene = scene();
    let by_json = scene.run_args(["run", "typed.yaml", "--json", "--input-json", RIGHT]).ok().json();
    let by_file = scene.run("run typed.yaml --json --input-file input.json").ok().json();
    for outcome in [by_json, by_file] {
        assert_eq!(outcome["output"], serde_json::json!({ "total": 4.5 }), "{outcome}");
    }
    scene.run("rerun last").ok();
}

#[test]
fn run_with_a_wrong_output_fails() {
    let scene = scene();
    let failed =
        scene.run_args(["run", "typed.yaml", "--json", "--input-json", r#"{"items": ["gold"]}"#]).code(1).json();
    assert_eq!((&failed["status"], &failed["error"]["kind"]), (&"error".into(), &"invalid_output".into()), "{failed}");
    let says = r#"the output does not fit `output_schema`: output/total: "much" is not of type "number""#;
    assert_eq!(failed["error"]["message"], says);
    assert!(scene.run("show last").ok().stdout.contains("invalid_output"));
}

#[test]
fn fork_on_another_definition_is_checked_at_its_end() {
    let scene = scene();
    scene.write("loose.yaml", TYPED.replace("input_schema:", "variables: {}\n#").replace("output_schema:", "#"));
    scene.write("strict.yaml", TYPED.replace("name: typed", "name: strict"));
    scene.run_args(["run", "loose.yaml", "--input-json", r#"{"items": ["gold"]}"#]).ok();
    let fork = scene.run("fork last --at 1 --workflow strict.yaml --json");
    assert!(fork.stdout.contains("invalid_output") || fork.stderr.contains("invalid_output"), "{fork}");
}

const PRICED: &str = "
version: '1'
name: priced
nodes:
  - id: price
    llm:
      profile_id: fast
      user_prompt: '{{ input }}'
      output_schema: {type: object, required: [total], properties: {total: {type: number, exclusiveMinimum: 0}}}
";

#[test]
fn run_prints_the_value_of_a_repaired_answer() {
    for wire in Wire::ALL {
        let answers = [
            "It depends.",
            r#"{"total": -1}"#,
            r#"```json
{"total": 4.5}
```"#,
        ];
        let provider = Provider::start(move |number, _| Said::Text(answers[number.min(2)].into()));
        let scene = Scene::new();
        let (url, name) = (provider.base_url(wire), wire.provider());
        scene.write(
            "rethread.toml",
            format!("[profiles.fast]\nprovider = \"{name}\"\nmodel = \"some-model\"\nbase_url = \"{url}\"\nauth = \"none\"\n"),
        );
        scene.write("priced.yaml", PRICED);
        let outcome = scene.run("run priced.yaml --json --input milk").ok().json();
        assert_eq!(outcome["output"], json!({ "total": 4.5 }), "{name}: {outcome}");
        let bodies: Vec<Value> =
            provider.take_bodies().iter().map(|body| serde_json::from_slice(body).unwrap()).collect();
        assert_eq!(bodies.len(), 3, "{name}");
        let form = match wire {
            Wire::OpenaiChat => &bodies[0]["response_format"]["json_schema"]["schema"],
            Wire::OpenaiResponses => &bodies[0]["text"]["format"]["schema"],
            Wire::Anthropic => &bodies[0]["output_config"]["format"]["schema"],
            Wire::Gemini => &bodies[0]["generationConfig"]["responseJsonSchema"],
        };
        assert_eq!(form["properties"]["total"]["type"], "number", "{name}: {}", bodies[0]);
        if wire == Wire::OpenaiChat {
            assert_eq!(bodies[0]["response_format"]["json_schema"]["strict"], true);
            assert_eq!(form["additionalProperties"], false, "OpenAI wants it said");
        }
        // Anthropic refuses bounds of numbers.
        let bound = &form["properties"]["total"]["exclusiveMinimum"];
        assert_eq!(bound.is_null(), wire == Wire::Anthropic, "{name}: {}", bodies[0]);
        let last = bodies[2].to_string();
        assert!(last.contains("at /total: -1 is less than or equal to the minimum of 0"), "{name}: {last}");
        let rejected = scene.run("events last --jsonl --type ANSWER_REJECTED").ok().lines();
        assert_eq!(rejected.len(), 2);
        assert_eq!(rejected[1]["data"]["faults"][0]["pointer"], "/total", "{}", rejected[1]);
        scene.run("rerun last").ok();
    }
}
