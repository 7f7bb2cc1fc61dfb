//! The AG-UI door: with the client of the protocol from npm, with its models from PyPI, and with requests that no client sends.

use std::process::Command;
use std::time::Duration;

use rethread_tests::binary::{Running, Scene, root};
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::http::{Request, Response, Stream};
use crate::openai::block;
use crate::place::Place;

/// The versions that are installed.
const NPM: [&str; 2] = ["@ag-ui/client@1.0.0", "@ag-ui/core@1.0.0"];
const PYPI: &str = "ag-ui-protocol==1.0.0";

/// Reasons, speaks, calls a tool, and speaks again. Its first node is not part of the conversation.
const LOOKS: &str = r#"
version: "1"
name: looks
variables: {mood: calm, instructions: ""}
nodes:
  - id: prepare
    llm: {provider: mock, model: scripted, user_prompt: "{{ input }}", stream: true, context: fresh, extra: {script: {otherwise: {chunks: [not, " shown"]}}}}
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }} {{ mood }}"
      system_prompt: "{{ instructions }}"
      stream: true
      tool_mode: auto
      extra:
        script:
          answers:
            - {match: merry, chunks: ["I am ", "merry."]}
            - {match: ^Hello, reasoning: "Let me think.", chunks: ["I look ", "first."], tool_calls: [{name: list_folder, arguments: {}}]}
          otherwise: {chunks: ["There is ", "nothing."]}
edges: [{from: prepare, to: answer}]
"#;

/// Asks a person twice: for a value, and about a tool call.
const ASKS: &str = r#"
version: "1"
name: asks
variables: {colour: none}
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Which colour?
      answer: choice
      choices: [red, blue]
      variables: [{variable_name: colour, expression: "{{ input }}"}]
  - id: paint
    llm:
      provider: mock
      model: scripted
      user_prompt: "Paint it {{ colour }}."
      approve_tools: [list_folder]
      tool_mode: auto
      extra: {script: {answers: [{match: "^Paint it", tool_calls: [{name: list_folder, arguments: {}}]}], otherwise: {text: Painted blue.}}}
edges: [{from: ask, to: paint}]
"#;

const FAILS: &str = r#"
version: "1"
name: fails
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      extra: {script: {otherwise: {error: {kind: authentication, message: no such key}}}}
"#;

/// Says something, and then nothing for an hour.
const HANGS: &str = r#"
version: "1"
name: hangs
nodes:
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
            - {call: 0, chunks: ["Well, "], tool_calls: [{name: list_folder, arguments: {}}]}
            - {call: 1, chunks: [never], delay_ms: 3600000}
"#;

/// Takes what the client knows.
const TOLD: &str = r#"
version: "1"
name: told
variables: {context: [], forwarded_props: {}}
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }} {{ context }} {{ forwarded_props }}"
      extra: {script: {answers: [{match: Ulm, text: In Ulm.}]}}
"#;

/// Calls an agent, which uses a tool.
const TEAM: &str = r#"
version: "1"
name: team
nodes:
  - id: lead
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      stream: true
      agents: [helper]
      extra:
        script:
          answers:
            - {match: ^Hello, tool_calls: [{name: helper, arguments: {task: Help.}}]}
          otherwise: {text: "They say: Done."}
workflows:
  helper:
    description: Helps.
    nodes:
      - id: work
        llm:
          provider: mock
          model: scripted
          user_prompt: "{{ task }}"
          stream: true
          tool_mode: auto
          extra:
            script:
              answers:
                - {match: ^Help, chunks: [I, " look."], tool_calls: [{name: list_folder, arguments: {}}]}
              otherwise: {text: Done.}
"#;

/// Calls a tool of the client.
const FRONT: &str = r#"
version: "1"
name: front
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      tool_mode: auto
      available_tools: [confirm]
      extra:
        script:
          answers:
            - {match: ^Pay, tool_calls: [{name: confirm, arguments: {what: 5 EUR}}, {name: confirm, arguments: {what: 6 EUR}}]}
            - {match: "^yes", text: Paid.}
          otherwise: {text: Not paid.}
"#;

