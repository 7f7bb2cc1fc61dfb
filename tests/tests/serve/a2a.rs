//! The A2A door: with the clients of the protocol from npm and PyPI, and with requests that no client sends.

mod bad;

use std::process::Command;
use std::time::Duration;

use rethread_tests::binary::{Scene, root};
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::doors::{APPROVES, ASKS, CHAT, FAILS, HANGS, check_page, run_client, serve};
use crate::http::{Request, Response, Stream};
use crate::place::Place;

/// The versions that are installed.
const NPM: &str = "@a2a-js/sdk@1.3.0";
const PYPI: [&str; 2] = ["a2a-sdk==1.3.0", "httpx"];

/// Takes and gives a value.
const DATA: &str = r#"
version: "1"
name: data
description: Completes a person.
input_schema: {type: object, properties: {name: {type: string}, age: {type: number}}, required: [name]}
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input.name }}"
      output_schema: {type: object, properties: {name: {type: string}, age: {type: number}}, required: [name, age]}
      extra: {script: {otherwise: {text: '{"name": "Ada", "age": 36}'}}}
"#;

/// Says something, calls a tool, and says more.
const LOOKS: &str = r#"
version: "1"
name: looks
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
            - {call: 0, chunks: ["I look ", "first."], tool_calls: [{name: list_folder, arguments: {}}]}
            - {call: 1, chunks: ["There is ", "nothing."]}
"#;

/// Waits for a signal. What comes meanwhile is read by its model call.
const STEERED: &str = r#"
version: "1"
name: steered
on_message: steer
nodes:
  - {id: paid, signal: {name: paid}}
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "Paint."
      extra: {script: {otherwise: {text: Painted.}}}
edges: [{from: paid, to: answer}]
"#;

/// A server that needs tokens, and one of the scope `operate`.
struct Door {
    place: Place,
    token: String,
}

impl Door {
    fn new() -> Self {
        Self::on(Scene::new(), "")
    }

    fn with(workflow: &str) -> Self {
        let (place, token) = serve(Scene::new(), "", &[workflow]);
        Self { place, token }
    }

    fn on(scene: Scene, options: &str) -> Self {
        let team = CHAT.replace("name: chat", "name: team/chat");
        let (place, token) = serve(scene, options, &[CHAT, ASKS, FAILS, HANGS, APPROVES, DATA, LOOKS, &team]);
        Self { place, token }
    }

    fn request(&self, token: &str, agent: &str) -> Request {
        let request = Request::new(self.place.address, "POST", &format!("/a2a/{agent}"));
        request.header("Authorization", &format!("Bearer {token}")).header("A2A-Version", "1.0")
    }

    fn call(&self, agent: &str, method: &str, params: &Value) -> Request {
        self.request(&self.token, agent).json(&call(method, params))
    }

    /// The result of a method.
    #[track_caller]
    fn result(&self, agent: &str, method: &str, params: &Value) -> Value {
        let answer = self.call(agent, method, params).send().is(200).value();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("r1")), "{answer}");
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// The task of a message.
    #[track_caller]
    fn task(&self, agent: &str, params: &Value) -> Value {
        self.result(agent, "SendMessage", params)["task"].clone()
    }

    #[track_caller]
    fn get(&self, agent: &str, task: &Value) -> Value {
        self.result(agent, "GetTask", &json!({ "id": task["id"] }))
    }

    fn until(&self, agent: &str, task: &Value, state: &str) -> Value {
        for _ in 0..600 {
            let now = self.get(agent, task);
            if now["status"]["state"] == state {
                return now;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the task does not come to be {state}");
    }

    fn run(&self, command: Command) {
        run_client(command, &self.place, "/a2a", &self.token);
    }
}

fn call(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "r1", "method": method, "params": params })
}

/// The parameters of a message with this text.
fn message(id: &str, text: &str) -> Value {
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] } })
}

fn with(mut params: Value, place: &str, value: &Value) -> Value {
    *params.pointer_mut(place.rsplit_once('/').unwrap().0).unwrap() = {
        let (object, name) = place.rsplit_once('/').unwrap();
        let mut object = params.pointer(object).unwrap().clone();
        object[name] = value.clone();
        object
    };
    params
}

fn in_context(params: Value, task: &Value) -> Value {
    with(params, "/message/contextId", &task["contextId"])
}

fn to_task(params: Value, task: &Value) -> Value {
    with(params, "/message/taskId", &task["id"])
}

fn later(mut params: Value) -> Value {
    params["configuration"] = json!({ "returnImmediately": true });
    params
}

