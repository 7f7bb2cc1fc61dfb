//! The OpenAI-compatible door: with the clients of OpenAI from PyPI and npm, and with requests that no client sends.

mod ends;
mod tools;

use std::process::Command;

use rethread_tests::binary::{Scene, root};
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::doors::{
    APPROVES, ASKS, CHAT, CLIENT_TOOLS, DECIDES, FAILS, HANGS, as_described, check_page, run_client, serve,
};
use crate::http::{Request, Response, Stream};
use crate::place::Place;

/// The versions that are installed.
const PYPI: &str = "openai==3.52.0";
const NPM: &str = "openai@6.49.0";

/// Uses system messages.
const PIRATE: &str = r#"
version: "1"
name: pirate
variables: {instructions: ""}
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      system_prompt: "{{ instructions }}"
      user_prompt: "{{ instructions }} {{ input }}"
      extra: {script: {answers: [{match: "^Speak like a pirate. What is this", text: "Arr, a picture."}]}}
"#;

/// Says something, calls a tool, and says more.
const LOOKS: &str = r#"
version: "1"
name: looks
nodes:
  - id: prepare
    llm: {provider: mock, model: scripted, user_prompt: "{{ input }}", stream: true, extra: {script: {otherwise: {chunks: [not, " shown"]}}}}
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      stream: true
      tool_mode: auto
      extra:
        script:
          answers:
            - {call: 0, chunks: ["I look ", "first."], chunk_delay_ms: 200, tool_calls: [{name: list_folder, arguments: {}}]}
            - {call: 1, chunks: ["There is ", "nothing."], chunk_delay_ms: 200}
edges: [{from: prepare, to: answer}]
"#;

/// Its answer is cut at the limit of the model.
const CUT: &str = r#"
version: "1"
name: cut
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      stream: true
      extra: {script: {otherwise: {text: "Once upon a", finish_reason: length}}}
"#;

/// Calls tools of the client.
const PAYS: &str = r#"
version: "1"
name: pays
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      stream: true
      tool_mode: auto
      available_tools: [confirm]
      extra:
        script:
          answers:
            - {match: ^Pay, chunks: ["One ", "moment."], tool_calls: [{name: confirm, arguments: {what: 5 EUR}}, {name: confirm, arguments: {what: 6 EUR}}]}
            - {match: "^yes", chunks: ["Paid", "."]}
          otherwise: {text: Not paid.}
"#;

/// A server that needs tokens, and one of the scope `operate`.
struct Door {
    place: Place,
    token: String,
}

impl Door {
    fn new() -> Self {
        let scene = Scene::new();
        scene.write("rethread.toml", CLIENT_TOOLS);
        let door = Self::on(scene, "");
        door.place.put(PAYS);
        door.place.put(&as_described(PAYS, "pays", "brings"));
        door
    }

    fn on(scene: Scene, options: &str) -> Self {
        let team = CHAT.replace("name: chat", "name: team/chat");
        let (place, token) = serve(scene, options, &[CHAT, PIRATE, ASKS, FAILS, HANGS, LOOKS, CUT, &team]);
        Self { place, token }
    }

    fn request(&self, token: &str, body: &Value) -> Request {
        let request = Request::new(self.place.address, "POST", "/v1/chat/completions");
        request.header("Authorization", &format!("Bearer {token}")).json(body)
    }

    fn send(&self, body: &Value) -> Response {
        self.request(&self.token, body).send()
    }

    fn stream(&self, model: &str) -> Stream {
        let mut body = asked(model);
        body["stream"] = json!(true);
        let stream = self.request(&self.token, &body).open().unwrap();
        assert_eq!(stream.status, 200);
        stream
    }

    fn run(&self, command: Command) {
        run_client(command, &self.place, "/v1", &self.token);
    }
}

/// A request for a model.
fn asked(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "Hello, I am Ada." }] })
}

/// The texts and the error of the next chunks, up to a text or the end.
fn next(stream: &mut Stream) -> Option<Value> {
    loop {
        let event = stream.event().unwrap()?;
        if event.data == "[DONE]" {
            return Some(json!("[DONE]"));
        }
        let chunk = event.value();
        let content = &chunk["choices"][0]["delta"]["content"];
        if chunk["error"].is_object() {
            return Some(chunk["error"].clone());
        }
        if content.as_str().is_some_and(|text| !text.is_empty()) {
            return Some(content.clone());
        }
    }
}

