//! Signals over HTTP.

use serde_json::json;

use crate::place::Place;

const ORDER: &str = "
version: '1'
name: order
nodes:
  - {id: paid, signal: {name: order_paid, where: {order: 7}, schema: {required: [amount]}}}
  - {id: note, context_processor: {processor_name: extract, processor_config: {variable: v, expression: output.amount}}}
";

#[test]
fn signal_is_sent_once_over_http_and_survives_a_kill() {
    let place = Place::new();
    let paid = |amount: i64| json!({ "id": "evt_1", "payload": { "order": 7, "amount": amount } });
    place.post("/v1/signals/order_paid", &paid(5)).problem(409, "conflict");
    let kept = json!({ "payload": { "order": 7, "amount": 6 }, "keep_for_ms": 600_000, "id": "early" });
    let sent = place.post("/v1/signals/order_paid", &kept).is(200).value();
    assert_eq!((&sent["is_kept"], &sent["threads"]), (&json!(true), &json!([])));
    let place = place.kill_and_restart();
    let early = place.start(ORDER);
    assert_eq!(place.at_rest(&early)["output"], 6);

    let thread = place.start(ORDER);
    place.until(&format!("/v1/threads/{thread}"), |shown| shown["status"] == "suspended");
    let state = place.get(&format!("/v1/threads/{thread}/state")).is(200).value();
    assert_eq!((&state["pending"][0]["kind"], &state["pending"][0]["name"]), (&json!("signal"), &json!("order_paid")));
    place.post("/v1/signals/order_paid", &json!({ "payload": { "order": 7 } })).problem(422, "unusable");
    place.post("/v1/signals/order%20paid", &json!({})).problem(422, "unusable");
    place.post("/v1/signals/order_paid", &json!({ "nothing": 1 })).problem(400, "invalid-request");
    let place = place.kill_and_restart();
    let sent = place.post("/v1/signals/order_paid", &paid(12)).is(200).value();
    assert_eq!((&sent["threads"], &sent["is_known"]), (&json!([thread]), &json!(false)));
    assert_eq!(place.at_rest(&thread)["output"], 12);
    let again = place.post("/v1/signals/order_paid", &paid(12)).is(200).value();
    assert_eq!((&again["threads"], &again["is_known"]), (&json!([thread]), &json!(true)));
    let events = place.get(&format!("/v1/threads/{thread}/events?types=SIGNAL_RECEIVED")).is(200).value();
    assert_eq!(events["events"].as_array().unwrap().len(), 1);
}
