//! Labels of threads over HTTP.

use serde_json::{Value, json};

use crate::place::{Place, QUICK};

fn start(place: &Place, labels: &Value) -> String {
    let started = place.post("/v1/threads", &json!({ "definition": QUICK, "labels": labels })).is(201).value();
    assert_eq!(started["labels"], *labels);
    let id = started["thread_id"].as_str().unwrap().to_owned();
    place.at_rest(&id);
    id
}

fn ids(threads: &Value) -> Vec<&str> {
    threads.as_array().unwrap().iter().map(|thread| thread["thread_id"].as_str().unwrap()).collect()
}

#[test]
fn lists_events_and_gc_of_the_server_are_filtered_by_labels() {
    let place = Place::new();
    let plain = start(&place, &json!({}));
    let ada = start(&place, &json!({ "tenant": "acme", "user": "ada" }));
    let bob = start(&place, &json!({ "tenant": "acme", "user": "bob" }));
    let listed = |query: &str| place.get(&format!("/v1/threads?{query}")).is(200).value();
    assert_eq!(ids(&listed("label=tenant=acme")["threads"]), [&bob, &ada]);
    assert_eq!(ids(&listed("label=tenant=acme&order=oldest")["threads"]), [&ada, &bob]);
    assert_eq!(ids(&listed("label=tenant=acme,user=ada")["threads"]), [&ada]);
    assert_eq!(ids(&listed("label=tenant=acme&status=running")["threads"]), Vec::<&str>::new());
    assert_eq!(ids(&listed("")["threads"]), [&bob, &ada, &plain]);

    let events = place.get("/v1/events?label=user=ada&limit=5000").is(200).value();
    let of_ada = ids(&events["events"]);
    assert!(of_ada.len() > 2 && of_ada.iter().all(|thread| *thread == ada), "{events}");
    let streamed = place.request("GET", "/v1/events?label=user=ada&follow=false");
    let streamed = streamed.header("Accept", "application/x-ndjson").send().is(200).body;
    assert!(streamed.contains(&ada) && !streamed.contains(&bob) && !streamed.contains(&plain), "{streamed}");

    place.get("/v1/threads?label=tenant").problem(400, "invalid-request");
    place.get("/v1/events?label=a%20b=1").problem(400, "invalid-request");
    let bad = json!({ "definition": QUICK, "labels": { "a b": "1" } });
    let refused = place.post("/v1/threads", &bad);
    assert!(refused.status >= 400 && refused.body.contains("is not the key of a label"), "{}", refused.body);

    let gone = place.post("/v1/gc", &json!({ "labels": { "user": "bob" } })).is(200).value();
    assert_eq!(ids(&gone["deleted"]), [&bob]);
    assert_eq!(ids(&listed("")["threads"]), [&ada, &plain]);
}