#[track_caller]
fn error(response: &Response, status: u16, kind: &str, code: &str) -> Value {
    assert_eq!(response.status, status, "{}", response.body);
    assert_eq!(response.header("content-type"), Some("application/json"));
    let error = response.value()["error"].clone();
    assert_eq!((error["type"].as_str(), error["code"].as_str()), (Some(kind), Some(code)), "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.len() > 10), "{error}");
    assert!(error.as_object().unwrap().contains_key("param"), "{error}");
    error
}

#[test]
fn openai_client_for_python_works() {
    let Some(packages) = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "openai-python", &[PYPI]) else { return };
    let mut command = Command::new("python3");
    command.arg(root().join("tests/clients/openai_client.py")).env("PYTHONPATH", packages);
    Door::new().run(command);
}

#[test]
fn openai_client_for_python_gets_responses() {
    let Some(packages) = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "openai-python", &[PYPI]) else { return };
    let mut command = Command::new("python3");
    command.arg(root().join("tests/clients/openai_responses.py")).env("PYTHONPATH", packages);
    Door::new().run(command);
}

#[test]
fn openai_client_for_node_works() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "openai", &[NPM]) else { return };
    // Modules are searched beside the program.
    let program = folder.join("openai_client.mjs");
    std::fs::copy(root().join("tests/clients/openai_client.mjs"), &program).unwrap();
    let mut command = Command::new("node");
    command.arg(program);
    Door::new().run(command);
}

#[test]
fn refused_requests_have_the_shape_of_openai_and_start_nothing() {
    let door = Door::on(Scene::new(), "--body-bytes-max 20000");
    let reader = door.place.scene.run("token create --scope read").ok().stdout.trim().to_owned();
    let send = |body: &str| {
        let request = Request::new(door.place.address, "POST", "/v1/chat/completions");
        request.header("Authorization", &format!("Bearer {}", door.token)).body("application/json", body).send()
    };
    error(&door.request("wrong", &asked("chat")).send(), 401, "authentication_error", "invalid_api_key");
    error(&door.request(&reader, &asked("chat")).send(), 403, "permission_error", "forbidden");
    error(&door.send(&asked("nothing")), 404, "not_found_error", "model_not_found");
    for body in ["{", "[]", "", "\"text\"", "{\"model\": 1}", "{\"model\": \"chat\", \"messages\": {}}"] {
        error(&send(body), 400, "invalid_request_error", "invalid_request");
    }
    error(&send(&format!("[{}", " ".repeat(20_000))), 413, "invalid_request_error", "too_large");
    let as_form = Request::new(door.place.address, "POST", "/v1/chat/completions");
    let as_form = as_form.header("Authorization", &format!("Bearer {}", door.token)).body("text/plain", "{}").send();
    error(&as_form, 415, "invalid_request_error", "unsupported_media_type");
    let by_get = Request::new(door.place.address, "GET", "/v1/chat/completions").send();
    error(&by_get, 405, "invalid_request_error", "method_not_allowed");
    for (name, value) in [
        ("n", json!(2)),
        ("n", json!("1")),
        ("logprobs", json!(true)),
        ("stop", json!(["."])),
        ("modalities", json!(["text", "audio"])),
        ("audio", json!({ "voice": "ada", "format": "mp3" })),
        ("tools", json!([{}])),
        ("tools", json!({})),
        ("tools", json!([{ "type": "custom", "custom": { "name": "confirm" } }])),
        ("tools", json!([{ "type": "function", "function": { "name": "confirm" } }])),
        ("tool_choice", json!("required")),
        ("tool_choice", json!({ "type": "function", "function": { "name": "confirm" } })),
        ("functions", json!([{}])),
        ("response_format", json!({ "type": "json_object" })),
        ("stream", json!("yes")),
        ("metadata", json!([])),
        ("metadata", json!({ "thread_id": 7 })),
        ("messages", json!([{ "role": "assistant", "content": "Hello." }])),
        ("messages", json!([{ "role": "system", "content": "Be kind." }, { "role": "user", "content": "Hello." }])),
    ] {
        let mut body = asked("chat");
        body[name] = value;
        let refused = error(&door.send(&body), 400, "invalid_request_error", "invalid_request");
        assert_eq!(refused["param"], name, "{refused}");
    }
    for content in [json!([{ "type": "input_audio" }]), json!(7), json!([{ "type": "text" }])] {
        let body = json!({ "model": "chat", "messages": [{ "role": "user", "content": content }] });
        let refused = error(&door.send(&body), 400, "invalid_request_error", "invalid_request");
        assert!(refused["param"].as_str().unwrap().starts_with("messages[0].content"), "{refused}");
    }
    let mut elsewhere = asked("chat");
    elsewhere["metadata"] = json!({ "thread_id": "00000000-0000-7000-8000-000000000000" });
    error(&door.send(&elsewhere), 404, "not_found_error", "no_thread");
    assert_eq!(door.place.n_threads(), 0);
}