const CLIENT_TOOLS: &str = r#"
[serve.client_tools.confirm]
description = "Asks the user."
parameters = { type = "object", properties = { what = { type = "string" } }, required = ["what"] }
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
        door.place.put(FRONT);
        door
    }

    fn on(scene: Scene, options: &str) -> Self {
        let token = scene.run("token create --scope operate").ok().stdout.trim().to_owned();
        let admin = scene.run("token create --scope admin").ok().stdout.trim().to_owned();
        let mut place = Place::on(scene, &format!("--require-token {options}"));
        place.token = Some(admin);
        for workflow in [LOOKS, ASKS, FAILS, HANGS, TOLD, TEAM] {
            place.put(workflow);
        }
        Self { place, token }
    }

    fn request(&self, token: &str, workflow: &str, body: &Value) -> Request {
        let request = Request::new(self.place.address, "POST", &format!("/agui/{workflow}"));
        request.header("Authorization", &format!("Bearer {token}")).json(body)
    }

    fn send(&self, workflow: &str, body: &Value) -> Response {
        self.request(&self.token, workflow, body).send()
    }

    fn stream(&self, workflow: &str, body: &Value) -> Stream {
        let stream = self.request(&self.token, workflow, body).open().unwrap();
        assert_eq!(stream.status, 200);
        stream
    }

    /// All events of a run.
    #[track_caller]
    fn events(&self, workflow: &str, body: &Value) -> Vec<Value> {
        let answer = self.send(workflow, body).is(200);
        let lines = answer.body.split("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn n_threads(&self) -> usize {
        self.place.get("/v1/threads").is(200).value()["threads"].as_array().unwrap().len()
    }

    fn run(&self, mut command: Command) {
        command.args([&format!("http://{}/agui", self.place.address), &self.token]);
        let said = Running::start(command).end().ok().stdout;
        assert_eq!(said.trim(), "done");
    }
}

/// The input of a run of the thread `t`.
fn asked(run: &str, text: &str) -> Value {
    json!({
        "threadId": "t", "runId": run, "messages": [{ "id": run, "role": "user", "content": text }], "tools": [],
        "context": [], "forwardedProps": {}, "state": {},
    })
}

/// The next event of a stream that has this type.
fn next(stream: &mut Stream, kind: &str) -> Value {
    loop {
        let event = stream.event().unwrap().unwrap_or_else(|| panic!("no {kind}")).value();
        if event["type"] == kind {
            return event;
        }
    }
}

#[track_caller]
fn error(response: &Response, status: u16, code: &str) -> Value {
    assert_eq!(response.status, status, "{}", response.body);
    assert_eq!(response.header("content-type"), Some("application/json"));
    let error = response.value();
    assert_eq!((error["type"].as_str(), error["code"].as_str()), (Some("RUN_ERROR"), Some(code)), "{error}");
    assert!(error["message"].as_str().is_some_and(|text| text.len() > 10), "{error}");
    error
}

#[track_caller]
fn interrupts(events: &[Value]) -> Vec<Value> {
    let end = events.last().unwrap();
    assert_eq!(end["outcome"]["type"], "interrupt", "{end}");
    end["outcome"]["interrupts"].as_array().unwrap().clone()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn agui_client_for_node_verifies_every_stream() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "agui", &NPM) else { return };
    // Modules are searched beside the program.
    let program = folder.join("agui_client.mjs");
    std::fs::copy(root().join("tests/clients/agui_client.mjs"), &program).unwrap();
    let mut command = Command::new("node");
    command.arg(program);
    Door::new().run(command);
}

#[test]
fn agui_models_for_python_read_every_event() {
    let Some(packages) = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "agui-python", &[PYPI]) else { return };
    let mut command = Command::new("python3");
    command.arg(root().join("tests/clients/agui_client.py")).env("PYTHONPATH", packages);
    Door::new().run(command);
}

#[test]
fn refused_inputs_are_run_errors_and_start_nothing() {
    let door = Door::on(Scene::new(), "--body-bytes-max 20000");
    let reader = door.place.scene.run("token create --scope read").ok().stdout.trim().to_owned();
    let hello = asked("r", "Hello.");
    error(&door.request("wrong", "looks", &hello).send(), 401, "unauthorized");
    error(&door.request(&reader, "looks", &hello).send(), 403, "forbidden");
    error(&door.send("nothing", &hello), 404, "no_workflow");
    let send = |body: &str| {
        let request = Request::new(door.place.address, "POST", "/agui/looks");
        request.header("Authorization", &format!("Bearer {}", door.token)).body("application/json", body).send()
    };
    for body in ["{", "[]", "", "\"text\"", "{\"threadId\": 1}", "{\"threadId\": \"t\", \"runId\": \"r\"}"] {
        error(&send(body), 400, "invalid_request");
    }
    error(&send(&format!("[{}", " ".repeat(20_000))), 413, "too_large");
    let as_form = Request::new(door.place.address, "POST", "/agui/looks");
    let as_form = as_form.header("Authorization", &format!("Bearer {}", door.token)).body("text/plain", "{}").send();
    error(&as_form, 415, "unsupported_media_type");
    error(&Request::new(door.place.address, "GET", "/agui/looks").send(), 405, "method_not_allowed");
    for (name, value) in [
        ("threadId", json!("")),
        ("threadId", json!("a,b")),
        ("threadId", json!("a".repeat(201))),
        ("runId", json!("a\nb")),
        ("protocolVersion", json!("2.0")),
        ("tools", json!([{ "name": "confirm", "description": "Ask." }])),
        ("context", json!([{ "description": "city", "value": "Ulm" }])),
        ("forwardedProps", json!({ "city": "Ulm" })),
        ("state", json!([1])),
        ("state", json!({ "unknown": 1 })),
        ("state", json!({ "instructions": "Be rude." })),
        ("messages", json!([])),
        ("messages", json!([{ "id": "1", "role": "assistant", "content": "Hello." }])),
    ] {
        let mut body = hello.clone();
        body[name] = value;
        let refused = error(&door.send("looks", &body), 400, "invalid_request");
        assert!(refused["message"].as_str().unwrap().contains(name), "{name}: {refused}");
    }
    for message in [
        json!({ "role": "robot", "content": "Hello." }),
        json!("Hello."),
        json!({ "role": "user", "content": 7 }),
        json!({ "role": "user", "content": [{ "type": "smell" }] }),
        json!({ "role": "tool", "content": "7" }),
    ] {
        let mut body = hello.clone();
        body["messages"] = json!([message, { "id": "2", "role": "user", "content": "Hello." }]);
        error(&door.send("looks", &body), 400, "invalid_request");
    }
    let mut resume = hello.clone();
    resume["resume"] = json!([{ "interruptId": "x", "status": "resolved" }]);
    error(&door.send("looks", &resume), 404, "no_thread");
    resume["resume"] = json!([{ "interruptId": "x", "status": "maybe" }]);
    error(&door.send("looks", &resume), 400, "invalid_request");
    let on_leave = door.request(&door.token, "looks", &hello).header("x-rethread-on-disconnect", "perhaps").send();
    error(&on_leave, 400, "invalid_request");
    assert_eq!(door.n_threads(), 0);
}

