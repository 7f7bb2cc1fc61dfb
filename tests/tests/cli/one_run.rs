//! One run of a conversation alone: explained, listed, compared, searched, run again and exported.

use rethread_tests::binary::Scene;
use serde_json::Value;

use crate::{id_of, keys, scene};

const CHAT: &str = r#"
version: "1"
name: chat
nodes:
  - id: say
    llm:
      provider: mock
      model: m
      user_prompt: "{{ input }}"
      extra: {script: {answers: [{match: two, text: The second.}, {match: three, error: {kind: invalid_request, message: no third}}, {text: Fine.}]}}
"#;

/// A conversation of three runs, the last of which failed, and their ids.
fn conversation() -> (Scene, [u64; 3]) {
    let scene = scene();
    scene.write("chat.yaml", CHAT);
    scene.run("run chat.yaml --input one --quiet").ok();
    scene.run("send last two --quiet").ok();
    scene.run("send last three --quiet").code(1);
    let runs = scene.run("runs last --json").ok().json();
    let id = |n: usize| runs["runs"][n]["run_id"].as_u64().unwrap();
    (scene, [id(2), id(1), id(0)])
}

#[test]
fn one_run_is_explained_with_its_own_steps_and_sums() {
    let (scene, [first, second, third]) = conversation();
    let told = scene.run(&format!("explain last --run {second}")).ok().stdout;
    assert!(told.contains(&format!("\nrun {second} completed in ")), "{told}");
    assert!(
        told.contains("The second.") && !told.contains("Fine.") && told.contains("cost    $0 in 1 model call,"),
        "{told}"
    );
    let told = scene.run(&format!("explain last --run {third}")).ok().stdout;
    assert!(told.contains(&format!("\nrun {third} failed after ")) && told.contains("the run failed (seq "), "{told}");

    let json = scene.run(&format!("explain last --run {first} --json")).ok().json();
    assert_eq!(
        keys(&json),
        "thread_id run_id status workflow seq error usage steps branches branches_left_out longest dearest causes"
    );
    assert_eq!(
        (&json["run_id"], &json["status"], &json["usage"]["llm_calls"]),
        (&first.into(), &"completed".into(), &1.into())
    );
    assert_eq!(json["steps"]["results"].as_array().unwrap().len(), 1);
    let whole = scene.run("explain last --json").ok().json();
    assert_eq!((&whole["run_id"], &whole["usage"]["llm_calls"]), (&Value::Null, &2.into()), "the last one failed");
    scene.run("explain last --run 3").code(5).says("has no run 3").silent();
    scene.run("explain last --run 0 --at 3").code(2).silent();
}

#[test]
fn the_events_of_one_run_are_listed() {
    let (scene, ids) = conversation();
    let events = |words: &str| scene.run(&format!("events last --jsonl {words}")).ok().lines();
    let seq = |event: &Value| event["seq"].as_u64().unwrap();
    let all = events("");
    let mut joined = Vec::new();
    for run in ids {
        let of_run = events(&format!("--run {run}"));
        assert_eq!(seq(&of_run[0]), run);
        assert!(of_run.iter().all(|event| event["run_id"] == run));
        assert_eq!(events(&format!("--run {run} --follow")), of_run, "it has ended");
        joined.extend(of_run);
    }
    assert_eq!(joined, all);
    let rest = events(&format!("--run {} --from {}", ids[1], ids[1] + 2));
    assert_eq!((seq(&rest[0]), seq(rest.last().unwrap()) + 1), (ids[1] + 2, ids[2]));
    assert_eq!(events(&format!("--run 0 --from {}", ids[1])), [Value::Null; 0]);
    scene.run("events last --run 3").code(5).says("has no run 3").silent();
}

#[test]
fn the_end_of_a_run_is_a_moment() {
    let (scene, [_, second, third]) = conversation();
    let said = |moment: &str| {
        let state = scene.run(&format!("replay last --to {moment} --json")).ok().json();
        state["messages"].as_array().unwrap().len()
    };
    assert_eq!((said("run:0"), said(&format!("run:{second}"))), (2, 4));
    let told = scene.run(&format!("diff last@run:0 @run:{second}")).ok().stdout;
    assert!(
        told.contains("~ variables.input: \"one\" → \"two\"") && told.contains("+ assistant The second."),
        "{told}"
    );
    let told = scene.run(&format!("explain last --at run:{second}")).ok().stdout;
    assert!(told.contains("in 2 model calls"), "{told}");
    scene.run(&format!("fork last --at run:{second} --no-run")).code(7).says("has ended");
    scene.run("replay last --to run:3").code(5).says("has no run 3").silent();
    scene.run("replay last --to run:x").code(2).says("`run:7`").silent();
    scene.run("replay last --to nothing").code(5).says("is not a seq, time, run or checkpoint");
    let told = scene.run(&format!("diff last@run:{third} @end")).ok().stdout;
    assert!(told.contains("no difference"), "{told}");
}

