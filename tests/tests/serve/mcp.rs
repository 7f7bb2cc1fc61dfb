//! The MCP door: with the clients of PyPI and npm in both generations of the protocol, with the conformance suite, and with
//! requests that no client sends.

mod ends;
mod stdio;

use std::process::Command;
use std::time::Duration;

use rethread_tests::binary::{Running, Scene, root};
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::doors::{APPROVES, ASKS, CHAT, FAILS, HANGS, check_page, serve};
use crate::http::{Request, Response};
use crate::place::Place;

/// The versions that are installed.
const PYPI: &str = "mcp==2.3.0";
const NPM: [&str; 2] = ["@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0"];
/// The suite of the protocol for both revisions, and the Node that it needs.
const CONFORMANCE: [&str; 2] = ["@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@22.23.3"];
/// Asks for a confirmation, as the scenarios for questions of tools do.
const CONFIRMS: &str = r#"
version: "1"
name: test_input_required_result_NAME
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Please confirm
      answer: boolean
      variables: [{variable_name: ok, expression: "{{ input }}"}]
  - id: done
    llm: {provider: mock, model: scripted, user_prompt: "{{ ok }}", extra: {script: {otherwise: {text: state-ok}}}}
edges: [{from: ask, to: done}]
"#;

/// Two nodes.
const TWO: &str = r#"
version: "1"
name: two
nodes:
  - id: one
    llm: {provider: mock, model: scripted, user_prompt: "{{ input }}", extra: {script: {otherwise: {text: first}}}}
  - id: two
    llm: {provider: mock, model: scripted, user_prompt: "{{ input }}", extra: {script: {otherwise: {text: second}}}}
edges: [{from: one, to: two}]
"#;

/// Takes an object.
const TYPED: &str = r#"
version: "1"
name: typed
description: Paints.
input_schema: {type: object, properties: {colour: {type: string}}, required: [colour]}
nodes:
  - id: answer
    llm: {provider: mock, model: scripted, user_prompt: "{{ input.colour }}", extra: {script: {otherwise: {text: painted}}}}
"#;

/// The revisions that begin with `initialize`.
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A server that needs tokens, and one of the scope `operate`.
struct Door {
    place: Place,
    token: String,
}

impl Door {
    fn new() -> Self {
        Self::on(Scene::new(), "")
    }

    fn on(scene: Scene, options: &str) -> Self {
        let (place, token) = serve(scene, options, &[CHAT, ASKS, FAILS, HANGS, APPROVES, TWO, TYPED]);
        Self { place, token }
    }

    fn address(&self) -> String {
        format!("http://{}/mcp", self.place.address)
    }

    fn client(&self) -> Client<'_> {
        Client { door: self, token: self.token.clone(), session: None }
    }

    fn token(&self, options: &str) -> String {
        self.place.scene.run(&format!("token create {options}")).ok().stdout.trim().to_owned()
    }
}

/// Sends messages as they are written here.
struct Client<'a> {
    door: &'a Door,
    token: String,
    session: Option<String>,
}

