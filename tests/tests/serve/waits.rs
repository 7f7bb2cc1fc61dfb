//! Waits for a time over HTTP.

use serde_json::json;

use crate::place::Place;

const WAIT: &str = "
version: '1'
name: hold
nodes:
  - {id: hold, wait: {at: '09:00', zone: Europe/Berlin}}
  - {id: done, context_processor: {processor_name: extract, processor_config: {variable: v, expression: \"'done'\"}}}
";

#[test]
fn wait_is_rescheduled_over_http() {
    let place = Place::new();
    let thread = place.start(WAIT);
    let path = format!("/v1/threads/{thread}");
    place.until(&path, |shown| shown["status"] == "suspended");
    let listed = place.get("/v1/threads?status=suspended").is(200).value();
    assert_eq!(listed["threads"][0]["thread_id"], json!(thread));
    let state = place.get(&format!("{path}/state")).is(200).value();
    let wait = &state["pending"][0];
    assert_eq!(wait["kind"], "wait");
    let until = wait["until"].as_str().unwrap();
    assert!(until.contains("T08:00:00") || until.contains("T07:00:00"), "{until}");

    let wait = format!("{path}/waits/{}", wait["id"].as_str().unwrap());
    place.post(&wait, &json!({})).problem(400, "invalid-request");
    place.post(&wait, &json!({ "until": "soon" })).problem(422, "unusable");
    place.post(&wait, &json!({ "until": "2500-01-01T00:00:00Z" })).problem(422, "unusable");
    place.post(&wait, &json!({ "until": "2030-01-01T00:00:00Z", "now": true })).problem(400, "invalid-request");
    place.post(&format!("{path}/waits/9999"), &json!({ "until": "2030-01-01T00:00:00Z" })).problem(409, "conflict");
    place.post(&format!("{path}/waits/x"), &json!({ "until": "2030-01-01T00:00:00Z" })).problem(404, "no-moment");

    let place = place.kill_and_restart();
    place.post(&wait, &json!({ "until": "2020-01-01T00:00:00Z" })).is(200);
    let outcome = place.at_rest(&thread);
    assert_eq!((&outcome["status"], &outcome["output"]), (&json!("completed"), &json!("done")));
    place.post(&wait, &json!({ "until": "2020-01-01T00:00:00Z" })).problem(409, "conflict");
}