#[test]
fn unknown_members_and_newer_minor_versions_are_served() {
    let door = Door::new();
    let mut body = asked("r", "Hello.");
    body["protocolVersion"] = json!("1.7");
    body["of_tomorrow"] = json!({ "x": [1] });
    let events = door.events("looks", &body);
    assert_eq!(events[0]["protocolVersion"], "1.0");
    assert_eq!((&events[1]["type"], &events[1]["name"]), (&json!("CUSTOM"), &json!("rethread.warning")));
    assert_eq!(events.last().unwrap()["result"], "There is nothing.");
}

#[test]
fn agui_door_is_closed_unless_configured_beyond_loopback() {
    let scene = Scene::new();
    let token = scene.run("token create --scope operate").ok().stdout.trim().to_owned();
    let ask = |place: &Place| {
        let address = format!("127.0.0.1:{}", place.address.port()).parse().unwrap();
        let request = Request::new(address, "POST", "/agui/nothing");
        request.header("Authorization", &format!("Bearer {token}")).json(&asked("r", "Hello.")).send()
    };
    let place = Place::at(scene, "0.0.0.0:0", "");
    let closed = error(&ask(&place), 404, "not_found");
    assert!(closed["message"].as_str().unwrap().contains("agui = true"), "{closed}");
    let Place { scene, server, .. } = place;
    server.kill();
    scene.write("rethread.toml", "[serve.doors]\nagui = true\n");
    let place = Place::at(scene, "0.0.0.0:0", "");
    error(&ask(&place), 404, "no_workflow");
}

#[test]
fn threads_of_other_labels_do_not_exist_for_agui() {
    let door = Door::new();
    let bound = |label: &str| {
        door.place.scene.run(&format!("token create --scope operate --label {label}")).ok().stdout.trim().to_owned()
    };
    let (acme, other) = (bound("tenant=acme"), bound("tenant=other"));
    let thread = |token: &str, body: &Value| {
        let answer = door.request(token, "looks", body).send().is(200);
        answer.header("x-rethread-thread").unwrap().to_owned()
    };
    // The same id of a client is another thread for each.
    let (first, second) = (thread(&acme, &asked("r1", "Hello.")), thread(&other, &asked("r1", "Hello.")));
    let third = thread(&door.token, &asked("r1", "Hello."));
    assert!(first != second && first != third && second != third);
    assert_eq!(thread(&acme, &asked("r2", "Again.")), first);
    assert_eq!(thread(&door.token, &asked("r2", "Again.")), third);
    let labels = door.place.get(&format!("/v1/threads/{first}")).is(200).value()["labels"].clone();
    assert_eq!(labels, json!({ "tenant": "acme", "agui_thread": "t", "agui_run": "r1" }));
    // The id of a thread itself names it for those who may see it, and is a new name for others.
    let mut by_id = asked("r3", "Again.");
    by_id["threadId"] = json!(first);
    assert_eq!(thread(&door.token, &by_id), first);
    by_id["runId"] = json!("r4");
    assert_ne!(thread(&other, &by_id), first);
}

#[test]
fn parallel_requests_for_a_new_thread_start_one() {
    let door = Door::new();
    let threads: std::collections::BTreeSet<_> = std::thread::scope(|scope| {
        let sent = (0..6).map(|n| door.request(&door.token, "looks", &asked(&format!("r{}", n % 3), "Hello.")));
        let sent: Vec<_> = sent.collect();
        let sent: Vec<_> = sent.into_iter().map(|request| scope.spawn(|| request.send().is(200))).collect();
        sent.into_iter().map(|sent| sent.join().unwrap().header("x-rethread-thread").unwrap().to_owned()).collect()
    });
    assert_eq!(threads.len(), 1);
    let runs = door.place.get(&format!("/v1/threads/{}/runs", threads.first().unwrap())).is(200).value();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(3), "{runs}");
}

