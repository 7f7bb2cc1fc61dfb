//! Runs that wait in a queue, over HTTP and at the terminal.

use rethread_tests::binary::Scene;
use serde_json::json;

use crate::place::Place;

const ORDER: &str = "
version: '1'
name: order
queue: {key: input.customer, concurrency: 1}
nodes:
  - {id: paid, signal: {name: paid, where: {order: '{{ input.order }}'}}}
";

#[test]
fn queued_run_is_shown_and_starts_after_a_kill() {
    let place = Place::new();
    let start = |place: &Place, order: u32| {
        let body = json!({ "definition": ORDER, "input": { "customer": "Ada", "order": order } });
        place.post("/v1/threads", &body).is(201).value()["thread_id"].as_str().unwrap().to_owned()
    };
    let (first, second, third) = (start(&place, 1), start(&place, 2), start(&place, 3));
    place.until(&format!("/v1/threads/{first}"), |shown| shown["status"] == "suspended");
    let listed = place.get("/v1/threads?status=queued").is(200).value();
    assert_eq!(listed["threads"].as_array().unwrap().len(), 2);
    let state = place.get(&format!("/v1/threads/{second}/state")).is(200).value();
    assert_eq!((&state["status"], &state["queue"]["key"]), (&json!("queued"), &json!("Ada")));
    assert_eq!(state["queue"]["dequeued_at"], json!(null));
    assert_eq!((&state["pending"][0]["kind"], &state["pending"][0]["id"]), (&json!("queue"), &json!("order")));
    assert!(
        place.scene.run(&format!("show {second}")).ok().stdout.contains("its turn in the queue order, key \"Ada\"")
    );
    assert!(place.scene.run(&format!("explain {second}")).ok().stdout.contains("waits in a queue"));

    let place = place.kill_and_restart();
    place.post(&format!("/v1/threads/{second}/cancel"), &json!({})).is(200);
    place.post("/v1/signals/paid", &json!({ "payload": { "order": 1 } })).is(200);
    place.until(&format!("/v1/threads/{third}"), |shown| shown["status"] == "suspended");
    place.post("/v1/signals/paid", &json!({ "payload": { "order": 3 } })).is(200);
    assert_eq!(place.at_rest(&third)["status"], "completed");
    assert_eq!(place.at_rest(&second)["status"], "cancelled");
}

#[test]
fn on_busy_is_refuse_or_queue() {
    let place = Place::new();
    let start = |on_busy: &str| {
        let body = json!({ "definition": crate::place::QUICK, "input": "Ada", "on_busy": on_busy });
        place.post("/v1/threads", &body)
    };
    start("queue").is(201);
    start("refuse").is(201);
    start("wait").problem(400, "invalid-request");
}

/// A command runs the thread that it starts, and leaves those of others where they wait.
#[test]
fn rethread_run_starts_its_own_queued_run() {
    let scene = Scene::new();
    scene.write(
        "once.yaml",
        "{version: '1', name: once, queue: {concurrency: 1, debounce_ms: 5}, nodes: [{id: done, end: {}}]}",
    );
    let run = scene.run("run once.yaml --input x").ok();
    assert!(run.stderr.contains("in a queue: once"), "{}", run.stderr);
    assert!(scene.run("threads --status queued").ok().stdout.is_empty());
}

#[test]
fn invalid_queue_is_a_fault_with_its_place() {
    let scene = Scene::new();
    for (queue, said) in [
        ("{key: input}", "a queue without limits"),
        ("{concurrency: 0}", "queue.concurrency"),
        ("{rate: {starts: 501, per_ms: 5}}", "queue.rate.starts"),
        ("{concurrency: 1, key: '{{ input'}", "queue.key"),
        ("{concurency: 1}", "concurrency"),
    ] {
        scene.write(
            "wrong.yaml",
            format!("{{version: '1', name: w, queue: {queue}, nodes: [{{id: done, end: {{}}}}]}}"),
        );
        scene.run("validate wrong.yaml").code(3).says(said);
    }
}