impl Client<'_> {
    fn with(&self, token: &str) -> Self {
        Client { door: self.door, token: token.to_owned(), session: self.session.clone() }
    }

    fn request(&self, method: &str) -> Request {
        let request = Request::new(self.door.place.address, method, "/mcp");
        let request = request.header("Authorization", &format!("Bearer {}", self.token));
        let request = request.header("Accept", "application/json, text/event-stream");
        match &self.session {
            Some(session) => request.header("Mcp-Session-Id", session),
            None => request,
        }
    }

    /// Begins a session.
    fn begin(&mut self) -> Response {
        self.session = None;
        let params = json!({
            "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        let begun = self.post("initialize", params);
        self.session = begun.header("mcp-session-id").map(str::to_owned);
        if self.session.is_some() {
            let body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            self.request("POST").json(&body).send().is(202);
        }
        begun
    }

    fn post(&self, method: &str, params: Value) -> Response {
        self.request("POST").json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).send()
    }

    /// A request that needs no session.
    fn modern(&self, method: &str, mut params: Value) -> Request {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let mut request = self.request("POST").header("MCP-Protocol-Version", MODERN).header("Mcp-Method", method);
        if let Some(name) = params["name"].as_str() {
            request = request.header("Mcp-Name", name);
        }
        request.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
    }

    /// The result of a tool.
    #[track_caller]
    fn call(&self, name: &str, arguments: Value) -> Value {
        let answer = self.modern("tools/call", json!({ "name": name, "arguments": arguments })).send().is(200);
        message(&answer)["result"].clone()
    }

    /// The tools that it sees.
    #[track_caller]
    fn tools(&self) -> Vec<String> {
        let listed = message(&self.modern("tools/list", json!({})).send().is(200));
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// The message of a response, which may be a stream.
#[track_caller]
fn message(response: &Response) -> Value {
    let data = response.body.lines().filter_map(|line| line.strip_prefix("data: ")).rfind(|data| !data.is_empty());
    serde_json::from_str(data.unwrap_or(&response.body)).unwrap_or_else(|error| panic!("{error}: {}", response.body))
}

#[track_caller]
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// Checks that a response is an error of JSON-RPC; returns it.
#[track_caller]
fn error(response: &Response, status: u16, code: i64) -> Value {
    assert_eq!(response.status, status, "{}", response.body);
    assert_eq!(response.header("content-type"), Some("application/json"));
    let body = response.value();
    assert_eq!((&body["jsonrpc"], &body["error"]["code"]), (&json!("2.0"), &json!(code)), "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|text| text.len() > 5), "{body}");
    body["error"].clone()
}

fn python(generation: &str, arguments: &[&str]) -> Option<Command> {
    let packages = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "mcp-python", &[PYPI])?;
    let mut command = Command::new("python3");
    command.arg(root().join("tests/clients/mcp_client.py")).env("PYTHONPATH", packages).arg(generation).args(arguments);
    Some(command)
}

fn run(command: Command) {
    assert_eq!(Running::start(command).end().ok().stdout.trim(), "done");
}

#[test]
fn mcp_client_for_python_works_over_http() {
    for generation in ["legacy", "auto"] {
        let door = Door::new();
        let Some(command) = python(generation, &["http", &door.address(), &door.token]) else { return };
        run(command);
    }
}

/// Calls a tool of an MCP server, which asks.
const SIZES: &str = r#"
version: "1"
name: sizes
nodes:
  - id: answer
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      tool_mode: auto
      available_tools: [shop__ask]
      extra:
        script:
          answers:
            - {match: ^x, tool_calls: [{name: shop__ask, arguments: {}}]}
            - {match: accept m, text: Size m.}
          otherwise: {text: No size.}
"#;

#[test]
fn questions_of_tools_in_the_middle_of_a_call_are_shown_by_the_clients() {
    for generation in ["legacy", "auto"] {
        let scene = Scene::new();
        let server = scene.write("server.py", include_str!("../../src/mcp_server.py"));
        let config = json!({ "mcpServers": { "shop": { "command": "python3", "args": [server] } } });
        scene.write("servers.json", config.to_string());
        let door = Door::on(scene, "--mcp servers.json");
        door.place.put(SIZES);
        let Some(command) = python(generation, &["http", &door.address(), &door.token, "sizes"]) else { return };
        run(command);
    }
}

#[test]
fn mcp_clients_for_node_work() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "mcp-node", &NPM) else { return };
    // Modules are searched beside the program.
    let program = folder.join("mcp_client.mjs");
    std::fs::copy(root().join("tests/clients/mcp_client.mjs"), &program).unwrap();
    for generation in ["legacy", "modern"] {
        let door = Door::new();
        let mut command = Command::new("node");
        command.arg(&program).args([generation, &door.address(), &door.token]);
        run(command);
    }
}