#[test]
fn repeated_run_is_followed_and_not_run_again() {
    let door = Door::new();
    let first = door.events("looks", &asked("r1", "Hello."));
    let second = door.events("looks", &asked("r2", "Again."));
    assert_eq!(door.events("looks", &asked("r1", "Hello.")), first);
    assert_eq!(door.events("looks", &asked("r2", "Again.")), second);
    assert_eq!(door.n_threads(), 1);
    let thread = &first[0]["metadata"]["rethread"]["thread_id"];
    let runs = door.place.get(&format!("/v1/threads/{}/runs", thread.as_str().unwrap())).is(200).value();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2), "{runs}");
}

#[test]
fn answers_must_cover_every_interrupt_and_are_taken_once() {
    let door = Door::new();
    let question = interrupts(&door.events("asks", &asked("r1", "Paint.")))[0]["id"].clone();
    let refused = error(&door.send("asks", &asked("r2", "And?")), 409, "conflict");
    assert!(refused["message"].as_str().unwrap().contains(question.as_str().unwrap()), "{refused}");
    let resume = |run: &str, id: &Value, payload: Value| {
        let mut body = asked(run, "Paint.");
        body["resume"] = json!([{ "interruptId": id, "status": "resolved", "payload": payload }]);
        body
    };
    error(&door.send("asks", &resume("r2", &json!("other"), json!("blue"))), 409, "conflict");
    error(&door.send("asks", &resume("r2", &question, json!("green"))), 422, "unusable");
    // An entry that the thread does not know is left out.
    let mut answer = resume("r2", &question, json!("blue"));
    answer["resume"].as_array_mut().unwrap().push(json!({ "interruptId": "x", "status": "cancelled" }));
    let resumed = door.events("asks", &answer);
    assert_eq!(resumed[1]["name"], "rethread.warning", "{resumed:?}");
    let approval = interrupts(&resumed)[0].clone();
    let call = resumed.iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap()["toolCallId"].clone();
    assert!(call.as_str().unwrap().starts_with("call_0_0#"), "{call}");
    assert_eq!((&approval["reason"], &approval["toolCallId"]), (&json!("tool_approval"), &call));
    // The same answer again: what came of it is told again, and not that answer taken for another question.
    assert_eq!(interrupts(&door.events("asks", &answer))[0], approval);
    error(&door.send("asks", &resume("r2", &question, json!("red"))), 409, "conflict");
    let rejected = door.events("asks", &resume("r3", &approval["id"], json!({ "decision": "reject", "reason": "no" })));
    assert_eq!(rejected.last().unwrap()["result"], "Painted blue.");
    let result = rejected.iter().find(|event| event["type"] == "TOOL_CALL_RESULT").unwrap();
    assert_eq!(result["toolCallId"], call);
    assert!(result["content"].as_str().unwrap().contains("no"), "{result}");
    let again = door.events("asks", &resume("r3", &approval["id"], json!({ "decision": "reject", "reason": "no" })));
    assert_eq!(types(&again), types(&rejected));
    error(&door.send("asks", &resume("r4", &json!("other"), json!("blue"))), 409, "interaction_closed");
    // Another answer to a question that was answered is late.
    error(&door.send("asks", &resume("r4", &approval["id"], json!(true))), 409, "interaction_closed");
    error(&door.send("asks", &resume("r4", &question, json!("red"))), 409, "interaction_closed");
    assert_eq!(types(&door.events("asks", &resume("r4", &question, json!("blue")))).last(), Some(&"RUN_FINISHED"));
}

#[test]
fn known_run_id_with_another_request_is_refused() {
    let door = Door::new();
    let open = interrupts(&door.events("asks", &asked("r1", "Paint.")));
    let mut resume = asked("r1", "Paint.");
    resume["resume"] = json!([{ "interruptId": open[0]["id"], "status": "resolved", "payload": "blue" }]);
    error(&door.send("asks", &resume), 422, "key_reused");
    error(&door.send("asks", &asked("r1", "Another.")), 422, "key_reused");
    let mut result = asked("r1", "Paint.");
    result["messages"].as_array_mut().unwrap().push(json!({ "role": "tool", "toolCallId": "c", "content": "yes" }));
    error(&door.send("asks", &result), 422, "key_reused");
    // The id of the thread itself names the same runs.
    let mut by_id = asked("r1", "Paint.");
    let started = door.events("asks", &by_id);
    by_id["threadId"] = started[0]["metadata"]["rethread"]["thread_id"].clone();
    assert_eq!(interrupts(&door.events("asks", &by_id)), open);
    let done = door.events(
        "looks",
        &json!({ "threadId": "u", "runId": "r1", "messages": [{ "id": "1", "role": "user", "content": "Hello." }] }),
    );
    let again = json!({
        "threadId": done[0]["metadata"]["rethread"]["thread_id"], "runId": "r1",
        "messages": [{ "id": "1", "role": "user", "content": "Hello." }],
    });
    assert_eq!(types(&door.events("looks", &again)).last(), Some(&"RUN_FINISHED"));
    assert_eq!(door.events("looks", &again)[0]["metadata"], done[0]["metadata"]);
}

