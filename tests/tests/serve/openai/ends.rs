//! Clients that leave, hang or come again, and messages that wait behind others.

use std::time::{Duration, Instant};

use super::*;

/// Waits for a signal, and asks.
const ASKS_LATER: &str = r#"
version: "1"
name: asks-later
nodes:
  - {id: begin, signal: {name: go}}
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Which colour?
      variables: [{variable_name: colour, expression: "{{ input }}"}]
edges: [{from: begin, to: ask}]
"#;

/// Answers all messages but one.
const STOPS: &str = r#"
version: "1"
name: stops
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      extra:
        script:
          answers: [{match: ^Wait, text: never, delay_ms: 3600000}, {match: my name, text: You are Ada.}]
          otherwise: {text: Done.}
"#;

fn stream_with(door: &Door, body: &Value, key: &str) -> Stream {
    let mut body = body.clone();
    body["stream"] = json!(true);
    let stream = door.request(&door.token, &body).header("Idempotency-Key", key).open().unwrap();
    assert_eq!(stream.status, 200);
    stream
}

impl Door {
    /// Waits until a message waits behind the run of a thread.
    fn until_queued(&self, thread: &str) {
        let path = format!("/v1/threads/{thread}/runs");
        self.place.until(&path, |runs| runs["queued"].as_array().is_some_and(|queued| queued.len() == 1));
    }
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn clients_that_hang_at_the_door_cost_others_nothing() {
    let door = Door::on(Scene::new(), "--subscribers-max 8");
    let mut hanging: Vec<_> = (0..8).map(|_| door.stream("hangs")).collect();
    for stream in &mut hanging {
        assert_eq!(next(stream), Some(json!("Well, ")));
    }
    let refused = door.send(&asked("chat"));
    error(&refused, 503, "server_error", "busy");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(door.place.n_threads(), 8, "what was refused began nothing");
    drop(hanging);
    let limit = Instant::now() + Duration::from_secs(120);
    while door.send(&asked("chat")).status != 200 {
        assert!(Instant::now() < limit, "no place is free");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn client_that_repeats_a_request_a_thousand_times_starts_one_thread() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50");
    for _ in 0..1_000 {
        let mut stream = stream_with(&door, &asked("hangs"), "once");
        assert!(stream.event().unwrap().unwrap().value()["id"].is_string());
    }
    assert_eq!(content(&door.send(&asked("chat")).is(200).value()), "Hello, Ada!");
    let limit = Instant::now() + Duration::from_secs(120);
    while !door.place.get("/metrics").is(200).body.lines().any(|line| line == "rethread_subscribers 0") {
        assert!(Instant::now() < limit, "streams of clients that left stay open");
    }
    assert_eq!(door.place.n_threads(), 2);
}

#[test]
fn closed_door_asks_for_a_token_first() {
    let scene = Scene::new();
    scene.write("rethread.toml", "[serve.doors]\nopenai = false\n");
    let door = Door::on(scene, "");
    let without = Request::new(door.place.address, "POST", "/v1/chat/completions").json(&asked("chat")).send();
    error(&without, 401, "authentication_error", "invalid_api_key");
    error(&door.send(&asked("chat")), 404, "not_found_error", "not_found");
}

#[test]
fn messages_that_waited_are_not_taken_into_a_fork() {
    let door = Door::new();
    door.place.put(STOPS);
    let waits = json!({ "model": "stops", "input": "Wait.", "background": true });
    let first = respond(&door, &waits, None).is(200).value();
    let thread = first["conversation"]["id"].as_str().unwrap().trim_start_matches("conv_").to_owned();
    for text in ["one", "two"] {
        let mut waiting = json!({ "model": "stops", "input": text, "background": true });
        waiting["conversation"] = first["conversation"]["id"].clone();
        assert_eq!(respond(&door, &waiting, None).is(200).value()["status"], "queued");
    }
    let path = format!("/v1/responses/{}/cancel", first["id"].as_str().unwrap());
    door.place.post(&path, &json!({})).is(200);
    let n_runs = |thread: &str| {
        let runs = door.place.get(&format!("/v1/threads/{thread}/runs")).is(200).value();
        runs["runs"].as_array().unwrap().len()
    };
    door.place.until(&format!("/v1/threads/{thread}/runs"), |runs| {
        runs["runs"].as_array().is_some_and(|runs| runs.len() == 3)
    });
    door.place.at_rest(&thread);
    // The run after the first one began while another message waited.
    let again = json!({ "model": "stops", "input": "What is my name?", "previous_response_id": first["id"] });
    let answer = respond(&door, &again, None).is(200).value();
    assert_eq!(answer["output"][0]["content"][0]["text"], "You are Ada.");
    let fork = answer["conversation"]["id"].as_str().unwrap().trim_start_matches("conv_").to_owned();
    assert_ne!(fork, thread);
    assert_eq!((n_runs(&fork), n_runs(&thread)), (2, 3));
}

#[test]
fn client_that_leaves_cancels_its_run_alone() {
    let scene = Scene::new();
    scene.write("rethread.toml", "[serve.doors]\ncancel_on_disconnect = true\n");
    let door = Door::on(scene, "--keep-alive-ms 50");
    door.place.put(STOPS);
    let mut waits = asked("stops");
    waits["messages"][0]["content"] = json!("Wait.");
    let stream = stream_with(&door, &waits, "waits");
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    let mut behind = asked("stops");
    behind["metadata"] = json!({ "thread_id": thread });
    let behind = door.request(&door.token, &behind);
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| behind.send().is(200).value());
        door.until_queued(&thread);
        drop(stream);
        assert_eq!(content(&answer.join().unwrap()), "Done.");
    });
}