#[test]
fn a_search_in_one_run_finds_the_first_event_of_it() {
    let (scene, [_, second, third]) = conversation();
    let found = |expression: &str, run: &str| {
        let words = ["bisect", "last", "--json", "--when", expression].into_iter().chain(run.split_whitespace());
        scene.run_args(words.collect::<Vec<_>>()).ok().json()["seq"].as_u64().unwrap()
    };
    assert!(found("output is defined", "") < second);
    let seq = found("output is defined", &format!("--run {second}"));
    assert!(second < seq && seq < third, "{seq}");
    assert_eq!(found("true", &format!("--run {third}")), third);
    scene.run(&format!("bisect last --when false --run {second}")).code(1);
    scene.run("bisect last --when true --run 3").code(5).says("has no run 3").silent();
}

#[test]
fn one_run_is_rerun_on_another_definition_and_continued() {
    let (scene, [_, second, third]) = conversation();
    let again = |words: &str| scene.run(&format!("rerun last {words}"));
    for run in [0, second, third] {
        assert!(again(&format!("--run {run}")).ok().stdout.starts_with("the same: "));
    }
    scene.write("new.yaml", CHAT.replace("\"{{ input }}\"", "\"Please: {{ input }}\""));
    let whole = again("--workflow new.yaml --json").code(6).json();
    assert!(whole["diverged"]["seq"].as_u64().unwrap() < second);
    let told = again(&format!("--workflow new.yaml --run {second} --json")).code(6).json();
    let seq = told["diverged"]["seq"].as_u64().unwrap();
    assert!(told["diverged"]["why"].as_str().unwrap().contains("\"Please: two\""), "{told}");

    let live = format!("--workflow new.yaml --run {second} --json --live");
    let outside = format!("run {second} of thread ");
    again(&format!("{live} 2")).code(5).says(&outside).says("has no seq 2").silent();
    again(&format!("{live} {seq}")).code(6);
    let thread = id_of(&scene.run("show last --json").ok().json());
    let forked = again(&format!("{live} {}", seq - 1)).ok().json();
    assert_eq!(forked["output"], "The second.");
    let again = |words: &str| scene.run(&format!("rerun {thread} {words}"));
    again("--run 3").code(5).says("has no run 3").silent();
    // The run of the fork began in the thread that it inherits from.
    let own = scene.run(&format!("rerun last --run {second} --json")).ok().json();
    assert_ne!(own["threads"][0]["thread_id"], thread.as_str());
    let inherited = scene.run("rerun last --run 0 --json").ok().json();
    assert_eq!(inherited["threads"][0]["thread_id"], thread.as_str());
    scene.run(&format!("export {thread} -o chat.jsonl")).ok();
    scene.run(&format!("rerun chat.jsonl --run {second}")).code(2).says("rethread import chat.jsonl").silent();
}

#[test]
fn export_of_one_run_ends_with_that_run() {
    let (scene, [_, second, third]) = conversation();
    scene.run(&format!("export last --run {second} -o run.jsonl")).ok().says(&format!("{third} events exported"));
    let elsewhere = Scene::new();
    elsewhere.write("run.jsonl", std::fs::read(scene.file("run.jsonl")).unwrap());
    elsewhere.run("import run.jsonl").ok();
    assert_eq!(elsewhere.run("show last --json").ok().json()["status"], "completed");
    assert_eq!(elsewhere.run("runs last --json").ok().json()["runs"].as_array().unwrap().len(), 2);
    elsewhere.run(&format!("rerun last --run {second}")).ok();
    elsewhere.run(&format!("fork last --again {second} --input other --quiet")).ok();
    let stdout = scene.run("export last --run 0").ok().stdout;
    assert!(stdout.lines().last().unwrap().starts_with("{\"end\""), "{stdout}");
    scene.run("export last --run 3").code(5).says("has no run 3").silent();
    scene.run("export --all --run 0").code(2).silent();
    scene.run("export last last --run 0").code(2).says("name it").silent();
}

#[test]
fn queued_run_and_run_in_progress_are_distinguished() {
    let scene = scene();
    scene.run("run asking.yaml --input Ada --quiet").code(4);
    scene.run("send last Bob --quiet").code(4);
    let waits = scene.run("runs last --json").ok().json()["queued"][0]["run_id"].as_u64().unwrap();
    for command in ["explain last", "events last", "rerun last", "export last", "usage last", "bisect last --when true"]
    {
        scene.run(&format!("{command} --run {waits}")).code(7).says("waits and has not begun").silent();
    }
    scene.run(&format!("diff last@run:{waits} @end")).code(7).says("waits and has not begun").silent();
    scene.run("replay last --to run:0").code(7).says("run 0 of thread").says("has not ended").silent();
    scene.run("export last --run 0").code(7).says("has not ended").silent();
    let told = scene.run("explain last --run 0").ok().stdout;
    assert!(told.contains("\nrun 0 waits for a person after ") && told.contains("waits for\n"), "{told}");
    assert!(scene.run("rerun last --run 0").ok().stdout.starts_with("the same: "));
    let events = scene.run("events last --run 0 --jsonl").ok().lines();
    assert_eq!((&events[0]["seq"], &events.last().unwrap()["type"]), (&0.into(), &"RUN_QUEUED".into()));
}