#[test]
fn refused_resume_answers_no_question() {
    let door = Door::new();
    let open = interrupts(&door.events("front", &asked("r1", "Pay.")));
    let resume = |run: &str, answers: [(usize, Value); 2]| {
        let mut body = asked(run, "Pay.");
        let answer = |(at, payload): (usize, Value)| json!({ "interruptId": open[at]["id"], "status": "resolved", "payload": payload });
        body["resume"] = answers.map(answer).into();
        body
    };
    let yes = || json!({ "decision": "answer", "content": "yes" });
    error(&door.send("front", &resume("r2", [(0, yes()), (1, json!("perhaps"))])), 422, "unusable");
    let mut twice = resume("r2", [(0, yes()), (1, yes())]);
    let first = twice["resume"][0].clone();
    twice["resume"].as_array_mut().unwrap().push(first);
    error(&door.send("front", &twice), 400, "invalid_request");
    // Both are open still.
    assert_eq!(interrupts(&door.events("front", &asked("r1", "Pay."))), open);
    let done = door.events("front", &resume("r2", [(0, yes()), (1, yes())]));
    assert_eq!(done.last().unwrap()["result"], "Paid.");
    // Every answer is compared with the one that was given.
    assert_eq!(door.events("front", &resume("r2", [(0, yes()), (1, yes())])).last(), done.last());
    let no = json!({ "decision": "answer", "content": "no" });
    error(&door.send("front", &resume("r3", [(0, yes()), (1, no)])), 409, "interaction_closed");
}

#[test]
fn tools_of_the_client_end_the_run_and_their_results_continue_it() {
    let door = Door::new();
    let mut body = asked("r1", "Pay.");
    body["tools"] = json!([{ "name": "confirm", "description": "Asks." }]);
    let called = door.events("front", &body);
    let outcome = &called.last().unwrap()["outcome"];
    let starts = |events: &[Value]| -> Vec<String> {
        let starts = events.iter().filter(|event| event["type"] == "TOOL_CALL_START");
        starts.map(|event| event["toolCallId"].as_str().unwrap().to_owned()).collect()
    };
    let calls = starts(&called);
    assert_eq!(calls.len(), 2);
    assert_eq!(outcome, &json!({ "type": "success", "pendingToolCallIds": calls }));
    assert!(!types(&called).contains(&"TOOL_CALL_RESULT"), "{called:?}");
    // Without the tools, the same calls are interrupts.
    body["tools"] = json!([]);
    assert_eq!(interrupts(&door.events("front", &body)).len(), 2);
    let result = |call: &str, more: Value| {
        let mut message = json!({ "id": call, "role": "tool", "toolCallId": call, "content": "yes" });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        message
    };
    let answer = |run: &str, results: Vec<Value>| {
        let mut body = asked(run, "Pay.");
        body["messages"].as_array_mut().unwrap().extend(results);
        body
    };
    error(&door.send("front", &asked("r2", "And?")), 409, "conflict");
    let first = result(&calls[0], json!({}));
    let refused = error(&door.send("front", &answer("r2", vec![first.clone()])), 409, "conflict");
    assert!(refused["message"].as_str().unwrap().contains("call_0_1"), "{refused}");
    let second = result(&calls[1], json!({ "content": [{ "type": "text", "text": "yes" }] }));
    let both = answer("r2", vec![first.clone(), second]);
    let done = door.events("front", &both);
    assert_eq!(done.last().unwrap()["result"], "Paid.");
    assert!(!types(&done).contains(&"TOOL_CALL_RESULT"), "{done:?}");
    assert_eq!(door.events("front", &both).last(), done.last());
    let late = result(&calls[1], json!({ "content": "no" }));
    error(&door.send("front", &answer("r2", vec![late])), 409, "interaction_closed");
    assert_eq!(door.n_threads(), 1);

    // A failure of the client is one that the model reads.
    let mut body = asked("r3", "Pay.");
    body["threadId"] = json!("other");
    door.events("front", &body);
    let failed = result(&calls[1], json!({ "content": "", "error": "no one there" }));
    let mut body = answer("r4", vec![first, failed]);
    body["threadId"] = json!("other");
    assert_eq!(door.events("front", &body).last().unwrap()["result"], "Not paid.");
    let thread = door.place.get("/v1/threads?label=agui_thread=other").is(200).value();
    let thread = thread["threads"][0]["thread_id"].as_str().unwrap();
    let messages = door.place.get(&format!("/v1/threads/{thread}/messages")).is(200).body;
    assert!(messages.contains("no one there"), "{messages}");
}

