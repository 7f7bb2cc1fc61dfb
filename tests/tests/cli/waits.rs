//! What a command says at its end about a thread that has not ended: what it waits for, and how it continues.

use rethread_tests::binary::{Running, Scene};
use serde_json::json;

fn scene(workflow: &str) -> Scene {
    let scene = Scene::new();
    scene.write("w.yaml", format!("version: '1'\nname: w\n{workflow}"));
    scene
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().next_back().unwrap_or_default()
}

#[test]
fn branch_at_its_limit_says_how_to_continue() {
    let calls = json!({ "tool_calls": [{ "name": "list_folder", "arguments": { "path": "." } }] });
    let script = json!({ "answers": [calls, { "text": "done" }] });
    let node = "the_node_with_a_name_that_is_long_enough_for_every_line_to_be_cut";
    let llm = json!({
        "provider": "mock", "model": "m", "user_prompt": "go", "tool_mode": "auto",
        "available_tools": ["list_folder"], "max_iterations": 1, "extra": { "script": script },
    });
    let scene = scene(&format!(
        "on_limit: pause\nnodes:\n  - {{id: both, parallel: {{branches: {{alpha: {{nodes: [{{id: {node}, llm: {llm}}}]}}}}}}}}\n"
    ));
    let ran = scene.run("run w.yaml").code(8);
    let said = last_line(&ran.stderr);
    assert!(said.starts_with(&format!("branch alpha is paused: node `{node}`")), "{ran}");
    let (_, command) = said.split_once("go on with: rethread ").unwrap_or_else(|| panic!("{ran}"));
    assert!(command.starts_with("resume ") && command.ends_with(" --more N"), "{ran}");
    for shown in ["show last", "explain last"] {
        let shown = scene.run(shown).ok().stdout;
        assert!(shown.contains(command), "`{command}` is missing: {shown}");
    }
    assert!(!ran.stderr.contains('…'), "advice is not cut: {ran}");
    scene.run("resume --all").code(8).says(command);
    scene.run(&command.replace('N', "5")).ok();
}

#[test]
fn thread_that_waits_says_for_what_and_how_to_continue() {
    for (node, waits, how) in [
        ("wait: {for_ms: 3600000}", "waits for the time ", "rethread reschedule"),
        ("signal: {name: delivered}", "waits for the signal delivered", "rethread signal delivered, then "),
        (
            "signal: {name: paid, where: {order: \"it's 7\"}}",
            "waits for the signal paid",
            r#"rethread signal paid --payload-json '{"order":"it'\''s 7"}', then "#,
        ),
    ] {
        let scene = scene(&format!("nodes:\n  - {{id: a, {node}}}\n"));
        let mut running = Running::start(scene.command(["run", "w.yaml", "--jsonl"]));
        running.wait_for(if waits.contains("time") { "WAIT_STARTED" } else { "SIGNAL_AWAITED" });
        running.signal("INT");
        let ran = running.end().code(130);
        let lines: Vec<_> = ran.stderr.trim_end().lines().rev().take(2).collect();
        assert!(lines[1].starts_with(waits) && lines[1].contains(how), "{ran}");
        assert!(lines[0].starts_with("interrupted; continue with: rethread resume "), "{ran}");
        let shown = scene.run("show last").ok().stdout;
        assert!(shown.contains("continue ") && shown.contains(how), "{shown}");
        let explained = scene.run("explain last").ok().stdout;
        assert!(explained.contains("continue with: rethread resume "), "{explained}");
    }
}

#[test]
fn question_that_is_open_says_how_to_answer_and_continue() {
    let asks = "nodes:\n  - {id: a, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Go on?, variables: [{variable_name: may, expression: '{{ input }}'}]}}\n";
    let scene = scene(asks);
    let ran = scene.run("run w.yaml").code(4);
    let said = last_line(&ran.stderr);
    let id = scene.run("inbox --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
    assert!(said.starts_with("waits for a person, question "), "{ran}");
    assert!(said.contains(&format!("continue with: rethread respond {id}, then rethread resume ")), "{ran}");
    // A reason of a person says nothing about how to go on.
    scene.run("pause last --reason slowly").ok();
    let shown = scene.run("show last").ok().stdout;
    assert!(shown.contains("paused      slowly") && shown.contains("continue    rethread resume "), "{shown}");
    let explained = scene.run("explain last").ok().stdout;
    assert!(explained.contains("slowly") && explained.contains("rethread resume "), "{explained}");
    scene.run("run w.yaml --quiet").code(4);
}
