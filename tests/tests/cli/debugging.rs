//! Historical reads of a thread, their differences, and forks with changes.

use rethread_tests::binary::Scene;
use serde_json::{Value, json};

use crate::explain::invoices;
use crate::{id_of, keys, scene};

fn greeted() -> (Scene, String) {
    let scene = scene();
    let id = id_of(&scene.run("run greeting.yaml --json --quiet --input Ada").ok().json());
    (scene, id)
}

/// Applies a patch as RFC 6902 defines it, for the operations that differences consist of.
fn apply(patch: &Value, document: &mut Value) {
    for operation in patch.as_array().unwrap() {
        let path = operation["path"].as_str().unwrap();
        let (parent, key) = path.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        let value = operation["value"].clone();
        match (operation["op"].as_str().unwrap(), document.pointer_mut(parent).unwrap()) {
            ("add" | "replace", Value::Object(entries)) => drop(entries.insert(key, value)),
            ("add", Value::Array(items)) => items.insert(key.parse().unwrap(), value),
            ("replace", Value::Array(items)) => items[key.parse::<usize>().unwrap()] = value,
            ("remove", Value::Object(entries)) => drop(entries.shift_remove(&key).unwrap()),
            ("remove", Value::Array(items)) => drop(items.remove(key.parse().unwrap())),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn diff_prints_text_or_a_json_patch() {
    let (scene, id) = greeted();
    let told = scene.run("diff last@2 last@looked").ok().stdout;
    for part in [&format!("- {id} at seq 2"), "~ usage.llm_calls: 0 → 2", "+ assistant I look.", "+ checkpoints[0]:"]
    {
        assert!(told.contains(part), "`{part}` is missing:\n{told}");
    }
    assert!(scene.run("diff last@4 @4").ok().stdout.contains("no difference"));
    assert!(scene.run("diff last last@end").ok().stdout.contains("no difference"));

    let state = |to: &str| {
        let mut state = scene.run(&format!("replay last --json --to {to}")).ok().json();
        state.as_object_mut().unwrap().shift_remove("family");
        state
    };
    for (from, to) in [("0", "end"), ("end", "3"), ("2", "looked"), ("5", "5")] {
        let patch = scene.run(&format!("diff last@{from} @{to} --json-patch")).ok().json();
        let mut patched = state(from);
        apply(&patch, &mut patched);
        assert_eq!(patched, state(to), "{from} to {to}: {patch}");
    }
    scene.run("diff last@2 last@nowhere").code(5).says("is not a seq, time, run or checkpoint").silent();
    scene.run("diff last@999 last").code(5).silent();
}

#[test]
fn moment_is_a_seq_checkpoint_time_or_duration_ago() {
    let (scene, _) = greeted();
    let seq = |arguments: &[&str]| {
        let state = scene.run_args(["replay", "last", "--json"].iter().chain(arguments)).ok().json();
        state["seq"].as_u64().unwrap()
    };
    let events = scene.run("events last --jsonl").ok().lines();
    let last = events.len() as u64 - 1;
    assert_eq!(seq(&["--to", "end"]), last);
    assert_eq!(seq(&["--at", "0s ago"]), last);
    let third = events[3]["time"].as_str().unwrap();
    let then = seq(&["--at", third]);
    assert!(then >= 3 && events[usize::try_from(then).unwrap()]["time"] == third, "{then}");
    scene.run_args(["replay", "last", "--at", "2 days ago"]).code(5).says("has no event at or before").silent();
}

#[test]
fn bisect_finds_the_first_event_after_which_it_is_true() {
    let (scene, _) = greeted();
    let first = |when: &str| {
        let found = scene.run_args(["bisect", "last", "--json", "--when", when]).ok().json();
        assert_eq!(keys(&found), "seq event events_looked_at not_evaluated why_not");
        found["event"]["type"].as_str().unwrap().to_owned()
    };
    assert_eq!(first("model_calls == 2"), "LLM_CALL_COMPLETED");
    assert_eq!(first("node == 'greet'"), "NODE_STARTED");
    assert_eq!(first("thread.status == 'completed'"), "THREAD_COMPLETED");
    assert_eq!(first("tools_ended > 0"), "TOOL_EXECUTION_COMPLETED");
    assert_eq!(first("output is defined and 'folder' in output"), "NODE_COMPLETED");
    assert_eq!(first("event == 'CHECKPOINT_CREATED'"), "CHECKPOINT_CREATED");
    // It holds, and then it does not any more: the first time counts.
    assert_eq!(first("last_role == 'tool'"), "TOOL_EXECUTION_COMPLETED");
    let line = scene.run_args(["bisect", "last", "--when", "'Hello' in last_message"]).ok().stdout;
    assert!(line.contains("LLM_CALL_COMPLETED") && line.contains("Hello, all of you."), "{line}");

    scene.run_args(["bisect", "last", "--when", "status == 'error'"]).code(1).says("after none of the").silent();
    scene
        .run_args(["bisect", "last", "--when", "nowhere > 1"])
        .code(1)
        .says("could not be evaluated after any")
        .silent();
    scene.run_args(["bisect", "last", "--when", "1 +"]).code(2).says("--when").silent();
    let help = scene.run("bisect --help").ok().stdout;
    assert!(help.contains("cost_usd") && help.contains("last_message"), "{help}");
}

#[test]
fn fork_can_change_an_answer_and_tree_shows_the_family() {
    let scene = scene();
    scene.run("run asking.yaml --input Ada --quiet").code(4);
    let asked = scene.run("inbox --json").ok().json();
    let key = asked[0]["id"].as_str().unwrap().to_owned();
    scene.run(&format!("respond {key} --value true")).ok();
    scene.run("resume last --quiet").ok();
    let id = id_of(&scene.run("show last --json").ok().json());

    let answer = format!("{key}=\"perhaps\"");
    let forked = scene.run_args(["fork", &id, "--answer", &answer, "--json", "--quiet"]).ok().json();
    let state = scene.run(&format!("replay {} --json", id_of(&forked))).ok().json();
    assert_eq!(state["variables"]["approved"], "perhaps");
    assert_eq!(scene.run(&format!("replay {id} --json")).ok().json()["variables"]["approved"], true);
    scene.run_args(["fork", &id, "--at", "0", "--answer", "0=1", "--no-run"]).code(5).says("fork where it was asked");

    let tree = scene.run(&format!("tree {}", id_of(&forked))).ok().stdout;
    let lines: Vec<_> = tree.lines().collect();
    assert!(lines[0].starts_with(&id) && lines[0].ends_with("completed asking"), "{tree}");
    let fork = lines.iter().find(|line| line.contains(&id_of(&forked))).unwrap();
    assert!(fork.contains("─ ") && fork.contains("fork at ") && fork.ends_with('←'), "{tree}");
    let json = scene.run(&format!("tree {id} --json")).ok().json();
    assert!(json["children"].as_array().unwrap().iter().any(|child| id_of(child) == id_of(&forked)), "{json}");
}

#[test]
fn the_tree_names_branches() {
    let scene = invoices();
    let tree = scene.run("tree last").ok().stdout;
    assert!(tree.contains("├─ ") && tree.contains("└─ "), "{tree}");
    assert!(tree.contains("branch check sums") && tree.contains("error     branch check people"), "{tree}");
}

#[test]
fn fork_can_set_the_profile_of_one_node() {
    let (scene, id) = greeted();
    let profile = |text: &str| {
        format!(
            "provider = \"mock\"\nmodel = \"other\"\nscript.answers = [{{text = \"{text}\"}}]\nscript.repeat = true\n"
        )
    };
    scene.write("rethread.toml", format!("[profiles.terse]\n{}", profile("Hi.")));
    let at_start =
        |arguments: &[&str]| scene.run_args(["fork", &id, "--at", "0", "--json", "--quiet"].iter().chain(arguments));
    let forked = at_start(&["--profile", "greet=terse"]).ok().json();
    let events = scene.run(&format!("events {} --jsonl --type LLM_EXECUTION_REQUEST", id_of(&forked))).ok().lines();
    let profiles: Vec<_> = events.iter().map(|event| event["data"]["model"]["profile"].clone()).collect();
    assert_eq!(profiles, [Value::Null, json!("terse")]);
    let state = scene.run(&format!("replay {} --json", id_of(&forked))).ok().json();
    let parent = scene.run(&format!("replay {id} --json")).ok().json();
    assert_ne!(state["workflow_hash"], parent["workflow_hash"], "a definition of its own");
    at_start(&["--profile", "nowhere=terse"]).code(3).says("node `nowhere` is not in the workflow").silent();
    at_start(&["--profile", "greet=nowhere"]).code(3).says("nowhere").silent();
    at_start(&["--profile", "nowhere"]).code(3).says("there is no profile `nowhere`").silent();
}