#[test]
fn result_of_a_call_is_not_taken_for_a_later_one_with_its_id() {
    let door = Door::new();
    let calls = |what: &str| format!("tool_calls: [{{id: c, name: confirm, arguments: {{what: {what}}}}}]");
    let front = FRONT.replace("name: front", "name: twice");
    let (head, _) = front.split_once("            - {match: ^Pay").unwrap();
    let script = format!(
        "            - {{call: 0, {}}}\n            - {{call: 1, {}}}\n          otherwise: {{text: Paid.}}\n",
        calls("5 EUR"),
        calls("5000 EUR")
    );
    door.place.put(&format!("{head}{script}"));
    let mut body = asked("r1", "Pay.");
    body["tools"] = json!([{ "name": "confirm" }]);
    let pending = |events: &[Value]| events.last().unwrap()["outcome"]["pendingToolCallIds"][0].clone();
    let answer = |run: &str, call: &Value| {
        let mut body = body.clone();
        body["runId"] = json!(run);
        let result = json!({ "id": run, "role": "tool", "toolCallId": call, "content": "yes" });
        body["messages"].as_array_mut().unwrap().push(result);
        body
    };
    let first = pending(&door.events("twice", &body));
    let second = door.events("twice", &answer("r2", &first));
    let announced = second.iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap();
    assert_ne!(first, announced["toolCallId"]);
    assert_eq!(pending(&second), announced["toolCallId"]);
    // The first result again tells the same again, and answers nothing.
    assert_eq!(types(&door.events("twice", &answer("r2", &first))), types(&second));
    error(&door.send("twice", &answer("r2", &json!("c"))), 409, "conflict");
    let done = door.events("twice", &answer("r3", &announced["toolCallId"]));
    assert_eq!(done.last().unwrap()["result"], "Paid.");
}

#[test]
fn call_that_was_not_announced_is_an_interrupt_and_has_no_events() {
    let door = Door::new();
    let hidden = FRONT
        .replace("name: front", "name: hidden")
        .replace("      tool_mode: auto", "      context: fresh\n      tool_mode: auto");
    door.place.put(&format!(
        "{hidden}  - id: last\n    llm: {{provider: mock, model: m, user_prompt: x, extra: {{script: {{otherwise: {{text: Done.}}}}}}}}\nedges: [{{from: answer, to: last}}]\n"
    ));
    let mut body = asked("r1", "Pay.");
    body["tools"] = json!([{ "name": "confirm" }]);
    let open = interrupts(&door.events("hidden", &body));
    assert!(open.len() == 2 && open.iter().all(|interrupt| interrupt.get("toolCallId").is_none()), "{open:?}");
    let mut resume = asked("r2", "Pay.");
    let yes = json!({ "decision": "answer", "content": "yes" });
    let answer = |open: &Value| json!({ "interruptId": open["id"], "status": "resolved", "payload": yes });
    resume["resume"] = open.iter().map(answer).collect::<Vec<_>>().into();
    let events = door.events("hidden", &resume);
    assert_eq!(events.last().unwrap()["result"], "Done.");
    assert!(!types(&events).iter().any(|kind| kind.starts_with("TOOL_CALL")), "{events:?}");
}

#[test]
fn configuration_of_client_tools_is_checked() {
    let scene = Scene::new();
    for (text, what) in [
        ("[serve.client_tools.x]\n", "description"),
        ("[serve.client_tools.x]\ndescription = \"x\"\nname = 1\n", "unknown field"),
        ("[serve.client_tools.\"no name\"]\ndescription = \"x\"\n", "no name"),
        ("[serve.client_tools.list_folder]\ndescription = \"x\"\n", "list_folder"),
        ("[serve.client_tools.x]\ndescription = \"x\"\nparameters = { type = \"nothing\" }\n", "x"),
    ] {
        scene.write("rethread.toml", text);
        scene.run("serve --listen 127.0.0.1:0").code(3).says(what);
    }
}