/// A workflow that the conformance suite calls as a tool, with this as the answer of its model.
fn conforming(name: &str, answer: &str) -> String {
    CHAT.replace("name: chat", &format!("name: test_{name}")).replace(r#"{chunks: ["Hello", ", ", "Ada!"]}"#, answer)
}

/// The suite runs with the scenarios that a revision requires. It fails for each scenario or check that fails and is not
/// listed beside this test, and for each that is listed and passes.
#[test]
fn conformance_suite_passes_but_for_what_is_listed() {
    let Some(folder) = needs::npm(env!("CARGO_TARGET_TMPDIR"), "mcp-conformance", &CONFORMANCE) else { return };
    let place = Place::new();
    place.put(&conforming("simple_text", "{text: This is a simple text response for testing.}"));
    let error = "{error: {kind: authentication, message: This tool intentionally returns an error for testing}}";
    place.put(&conforming("error_handling", error));
    for name in ["elicitation", "request_state", "tampered_state"] {
        place.put(&CONFIRMS.replace("NAME", name));
    }
    let (programs, lists) = (folder.join("node_modules/.bin"), root().join("tests/tests/serve/mcp"));
    for revision in ["2025-11-25", "2026-07-28"] {
        let mut command = Command::new(programs.join("node"));
        command.arg(programs.join("conformance")).args(["server", "--requirements", revision]);
        command.args(["--url", &format!("http://{}/mcp", place.address), "--expected-failures"]);
        command.arg(lists.join(format!("conformance-{revision}.yml"))).current_dir(place.scene.path());
        Running::start(command).end().ok();
    }
}

#[test]
fn refused_requests_are_errors_of_json_rpc_and_start_nothing() {
    let door = Door::on(Scene::new(), "--body-bytes-max 20000");
    let mut client = door.client();
    error(&client.with("wrong").begin(), 401, -32_000);
    assert!(client.with("wrong").post("initialize", json!({})).header("www-authenticate").is_some());
    let call = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "chat"}}"#;
    let batch = format!("[{call}]");
    let old = call.replace("2.0", "1.0");
    for (body, status, code) in [
        ("{", 400, -32_700),
        ("", 400, -32_700),
        ("\u{1}", 400, -32_700),
        ("[]", 400, -32_600),
        (&batch, 400, -32_600),
        ("7", 400, -32_600),
        ("{}", 400, -32_600),
        (&old, 400, -32_600),
        // It names no session.
        (call, 400, -32_600),
    ] {
        error(&client.request("POST").body("application/json", body).send(), status, code);
    }
    let large = format!("{{\"jsonrpc\": \"2.0\", {}}}", " ".repeat(20_000));
    error(&client.request("POST").body("application/json", large).send(), 413, -32_000);
    error(&client.request("POST").body("text/plain", "{}").send(), 415, -32_600);
    error(&Request::new(door.place.address, "PUT", "/mcp").send(), 405, -32_600);
    let only_json =
        Request::new(door.place.address, "POST", "/mcp").header("Authorization", &format!("Bearer {}", door.token));
    error(&only_json.header("Accept", "application/json").json(&json!({})).send(), 406, -32_600);
    // Wrong revisions of the protocol.
    let begun = client.post(
        "initialize",
        json!({
            "protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        }),
    );
    assert_eq!(message(&begun.is(200))["result"]["protocolVersion"], LEGACY);
    let discover = client.request("POST").header("MCP-Protocol-Version", "1999-01-01");
    let discover = discover.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).send();
    assert_eq!(discover.status, 400, "{}", discover.body);
    assert!(discover.value()["error"]["message"].as_str().unwrap().contains("1999-01-01"), "{}", discover.body);
    // Sessions that do not exist. The error names the request.
    client.session = Some("nothing".into());
    let missing = client.post("ping", json!({}));
    error(&missing, 404, -32_000);
    assert_eq!(missing.value()["id"], 1);
    error(&client.request("GET").send(), 404, -32_000);
    error(&client.request("DELETE").send(), 404, -32_000);
    client.begin().is(200);
    assert!(message(&client.post("nothing", json!({})).is(200))["error"]["code"] == -32_601);
    assert!(message(&client.post("tools/call", json!({ "name": 7 })).is(200))["error"].is_object());
    assert!(message(&client.post("tools/call", json!({ "name": "nothing" })).is(200))["error"]["code"] == -32_602);
    // A session belongs to the token that began it.
    let other = door.token("--scope operate");
    error(&client.with(&other).post("ping", json!({})), 404, -32_000);
    error(&client.with(&other).request("DELETE").send(), 404, -32_000);
    assert!(message(&client.post("ping", json!({})).is(200))["result"].is_object());
    client.request("DELETE").send().is(204);
    error(&client.post("ping", json!({})), 404, -32_000);
    assert_eq!(door.place.n_threads(), 0);
}

