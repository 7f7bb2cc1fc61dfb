//! Threads with branches, as the command line shows them, and the examples of `docs/examples`.

use rethread_tests::binary::{Ran, Scene, root};
use serde_json::{Value, json};

use crate::{id_of, keys};

/// A branch that answers at once, one that asks a person, and inside it one for each of two.
pub(crate) const FAMILY: &str = r#"
version: "1"
name: family
nodes:
  - id: both
    parallel:
      branches:
        left: {nodes: [{id: l, llm: {provider: mock, model: m, user_prompt: hi, extra: {script: {answers: [{text: L}]}}}}]}
        right:
          nodes:
            - {id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Pay?, variables: [{variable_name: paid, expression: "{{ input }}"}]}}
            - id: inner
              parallel:
                for_each: "[1, 2]"
                body:
                  nodes:
                    - {id: deep, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: "Item {{ item }}?", variables: [{variable_name: output, expression: "{{ input }}"}]}}
    checkpoint: joined
"#;

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("family.yaml", FAMILY);
    scene
}

fn example(scene: &Scene, name: &str, more: &[&str]) -> Ran {
    let file = root().join("docs/examples").join(name);
    let file = file.to_str().unwrap();
    scene.run_args(["run", file].iter().chain(more))
}

fn questions(scene: &Scene) -> Vec<String> {
    let open = scene.run("inbox --json").ok().json();
    open.as_array().unwrap().iter().map(|question| question["id"].as_str().unwrap().to_owned()).collect()
}

fn is_branch(thread: &Value) -> bool {
    !thread["branch_of"].is_null()
}

#[test]
fn a_family_is_shown_while_it_runs_and_asks_for_its_branches() {
    let scene = scene();
    let ran = scene.run("run family.yaml").code(4);
    for part in ["fork both: left, right", "[left] node l", "[left] model L", "[right] node ask", "branch left"] {
        assert!(ran.stderr.contains(part), "{part}: {ran}");
    }
    let question = questions(&scene).remove(0);
    let root = id_of(&scene.run("show last --json").ok().json());
    assert!(!question.starts_with(&root), "the question is the branch's");
    assert!(ran.stderr.contains("waiting for a person, branch right: Pay?"), "{ran}");
    assert!(ran.stderr.contains(&format!("rethread respond {question} --text")), "{ran}");
    assert!(ran.stderr.contains(&format!("rethread resume {root}")), "{ran}");

    let answered = scene.run(&format!("respond {question} --value true")).ok();
    assert!(answered.stderr.contains(&format!("rethread resume {root}")), "{answered}");
    // The name of a branch means the thread that waits for it.
    let branch = question.rsplit_once('-').unwrap().0;
    let ran = scene.run(&format!("resume {branch}")).code(4);
    assert!(ran.stderr.contains(&format!("{branch} is a branch of {root}")), "{ran}");
    assert!(ran.stderr.contains("[right/#0] node deep") && ran.stderr.contains("branch right/#1: Item 2?"), "{ran}");
    for question in questions(&scene) {
        scene.run(&format!("respond {question} --text so")).ok();
    }
    let all = scene.run("resume --all --json").ok().json();
    assert_eq!(all.as_array().unwrap().len(), 1, "branches are not threads of their own: {all}");
    assert_eq!(all[0]["output"], json!({ "left": "L", "right": ["so", "so"] }));
}

