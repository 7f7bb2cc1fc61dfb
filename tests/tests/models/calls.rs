//! Calls of tools as providers send them: cut at the output limit, repeated, with ids that are not unique.

use rethread_tests::binary::{Ran, Scene};
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

/// A run in which the model answers this first, and then with a text.
fn run(wire: Wire, first: Said) -> (Scene, Provider, Ran) {
    let stream = matches!(first, Said::Stream(_));
    let chunk = |delta: Value, finish: Value| json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let provider = Provider::start(move |number, _| match (number, stream) {
        (0, _) => first.clone(),
        (_, true) => {
            Said::Stream(vec![chunk(json!({ "content": "done" }), Value::Null), chunk(json!({}), "stop".into())])
        }
        (_, false) => Said::Text("done".into()),
    });
    let scene = Scene::new();
    scene.write("kept.txt", "kept");
    let (name, url) = (wire.provider(), provider.base_url(wire));
    scene.write(
        "rethread.toml",
        format!(
            "[profiles.main]\nprovider = \"{name}\"\nmodel = \"some-model\"\nbase_url = \"{url}\"\nauth = \"none\"\n"
        ),
    );
    scene.write(
        "one.yaml",
        format!("version: '1'\nname: one\nnodes:\n  - {{id: a, llm: {{profile_id: main, user_prompt: go, stream: {stream}, tool_mode: auto, available_tools: [list_folder, read_file]}}}}\n"),
    );
    let ran = scene.run("run one.yaml --quiet --input x");
    (scene, provider, ran)
}

fn events(scene: &Scene, name: &str) -> Vec<Value> {
    scene.run(&format!("events last --jsonl --type {name}")).ok().lines()
}

fn chat_answer(finish: &str, calls: &[(&str, Value)]) -> Said {
    let calls: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(i, (name, arguments))| json!({ "id": format!("call_{i}"), "type": "function", "function": { "name": name, "arguments": arguments } }))
        .collect();
    Said::Whole(json!({
        "id": "c", "model": "m", "usage": { "prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11 },
        "choices": [{ "index": 0, "finish_reason": finish, "message": { "role": "assistant", "content": null, "tool_calls": calls } }],
    }))
}

#[test]
fn call_cut_at_the_output_limit_does_not_run() {
    let anthropic = json!({
        "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "max_tokens", "stop_sequence": null,
        "content": [{ "type": "tool_use", "id": "tu", "name": "list_folder", "input": {} }],
        "usage": { "input_tokens": 9, "output_tokens": 2 },
    });
    let item = json!({ "type": "function_call", "id": "fc", "call_id": "call", "name": "list_folder", "arguments": "", "status": "incomplete" });
    let responses = json!({
        "id": "r", "object": "response", "created_at": 1, "status": "incomplete", "model": "m", "output": [item],
        "incomplete_details": { "reason": "max_output_tokens" }, "usage": { "input_tokens": 9, "output_tokens": 2, "total_tokens": 11 },
    });
    let gemini = json!({
        "candidates": [{ "content": { "role": "model", "parts": [{ "functionCall": { "name": "list_folder", "args": {} } }] }, "finishReason": "MAX_TOKENS", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11 }, "modelVersion": "m",
    });
    for (wire, first) in [
        (Wire::OpenaiChat, chat_answer("length", &[("list_folder", json!(""))])),
        (Wire::OpenaiChat, chat_answer("length", &[("list_folder", Value::Null)])),
        (Wire::OpenaiChat, chat_answer("length", &[("list_folder", json!("{\"path\": \"."))])),
        (Wire::Anthropic, Said::Whole(anthropic)),
        (Wire::OpenaiResponses, Said::Whole(responses)),
        (Wire::Gemini, Said::Whole(gemini)),
    ] {
        let (scene, provider, ran) = run(wire, first);
        assert_eq!(ran.ok().stdout, "done\n");
        assert_eq!(events(&scene, "TOOL_EXECUTION_COMPLETED").len(), 0, "{wire:?}");
        let failed = events(&scene, "TOOL_EXECUTION_FAILED");
        assert_eq!((&failed[0]["data"]["error"]["kind"], failed.len()), (&json!("limit"), 1), "{wire:?}");
        let bodies = provider.take_bodies();
        let told = String::from_utf8_lossy(bodies.last().unwrap());
        assert!(told.contains("reached the output limit"), "{wire:?}: {told}");
        scene.run("verify").ok();
    }
}

#[test]
fn complete_calls_of_a_cut_answer_run() {
    let first = chat_answer("length", &[("read_file", json!("{\"path\": \"kept.txt\"}")), ("list_folder", json!(""))]);
    let (scene, _, ran) = run(Wire::OpenaiChat, first);
    ran.ok();
    let completed = events(&scene, "TOOL_EXECUTION_COMPLETED");
    assert_eq!((completed.len(), events(&scene, "TOOL_EXECUTION_FAILED").len()), (1, 1), "{completed:?}");
    let (scene, _, ran) = run(Wire::OpenaiChat, chat_answer("tool_calls", &[("list_folder", json!(""))]));
    ran.ok();
    assert_eq!(events(&scene, "TOOL_EXECUTION_COMPLETED").len(), 1, "no limit cut it");
}

/// A stream with these pieces of calls, the last chunk with the reason to end.
fn streamed(chunks: &[&[Value]]) -> Said {
    let last = chunks.len() - 1;
    let chunk = |(i, calls): (usize, &&[Value])| {
        let finish = if i == last { json!("tool_calls") } else { Value::Null };
        json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": { "tool_calls": calls }, "finish_reason": finish }] })
    };
    Said::Stream(chunks.iter().enumerate().map(chunk).collect())
}

fn piece(index: u64, id: &str, arguments: &str) -> Value {
    json!({ "index": index, "id": id, "type": "function", "function": { "name": "read_file", "arguments": arguments } })
}

#[test]
fn call_repeated_whole_in_the_last_piece_runs_once() {
    let (one, two) = (piece(0, "a", "{\"path\": \"kept.txt\"}"), piece(1, "b", "{\"path\": \"kept.txt\"}"));
    let rest = json!({ "index": 0, "function": { "arguments": "{\"path\": \"kept.txt\"}" } });
    for (chunks, n) in [
        (vec![vec![one.clone()], vec![one.clone()]], 1),
        (vec![vec![piece(0, "a", "")], vec![rest], vec![one.clone()]], 1),
        (vec![vec![one.clone()], vec![two.clone()], vec![one.clone(), two.clone()]], 2),
        // The same id and another index is another call.
        (vec![vec![one.clone()], vec![piece(1, "a", "{\"path\": \"kept.txt\"}")]], 2),
    ] {
        let chunks: Vec<&[Value]> = chunks.iter().map(Vec::as_slice).collect();
        let (scene, _, ran) = run(Wire::OpenaiChat, streamed(&chunks));
        ran.ok();
        assert_eq!(events(&scene, "TOOL_EXECUTION_COMPLETED").len(), n, "{chunks:?}");
    }
}