#[test]
fn scopes_and_labels_of_tokens_apply() {
    let door = Door::new();
    let client = door.client();
    let others = client.call("chat", json!({ "input": "Hello" }))["structuredContent"]["thread_id"].clone();
    let reader = client.with(&door.token("--scope read"));
    assert!(!reader.tools().iter().any(|tool| ["chat", "respond"].contains(&tool.as_str())), "{:?}", reader.tools());
    assert!(text(&reader.call("explain", json!({ "thread": others }))).contains("completed in"));
    for (name, arguments) in [
        ("chat", json!({})),
        ("respond", json!({ "interaction": format!("{}-1", others.as_str().unwrap()), "answer": 1 })),
    ] {
        let refused = reader.call(name, arguments);
        assert_eq!((&refused["isError"], text(&refused).contains("operate")), (&json!(true), true), "{refused}");
    }
    let bound = client.with(&door.token("--scope operate --label team=blue"));
    assert!(bound.tools().contains(&"respond".to_owned()) && !bound.tools().contains(&"chat".to_owned()));
    let own = bound.call("chat", json!({ "input": "Hello" }))["structuredContent"]["thread_id"].clone();
    let shown = door.place.get(&format!("/v1/threads/{}", own.as_str().unwrap())).is(200).value();
    assert_eq!(shown["labels"], json!({ "team": "blue" }));
    for tool in ["explain", "events", "state"] {
        assert_eq!(bound.call(tool, json!({ "thread": own }))["isError"], json!(false));
        let hidden = bound.call(tool, json!({ "thread": others }));
        assert_eq!((&hidden["isError"], text(&hidden).contains("no thread")), (&json!(true), true), "{hidden}");
    }
    let listed = bound.call("threads", json!({}))["structuredContent"]["threads"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["thread_id"]), (1, &own));
    assert!(text(&bound.call("explain", json!({ "thread": "last" }))).contains(own.as_str().unwrap()));
    let asked = client.call("asks", json!({}))["structuredContent"]["questions"][0]["id"].clone();
    assert_eq!(bound.call("questions", json!({}))["structuredContent"]["questions"], json!([]));
    let refused = bound.call("respond", json!({ "interaction": asked, "answer": "blue" }));
    assert_eq!((&refused["isError"], text(&refused).contains("no thread")), (&json!(true), true), "{refused}");
    let address = format!("rethread://threads/{}/explain", others.as_str().unwrap());
    let hidden =
        message(&bound.modern("resources/read", json!({ "uri": address })).header("Mcp-Name", &address).send());
    assert_eq!(hidden["error"]["code"], -32_602, "{hidden}");
}

#[test]
fn door_is_closed_unless_configured_beyond_loopback() {
    let scene = Scene::new();
    let token = scene.run("token create --scope operate").ok().stdout.trim().to_owned();
    let ask = |place: &Place| {
        let request = Request::new(place.address, "POST", "/mcp").header("Authorization", &format!("Bearer {token}"));
        request
            .header("Accept", "application/json, text/event-stream")
            .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }))
            .send()
    };
    let place = Place::at(scene, "0.0.0.0:0", "");
    let refused = error(&ask(&place), 404, -32_000);
    assert!(refused["message"].as_str().unwrap().contains("`mcp = true`"), "{refused}");
    let Place { scene, server, .. } = place;
    server.kill();
    scene.write("rethread.toml", "[serve.doors]\nmcp = true\n");
    assert_ne!(ask(&Place::at(scene, "0.0.0.0:0", "")).status, 404);
}

#[test]
fn client_of_sessions_that_disconnects_cancels_nothing() {
    let door = Door::new();
    let mut client = door.client();
    client.begin().is(200);
    let body =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "hangs", "arguments": {} } });
    let stream = client.request("POST").json(&body).open().unwrap();
    door.place.until("/v1/threads?status=running", |page| page["threads"].as_array().unwrap().len() == 1);
    drop(stream);
    // The session ends as well, and the run goes on.
    client.request("DELETE").send().is(204);
    let follows = || !door.place.get("/metrics").is(200).body.contains("rethread_subscribers 0\n");
    for _ in 0..600 {
        if !follows() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!follows(), "the request has not ended");
    assert_eq!(door.place.get("/v1/threads?status=running").is(200).value()["threads"].as_array().unwrap().len(), 1);
}

