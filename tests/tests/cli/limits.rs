//! Threads that pause at a limit, and resume with a higher one: `resume --budget-tokens`, `--budget-usd`, `--more`.

use rethread_tests::binary::Scene;
use serde_json::json;

/// Two calls of a tool, then an answer, of 100 tokens each; the loop may make two.
fn workflow(limits: &str) -> String {
    format!(
        "version: '1'\nname: limited\n{limits}\nnodes:\n  - id: work\n    llm: {{profile_id: main, user_prompt: go, \
         tool_mode: auto, available_tools: [list_folder], max_iterations: 2}}\n"
    )
}

const PROFILE: &str = r#"
[profiles.main]
provider = "mock"
model = "scripted"
prices = { input = 1, output = 1 }
script_file = "script.yaml"
"#;

fn scene(limits: &str) -> Scene {
    let scene = Scene::new();
    let usage = json!({ "input_tokens": 90, "output_tokens": 10, "total_tokens": 100 });
    let calls = json!([{ "name": "list_folder", "arguments": { "path": "." } }]);
    let calls = json!({ "tool_calls": calls, "usage": usage });
    let script = json!({ "answers": [calls.clone(), calls, { "text": "done", "usage": usage }] });
    scene.write("script.yaml", script.to_string());
    scene.write("rethread.toml", PROFILE);
    scene.write("limited.yaml", workflow(limits));
    scene
}

#[test]
fn thread_pauses_at_its_token_budget_and_continues_with_more() {
    let scene = scene("budget: {tokens: 90}\non_limit: pause");
    let paused = scene.run("run limited.yaml --json").code(8).json();
    assert_eq!(paused["status"], "paused");
    let shown = scene.run("show last --json").ok().json();
    assert!(shown["paused"]["reason"].as_str().unwrap().contains("tokens"), "{}", shown["paused"]);
    let people = scene.run("show last").ok().stdout;
    assert!(people.contains("paused      the budget is spent"), "{people}");
    scene.run("inbox").ok().says("paused: thread ").says("continue with rethread resume");
    // Not enough: it is spent already.
    scene.run("resume last --budget-tokens 90").code(8);
    scene.run("resume last --budget-tokens 10000 --budget-usd 1").code(8);
    scene.run("resume last --more 5").ok();
    assert_eq!(scene.run("show last --json").ok().json()["output"], "done");
    scene.run("resume last --more 5").code(7).says("has ended");
}

#[test]
fn thread_pauses_at_its_cost_budget_and_continues_with_more() {
    let scene = scene("budget: {usd: '0.0001'}\non_limit: pause");
    let paused = scene.run("run limited.yaml --json").code(8).json();
    assert_eq!((&paused["status"], &paused["usage"]["llm_calls"]), (&json!("paused"), &json!(1)));
    scene.run("resume last --budget-usd 1e3").code(2).silent();
    scene.run("resume last --budget-usd 0.25 --more 1").ok();
    let raised = scene.run("events last --jsonl --type LIMIT_RAISED").ok().lines();
    assert_eq!(raised[0]["data"]["cost_nanousd"], 250_000_000);
}

#[test]
fn loop_at_its_call_limit_pauses_or_fails() {
    let failed = scene("").run("run limited.yaml --json").code(1).json();
    assert_eq!(failed["error"]["kind"], "limit");
    let scene = scene("on_limit: pause");
    scene.run("run limited.yaml").code(8);
    scene.run("resume last --more 0").code(2).silent();
    scene.run("resume --all --more 1").code(2).silent();
    scene.run("resume last --more 1").ok();
    assert_eq!(scene.run("show last --json").ok().json()["usage"]["llm_calls"], 3);
}

#[test]
fn branches_at_a_limit_continue_with_their_thread() {
    let scene = scene("");
    let work = |id: &str| {
        format!(
            "{{nodes: [{{id: {id}, llm: {{profile_id: main, user_prompt: go, tool_mode: auto, available_tools: \
             [list_folder], max_iterations: 2}}}}]}}"
        )
    };
    scene.write(
        "limited.yaml",
        format!(
            "version: '1'\nname: limited\non_limit: pause\nnodes:\n  - id: both\n    parallel: {{branches: {{left: \
             {}, right: {}}}}}\n",
            work("l"),
            work("r"),
        ),
    );
    scene.run("run limited.yaml").code(8);
    assert_eq!(scene.run("show last --json").ok().json()["status"], "paused");
    scene.run("resume last --more 1").ok();
    assert_eq!(scene.run("show last --json").ok().json()["output"], json!({ "left": "done", "right": "done" }));
}

#[test]
fn template_that_doubles_a_text_fails_its_thread_alone() {
    let scene = Scene::new();
    let doubled = "{% set ns = namespace(x='x') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
    let answer = "extra: {script: {answers: [{text: done}]}}";
    scene.write(
        "doubled.yaml",
        format!(
            "version: '1'\nname: doubled\nnodes:\n  - id: work\n    llm: {{provider: mock, model: m, \
             user_prompt: \"{doubled}\", {answer}}}\n"
        ),
    );
    let failed = scene.run("run doubled.yaml --json").code(1).json();
    assert_eq!(failed["error"]["kind"], "expression", "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("makes more than 67108864 bytes"), "{failed}");
}
