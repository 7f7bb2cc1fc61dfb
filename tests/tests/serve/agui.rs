//! The AG-UI door: with the client of the protocol from npm, with its models from PyPI, and with requests that no client sends.

mod answers;
mod ends;
mod subagents;

use std::process::Command;
use std::time::Duration;

use rethread_tests::binary::{Scene, root};
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::doors::{CLIENT_TOOLS, FAILS, HANGS, as_described, check_page, long_and_hidden, run_client, serve};
use crate::http::{Request, Response, Stream};
use crate::place::Place;

/// The versions that are installed.
const NPM: [&str; 2] = ["@ag-ui/client@1.0.0", "@ag-ui/core@1.0.0"];
/// The last release before 1.0, which CopilotKit has.
const NPM_BEFORE: [&str; 2] = ["@ag-ui/client@0.0.59", "@ag-ui/core@0.0.59"];
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

/// Branches that speak at the same time.
const CROWD: &str = r#"
version: "1"
name: crowd
nodes:
  - id: each
    parallel:
      for_each: "[1, 2, 3]"
      as: item
      body:
        nodes:
          - id: one
            llm:
              provider: mock
              model: scripted
              user_prompt: "{{ item }}"
              stream: true
              extra: {script: {otherwise: {chunks: ["One ", "two ", "three ", "four."], chunk_delay_ms: 100}}}
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
        door.place.put(&as_described(FRONT, "front", "brings"));
        door
    }

    fn with(workflow: &str) -> Self {
        let (place, token) = serve(Scene::new(), "", &[workflow]);
        Self { place, token }
    }

    fn on(scene: Scene, options: &str) -> Self {
        let (place, token) = serve(scene, options, &[LOOKS, ASKS, FAILS, HANGS, TOLD, TEAM, CROWD]);
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

    fn run(&self, command: Command) {
        run_client(command, &self.place, "/agui", &self.token);
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
    run_for_node("agui", &NPM, "agui_client.mjs");
}

#[test]
fn agui_client_before_the_first_version_reads_every_stream() {
    run_for_node("agui-0", &NPM_BEFORE, "agui_client_0.mjs");
}

fn run_for_node(folder: &str, packages: &[&str], program: &str) {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), folder, packages) else { return };
    // Modules are searched beside the program.
    let copy = folder.join(program);
    std::fs::copy(root().join("tests/clients").join(program), &copy).unwrap();
    let mut command = Command::new("node");
    command.arg(copy);
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
    assert_eq!(door.place.n_threads(), 0);
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
    assert_eq!(door.place.n_threads(), 1);
    let thread = &first[0]["metadata"]["rethread"]["thread_id"];
    let runs = door.place.get(&format!("/v1/threads/{}/runs", thread.as_str().unwrap())).is(200).value();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2), "{runs}");
}

#[test]
fn run_of_a_deleted_thread_is_not_run_again() {
    let mut door = Door::new();
    door.events("looks", &asked("r1", "Hello."));
    door.events("looks", &asked("r2", "Again."));
    let thread = door.place.get("/v1/threads").value()["threads"][0]["thread_id"].as_str().unwrap().to_owned();
    door.place.request("DELETE", &format!("/v1/threads/{thread}")).send().is(200);
    for round in 0..2 {
        for (run, text) in [("r1", "Hello."), ("r2", "Again.")] {
            error(&door.send("looks", &asked(run, text)), 404, "no_thread");
        }
        if round == 0 {
            door.place = door.place.kill_and_restart();
        }
    }
    assert_eq!(door.place.n_threads(), 0);
    // Another run begins another thread of this name, in which the runs of the first one are not run either.
    door.events("looks", &asked("r3", "Hello."));
    error(&door.send("looks", &asked("r1", "Hello.")), 404, "no_thread");
    assert_eq!(door.place.n_threads(), 1);
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
fn program_of_the_page_about_the_agui_door_prints_what_the_page_says() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "agui", &NPM) else { return };
    check_page("agui.md", "js", |program| {
        let file = folder.join("agui_page.mjs");
        std::fs::write(&file, program).unwrap();
        let mut command = Command::new("node");
        command.arg(file);
        command
    });
}