#[test]
fn ignored_fields_change_nothing() {
    let mut body = asked("chat");
    for (name, value) in [
        ("temperature", json!(2)),
        ("max_completion_tokens", json!(1)),
        ("seed", json!(7)),
        ("store", json!(true)),
        ("n", json!(1)),
        ("tools", json!([])),
        ("logprobs", json!(false)),
        ("response_format", json!({ "type": "text" })),
        ("modalities", json!(["text"])),
        ("stop", Value::Null),
        ("of_tomorrow", json!({ "x": [1] })),
    ] {
        body[name] = value;
    }
    let answer = Door::new().send(&body).is(200).value();
    assert_eq!(answer["choices"][0]["message"]["content"], "Hello, Ada!");
}

#[test]
fn door_is_closed_unless_configured_beyond_loopback() {
    let scene = Scene::new();
    let token = scene.run("token create --scope operate").ok().stdout.trim().to_owned();
    let ask = |place: &Place| {
        let address = format!("127.0.0.1:{}", place.address.port()).parse().unwrap();
        Request::new(address, "GET", "/v1/models").header("Authorization", &format!("Bearer {token}")).send()
    };
    let place = Place::at(scene, "0.0.0.0:0", "");
    let closed = error(&ask(&place), 404, "not_found_error", "not_found");
    assert!(closed["message"].as_str().unwrap().contains("[serve.doors]"), "{closed}");
    let Place { scene, server, .. } = place;
    server.kill();
    scene.write("rethread.toml", "[serve.doors]\nopenai = true\n");
    let place = Place::at(scene, "0.0.0.0:0", "");
    ask(&place).is(200);
    let Place { scene, server, .. } = place;
    server.kill();
    scene.write("rethread.toml", "[serve.doors]\nopenai = false\n");
    let place = Place::on(scene, "");
    error(&ask(&place), 404, "not_found_error", "not_found");
    let Place { scene, server, .. } = place;
    server.kill();
    scene.write("rethread.toml", "[serve.doors]\nopen_ai = true\n");
    scene.run("serve --listen 127.0.0.1:0").code(3).says("did you mean `openai`");
}

#[test]
fn token_with_labels_reaches_only_its_threads_by_chat() {
    let door = Door::new();
    let bound = |label: &str| {
        door.place.scene.run(&format!("token create --scope operate --label {label}")).ok().stdout.trim().to_owned()
    };
    let (acme, other) = (bound("tenant=acme"), bound("tenant=other"));
    let answer = door.request(&acme, &asked("chat")).send().is(200).value();
    let thread = answer["metadata"]["thread_id"].as_str().unwrap();
    let labels = door.place.get(&format!("/v1/threads/{thread}")).is(200).value()["labels"].clone();
    assert_eq!(labels, json!({ "tenant": "acme" }));
    let mut next = asked("chat");
    next["metadata"] = json!({ "thread_id": thread });
    error(&door.request(&other, &next).send(), 404, "not_found_error", "no_thread");
    let by = |token: &str, method: &str, path: &str| {
        Request::new(door.place.address, method, path).header("Authorization", &format!("Bearer {token}"))
    };
    let ask = json!({ "model": "chat", "input": "Hello." });
    let response = by(&acme, "POST", "/v1/responses").json(&ask).send().is(200).value();
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    by(&acme, "GET", &path).send().is(200);
    error(&by(&other, "GET", &path).send(), 404, "not_found_error", "no_thread");
    error(&by(&other, "POST", &format!("{path}/cancel")).send(), 404, "not_found_error", "no_thread");
    for place in ["previous_response_id", "conversation"] {
        let mut ask = ask.clone();
        ask[place] = if place == "conversation" { response[place]["id"].clone() } else { response["id"].clone() };
        error(&by(&other, "POST", "/v1/responses").json(&ask).send(), 404, "not_found_error", "no_thread");
    }
    door.request(&acme, &next).send().is(200);
    let models =
        Request::new(door.place.address, "GET", "/v1/models").header("Authorization", &format!("Bearer {acme}"));
    error(&models.send(), 404, "not_found_error", "not_found");
}