#[test]
fn client_without_session_that_disconnects_cancels_its_run() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50");
    let call = json!({ "name": "hangs", "arguments": {} });
    let stream = door.client().modern("tools/call", call).open().unwrap();
    assert_eq!(stream.status, 200);
    door.place.until("/v1/threads?status=running", |page| page["threads"].as_array().unwrap().len() == 1);
    drop(stream);
    door.place.until("/v1/threads?status=cancelled", |page| page["threads"].as_array().unwrap().len() == 1);
}

#[test]
fn clients_that_begin_a_thousand_sessions_do_not_end_one_in_use() {
    let door = Door::new();
    let mut client = door.client();
    client.begin().is(200);
    // A follower of its session.
    let follower = client.request("GET").open().unwrap();
    assert_eq!(follower.status, 200);
    let flood = door.token("--scope read");
    for _ in 0..1_000 {
        let params =
            json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        client.door.client().with(&flood).post("initialize", params).is(200);
    }
    assert!(message(&client.post("ping", json!({})).is(200))["result"].is_object());
    let called =
        message(&client.post("tools/call", json!({ "name": "chat", "arguments": { "input": "Hello" } })).is(200));
    assert_eq!(text(&called["result"]), "Hello, Ada!");
    drop(follower);
}

#[test]
fn run_goes_on_after_the_server_was_killed() {
    let door = Door::new();
    let mut client = door.client();
    client.begin().is(200);
    let waits = message(&client.post("tools/call", json!({ "name": "asks", "arguments": {} })).is(200));
    let asked = waits["result"]["structuredContent"]["questions"][0]["id"].clone();
    let session = client.session.take();
    let Door { place, token } = door;
    let admin = place.token.clone();
    let mut place = place.kill_and_restart();
    place.token = admin;
    let door = Door { place, token };
    let client = Client { session, ..door.client() };
    error(&client.post("ping", json!({})), 404, -32_000);
    let client = door.client();
    assert_eq!(text(&client.call("respond", json!({ "interaction": asked, "answer": "blue" }))), "Painted blue.");
}

#[test]
fn tasks_are_threads_that_a_client_polls() {
    let door = Door::new();
    let client = door.client();
    let send = |method: &str, mut params: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        });
        let mut request = client.request("POST").header("MCP-Protocol-Version", MODERN).header("Mcp-Method", method);
        if let Some(name) = params["name"].as_str().or(params["taskId"].as_str()) {
            request = request.header("Mcp-Name", name);
        }
        message(&request.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).send())
    };
    let until = |task: &Value, status: &str| {
        for _ in 0..600 {
            let now = send("tasks/get", json!({ "taskId": task }))["result"].clone();
            if now["status"] == status {
                return now;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the task does not come to be {status}");
    };
    let begun = send("tools/call", json!({ "name": "asks", "arguments": {} }))["result"].clone();
    assert_eq!((&begun["resultType"], &begun["status"]), (&json!("task"), &json!("working")), "{begun}");
    let task = begun["taskId"].clone();
    let asks = until(&task, "input_required");
    let (key, request) = asks["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create", "{asks}");
    let answer = json!({ key: { "action": "accept", "content": { "answer": "blue" } } });
    assert!(send("tasks/update", json!({ "taskId": task, "inputResponses": answer }))["error"].is_null());
    assert_eq!(text(&until(&task, "completed")["result"]), "Painted blue.");
    let hangs = send("tools/call", json!({ "name": "hangs", "arguments": {} }))["result"]["taskId"].clone();
    assert!(send("tasks/cancel", json!({ "taskId": hangs }))["error"].is_null());
    until(&hangs, "cancelled");
    assert_eq!(send("tasks/get", json!({ "taskId": "nothing" }))["error"]["code"], -32_602);
}

#[test]
fn program_of_the_page_about_the_door_prints_what_the_page_says() {
    let Some(packages) = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "mcp-python", &[PYPI]) else { return };
    check_page("mcp.md", "python", |program| {
        let mut command = Command::new("python3");
        command.args(["-c", program]).env("PYTHONPATH", packages);
        command
    });
}
