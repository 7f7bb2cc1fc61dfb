//! `show --call` prints, byte for byte, what a provider was sent, even if the configuration has changed since.

use std::fs;

use rethread_tests::binary::Scene;
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

/// Reads a long file again and again, so that it is summarised; then drops most of it, and continues; then judges.
const WORKFLOW: &str = r#"
version: "1"
name: long
summary: {token_limit: 1500}
judge: {profile_id: main}
nodes:
  - id: read
    llm:
      profile_id: main
      system_prompt: Read the file.
      user_prompt: What stands in it, {{ input }}?
      temperature: 0.5
      tool_mode: auto
      available_tools: [read_file, list_folder]
  - id: forget
    context_processor: {processor_name: truncate, processor_config: {head: 1, tail: 1}}
  - id: say
    llm: {profile_id: main, user_prompt: Say it in one word., max_tokens: 99, extra: {user: ada}}
  - {id: last, end: {}}
edges:
  - {from: read, to: forget}
  - {from: forget, to: say}
  - {from: say, to: last, judge: It is one word.}
  - {from: say, to: last}
"#;

fn configuration(provider: &Provider, wire: Wire) -> String {
    format!(
        "[profiles.main]\nprovider = \"{}\"\nmodel = \"some-model\"\nbase_url = \"{}\"\nauth = \"none\"\n\
         fallback = [\"other\"]\n[profiles.main.params]\nmax_tokens = 500\nstop = [\"END\"]\n\
         [profiles.other]\nprovider = \"openai_chat\"\nmodel = \"another\"\nbase_url = \"http://127.0.0.1:9/v1\"\n",
        wire.provider(),
        provider.base_url(wire)
    )
}

/// Asks for the file five times, then says something. Who is offered no tools writes a summary, or judges.
fn says(number: usize, request: &Value) -> Said {
    let has_tools = request.get("tools").is_some_and(|tools| tools != &json!([]));
    if has_tools && number < 8 {
        return Said::Call("read_file".into(), json!({ "path": "long.txt" }));
    }
    let text = request.to_string();
    Said::Text(if text.contains("It is one word.") { "yes" } else { "It holds numbers." }.into())
}

fn calls(scene: &Scene) -> Vec<Value> {
    let types = "LLM_CALL_REQUESTED,CONTEXT_SUMMARY_REQUESTED,CONDITION_EVALUATION_REQUESTED";
    scene.run(&format!("events last --jsonl --type {types}")).ok().lines()
}

#[test]
fn request_body_is_printed_byte_for_byte_in_another_process() {
    for wire in Wire::ALL {
        let scene = Scene::new();
        scene.write("long.yaml", WORKFLOW);
        let long: String = (0..400).map(|i| format!("\"number\" {i} — ß\n")).collect();
        scene.write("long.txt", long);
        let provider = Provider::start(says);
        scene.write("rethread.toml", configuration(&provider, wire));
        scene.run("run long.yaml --input Ada").ok();
        let bodies = provider.take_bodies();
        let calls = calls(&scene);
        let kinds: Vec<_> = calls.iter().map(|call| call["type"].as_str().unwrap()).collect();
        assert!(kinds.iter().filter(|kind| **kind == "CONTEXT_SUMMARY_REQUESTED").count() > 1, "{wire:?} {kinds:?}");
        assert_eq!(kinds.last(), Some(&"CONDITION_EVALUATION_REQUESTED"));
        assert_eq!(bodies.len(), calls.len(), "{wire:?} {kinds:?}");
        // What decides the body has another value now, or none at all; so do the tools that there are.
        scene.write("rethread.toml", configuration(&provider, wire).replace("500", "7").replace("END", "STOP"));
        for (i, (body, call)) in bodies.iter().zip(&calls).enumerate() {
            if i == calls.len() / 2 {
                fs::remove_file(scene.file("rethread.toml")).unwrap();
            }
            let shown = scene.run(&format!("show last --call {}", call["seq"])).ok().says("fallbacks");
            assert_eq!(shown.stdout.trim_end(), String::from_utf8_lossy(body), "{wire:?}, call {}", call["seq"]);
        }
        let first = String::from_utf8_lossy(&bodies[0]).into_owned();
        assert!(first.contains("## Current Workspace\\n/") && first.contains("read_file"), "{first}");
        let json = scene.run(&format!("show last --json --call {}", calls[0]["seq"])).ok().json();
        assert_eq!((json["sent_to"].as_str(), json["attempt"].as_u64()), (Some("main"), Some(1)));
        assert_eq!(json["fallbacks"][0]["body"]["model"], "another");
        assert!(provider.take_bodies().is_empty(), "no request is needed to show it");
    }
}

#[test]
fn call_that_is_not_a_model_call_is_reported() {
    let scene = crate::scene();
    scene.run("run greeting.yaml --input Ada").ok();
    scene.run("show last --call 0").code(5).says("no call of a model").silent();
    scene.run("show last --call 9999").code(5).silent();
    let call = &calls(&scene)[0]["seq"];
    let shown = scene.run(&format!("show last --call {call}")).ok().says("not reached over HTTP");
    let body: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(body["model"], "scripted");
    assert!(body["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "list_folder"));
}

#[test]
fn request_body_is_part_of_an_exported_thread() {
    let scene = Scene::new();
    scene.write("one.yaml", WORKFLOW);
    scene.write("long.txt", "short");
    let provider = Provider::start(|_, request| {
        let text = request.to_string();
        Said::Text(if text.contains("It is one word.") { "no" } else { "One." }.into())
    });
    scene.write("rethread.toml", configuration(&provider, Wire::Anthropic));
    scene.run("run one.yaml --input Ada").ok();
    let (bodies, calls) = (provider.take_bodies(), calls(&scene));
    scene.write("thread.jsonl", scene.run("export last").ok().stdout);
    let elsewhere = Scene::new();
    elsewhere.run_args(["import", scene.file("thread.jsonl").to_str().unwrap()]).ok();
    for (body, call) in bodies.iter().zip(&calls) {
        let shown = elsewhere.run(&format!("show last --call {}", call["seq"])).ok();
        assert_eq!(shown.stdout.trim_end(), String::from_utf8_lossy(body));
    }
}