/// The next result of a stream that has this member; the error is one, too.
fn next(stream: &mut Stream, member: &str) -> Value {
    loop {
        let event = stream.event().unwrap().unwrap_or_else(|| panic!("no {member}")).value();
        for found in [&event["result"][member], &event[member]] {
            if !found.is_null() {
                return found.clone();
            }
        }
    }
}

#[track_caller]
fn error(response: &Response, status: u16, code: i64, reason: &str) -> Value {
    assert_eq!(response.status, status, "{}", response.body);
    assert_eq!(response.header("content-type"), Some("application/json"));
    let answer = response.value();
    let error = answer["error"].clone();
    let info = &error["data"][0];
    assert_eq!((&answer["jsonrpc"], error["code"].as_i64()), (&json!("2.0"), Some(code)), "{answer}");
    assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo", "{answer}");
    assert_eq!(info["reason"], reason, "{answer}");
    assert!(error["message"].as_str().is_some_and(|text| text.len() > 10), "{answer}");
    error
}

#[test]
fn a2a_client_for_node_works_in_both_bindings() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "a2a", &[NPM]) else { return };
    // Modules are searched beside the program.
    let program = folder.join("a2a_client.mjs");
    std::fs::copy(root().join("tests/clients/a2a_client.mjs"), &program).unwrap();
    let mut command = Command::new("node");
    command.arg(program);
    Door::new().run(command);
}

#[test]
fn a2a_client_for_python_works_in_both_bindings() {
    let Some(packages) = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "a2a-python", &PYPI) else { return };
    let mut command = Command::new("python3");
    command.arg(root().join("tests/clients/a2a_client.py")).env("PYTHONPATH", packages);
    Door::new().run(command);
}

#[test]
fn killed_server_has_the_task_that_a_client_sent() {
    let door = Door::new();
    let mut stream = door.call("hangs", "SendStreamingMessage", &message("m1", "Hello.")).open().unwrap();
    let task = next(&mut stream, "task");
    assert_eq!(next(&mut stream, "artifactUpdate")["artifact"]["parts"][0]["text"], "Well, ");
    let done = door.task("chat", &message("m2", "Hello."));
    let asked = door.task("asks", &message("m3", "Paint."));
    let Door { place, token } = door;
    let admin = place.token.clone();
    let mut place = place.kill_and_restart();
    place.token = admin;
    let door = Door { place, token };
    assert_eq!(door.until("hangs", &task, "TASK_STATE_WORKING")["contextId"], task["contextId"]);
    let mut again = door.call("hangs", "SubscribeToTask", &json!({ "id": task["id"] })).open().unwrap();
    assert_eq!(next(&mut again, "task")["id"], task["id"]);
    assert_eq!(next(&mut again, "artifactUpdate")["artifact"]["parts"][0]["text"], "Well, ");
    let cancelled = door.result("hangs", "CancelTask", &json!({ "id": task["id"] }));
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(door.get("chat", &done), done);
    // The client does not know whether its messages arrived, and sends them again.
    assert_eq!(door.task("chat", &message("m2", "Hello.")), done);
    assert_eq!(door.task("asks", &message("m3", "Paint."))["id"], asked["id"]);
    let answer = to_task(message("m4", "blue"), &asked);
    let painted = door.task("asks", &answer);
    assert_eq!(painted["artifacts"][0]["parts"][0]["text"], "Painted blue.");
    assert_eq!(door.task("asks", &answer), painted);
    assert_eq!(door.place.n_threads(), 3);
}

