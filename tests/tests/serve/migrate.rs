//! Many threads that are moved to a new definition through the server.

use rethread_tests::binary::Running;
use serde_json::{Value, json};

use crate::place::Place;

const N: usize = 1_000;

const ORDER: &str = "
version: '1'
name: order
variables: {state: waits}
nodes:
  - {id: wait, signal: {name: paid}}
  - {id: note, context_processor: {processor_name: extract, processor_config: {variable: state, expression: '\"old\"'}}}
";

/// Waits in a node that the new definition does not have.
fn other() -> String {
    ORDER.replace("id: wait", "id: hold")
}

fn start(place: &Place, hash: &str) -> String {
    let started = place.post("/v1/threads", &json!({ "hash": hash })).is(201).value();
    started["thread_id"].as_str().unwrap().to_owned()
}

/// The threads of the events WORKFLOW_CHANGED.
fn changed(place: &Place) -> Vec<String> {
    let mut threads = Vec::new();
    let mut after = String::new();
    loop {
        let page = place.get(&format!("/v1/events?types=WORKFLOW_CHANGED&limit=5000{after}")).is(200).value();
        let events = page["events"].as_array().unwrap();
        threads.extend(events.iter().map(|event| event["thread_id"].as_str().unwrap().to_owned()));
        match &page["next"] {
            next if next.is_null() || events.is_empty() => return threads,
            next => after = format!("&after={next}"),
        }
    }
}

fn wait_for(place: &Place, n: usize) {
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while changed(place).len() < n {
        assert!(std::time::Instant::now() < limit, "{n} threads do not move");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn thousand_threads_migrate_once_each_across_kills() {
    let place = Place::new();
    place.scene.write("new.yaml", ORDER.replace("\"old\"", "\"new\""));
    let (old, other) = (place.put(ORDER), place.put(&other()));
    let threads: Vec<_> = (0..N).map(|_| start(&place, &old)).collect();
    let unfit = start(&place, &other);
    place.until("/v1/threads?status=suspended&limit=500", |page| page["threads"].as_array().unwrap().len() == 500);
    place.until("/v1/threads?status=running,pending", |page| page["threads"].as_array().unwrap().is_empty());
    let words = ["migrate", "--workflow", "new.yaml", "--where-workflow", "order", "--json"];

    let tried = place.run_args([&words[..], &["--dry-run"]].concat()).code(7).json();
    assert_eq!((&tried["n_moved"], tried["not_moved"].as_array().unwrap().len()), (&json!(N), 1));
    assert_eq!(changed(&place), [""; 0], "a dry run changes nothing");

    // The command is killed, then the server.
    let command = Running::start(place.scene.command(words));
    wait_for(&place, N / 10);
    drop(command.kill());
    assert!(changed(&place).len() < N);
    let command = Running::start(place.scene.command(words));
    wait_for(&place, N / 3);
    let place = place.kill_and_restart();
    command.end();

    let done = place.run_args(words).code(7).json();
    assert_eq!(done["n_moved"].as_u64().unwrap() + done["n_same"].as_u64().unwrap(), N as u64);
    let refused = &done["not_moved"].as_array().unwrap()[..];
    assert_eq!((refused.len(), &refused[0]["thread_id"], &refused[0]["kind"]), (1, &json!(unfit), &json!("unfit")));
    let reason = refused[0]["reason"].as_str().unwrap();
    assert!(reason.contains("the thread is at node `hold`, which this workflow does not have"), "{reason}");
    let again = place.run_args(words).code(7).json();
    assert_eq!((&again["n_moved"], &again["n_same"]), (&json!(0), &json!(N)));

    let mut moved = changed(&place);
    moved.sort_unstable();
    let mut expected = threads.clone();
    expected.sort_unstable();
    assert!(moved == expected, "{} of {N} threads have one event each", moved.len());
    place.post(&format!("/v1/threads/{unfit}/cancel"), &json!({})).is(200);
    place.post("/v1/signals/paid", &json!({})).is(200);
    for thread in [&threads[0], &threads[N / 2], &threads[N - 1]] {
        place.at_rest(thread);
        let state: Value = place.get(&format!("/v1/threads/{thread}/state")).is(200).value();
        assert_eq!((&state["status"], &state["variables"]["state"]), (&json!("completed"), &json!("new")));
    }
}

#[test]
fn one_thread_is_migrated_by_hash_or_definition() {
    let place = Place::new();
    let new = ORDER.replace("\"old\"", "\"new\"");
    let (old_hash, new_hash) = (place.put(ORDER), place.put(&new));
    let thread = start(&place, &old_hash);
    place.until(&format!("/v1/threads/{thread}"), |shown| shown["status"] == "suspended");
    let path = format!("/v1/threads/{thread}/migrate");
    let result = |body: Value| place.post(&path, &body).is(200).value()["result"].as_str().unwrap().to_owned();
    assert_eq!(result(json!({ "definition": new, "dry_run": true })), "fits");
    assert_eq!(result(json!({ "hash": new_hash, "from": "another" })), "other");
    assert_eq!(result(json!({ "hash": new_hash, "from": &old_hash[..12] })), "moved");
    assert_eq!(result(json!({ "definition": new })), "same");
    assert_eq!(place.get(&format!("/v1/threads/{thread}/state")).is(200).value()["workflow_hash"], new_hash);
    let faults = place.post(&path, &json!({ "definition": other() })).problem(422, "invalid-workflow");
    assert!(faults.to_string().contains("the thread is at node `wait`"), "{faults}");
}
