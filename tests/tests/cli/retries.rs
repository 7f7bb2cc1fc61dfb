//! What is not done twice: tools that write and report an error, quorums, variables of branches.

use rethread_tests::binary::Scene;
use serde_json::{Value, json};

use crate::equipment::servers;

/// One call of `shop__pay`, which writes a line into `ledger` and then reports an error.
fn pay(node: &Value) -> Value {
    json!({ "version": "1", "name": "pay", "nodes": [node] })
}

fn lines(scene: &Scene, file: &str) -> usize {
    std::fs::read_to_string(scene.file(file)).unwrap_or_default().lines().count()
}

#[test]
fn effect_of_a_failed_mcp_tool_is_not_repeated() {
    let script = json!({ "answers": [
        { "tool_calls": [{ "name": "shop__pay", "arguments": {} }] },
        { "error": { "kind": "server", "message": "boom" } },
    ]});
    let llm = json!({
        "provider": "mock", "model": "m", "user_prompt": "pay", "tool_mode": "auto", "available_tools": ["shop__pay"],
        "extra": { "script": script },
    });
    for retry in [json!({ "max_attempts": 3 }), json!({ "max_attempts": 3, "on": ["failed", "server"] })] {
        for node in [
            json!({ "id": "pay", "retry": retry, "tool": { "tool_name": "shop__pay" } }),
            json!({ "id": "pay", "retry": retry, "llm": llm }),
        ] {
            let scene = Scene::new();
            let Some(servers) = servers(&scene) else { return };
            scene.write("pay.json", pay(&node).to_string());
            let ran = scene.run(&format!("run pay.json --json --mcp {servers}")).code(1);
            assert_eq!(lines(&scene, "ledger"), 1, "{node}: {ran}");
            let failed = scene.run("events last --jsonl --type NODE_FAILED").ok().lines();
            assert_eq!(failed.len(), 1);
            let cause = failed[0]["data"]["error"]["source"].as_str().unwrap();
            assert!(
                cause.contains("`shop__pay` began in this try") && cause.contains("whatever `retry` says"),
                "{cause}"
            );
        }
    }
}

#[test]
fn quorum_of_branches_that_all_failed_fails_the_thread() {
    let failing = json!({ "answers": [{ "error": { "kind": "authentication", "message": "no key" } }] });
    let branch = |id: &str| {
        let llm = json!({ "provider": "mock", "model": "m", "user_prompt": "A", "extra": { "script": failing } });
        json!({ "nodes": [{ "id": id, "llm": llm }] })
    };
    for mode in [json!({ "mode": "any" }), json!({ "mode": "n_of_m", "n": 2 })] {
        let mut parallel = json!({ "on_failed": "ignore", "branches": { "a": branch("x"), "b": branch("y") } });
        parallel.as_object_mut().unwrap().extend(mode.as_object().unwrap().clone());
        let scene = Scene::new();
        let workflow = json!({ "version": "1", "name": "race", "nodes": [{ "id": "race", "parallel": parallel }] });
        scene.write("race.json", workflow.to_string());
        let ran = scene.run("run race.json --json").code(1).json();
        let message = ran["error"]["message"].as_str().unwrap();
        assert!(message.contains("branches must succeed") && message.contains("no key"), "{mode} {message}");
        assert!(mode["n"].is_u64() || message.contains("`a`") && message.contains("`b`"), "{mode} {message}");
        parallel["n"] = json!(3);
        parallel["mode"] = json!("n_of_m");
        let workflow = json!({ "version": "1", "name": "race", "nodes": [{ "id": "race", "parallel": parallel }] });
        scene.write("race.json", workflow.to_string());
        scene.run("validate race.json").code(3).says("3 branches must succeed and `race` has 2");
    }
}