#[test]
fn repeated_message_is_done_once_also_if_many_come_at_once() {
    let door = Door::new();
    let send = |params: &Value| {
        let answers: Vec<_> = std::thread::scope(|scope| {
            let send = || door.call("chat", "SendMessage", params);
            let all: Vec<_> = (0..8).map(|_| send()).map(|request| scope.spawn(|| request.send())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let mut ids: Vec<_> = answers
            .iter()
            .filter_map(|answer| match answer.status {
                200 => Some(answer.value()["result"]["task"]["id"].as_str().unwrap().to_owned()),
                _ => {
                    error(answer, 409, -32_000, "KEY_IN_PROGRESS");
                    None
                }
            })
            .collect();
        ids.dedup();
        assert_eq!(ids.len(), 1);
        ids.remove(0)
    };
    let first = send(&message("m1", "Hello."));
    let task = door.task("chat", &message("m1", "Hello."));
    assert_eq!((task["id"].as_str(), door.place.n_threads()), (Some(&*first), 1));
    let following = in_context(message("m2", "What is my name?"), &task);
    let second = send(&following);
    assert_ne!(first, second);
    let listed = door.result("chat", "ListTasks", &json!({ "contextId": task["contextId"] }));
    assert_eq!(listed["totalSize"], 2, "{listed}");
    // Another message with an id that was used is refused, and nothing is lost or begun.
    let reused = door.call("chat", "SendMessage", &message("m2", "What is my name?")).send();
    error(&reused, 200, -32_602, "INVALID_PARAMS");
    assert_eq!(door.place.n_threads(), 1);
    // The ids of another sender are its own.
    let other = door.place.scene.run("token create --scope operate").ok().stdout.trim().to_owned();
    let of_other = door.request(&other, "chat").json(&call("SendMessage", &message("m1", "Hello."))).send().is(200);
    assert_ne!(of_other.value()["result"]["task"]["id"], task["id"]);
}

#[test]
fn message_to_a_context_waits_for_its_task_and_is_cancelled_alone() {
    let door = Door::new();
    let task = door.task("hangs", &later(message("m1", "Hello.")));
    door.until("hangs", &task, "TASK_STATE_WORKING");
    let queued = door.task("hangs", &later(in_context(message("m2", "And then?"), &task)));
    assert_eq!(queued["status"]["state"], "TASK_STATE_SUBMITTED");
    assert_eq!((&queued["contextId"], &queued["history"][0]["messageId"]), (&task["contextId"], &json!("m2")));
    let listed = door.result("hangs", "ListTasks", &json!({ "status": "TASK_STATE_SUBMITTED" }));
    assert_eq!((&listed["tasks"][0]["id"], &listed["totalSize"]), (&queued["id"], &json!(1)));
    let waits = to_task(message("m3", "Hello?"), &queued);
    error(&door.call("hangs", "SendMessage", &waits).send(), 200, -32_004, "UNSUPPORTED_OPERATION");
    let mut stream = door.call("hangs", "SubscribeToTask", &json!({ "id": queued["id"] })).open().unwrap();
    assert_eq!(next(&mut stream, "task")["status"]["state"], "TASK_STATE_SUBMITTED");
    let cancelled = door.result("hangs", "CancelTask", &json!({ "id": queued["id"] }));
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(next(&mut stream, "statusUpdate")["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(door.get("hangs", &queued)["status"]["state"], "TASK_STATE_CANCELED");
    let next = door.task("hangs", &later(in_context(message("m4", "Still there?"), &task)));
    let cancelled = door.result("hangs", "CancelTask", &json!({ "id": task["id"] }));
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
    door.until("hangs", &next, "TASK_STATE_WORKING");
}

#[test]
fn message_to_a_task_in_progress_follows_the_policy_of_the_workflow() {
    let door = Door::new();
    door.place.put(STEERED);
    let hangs = door.task("hangs", &later(message("m1", "Hello.")));
    door.until("hangs", &hangs, "TASK_STATE_WORKING");
    // The policy `queue`: a task of its own.
    let queued = door.task("hangs", &later(to_task(message("m2", "Hello?"), &hangs)));
    assert_ne!(queued["id"], hangs["id"]);
    for (policy, is_refused) in [("steer", false), ("reject", true)] {
        door.place.put(&STEERED.replace("on_message: steer", &format!("on_message: {policy}")));
        let task = door.task("steered", &later(message(&format!("{policy}-1"), "Paint.")));
        door.place.until(&format!("/v1/threads/{}", task["contextId"].as_str().unwrap()), |shown| {
            shown["status"] == "suspended"
        });
        let steers = later(to_task(message(&format!("{policy}-2"), "Paint in blue."), &task));
        if is_refused {
            error(&door.call("steered", "SendMessage", &steers).send(), 200, -32_004, "UNSUPPORTED_OPERATION");
        } else {
            assert_eq!(door.task("steered", &steers)["id"], task["id"]);
            // The same message again steers once.
            assert_eq!(door.task("steered", &steers)["id"], task["id"]);
        }
        door.place.post("/v1/signals/paid", &json!({ "payload": {}, "id": policy })).is(200);
        let done = door.until("steered", &task, "TASK_STATE_COMPLETED");
        assert_eq!(done["id"], task["id"]);
        let said = door.place.get(&format!("/v1/threads/{}/messages", task["contextId"].as_str().unwrap())).is(200);
        assert_eq!(said.body.matches("Paint in blue.").count(), usize::from(!is_refused), "{}", said.body);
        // What has ended takes nothing more.
        let late = to_task(message(&format!("{policy}-3"), "More."), &task);
        error(&door.call("steered", "SendMessage", &late).send(), 200, -32_004, "UNSUPPORTED_OPERATION");
    }
}

#[test]
fn paused_task_needs_a_person_and_says_how_to_go_on() {
    let door = Door::new();
    let task = door.task("hangs", &later(message("m1", "Hello.")));
    let thread = task["contextId"].as_str().unwrap();
    door.place.post(&format!("/v1/threads/{thread}/pause"), &json!({})).is(200);
    let paused = door.until("hangs", &task, "TASK_STATE_INPUT_REQUIRED");
    assert!(paused["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("/resume"), "{paused}");
    let refused = door.call("hangs", "SendMessage", &to_task(message("m2", "Go on."), &task)).send();
    error(&refused, 200, -32_004, "UNSUPPORTED_OPERATION");
}

#[test]
fn client_that_leaves_cancels_nothing() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50 --subscribers-max 1");
    let mut stream = door.call("hangs", "SendStreamingMessage", &message("m1", "Hello.")).open().unwrap();
    let task = next(&mut stream, "task");
    next(&mut stream, "artifactUpdate");
    // The only place is taken, and nothing is begun.
    for (method, params) in [
        ("SendMessage", message("m2", "Hello.")),
        ("SendStreamingMessage", message("m2", "Hello.")),
        ("SubscribeToTask", json!({ "id": task["id"] })),
    ] {
        error(&door.call("hangs", method, &params).send(), 503, -32_000, "BUSY");
    }
    assert_eq!(door.place.n_threads(), 1);
    // What does not wait has no place.
    door.task("chat", &later(message("m3", "Hello.")));
    drop(stream);
    for n in 0.. {
        let answer = door.call("hangs", "SubscribeToTask", &json!({ "id": task["id"] })).open().unwrap();
        if answer.status == 200 {
            break;
        }
        assert!(n < 600, "the place is not free");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(door.get("hangs", &task)["status"]["state"], "TASK_STATE_WORKING");
}

#[test]
fn stream_ends_when_its_token_is_revoked() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50");
    let created = door.place.scene.run("token create --scope operate --json").ok().json();
    let send = call("SendStreamingMessage", &message("m1", "Hello."));
    let mut stream = door.request(created["token"].as_str().unwrap(), "hangs").json(&send).open().unwrap();
    let task = next(&mut stream, "task");
    door.place.scene.run(&format!("token revoke {}", created["id"].as_str().unwrap())).ok();
    assert_eq!(next(&mut stream, "error")["data"][0]["reason"], "UNAUTHORIZED");
    assert_eq!(stream.line().unwrap(), None);
    assert_eq!(door.get("hangs", &task)["status"]["state"], "TASK_STATE_WORKING");
}

#[test]
fn tasks_of_other_labels_and_agents_do_not_exist_for_a2a() {
    let door = Door::new();
    let bound = |label: &str| {
        door.place.scene.run(&format!("token create --scope operate --label {label}")).ok().stdout.trim().to_owned()
    };
    let (acme, other) = (bound("tenant=acme"), bound("tenant=other"));
    let send =
        |token: &str, method: &str, params: &Value| door.request(token, "asks").json(&call(method, params)).send();
    let task = send(&acme, "SendMessage", &message("m1", "Paint.")).is(200).value()["result"]["task"].clone();
    let thread = task["contextId"].as_str().unwrap();
    let labels = door.place.get(&format!("/v1/threads/{thread}")).is(200).value()["labels"].clone();
    assert_eq!(labels, json!({ "tenant": "acme", "a2a_message": "m1" }));
    let of_task = json!({ "id": task["id"] });
    for (method, params) in [
        ("GetTask", of_task.clone()),
        ("CancelTask", of_task.clone()),
        ("SubscribeToTask", of_task.clone()),
        ("ListTasks", json!({ "contextId": thread })),
        ("SendMessage", to_task(message("m2", "blue"), &task)),
        ("SendMessage", in_context(message("m2", "blue"), &task)),
        ("SendStreamingMessage", to_task(message("m2", "blue"), &task)),
    ] {
        error(&send(&other, method, &params), 200, -32_001, "TASK_NOT_FOUND");
        // Nor does the task for another agent. The context may have tasks of both.
        if method == "ListTasks" {
            assert_eq!(door.result("chat", method, &params)["totalSize"], 0);
        } else {
            error(&door.call("chat", method, &params).send(), 200, -32_001, "TASK_NOT_FOUND");
        }
    }
    let all = |token: &str| send(token, "ListTasks", &json!({})).is(200).value()["result"]["totalSize"].clone();
    assert_eq!((all(&other), all(&acme), all(&door.token)), (json!(0), json!(1), json!(1)));
    let done = send(&acme, "SendMessage", &to_task(message("m2", "blue"), &task)).is(200).value();
    assert_eq!(done["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(door.place.n_threads(), 1);
}

#[test]
fn pages_of_tasks_have_each_task_once_the_last_changed_first() {
    let door = Door::new();
    let mut ids: Vec<_> =
        (0..5).map(|n| door.task("chat", &message(&format!("m{n}"), "Hello."))["id"].clone()).collect();
    ids.reverse();
    let (mut listed, mut token) = (Vec::new(), json!(""));
    loop {
        let page = door.result("chat", "ListTasks", &json!({ "pageSize": 2, "pageToken": token }));
        assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(5), &json!(2)));
        let tasks = page["tasks"].as_array().unwrap().clone();
        assert!(tasks.iter().all(|task| task.get("artifacts").is_none() && task.get("history").is_none()), "{page}");
        listed.extend(tasks.into_iter().map(|task| task["id"].clone()));
        token = page["nextPageToken"].clone();
        if token == "" {
            break;
        }
    }
    assert_eq!(listed, ids);
    let full =
        door.result("chat", "ListTasks", &json!({ "pageSize": 1, "includeArtifacts": true, "historyLength": 1 }));
    let (task, first) = (&full["tasks"][0], door.get("chat", &json!({ "id": ids[0] })));
    assert_eq!((&task["artifacts"], &task["history"]), (&first["artifacts"], &first["history"]));
}

#[test]
fn card_names_the_address_and_the_agent_of_the_server() {
    let scene = Scene::new();
    scene.write(
        "rethread.toml",
        "[serve.doors]\na2a_workflow = \"team/chat\"\na2a_url = \"https://agents.example.com\"\n",
    );
    let door = Door::on(scene, "");
    let card = door.place.get("/.well-known/agent-card.json").is(200).value();
    assert_eq!(card["supportedInterfaces"][0]["url"], "https://agents.example.com/a2a/team%2Fchat");
    assert_eq!(
        (&card["name"], &card["securityRequirements"]),
        (&json!("team/chat"), &json!([{ "schemes": { "bearer": { "list": [] } } }]))
    );
    assert_eq!(door.task("team%2Fchat", &message("m1", "Hello."))["artifacts"][0]["parts"][0]["text"], "Hello, Ada!");

    // Without a configuration it is the only workflow.
    let place = Place::new();
    let none = place.get("/.well-known/agent-card.json");
    error(&none, 404, -32_000, "NOT_FOUND");
    place.put(DATA);
    let card = place.get("/.well-known/agent-card.json").is(200).value();
    assert_eq!((&card["name"], &card["description"]), (&json!("data"), &json!("Completes a person.")));
    assert_eq!(card["supportedInterfaces"][0]["url"], format!("http://{}/a2a/data", place.address));
    assert!(card.get("securitySchemes").is_none(), "{card}");
    place.put(CHAT);
    error(&place.get("/.well-known/agent-card.json"), 404, -32_000, "NOT_FOUND");
}

#[test]
fn a2a_door_is_closed_unless_configured_beyond_loopback() {
    let scene = Scene::new();
    let token = scene.run("token create --scope operate").ok().stdout.trim().to_owned();
    let ask = |place: &Place, path: &str| {
        let address = format!("127.0.0.1:{}", place.address.port()).parse().unwrap();
        let request = Request::new(address, "POST", path).header("A2A-Version", "1.0");
        request
            .header("Authorization", &format!("Bearer {token}"))
            .json(&call("SendMessage", &message("m1", "Hello.")))
            .send()
    };
    let place = Place::at(scene, "0.0.0.0:0", "");
    let closed = error(&ask(&place, "/a2a/nothing"), 404, -32_000, "NOT_FOUND");
    assert!(closed["message"].as_str().unwrap().contains("a2a = true"), "{closed}");
    let in_rest = ask(&place, "/a2a/nothing/message:send").is(404).value();
    assert_eq!(
        (&in_rest["error"]["status"], &in_rest["error"]["code"]),
        (&json!("NOT_FOUND"), &json!(404)),
        "{in_rest}"
    );
    let Place { scene, server, .. } = place;
    server.kill();
    scene.write("rethread.toml", "[serve.doors]\na2a = true\n");
    let place = Place::at(scene, "0.0.0.0:0", "");
    error(&ask(&place, "/a2a/nothing"), 404, -32_000, "NO_WORKFLOW");
}

#[test]
fn program_of_the_page_about_the_a2a_door_prints_what_the_page_says() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "a2a", &[NPM]) else { return };
    check_page("a2a.md", "js", |program| {
        let file = folder.join("a2a_page.mjs");
        std::fs::write(&file, program).unwrap();
        let mut command = Command::new("node");
        command.arg(file);
        command
    });
}