#[test]
fn thread_begins_with_the_messages_that_are_given() {
    let door = Door::new();
    let mut body = asked("r1", "Again.");
    body["messages"] = json!([
        { "id": "1", "role": "developer", "content": "Be brief." },
        { "id": "2", "role": "user", "content": [
            { "type": "text", "text": "What is this?" },
            { "type": "image", "source": { "type": "data", "value": "aGk=", "mimeType": "image/png" } },
            { "type": "audio", "source": { "type": "url", "value": "https://example.com/a.mp3" } },
        ] },
        { "id": "3", "role": "reasoning", "content": "Hm." },
        { "id": "4", "role": "assistant", "toolCalls": [
            { "id": "c", "type": "function", "function": { "name": "list_folder", "arguments": "{}" } },
        ] },
        { "id": "5", "role": "tool", "toolCallId": "c", "content": "", "error": "no folder" },
        { "id": "6", "role": "assistant", "content": "A picture." },
        { "id": "7", "role": "user", "content": "Again." },
    ]);
    let events = door.events("looks", &body);
    assert!(events[1]["value"]["message"].as_str().unwrap().contains("audio"), "{}", events[1]);
    let thread = events[0]["metadata"]["rethread"]["thread_id"].as_str().unwrap();
    let messages = door.place.get(&format!("/v1/threads/{thread}/messages")).is(200).value();
    let text = messages.to_string();
    for said in ["Be brief.", "What is this?", "aGk=", "list_folder", "no folder", "A picture."] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn context_and_forwarded_props_are_variables_of_the_workflow() {
    let door = Door::new();
    for (name, value) in
        [("context", json!([{ "description": "city", "value": "Ulm" }])), ("forwardedProps", json!({ "city": "Ulm" }))]
    {
        let mut body = asked("r1", "Where?");
        body["threadId"] = json!(name);
        body[name] = value;
        assert_eq!(door.events("told", &body).last().unwrap()["result"], "In Ulm.");
    }
}

#[test]
fn stream_is_not_compressed_whatever_the_client_accepts() {
    let door = Door::new();
    let request = door.request(&door.token, "hangs", &asked("r1", "Hello.")).header("Accept-Encoding", "gzip");
    let mut stream = request.open().unwrap();
    assert_eq!((stream.header("content-type"), stream.header("content-encoding")), (Some("text/event-stream"), None));
    next(&mut stream, "TOOL_CALL_RESULT");
}

#[test]
fn run_goes_on_if_the_agui_client_leaves() {
    let door = Door::new();
    let mut stream = door.stream("looks", &asked("r1", "Hello."));
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    next(&mut stream, "RUN_STARTED");
    drop(stream);
    assert_eq!(door.place.at_rest(&thread)["output"], "There is nothing.");
}

#[test]
fn run_is_cancelled_if_the_header_says_so_and_the_client_leaves() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50");
    let request = door.request(&door.token, "hangs", &asked("r1", "Hello."));
    let mut stream = request.header("x-rethread-on-disconnect", "cancel").open().unwrap();
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    next(&mut stream, "TOOL_CALL_RESULT");
    let mut other = door.stream("hangs", &asked("r1", "Hello."));
    next(&mut other, "TOOL_CALL_RESULT");
    drop(stream);
    door.place.until(&format!("/v1/threads/{thread}"), |thread| thread["status"] == "cancelled");
    // The end for one who still follows: everything is closed.
    let end = next(&mut other, "RUN_FINISHED");
    assert_eq!(end["outcome"], json!({ "type": "cancelled" }));
    assert!(other.event().unwrap().is_none());
}

#[test]
fn stream_of_a_server_that_stops_ends_with_a_run_error() {
    let door = Door::new();
    let mut stream = door.stream("hangs", &asked("r1", "Hello."));
    next(&mut stream, "TOOL_CALL_RESULT");
    door.place.server.signal("TERM");
    assert_eq!(next(&mut stream, "RUN_ERROR")["code"], "stopping");
    assert!(stream.event().unwrap().is_none());
}

#[test]
fn paused_run_is_an_error_until_it_is_resumed() {
    let door = Door::new();
    let mut stream = door.stream("hangs", &asked("r1", "Hello."));
    let thread = stream.header("x-rethread-thread").unwrap().to_owned();
    next(&mut stream, "TOOL_CALL_RESULT");
    door.place.post(&format!("/v1/threads/{thread}/pause"), &json!({})).is(200);
    let end = next(&mut stream, "RUN_ERROR");
    assert_eq!(end["code"], "paused");
    assert!(end["message"].as_str().unwrap().contains(&format!("/v1/threads/{thread}/resume")), "{end}");
    let refused = error(&door.send("hangs", &asked("r2", "Hello.")), 409, "conflict");
    assert!(refused["message"].as_str().unwrap().contains("/resume"), "{refused}");
    door.place.post(&format!("/v1/threads/{thread}/resume"), &json!({})).is(200);
    door.stream("hangs", &asked("r2", "Hello."));
}

#[test]
fn killed_server_tells_the_same_run_to_the_same_request() {
    let door = Door::new();
    let first = interrupts(&door.events("asks", &asked("r1", "Paint.")));
    let Door { place, token } = door;
    let mut place = place.kill_and_restart();
    place.token = Some(token.clone());
    let door = Door { place, token };
    assert_eq!(interrupts(&door.events("asks", &asked("r1", "Paint."))), first);
    assert_eq!(door.n_threads(), 1);
}