#[test]
fn run_goes_on_if_the_client_leaves_its_stream() {
    let door = Door::new();
    let mut stream = door.stream("looks");
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    assert_eq!(next(&mut stream), Some(json!("I look ")));
    drop(stream);
    let outcome = door.place.at_rest(&thread);
    assert_eq!((&outcome["status"], &outcome["output"]), (&json!("completed"), &json!("There is nothing.")));
}

#[test]
fn run_is_cancelled_if_configured_and_the_client_leaves() {
    let scene = Scene::new();
    scene.write("rethread.toml", "[serve.doors]\ncancel_on_disconnect = true\n");
    let door = Door::on(scene, "--keep-alive-ms 50");
    let mut stream = door.stream("hangs");
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    assert_eq!(next(&mut stream), Some(json!("Well, ")));
    drop(stream);
    door.place.until(&format!("/v1/threads/{thread}"), |thread| thread["status"] == "cancelled");
    // An answer that is complete cancels nothing.
    let answer = door.send(&asked("looks")).is(200).value();
    assert_eq!(door.place.at_rest(answer["metadata"]["thread_id"].as_str().unwrap())["status"], "completed");
}

#[test]
fn stream_has_what_the_last_node_says_and_an_answer_has_its_output() {
    let door = Door::new();
    let mut stream = door.stream("looks");
    let texts: Vec<_> =
        std::iter::from_fn(|| next(&mut stream)).map(|text| text.as_str().unwrap().to_owned()).collect();
    assert_eq!(texts.concat(), "I look first.\n\nThere is nothing.[DONE]");
    let answer = door.send(&asked("looks")).is(200).value();
    assert_eq!(answer["choices"][0]["message"]["content"], "There is nothing.");
}

#[test]
fn stream_of_a_server_that_stops_ends_with_an_error() {
    let door = Door::new();
    let mut stream = door.stream("hangs");
    assert_eq!(next(&mut stream), Some(json!("Well, ")));
    door.place.server.signal("TERM");
    let last = next(&mut stream).unwrap();
    assert_eq!((&last["type"], &last["code"]), (&json!("server_error"), &json!("stopping")), "{last}");
    assert_eq!(next(&mut stream), None);
}

#[test]
fn repeated_request_with_a_key_gets_the_answer_of_the_first() {
    let door = Door::new();
    let send = |body: &Value| door.request(&door.token, body).header("Idempotency-Key", "turn-1").send();
    let first = send(&asked("chat")).is(200).value();
    let second = send(&asked("chat")).is(200).value();
    assert_eq!((&second["id"], &second["choices"]), (&first["id"], &first["choices"]));
    let mut next = asked("chat");
    next["metadata"] = json!({ "thread_id": first["metadata"]["thread_id"] });
    assert_eq!(send(&next).is(200).value()["id"], send(&next).is(200).value()["id"]);
    error(&send(&asked("fails")), 422, "invalid_request_error", "key_reused");
    assert_eq!(door.place.n_threads(), 1);
}

/// A request for a response.
fn wanted(door: &Door, body: &Value) -> Request {
    let request = Request::new(door.place.address, "POST", "/v1/responses");
    request.header("Authorization", &format!("Bearer {}", door.token)).json(body)
}

fn respond(door: &Door, body: &Value, key: Option<&str>) -> Response {
    let request = wanted(door, body);
    match key {
        Some(key) => request.header("Idempotency-Key", key),
        None => request,
    }
    .send()
}

#[test]
fn repeated_message_after_a_response_runs_once() {
    let door = Door::new();
    let first = respond(&door, &json!({ "model": "chat", "input": "Hello" }), None).is(200).value();
    let next = json!({ "model": "chat", "input": "What is my name?", "previous_response_id": first["id"] });
    let second = respond(&door, &next, Some("turn-2")).is(200).value();
    assert_eq!(second["conversation"], first["conversation"]);
    assert_eq!(respond(&door, &next, Some("turn-2")).is(200).value()["id"], second["id"]);
    // Without the key it is another message, in a thread of its own.
    let other = respond(&door, &next, None).is(200).value();
    assert_ne!(other["conversation"], first["conversation"]);
    let forked = respond(&door, &next, Some("turn-3")).is(200).value();
    assert_eq!(respond(&door, &next, Some("turn-3")).is(200).value()["id"], forked["id"]);
    assert_eq!(door.place.n_threads(), 3);

    // What came before is no answer to a question that was asked since.
    let started = respond(&door, &json!({ "model": "chat", "input": "Hello" }), None).is(200).value();
    let ask = json!({ "model": "asks", "input": "red", "conversation": started["conversation"]["id"] });
    let question = respond(&door, &ask, Some("turn-4")).is(200).value();
    let text = |response: &Value| response["output"][0]["content"][0]["text"].clone();
    assert_eq!(text(&question), "Which colour? (one of `red`, `blue`)");
    assert_eq!(text(&respond(&door, &ask, Some("turn-4")).is(200).value()), text(&question));
    let answer = json!({ "model": "asks", "input": "blue", "previous_response_id": question["id"] });
    error(&respond(&door, &answer, Some("turn-5")), 400, "invalid_request_error", "invalid_request");
    assert_eq!(text(&respond(&door, &answer, None).is(200).value()), "Painted blue.");
}

