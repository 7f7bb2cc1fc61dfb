//! A log that an older version wrote opens, verifies and replays for ever. `UPDATE_GOLDEN=1` writes one for the
//! present version; a version that is out is never written again.

use std::fs;
use std::path::{Path, PathBuf};

use rethread::{ForkRequest, Position, Seq, Status, ThreadFilter};
use rethread_store::testing::copy_as_killed;
use serde_json::{Value, json};

use crate::interaction::approval;
use crate::support::{Tally, World, block_on, disk, llm, scripted, workflow};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/1")
}

/// Some of everything: tools of all classes, two nodes, a failure, a question, a checkpoint, a pause, a fork, pieces
/// of an answer.
async fn write(world: &World) {
    let script = "{tool_calls: [{name: look, arguments: {text: a}}, {name: pay, arguments: {text: b}}]}, \
                  {tool_calls: [{name: report, arguments: {text: c}}]}, {text: done}";
    let (thread, _) = world.run(&scripted("look, pay, report", script), "go").await;
    let fork = thread.fork(ForkRequest { at: Some(Seq(5)), ..ForkRequest::default() }).await.unwrap();
    fork.outcome().await.unwrap();
    let (asks, outcome) = world.run(&approval(), "7 €").await;
    asks.checkpoint("asked").await.unwrap();
    asks.pause(Some("lunch".into())).await.unwrap();
    asks.resume().await.unwrap();
    asks.respond(outcome.state.interaction().unwrap().id, true).await.unwrap();
    asks.outcome().await.unwrap();
    world.run(&approval(), "8 €").await;
    world.run(&scripted("", "{error: {kind: quota, message: 'no money left'}}"), "go").await;
    let two =
        format!("nodes: [{}, {}]", llm("first", "", "{text: one, reasoning: hm}"), llm("second", "", "{refusal: no}"));
    world.run(&workflow(&two), "go").await;
    let streamed = "nodes: [{id: work, llm: {provider: mock, model: scripted, stream: true, user_prompt: '{{ input }}', \
                    extra: {script: {answers: [{chunks: ['one ', 'two']}]}}}}]";
    world.run(&workflow(streamed), "go").await;
}

async fn events(world: &World) -> Vec<Value> {
    let records = world.store.read_all(Position(0), usize::MAX).unwrap();
    records.into_iter().map(|record| rethread::RecordedEvent::decode(record).unwrap().to_json()).collect()
}

async fn states(world: &World) -> Vec<Value> {
    let mut states = Vec::new();
    for summary in world.runtime.threads(ThreadFilter::default()).await.unwrap() {
        let thread = world.runtime.thread(summary.thread_id);
        let state = thread.state().await.unwrap();
        let middle = thread.state_at(Seq(summary.last_seq.0 / 2)).await.unwrap();
        states.push(json!({ "last": state.to_json(), "middle": middle.to_json() }));
    }
    states
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

#[test]
fn a_golden_log_is_written_when_that_is_asked_for() {
    // Else into a folder that goes again, so that the writing is known to work when it is needed.
    let elsewhere = tempfile::tempdir().unwrap();
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let to = if update { folder() } else { elsewhere.path().to_owned() };
    block_on(write_golden(&to));
    assert!(to.join("log-killed").is_dir());
}

async fn open(folder: &Path) -> World {
    // A folder has another name on every machine.
    World::with(disk(folder), &Tally::default(), |builder| builder.recover(false).workspace_in_prompt(false)).await
}

/// Twice the same log: as an orderly end leaves it, and as a killed process does.
async fn write_golden(to: &Path) {
    let (log, killed) = (to.join("log"), to.join("log-killed"));
    for folder in [&log, &killed] {
        let _ = fs::remove_dir_all(folder);
    }
    let world = open(&log).await;
    write(&world).await;
    fs::write(to.join("events.jsonl"), lines(&events(&world).await)).unwrap();
    fs::write(to.join("states.jsonl"), lines(&states(&world).await)).unwrap();
    copy_as_killed(&log, &killed).unwrap();
    world.end().await;
    for folder in [&log, &killed] {
        // It names the process that wrote it, and is made anew by the next.
        fs::remove_file(folder.join("lock")).unwrap();
    }
}

#[test]
fn the_log_of_version_1_replays() {
    check("log");
}

#[test]
fn the_log_that_a_killed_process_of_version_1_left_replays() {
    check("log-killed");
}

/// What version 1 said is said still; later versions say more.
#[track_caller]
fn says_still(file: &str, now: &[Value], golden: &str) {
    let then: Vec<Value> = golden.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(now.len(), then.len(), "{file}");
    for (now, then) in now.iter().zip(&then) {
        assert!(has_all_of(now, then), "{file}: {now} has not all of {then}");
    }
}

fn has_all_of(now: &Value, then: &Value) -> bool {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            then.iter().all(|(key, then)| now.get(key).is_some_and(|now| has_all_of(now, then)))
        }
        (Value::Array(now), Value::Array(then)) => {
            now.len() == then.len() && now.iter().zip(then).all(|(now, then)| has_all_of(now, then))
        }
        (now, then) => now == then,
    }
}

fn check(log: &str) {
    block_on(async {
        let copy = tempfile::tempdir().unwrap();
        copy_as_killed(&folder().join(log), copy.path()).unwrap();
        let world = open(copy.path()).await;
        let golden = |file: &str| fs::read_to_string(folder().join(file)).unwrap();
        says_still("events.jsonl", &events(&world).await, &golden("events.jsonl"));
        says_still("states.jsonl", &states(&world).await, &golden("states.jsonl"));

        // It is a log like any other: what was open in it goes on.
        let waiting = ThreadFilter { status: vec![Status::Waiting], ..ThreadFilter::default() };
        let waiting = world.runtime.threads(waiting).await.unwrap();
        let [summary] = waiting.as_slice() else { panic!("one thread waits") };
        let thread = world.runtime.thread(summary.thread_id);
        let question = thread.state().await.unwrap().interaction().unwrap().id;
        thread.respond(question, true).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}