#[test]
fn clients_that_hang_cost_others_nothing() {
    let door = Door::on(Scene::new(), "--subscribers-max 8");
    let mut hanging: Vec<_> = (0..8)
        .map(|n| {
            let mut body = asked("r1", "Hello.");
            body["threadId"] = json!(format!("hangs-{n}"));
            door.stream("hangs", &body)
        })
        .collect();
    for stream in &mut hanging {
        next(stream, "TOOL_CALL_RESULT");
    }
    error(&door.send("looks", &asked("r1", "Hello.")), 503, "busy");
    drop(hanging);
    let mut tries = 0;
    while door.send("looks", &asked("r1", "Hello.")).status != 200 {
        tries += 1;
        assert!(tries < 600, "no place is free");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn program_of_the_page_about_the_agui_door_prints_what_the_page_says() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "agui", &NPM) else { return };
    let page = std::fs::read_to_string(root().join("docs/doors/agui.md")).unwrap();
    let (workflow, rest) = block(&page, "yaml");
    let (program, rest) = block(rest, "js");
    let (printed, _) = block(rest, "");
    let place = Place::new();
    place.put(workflow);
    let file = folder.join("agui_page.mjs");
    std::fs::write(&file, program.replace("127.0.0.1:7117", &place.address.to_string())).unwrap();
    let mut command = Command::new("node");
    command.arg(file);
    assert_eq!(Running::start(command).end().ok().stdout.trim(), printed.trim());
}

#[test]
fn client_that_connects_a_thousand_times_runs_once_and_leaves_nothing() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50");
    let body = asked("r1", "Hello.");
    for _ in 0..1_000 {
        let mut stream = door.stream("hangs", &body);
        assert_eq!(stream.event().unwrap().unwrap().value()["type"], "RUN_STARTED");
    }
    let mut other = asked("r1", "Hello.");
    other["threadId"] = json!("other");
    assert_eq!(door.events("looks", &other).last().unwrap()["result"], "There is nothing.");
    let limit = std::time::Instant::now() + Duration::from_secs(120);
    while !door.place.get("/metrics").is(200).body.lines().any(|line| line == "rethread_subscribers 0") {
        assert!(std::time::Instant::now() < limit, "streams of clients that left stay open");
    }
    assert_eq!(door.n_threads(), 2);
}

#[test]
fn approvals_in_subagents_are_interrupts_also_after_a_kill() {
    let door = Door::new();
    let calls = "tool_calls: [{name: helper, arguments: {task: Help.}}, {name: helper, arguments: {task: Help too.}}]";
    let team = TEAM
        .replace("name: team", "name: careful")
        .replace("tool_calls: [{name: helper, arguments: {task: Help.}}]", calls)
        .replace("          tool_mode: auto\n", "          tool_mode: auto\n          approve_tools: [list_folder]\n");
    door.place.put(&team);
    let open = interrupts(&door.events("careful", &asked("r1", "Hello.")));
    assert_eq!(open.len(), 2);
    let Door { place, token } = door;
    let mut place = place.kill_and_restart();
    place.token = Some(token.clone());
    let door = Door { place, token };
    let mut body = asked("r2", "Hello.");
    body["resume"] = json!([
        { "interruptId": open[0]["id"], "status": "resolved", "payload": { "approved": true } },
        { "interruptId": open[1]["id"], "status": "cancelled" },
    ]);
    let events = door.events("careful", &body);
    assert_eq!(events.last().unwrap()["result"], "They say: Done.");
    for interrupt in open {
        let of = |event: &&Value| event["subagentRunId"] == interrupt["subagentRunId"];
        let told: Vec<_> = events.iter().filter(of).map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!((told.first(), told.last()), (Some(&"SUBAGENT_STARTED"), Some(&"SUBAGENT_FINISHED")));
        assert!(told.contains(&"TOOL_CALL_RESULT") && told.contains(&"TEXT_MESSAGE_CONTENT"), "{told:?}");
    }
}

#[test]
fn branches_that_begin_after_a_resume_are_told_from_their_begin() {
    let door = Door::new();
    door.place.put(
        r#"
version: "1"
name: each
nodes:
  - id: all
    parallel:
      for_each: "[1, 2]"
      as: item
      concurrency: 1
      body:
        nodes:
          - {id: one, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: Go on?, answer: boolean, variables: [{variable_name: going, expression: input}]}}
"#,
    );
    let mut events = door.events("each", &asked("r1", "Go."));
    let mut ended = Vec::new();
    for run in ["r2", "r3"] {
        let open = interrupts(&events);
        assert_eq!(open.len(), 1);
        let mut body = asked(run, "Go.");
        body["resume"] = json!([{ "interruptId": open[0]["id"], "status": "resolved", "payload": true }]);
        events = door.events("each", &body);
        let of = |kind: &str| -> Vec<Value> {
            let of = events.iter().filter(|event| event["type"] == kind);
            of.map(|event| event["subagentRunId"].clone()).collect()
        };
        let (begun, finished) = (of("SUBAGENT_STARTED"), of("SUBAGENT_FINISHED"));
        assert!(!begun.is_empty() && begun.len() == finished.len(), "{events:?}");
        assert!(finished.iter().all(|child| begun.contains(child)), "{events:?}");
        ended.extend(finished);
    }
    ended.dedup();
    assert_eq!((ended.len(), &events.last().unwrap()["outcome"]["type"]), (2, &json!("success")));
}