#[test]
fn question_that_is_not_shown_whole_is_not_approved() {
    let door = Door::new();
    door.place.put(DECIDES);
    let asked = respond(&door, &json!({ "model": "decides", "input": "x".repeat(20_000) }), None).is(200).value();
    let answer = |text: &str| {
        respond(&door, &json!({ "model": "decides", "input": text, "previous_response_id": asked["id"] }), None)
    };
    let refused = answer("yes").is(422).value();
    assert!(refused.to_string().contains("too long to be shown whole"), "{refused}");
    answer("no").is(200);
}

#[test]
fn parallel_messages_after_one_response_do_not_see_each_other() {
    let door = Door::new();
    let first = respond(&door, &json!({ "model": "chat", "input": "Hello" }), None).is(200).value();
    let next = json!({ "model": "chat", "input": "What is my name?", "previous_response_id": first["id"] });
    let conversations: std::collections::BTreeSet<_> = std::thread::scope(|scope| {
        let sent: Vec<_> = (0..3).map(|_| wanted(&door, &next)).collect();
        let sent: Vec<_> = sent.into_iter().map(|request| scope.spawn(|| request.send().is(200).value())).collect();
        sent.into_iter().map(|sent| sent.join().unwrap()["conversation"]["id"].to_string()).collect()
    });
    assert_eq!(conversations.len(), 3, "one goes on, the others fork");
    for conversation in conversations {
        let thread = conversation.trim_matches('"').trim_start_matches("conv_").to_owned();
        let runs = door.place.get(&format!("/v1/threads/{thread}/runs")).is(200).value();
        assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2), "{runs}");
    }
    let hangs =
        respond(&door, &json!({ "model": "hangs", "input": "Hello", "background": true }), None).is(200).value();
    let early = json!({ "model": "hangs", "input": "And?", "previous_response_id": hangs["id"] });
    error(&respond(&door, &early, None), 409, "invalid_request_error", "conflict");
    // One that waits behind it, and is cancelled, is a cancelled response.
    let mut waiting = json!({ "model": "hangs", "input": "Later", "background": true });
    waiting["conversation"] = hangs["conversation"]["id"].clone();
    let queued = respond(&door, &waiting, None).is(200).value();
    let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
    assert_eq!(door.place.post(&format!("{path}/cancel"), &json!({})).is(200).value()["status"], "cancelled");
    assert_eq!(door.place.get(&path).is(200).value()["status"], "cancelled");
}

#[test]
fn stream_is_not_compressed_whatever_the_client_accepts() {
    let door = Door::new();
    let body = json!({ "model": "hangs", "stream": true, "messages": [{ "role": "user", "content": "Hello." }] });
    // As the client for Python sends it.
    let request = door.request(&door.token, &body).header("Accept", "application/json");
    let mut stream = request.header("Accept-Encoding", "gzip, deflate").open().unwrap();
    assert_eq!((stream.status, stream.header("content-encoding")), (200, None));
    assert_eq!(next(&mut stream), Some(json!("Well, ")));
    let whole = door.request(&door.token, &asked("chat")).header("Accept-Encoding", "gzip").send().is(200);
    assert_eq!(whole.header("content-encoding"), Some("gzip"));
}