#[test]
fn lists_and_replays_know_branches() {
    let scene = scene();
    scene.run("run family.yaml --quiet").code(4);
    let root = id_of(&scene.run("show last --json").ok().json());

    let listed = scene.run("threads").ok();
    assert_eq!(listed.stdout.lines().count(), 2, "{listed}");
    assert!(listed.stderr.contains("2 branches: see them with --all"), "{listed}");
    let all = scene.run("threads --all").ok();
    assert!(all.stdout.lines().count() == 4 && all.stdout.contains(&format!("{root} #1")), "{all}");
    let threads = scene.run("threads --json").ok().json();
    let branches: Vec<_> = threads.as_array().unwrap().iter().filter(|thread| is_branch(thread)).collect();
    assert_eq!(branches.len(), 2, "{threads}");
    assert_eq!(branches[0]["branch_of"]["thread_id"], root.as_str());

    let shown = scene.run("show last --json").ok().json();
    assert_eq!(keys(&shown["branches"][0]), "node name thread_id status");
    let of = |name: &str| {
        let branches = shown["branches"].as_array().unwrap();
        branches.iter().find(|branch| branch["name"] == name).unwrap().clone()
    };
    assert_eq!((&of("left")["status"], &of("right")["status"]), (&json!("completed"), &json!("waiting")));
    let people = scene.run("show last").ok().stdout;
    assert!(people.contains("both right") && people.contains("waiting"), "{people}");
    let right = of("right")["thread_id"].as_str().unwrap().to_owned();
    let branch = scene.run(&format!("show {right}")).ok().stdout;
    assert!(branch.contains(&format!("{root}, number 1")), "{branch}");

    let now = scene.run("replay last --json").ok().json();
    assert_eq!(keys(&now["family"][0]), "thread_id owner name seq status node");
    assert_eq!(now["family"].as_array().unwrap().len(), 2, "the branch that ended is not in it: {now}");
    assert_eq!((&now["family"][1]["name"], &now["family"][1]["node"]), (&json!("right"), &json!("ask")));
    // At its first event nothing had begun.
    assert_eq!(scene.run("replay last --to 0 --json").ok().json()["family"].as_array().unwrap().len(), 1);
    let people = scene.run("replay last").ok().stdout;
    assert!(people.contains("right") && people.contains("waiting at seq"), "{people}");
    scene.run("replay last --to joined").code(5).says("is not a seq, time, run or checkpoint");
}

#[test]
fn thread_whose_branches_wait_is_shown_as_waiting() {
    let scene = scene();
    scene.run("run family.yaml").code(4);
    assert_eq!(scene.run("show last --json").ok().json()["status"], "waiting");
    let root = id_of(&scene.run("show last --json").ok().json());
    let listed = |status: &str| scene.run_args(["threads", "--json", "--status", status]).ok().stdout.contains(&root);
    assert!(listed("waiting") && !listed("running"));
    let people = scene.run("show last").ok().stdout;
    assert!(people.contains("status      waiting"), "{people}");
    // Inside branches, too: those of the branch wait, and so does the branch.
    let question = questions(&scene).remove(0);
    scene.run_args(["respond", &question, "--value", "true"]).ok();
    scene.run("resume last").code(4);
    assert_eq!(questions(&scene).len(), 2);
    assert_eq!(scene.run("show last --json").ok().json()["status"], "waiting");
}

#[test]
fn run_prints_the_events_of_its_branches() {
    let scene = scene();
    let lines = scene.run("run family.yaml --jsonl").code(4).lines();
    let (outcome, events) = lines.split_last().unwrap();
    assert_eq!(outcome["status"], "waiting");
    assert_eq!(scene.run("tail --from 0 --jsonl").ok().lines(), events);
    assert!(events.iter().any(|event| event["thread_id"] != outcome["thread_id"]));
}

#[test]
fn the_approval_example_plans_again_until_a_person_agrees() {
    let scene = Scene::new();
    scene.write("list.txt", "FIXME: paint the door\n");
    let ran = example(&scene, "approve.yaml", &["--input", "Find what is to do"]).code(4);
    assert!(ran.stderr.contains("Plan 1 of 3: search all files here for `TODO`"), "{ran}");
    scene.run_args(["respond", &questions(&scene)[0], "--text", "look for FIXME"]).ok();
    scene.run("resume last").code(4).says("Plan 2 of 3: search all files here for `FIXME`");
    scene.run(&format!("respond {} --text yes", questions(&scene)[0])).ok();
    let done = scene.run("resume last").ok();
    assert!(done.stdout.contains("what the search found"), "{done}");
    let state = scene.run("replay last --to searched --json").ok().json();
    assert!(state["variables"]["output"].as_str().unwrap().contains("paint the door"), "{state}");
}

