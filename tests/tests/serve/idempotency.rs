//! Requests that are sent again.

use serde_json::{Value, json};

use crate::http::Response;
use crate::place::{GREETING, Place, QUICK};

fn start(place: &Place, key: &str, body: &Value) -> Response {
    place.request("POST", "/v1/threads").header("Idempotency-Key", key).json(body).send()
}

#[test]
fn a_key_starts_one_thread_also_across_a_restart() {
    let mut place = Place::new();
    let body = json!({ "definition": QUICK, "input": "Ada" });
    let first = start(&place, "order 7", &body).is(201).value()["thread_id"].clone();
    for round in 0..2 {
        let again = start(&place, "order 7", &body).is(201);
        assert_eq!(again.value()["thread_id"], first);
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        start(&place, "order 7", &json!({ "definition": QUICK, "input": "Bob" })).problem(422, "key-reused");
        if round == 0 {
            place = place.kill_and_restart();
        }
    }
    assert_ne!(start(&place, "order 8", &body).is(201).value()["thread_id"], first);
    assert_eq!(place.get("/v1/threads").value()["threads"].as_array().map(Vec::len), Some(2));
    start(&place, "", &body).problem(400, "invalid-request");
    start(&place, &"k".repeat(300), &body).problem(400, "invalid-request");
}

#[test]
fn many_who_send_the_same_request_at_once_start_one_thread() {
    let place = Place::new();
    let body = json!({ "definition": QUICK, "input": "Ada" });
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let request = place.request("POST", "/v1/threads").header("Idempotency-Key", "same").json(&body);
            std::thread::spawn(move || request.send())
        })
        .collect();
    let mut ids = Vec::new();
    for answer in threads {
        let answer = answer.join().unwrap();
        if answer.status == 201 {
            ids.push(answer.value()["thread_id"].clone());
        } else {
            answer.problem(409, "key-in-progress");
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(place.get("/v1/threads").value()["threads"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_answer_with_a_key_is_given_once_also_across_a_restart() {
    let place = Place::new();
    let thread = place.start(GREETING);
    place.at_rest(&thread);
    let id = place.get("/v1/interactions").value()["interactions"][0]["id"].as_str().unwrap().to_owned();
    let answer = |place: &Place, text: &str| {
        let path = format!("/v1/interactions/{id}/respond");
        place.request("POST", &path).header("Idempotency-Key", "a1").json(&json!({ "answer": text })).send()
    };
    answer(&place, "yes").is(200);
    let place = place.kill_and_restart();
    assert_eq!(answer(&place, "yes").is(200).header("idempotency-replayed"), Some("true"));
    answer(&place, "no").problem(422, "key-reused");
}
