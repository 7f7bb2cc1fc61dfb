//! Requests that are sent again.

use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::http::{Request, Response};
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

/// Sends the same request many times at once; gives the thread that all of them began.
fn by_many(request: Request) -> String {
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let request = request.clone();
            std::thread::spawn(move || request.send())
        })
        .collect();
    let mut ids = Vec::new();
    for answer in threads {
        let answer = answer.join().unwrap();
        if answer.status == 201 {
            ids.push(answer.header("location").unwrap().strip_prefix("/v1/threads/").unwrap().to_owned());
        } else {
            answer.problem(409, "key-in-progress");
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    ids.remove(0)
}

#[test]
fn concurrent_identical_requests_start_one_thread() {
    let place = Place::new();
    let body = json!({ "definition": QUICK, "input": "Ada" });
    by_many(place.request("POST", "/v1/threads").header("Idempotency-Key", "same").json(&body));
    assert_eq!(place.n_threads(), 1);
}

#[test]
fn fork_and_live_rerun_with_a_key_start_one_thread() {
    let mut place = Place::new();
    let parent = place.start(QUICK);
    place.at_rest(&parent);
    let other = QUICK.replace("name: quick", "name: other");
    for (n, (what, body, another)) in [
        ("fork", json!({ "seq": 2, "variables": { "a": 1 } }), json!({ "seq": 2 })),
        ("rerun", json!({ "live_from": 2, "definition": other }), json!({ "live_from": 1 })),
    ]
    .into_iter()
    .enumerate()
    {
        let send = |place: &Place, body: &Value| {
            let path = format!("/v1/threads/{parent}/{what}");
            place.request("POST", &path).header("Idempotency-Key", "same").json(body)
        };
        let first = by_many(send(&place, &body));
        assert_eq!(place.n_threads(), n + 2, "{what}");
        let mut said = Vec::new();
        for round in 0..2 {
            let again = send(&place, &body).send().is(201);
            assert_eq!(again.header("idempotency-replayed"), Some("true"));
            assert_eq!(again.header("location"), Some(format!("/v1/threads/{first}").as_str()));
            let mut value = again.value();
            let thread = if what == "fork" { value.clone() } else { value["thread"].take() };
            assert_eq!(thread["thread_id"], first.as_str(), "{thread}");
            if what == "rerun" {
                assert_eq!(value["same"], true);
                said.push(value);
            }
            send(&place, &another).send().problem(422, "key-reused");
            if round == 0 {
                place = place.kill_and_restart();
            }
        }
        assert!(said.windows(2).all(|two| two[0] == two[1]), "{said:?}");
        assert_eq!(place.n_threads(), n + 2, "{what}");
    }
    // One that begins nothing leaves its key free.
    let late = |body: &Value| {
        let path = format!("/v1/threads/{parent}/rerun");
        place.request("POST", &path).header("Idempotency-Key", "late").json(body).send()
    };
    let praise = QUICK.replace("Greet", "Praise");
    assert_eq!(late(&json!({ "live_from": 4, "definition": praise })).is(200).value()["same"], false);
    late(&json!({ "live_from": 1_000 })).problem(404, "no-moment");
    assert_eq!(late(&json!({})).is(200).value()["same"], true);
    late(&json!({ "live_from": 2 })).is(201);
}

#[test]
fn deleted_thread_is_not_started_again_by_its_key() {
    let mut place = Place::new();
    let body = json!({ "definition": QUICK, "input": "Ada" });
    let thread = start(&place, "k1", &body).is(201).value()["thread_id"].as_str().unwrap().to_owned();
    place.at_rest(&thread);
    let fork = |place: &Place| {
        let path = format!("/v1/threads/{thread}/fork");
        place.request("POST", &path).header("Idempotency-Key", "k2").json(&json!({ "seq": 2 })).send()
    };
    let forked = fork(&place).is(201).value()["thread_id"].as_str().unwrap().to_owned();
    place.at_rest(&forked);
    place.request("DELETE", &format!("/v1/threads/{forked}")).send().is(200);
    for round in 0..2 {
        let gone = fork(&place).problem(404, "no-thread");
        assert_eq!(gone["place"]["thread_id"], forked.as_str());
        if round == 0 {
            place = place.kill_and_restart();
        }
    }
    place.request("DELETE", &format!("/v1/threads/{thread}")).send().is(200);
    let gone = start(&place, "k1", &body).problem(404, "no-thread");
    assert_eq!(gone["place"]["thread_id"], thread.as_str());
    assert_eq!(place.n_threads(), 0);
    start(&place, "k3", &body).is(201);
}

#[test]
fn thread_that_a_crash_interrupted_at_its_start_is_not_started_again() {
    let mut place = Place::new();
    let body = json!({ "definition": QUICK, "input": "Ada" });
    for round in 0..8 {
        let key = format!("crash-{round}");
        let mut socket = TcpStream::connect(place.address).unwrap();
        let (host, text) = (place.address, body.to_string());
        let head = format!(
            "POST /v1/threads HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n",
            text.len()
        );
        socket.write_all(format!("{head}{text}").as_bytes()).unwrap();
        // At another moment each time: before, in and after the start.
        std::thread::sleep(std::time::Duration::from_millis(round * 2));
        place = place.kill_and_restart();
        let threads = place.get("/v1/threads").value();
        let thread = match threads["threads"][0]["thread_id"].as_str() {
            Some(thread) => thread.to_owned(),
            // Nothing began: the key is free.
            None => start(&place, &key, &body).is(201).value()["thread_id"].as_str().unwrap().to_owned(),
        };
        place.at_rest(&thread);
        place.request("DELETE", &format!("/v1/threads/{thread}")).send().is(200);
        let gone = start(&place, &key, &body).problem(404, "no-thread");
        assert_eq!(gone["place"]["thread_id"], thread.as_str(), "round {round}");
        assert_eq!(place.n_threads(), 0, "round {round}");
    }
}

#[test]
fn reconnected_client_gets_its_thread_or_has_to_wait() {
    let place = Place::new();
    let body = json!({ "definition": QUICK, "input": "Ada" });
    for n in 0..60 {
        let mut socket = TcpStream::connect(place.address).unwrap();
        let host = place.address;
        write!(socket, "GET /health/live HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        // Left unread, so that the system resets the connection when it is closed.
        socket.peek(&mut [0]).unwrap();
        let text = body.to_string();
        let head = format!(
            "POST /v1/threads HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nIdempotency-Key: gone-{n}\r\nContent-Length: {}\r\n\r\n",
            text.len()
        );
        socket.write_all(format!("{head}{text}").as_bytes()).unwrap();
        // At another moment each time.
        std::thread::sleep(std::time::Duration::from_micros(n % 20 * 400));
        drop(socket);
        loop {
            let again = start(&place, &format!("gone-{n}"), &body);
            if again.status == 201 {
                break;
            }
            again.problem(409, "key-in-progress");
        }
    }
    let all = place.get("/v1/threads?limit=100").value();
    assert_eq!(all["threads"].as_array().map(Vec::len), Some(60));
}

#[test]
fn a_start_that_was_refused_leaves_its_key_free() {
    let place = Place::with("--allow-commands");
    let commands = QUICK
        .replace("name: quick", "name: commands")
        .replace("model: scripted", "model: scripted\n      tool_mode: auto\n      available_tools: [run_command]");
    place.put(&commands);
    place.put(QUICK);
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let place = place.kill_and_restart();
    start(&place, "once", &json!({ "workflow": "commands" })).problem(422, "invalid-workflow");
    start(&place, "once", &json!({ "workflow": "quick" })).is(201);
    let fork = |body: &Value| {
        let path = format!("/v1/threads/{thread}/fork");
        place.request("POST", &path).header("Idempotency-Key", "once").json(body).send()
    };
    fork(&json!({ "profile": "none" })).problem(422, "invalid-workflow");
    fork(&json!({ "seq": 1_000 })).problem(404, "no-moment");
    fork(&json!({ "seq": 2 })).is(201);
    assert_eq!(place.n_threads(), 3);
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
