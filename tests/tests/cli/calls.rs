//! `rethread usage`: sums and calls of a thread, of its family and of the whole log.

use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

use crate::{id_of, scene};

fn sum<'a>(usage: &'a Value, list: &str, key: &str, name: &str) -> &'a Value {
    let sums = usage[list].as_array().unwrap();
    sums.iter().find(|sum| sum[key] == name).unwrap_or_else(|| panic!("no {name} in {usage}"))
}

#[test]
fn usage_sums_calls_by_model_and_by_tool() {
    let scene = scene();
    let shown = scene.run("run greeting.yaml --input all --json").ok().json();
    let usage = scene.run("usage last --json").ok().json();
    let model = sum(&usage, "models", "model", "scripted");
    assert_eq!((&model["calls"], &model["failed"], &model["n_unpriced"]), (&json!(3), &json!(0), &json!(0)));
    for figure in ["input_tokens", "output_tokens", "total_tokens"] {
        assert_eq!(model["usage"][figure], shown["usage"][figure], "{figure}");
    }
    let tool = sum(&usage, "tools", "tool", "list_folder");
    assert_eq!((&tool["calls"], &tool["failed"], &tool["retries"]), (&json!(1), &json!(0), &json!(0)));
    assert_eq!(scene.run("usage last --by tool --json").ok().json(), json!({ "tools": usage["tools"] }));
    let calls = scene.run("usage last --by call --json").ok().lines();
    let kinds: Vec<_> = calls.iter().map(|call| call["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["model", "tool", "model", "model"]);
    assert_eq!((&calls[0]["node_id"], &calls[0]["finish_reason"]), (&json!("look"), &json!("tool_calls")));
    assert_eq!((&calls[1]["tool"], &calls[1]["cost_nanousd"]), (&json!("list_folder"), &Value::Null));
    let table = scene.run("usage last").ok().stdout;
    assert!(table.contains("MODEL") && table.contains("scripted") && table.contains("list_folder"), "{table}");
    scene.run("usage nothing").code(5);
}

#[test]
fn usage_of_a_fork_leaves_out_what_it_inherits() {
    let scene = scene();
    scene.run("run greeting.yaml --input all").ok();
    let thread = id_of(&scene.run("show last --json").ok().json());
    let fork = id_of(&scene.run("fork last --at looked --json").ok().json());
    let calls = |words: &str| scene.run(&format!("usage {words} --by call --json")).ok().lines().len();
    assert_eq!((calls(&thread), calls(&fork), calls("")), (4, 1, 5));
    let since = scene.run("usage --since 2100-01-01T00:00:00Z --json").ok().json();
    assert_eq!(since, json!({ "models": [], "tools": [] }));
    // After the request of a call and before its answer: the call counts, with what its request says.
    let events = scene.run(&format!("events {thread} --jsonl --type TOOL_EXECUTION_REQUEST")).ok().lines();
    let after = &events[0]["position"];
    let rest = scene.run(&format!("usage --after {after} --by call --json")).ok().lines();
    assert_eq!((rest.len(), &rest[0]["tool"]), (4, &json!("list_folder")));
}

#[test]
fn usage_counts_branches_and_names_what_it_does_not_know() {
    let provider = Provider::start(|_, _| Said::Text("yes".into()));
    let scene = scene();
    let url = provider.base_url(Wire::OpenaiChat);
    let common = format!("provider = \"openai_chat\"\nmodel = \"some-model\"\nbase_url = \"{url}\"\nauth = \"none\"\n");
    let prices = "prices = { input = 1, output = 1 }\n";
    scene.write("rethread.toml", format!("[profiles.priced]\n{common}{prices}\n[profiles.unpriced]\n{common}"));
    let node =
        |id: &str, profile: &str| format!("{{nodes: [{{id: {id}, llm: {{profile_id: {profile}, user_prompt: x}}}}]}}");
    let branches = format!("{{one: {}, two: {}}}", node("a", "priced"), node("b", "unpriced"));
    scene.write(
        "both.yaml",
        format!("version: '1'\nname: both\nnodes:\n  - id: p\n    parallel: {{branches: {branches}}}\n"),
    );
    let ran = scene.run("run both.yaml --json").ok().json();
    scene.run("run failing.yaml").code(1);
    let thread = id_of(&ran);
    let usage = scene.run(&format!("usage {thread} --json")).ok().json();
    let priced = sum(&usage, "models", "profile", "priced");
    assert_eq!((&priced["provider"], &priced["model"]), (&json!("openai_chat"), &json!("some-model")));
    assert_eq!((&priced["cost_nanousd"], &priced["n_unpriced"]), (&ran["usage"]["cost_nanousd"], &json!(0)));
    let unpriced = sum(&usage, "models", "profile", "unpriced");
    assert_eq!((&unpriced["cost_nanousd"], &unpriced["n_unpriced"]), (&Value::Null, &json!(1)));
    let own = scene.run(&format!("usage {thread} --no-branches --json")).ok().json();
    assert_eq!(own["models"], json!([]));
    // The next run has branches of its own.
    let again = scene.run_args(["send", &thread, "again", "--json"]).ok().json();
    let of_thread = scene.run(&format!("usage {thread} --by call --json")).ok().lines();
    let runs = [json!(0), again["run_id"].clone()];
    let of_runs =
        runs.each_ref().map(|run| scene.run(&format!("usage {thread} --run {run} --by call --json")).ok().lines());
    assert_eq!((of_thread.len(), of_runs.each_ref().map(Vec::len)), (4, [2, 2]));
    assert!(of_runs.concat().iter().all(|call| of_thread.contains(call)) && of_runs[0] != of_runs[1]);
    assert_eq!(again["run_usage"]["llm_calls"], 2, "{again}");
    assert_eq!(again["usage"]["llm_calls"], 4, "{again}");
    let own = scene.run(&format!("usage {thread} --run 0 --no-branches --by call --json")).ok().lines();
    assert_eq!(own.len(), 0);
    scene.run(&format!("usage {thread} --run 7")).code(5);
    let whole = scene.run("usage --by model --json").ok().json();
    let failed = whole["models"].as_array().unwrap().iter().find(|sum| sum["failed"] == 1).unwrap();
    assert_eq!((&failed["n_usage_unknown"], &failed["n_unpriced"]), (&json!(1), &json!(1)), "{whole}");
    let table = scene.run("usage").ok().stdout;
    assert!(table.contains("unknown"), "{table}");
}