#[test]
fn message_behind_a_run_that_asks_is_answered_after_it() {
    let door = Door::new();
    door.place.put(ASKS_LATER);
    let mut stream = door.stream("asks-later");
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    let mut message = asked("asks-later");
    message["metadata"] = json!({ "thread_id": thread });
    let behind = door.request(&door.token, &message);
    let go = |id: &str| {
        door.place.post("/v1/signals/go", &json!({ "id": id, "keep_for_ms": 600_000 })).is(200);
    };
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| behind.send().is(200).value());
        door.until_queued(&thread);
        go("first");
        assert_eq!(next(&mut stream), Some(json!("Which colour?")));
        assert!(!answer.is_finished());
        door.send(&message).is(200);
        go("second");
        assert_eq!(content(&answer.join().unwrap()), "Which colour?", "its run asks as well");
    });
}

#[test]
fn run_whose_branch_goes_on_after_an_answer_is_in_progress() {
    let door = Door::new();
    let branch = "{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Which?, variables: [{variable_name: one, expression: input}]}}, \
                  {id: say, llm: {provider: mock, model: scripted, user_prompt: Hello, extra: {script: {otherwise: {text: Done, delay_ms: 30}}}}}";
    door.place.put(&format!(
        "version: '1'\nname: branches\nnodes: [{{id: all, parallel: {{for_each: '[1]', body: {{nodes: [{branch}]}}}}}}]\n"
    ));
    let asks = || {
        let begun = json!({ "model": "branches", "input": "Go.", "background": true });
        let begun = respond(&door, &begun, None).is(200).value();
        let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
        door.place.until(&path, |response| response["status"] == "completed");
        (begun, path)
    };
    for _ in 0..60 {
        let (_, path) = asks();
        let open = door.place.get("/v1/interactions").is(200).value();
        let question = open["interactions"][0]["id"].as_str().unwrap().to_owned();
        door.place.post(&format!("/v1/interactions/{question}/respond"), &json!({ "answer": "red" })).is(200);
        door.place.until(&path, |response| {
            assert_ne!(response["status"], "incomplete", "{response}");
            response["status"] == "completed"
        });
    }
    // A request that answers by a message is answered with the end of the run.
    let (begun, _) = asks();
    let answer = json!({ "model": "branches", "input": "red", "conversation": begun["conversation"]["id"] });
    let told = respond(&door, &answer, None).is(200).value();
    assert_eq!(told["status"], "completed", "{told}");
}