#[test]
fn deleted_response_is_gone_with_its_thread() {
    let door = Door::new();
    let say = |input: &str, after: Option<&Value>| {
        let body = json!({ "model": "chat", "input": input, "previous_response_id": after });
        respond(&door, &body, None).is(200).value()["id"].clone()
    };
    let path = |id: &Value| format!("/v1/responses/{}", id.as_str().unwrap());
    let first = say("Hello", None);
    let by_operator = Request::new(door.place.address, "DELETE", &path(&first));
    let by_operator = by_operator.header("Authorization", &format!("Bearer {}", door.token)).send();
    error(&by_operator, 403, "permission_error", "forbidden");

    let second = say("What is my name?", Some(&first));
    for id in [&first, &second] {
        let refused = error(&door.place.request("DELETE", &path(id)).send(), 409, "invalid_request_error", "conflict");
        assert!(refused["message"].as_str().unwrap().contains("DELETE /v1/threads/"), "{refused}");
    }
    door.place.get(&path(&first)).is(200);

    let alone = say("Hello", None);
    let before = door.place.n_threads();
    let deleted = door.place.request("DELETE", &path(&alone)).send().is(200).value();
    assert_eq!(deleted, json!({ "id": alone, "object": "response", "deleted": true }));
    assert_eq!(door.place.n_threads(), before - 1);
    error(&door.place.get(&path(&alone)), 404, "not_found_error", "no_thread");
    error(&door.place.request("DELETE", &path(&alone)).send(), 404, "not_found_error", "no_thread");

    let open = json!({ "model": "hangs", "input": "Hello", "background": true });
    let open = respond(&door, &open, None).is(200).value()["id"].clone();
    error(&door.place.request("DELETE", &path(&open)).send(), 409, "invalid_request_error", "conflict");
}

#[test]
fn answer_that_a_schema_may_change_is_not_streamed_before_it_is_checked() {
    let door = Door::new();
    door.place.put(
        &CHAT
            .replace("name: chat", "name: typed\noutput_schema: {type: object}")
            .replace(r#"{chunks: ["Hello", ", ", "Ada!"]}"#, r#"{chunks: ["{ ", "\"a\": 1 }"]}"#),
    );
    let mut stream = door.stream("typed");
    assert_eq!(next(&mut stream), Some(json!(r#"{"a":1}"#)));
    assert_eq!(next(&mut stream), Some(json!("[DONE]")));
}

#[test]
fn run_that_needs_an_approval_is_an_error_until_it_is_decided() {
    let door = Door::new();
    door.place.put(APPROVES);
    let waits = door.send(&asked("approves"));
    let message = error(&waits, 422, "run_waiting", "needs_person")["message"].clone();
    let thread = waits.header("x-rethread-thread").unwrap();
    let open = door.place.get(&format!("/v1/threads/{thread}/interactions")).is(200).value();
    let id = open["interactions"][0]["id"].as_str().unwrap();
    assert!(message.as_str().unwrap().contains(&format!("/v1/interactions/{id}/respond")), "{message}");
    let mut next = asked("approves");
    next["messages"][0]["content"] = json!("yes");
    next["metadata"] = json!({ "thread_id": thread });
    error(&door.send(&next), 422, "run_waiting", "needs_person");
    door.place.post(&format!("/v1/interactions/{id}/respond"), &json!({ "answer": true })).is(200);
    assert_eq!(door.place.at_rest(thread)["output"], "Looked.");
    assert_eq!(door.send(&next).is(200).value()["choices"][0]["message"]["content"], "Yes what?");
}

#[test]
fn concurrent_messages_of_a_thread_have_an_answer_each() {
    let door = Door::new();
    let thread = door.send(&asked("chat")).is(200).value()["metadata"]["thread_id"].clone();
    let mut body = asked("chat");
    body["metadata"] = json!({ "thread_id": thread });
    let ids: std::collections::BTreeSet<_> = std::thread::scope(|scope| {
        let sent: Vec<_> = (0..4).map(|_| door.request(&door.token, &body)).collect();
        let sent: Vec<_> = sent.into_iter().map(|request| scope.spawn(|| request.send().is(200).value())).collect();
        let answers = sent.into_iter().map(|sent| sent.join().unwrap());
        answers.map(|answer| answer["id"].to_string()).collect()
    });
    assert_eq!(ids.len(), 4);
    let runs = door.place.get(&format!("/v1/threads/{}/runs", thread.as_str().unwrap())).is(200).value();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(5));
    // Another model for one of them.
    body["model"] = json!("team/chat");
    assert_eq!(door.send(&body).is(200).value()["model"], "team/chat");
}

#[test]
fn program_of_the_page_about_the_door_prints_what_the_page_says() {
    let Some(packages) = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "openai-python", &[PYPI]) else { return };
    check_page("openai.md", "python", |program| {
        let mut command = Command::new("python3");
        command.args(["-c", program]).env("PYTHONPATH", packages);
        command
    });
}