#[test]
fn approval_example_ends_after_three_plans() {
    let scene = Scene::new();
    example(&scene, "approve.yaml", &["--quiet"]).code(4);
    for n_left in (0..3).rev() {
        scene.run(&format!("respond {} --text no", questions(&scene)[0])).ok();
        let ran = scene.run("resume last --json").code(if n_left == 0 { 0 } else { 4 }).json();
        if n_left == 0 {
            assert_eq!(ran["output"], "Nothing was done: three plans were rejected.");
        }
    }
    let events = scene.run("events last --jsonl --type TOOL_EXECUTION_REQUEST").ok();
    assert_eq!(events.stdout, "", "nothing runs that was not approved");
}

#[test]
fn research_example_repeats_until_the_judge_accepts() {
    let scene = Scene::new();
    let ran = example(&scene, "research.yaml", &["--json"]).ok().json();
    assert!(ran["output"].as_str().unwrap().contains("goes on after a crash"), "{ran}");
    let events = scene.run("tail --from 0 --jsonl").ok().lines();
    let n = |name: &str| events.iter().filter(|event| event["type"] == name).count();
    assert_eq!((n("LOOP_ITERATION_STARTED"), n("BRANCH_STARTED"), n("CONDITION_EVALUATION_COMPLETED")), (2, 4, 2));
    let state = scene.run("replay last --to researched --json").ok().json();
    let notes = state["variables"]["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 4);
    assert_eq!(notes[0], "A runtime for agents.", "in the order of the questions");
}

#[test]
fn plan_example_replans_and_shows_its_steps() {
    let scene = Scene::new();
    let ran = example(&scene, "plan.yaml", &[]).ok();
    assert_eq!(ran.stdout.trim(), "This is a program written in Rust.");
    for part in [
        "plan 2: List the folder.; Read",
        "step 1: List the folder.",
        "✗ step 2, failed: no file",
        "chosen plain: it is a",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {ran}");
    }
    let events = scene.run("events last --type PLAN_STEP_STARTED,PLAN_REQUESTED").ok().stdout;
    assert!(events.contains("work, new plan 1") && events.contains("2: Read what it says about itself."), "{events}");
    // In the middle of it, the state says how far the plan is.
    let state = scene.run("replay last --to 15 --json").ok().json();
    assert_eq!(state["plan"]["step"], 1);
    assert_eq!(state["plan"]["steps"][1], "Read what it says about itself.");
    let shown = scene.run("replay last --to 15").ok().stdout;
    assert!(shown.contains("step 2 of 2: Read what it says about itself."), "{shown}");
}

#[test]
fn every_example_can_be_drawn() {
    let scene = Scene::new();
    for entry in std::fs::read_dir(root().join("docs/examples")).unwrap() {
        let file = entry.unwrap().path();
        let file = file.to_str().unwrap();
        assert!(scene.run_args(["graph", file]).ok().stdout.contains("flowchart TD"), "{file}");
    }
}

#[test]
fn pause_and_cancel_cover_all_branches_before_the_command_ends() {
    let scene = scene();
    scene.run("run family.yaml").code(4);
    let root = id_of(&scene.run("show last --json").ok().json());
    scene.run(&format!("respond {} --value true", questions(&scene)[0])).ok();
    // Now branches of a branch ask.
    scene.run(&format!("resume {root}")).code(4);
    let open = || -> Vec<Value> {
        let threads = scene.run("threads --all --json").ok().json();
        let all = threads.as_array().unwrap().iter().map(|thread| thread["status"].clone());
        all.filter(|status| *status != "completed").collect()
    };
    assert_eq!(open().len(), 4, "the thread, a branch, and two inside of it");
    scene.run(&format!("pause {root}")).ok();
    assert_eq!(open(), ["paused"; 4]);
    scene.run(&format!("resume {root}")).code(4);
    assert!(open().iter().all(|status| *status != "paused"));
    scene.run(&format!("cancel {root}")).ok();
    assert_eq!(open(), ["cancelled"; 4]);
    assert_eq!(questions(&scene).len(), 0);
}

/// A node that sets a variable.
fn sets(id: &str, variable: &str, expression: &str) -> Value {
    let config = json!({ "variable": variable, "expression": expression });
    json!({ "id": id, "context_processor": { "processor_name": "extract", "processor_config": config } })
}

/// A model that fails when it is asked for this.
fn fails(id: &str, asked: &str) -> Value {
    let answers = json!([{ "match": "^stop$", "error": { "kind": "authentication" } }, { "text": "fine" }]);
    let script = json!({ "script": { "answers": answers } });
    json!({ "id": id, "llm": { "provider": "mock", "model": "m", "user_prompt": asked, "extra": script } })
}

/// A fork with a branch that has ended when the other one fails.
fn fork(id: &str, paid: &str, fails_at: &str) -> Value {
    let pay = json!({ "nodes": [sets("pays", "receipt", paid)] });
    let ask = json!({ "nodes": [{ "id": "holds", "wait": { "for_ms": 300 } }, fails("fails", fails_at)] });
    json!({ "id": id, "parallel": { "into": "all", "branches": { "pay": pay, "ask": ask } } })
}

/// Runs a workflow that fails, and checks what its hook sees of the variables that the join would have set.
#[track_caller]
fn hook_sees(nodes: Vec<Value>, workflows: &Value, seen: &Value) {
    let scene = Scene::new();
    let names = seen.as_object().unwrap().keys().map(|name| format!("'{name}': {name} is defined and {name}"));
    let mut nodes = nodes;
    nodes.push(sets("sees", "seen", &format!("{{{}}}", names.collect::<Vec<_>>().join(", "))));
    let workflow =
        json!({ "version": "1", "name": "order", "on_failed": "sees", "nodes": nodes, "workflows": workflows });
    scene.write("order.json", workflow.to_string());
    scene.run("run order.json --input x").code(1);
    let state = scene.run("replay last --json").ok().json();
    assert_eq!(state["variables"]["seen"], *seen, "{workflow}");
    scene.run("verify").ok();
}

#[test]
fn hook_reads_what_ended_branches_did() {
    let paid = json!({ "pay": "paid", "ask": null, "all": { "pay": "paid", "ask": null } });
    hook_sees(vec![fork("both", "'paid'", "stop")], &json!({}), &paid);
    // In a sub-workflow, and in one of that.
    let calls = |id: &str, workflow: &str| json!({ "id": id, "sub_workflow": { "workflow": workflow } });
    let workflows = json!({
        "outer": { "nodes": [calls("inside", "inner")] },
        "inner": { "nodes": [fork("both", "'paid'", "stop")] },
    });
    hook_sees(vec![calls("sub", "inner")], &workflows, &paid);
    hook_sees(vec![calls("sub", "outer")], &workflows, &paid);
}

#[test]
fn hook_sees_no_result_of_an_earlier_fork_with_the_same_names() {
    let first = fork("first", "'earlier'", "go");
    let pays_late =
        json!({ "nodes": [{ "id": "waits", "wait": { "for_ms": 600_000 } }, sets("again", "x", "'late'")] });
    let branches = json!({ "pay": pays_late, "ask": { "nodes": [fails("refused", "stop")] } });
    let second = json!({ "id": "second", "parallel": { "into": "all", "branches": branches } });
    let seen = json!({ "pay": null, "ask": null, "all": { "pay": null, "ask": null } });
    hook_sees(vec![first, second], &json!({}), &seen);
}

#[test]
fn hook_reads_the_iterations_that_ended() {
    let body = json!({ "nodes": [
        sets("pays", "output", "'paid ' ~ n"),
        fails("fails", "{{ 'stop' if n == 3 else 'go' }}"),
        sets("gives", "output", "'paid ' ~ n"),
    ] });
    let each = json!({ "id": "each", "loop": { "for_each": "[1, 2, 3, 4]", "as": "n", "into": "all", "body": body } });
    hook_sees(vec![each], &json!({}), &json!({ "all": ["paid 1", "paid 2"] }));
}
