//! The ACP door: `rethread acp` with the clients of PyPI and npm, and with messages that no client sends.

mod bad;
mod servers;

use std::process::{Command, Stdio};

use rethread_tests::binary::{Running, Scene, program, root};
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::doors::block;

/// The versions that are installed.
const PYPI: &str = "agent-client-protocol==0.12.1";
const NPM: &str = "@agentclientprotocol/sdk@2.4.0";

const CONFIG: &str = r#"
default_profile = "fast"
[profiles.fast]
provider = "mock"
model = "scripted"
[profiles.fast.script]
answers = [
    { match = "^hello", reasoning = "A greeting.", chunks = ["Hello", ", ", "Ada!"] },
    { match = "^write", text = "I write.", tool_calls = [{ name = "write_file", arguments = { path = "new.txt", content = "one\nthree\n" } }] },
    { match = "^edit", tool_calls = [{ name = "edit_file", arguments = { path = "new.txt", old_text = "one", new_text = "two" } }] },
    { match = "^read", tool_calls = [{ name = "read_file", arguments = { path = "new.txt" } }] },
    { match = "^run", tool_calls = [{ name = "run_command", arguments = { command = ["echo", "hi"] } }] },
    { match = "^ask", tool_calls = [{ name = "ask_user", arguments = { question = "Which colour?" } }] },
    { match = "^wait", chunks = ["Well, "], tool_calls = [{ name = "list_folder", arguments = {} }] },
    { match = "workspace", text = "never", delay_ms = 3600000 },
    { match = "^fail", error = { kind = "authentication", message = "no such key" } },
]
otherwise = { text = "Done." }
"#;

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("rethread.toml", CONFIG);
    scene
}

/// Sends messages as they are written here.
pub(crate) struct Editor {
    running: Running,
    n: u64,
    /// The updates since the last request.
    updates: Vec<Value>,
    /// What the agent asked.
    asked: Vec<Value>,
    /// Whether requests for permission get an answer.
    answers: bool,
}

impl Editor {
    fn start(scene: &Scene, words: &str) -> Self {
        let mut command = scene.command(words.split_whitespace());
        command.stdin(Stdio::piped());
        let running = Running::start(command);
        Self { running, n: 0, updates: Vec::new(), asked: Vec::new(), answers: true }
    }

    /// Begins with these capabilities.
    fn begin(scene: &Scene, capabilities: Value) -> Self {
        let mut editor = Self::start(scene, "acp");
        let begun = editor.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
        assert_eq!(begun["result"]["protocolVersion"], 1, "{begun}");
        editor
    }

    fn send(&mut self, message: &Value) {
        self.running.write(&format!("{message}\n"));
    }

    fn begin_asking(&mut self, method: &str, params: Value) -> u64 {
        self.n += 1;
        self.updates.clear();
        self.asked.clear();
        self.send(&json!({ "jsonrpc": "2.0", "id": self.n, "method": method, "params": params }));
        self.n
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin_asking(method, params);
        self.answer(id)
    }

    /// The next message.
    fn next(&mut self) -> Value {
        serde_json::from_str(&self.running.wait_for("\"jsonrpc\"")).unwrap()
    }

    /// The answer to a request; what comes before it is stored.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.take(message);
        }
    }

    /// Waits for a request of the agent.
    fn until_asked(&mut self) -> Value {
        while self.asked.is_empty() {
            let message = self.next();
            self.take(message);
        }
        self.asked[0].clone()
    }

    fn take(&mut self, message: Value) {
        match message["method"].as_str() {
            Some("session/update") => self.updates.push(message["params"]["update"].clone()),
            Some("session/request_permission") => {
                if self.answers {
                    self.allow(&message);
                }
                self.asked.push(message);
            }
            Some("fs/write_text_file") => {
                self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} }));
                self.asked.push(message);
            }
            _ => {}
        }
    }

    fn allow(&mut self, asked: &Value) {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow" } });
        self.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": outcome }));
    }

    fn new_session(&mut self, scene: &Scene) -> String {
        let new = self.ask("session/new", json!({ "cwd": scene.path(), "mcpServers": [] }));
        new["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{new}")).to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.ask("session/prompt", prompt(session, text))
    }

    fn text(&self) -> String {
        let said = self.updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        said.filter_map(|update| update["content"]["text"].as_str()).collect()
    }
}

fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

fn python(scene: &Scene) -> Option<Command> {
    let packages = needs::pypi(env!("CARGO_TARGET_TMPDIR"), "acp-python", &[PYPI])?;
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages).env("XDG_CONFIG_HOME", scene.file("home")).current_dir(scene.path());
    Some(command)
}

/// The client of npm, for an agent of this program. Each test has a copy of its own.
fn node(scene: &Scene, test: &str) -> Option<Command> {
    let folder = needs::npm(env!("CARGO_TARGET_TMPDIR"), "acp-node", &[NPM])?;
    // Modules are searched beside the program.
    let client = folder.join(format!("{test}.mjs"));
    std::fs::copy(root().join("tests/clients/acp_client.mjs"), &client).unwrap();
    let mut command = Command::new("node");
    command.arg(&client).arg(scene.path()).arg(program()).env("XDG_CONFIG_HOME", scene.file("home"));
    Some(command)
}

#[test]
fn acp_client_for_python_works() {
    let scene = scene();
    let Some(mut command) = python(&scene) else { return };
    command.arg(root().join("tests/clients/acp_client.py")).arg(scene.path()).arg(program()).arg("acp");
    assert_eq!(Running::start(command).end().ok().stdout.trim(), "done");
}

#[test]
fn acp_client_for_node_works() {
    let scene = scene();
    let Some(mut command) = node(&scene, "acp_client") else { return };
    command.arg("acp");
    assert_eq!(Running::start(command).end().ok().stdout.trim(), "done");
}

/// Makes a plan, and another one after a step has failed; then calls two agents, of which one fails.
const TEAM: &str = r#"
version: "1"
name: team
nodes:
  - id: work
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ input }}"
      strategy: {plan_and_execute: {max_steps: 4, max_replans: 1}}
      extra:
        script:
          answers:
            - text: '{"steps": ["Look.", "Count."]}'
            - text: I looked.
            - text: "FAILED: there is nothing to count."
            - text: '{"steps": ["Answer."]}'
            - text: I answered.
            - text: Let me ask.
  - id: ask
    llm:
      provider: mock
      model: scripted
      user_prompt: Ask.
      tool_mode: auto
      agents: [helper, broken]
      extra:
        script:
          answers:
            - {call: 0, tool_calls: [{name: helper, arguments: {topic: tea}}, {name: broken, arguments: {topic: tea}}]}
            - {call: 1, text: Tea is fine.}
edges: [{from: work, to: ask}]
workflows:
  helper:
    description: Helps.
    input_schema: {type: object, properties: {topic: {type: string}}}
    nodes:
      - {id: help, llm: {provider: mock, model: small, user_prompt: "{{ topic }}", extra: {script: {answers: [{text: Tea is hot.}]}}}}
  broken:
    description: Helps not.
    input_schema: {type: object, properties: {topic: {type: string}}}
    nodes:
      - id: help
        llm:
          provider: mock
          model: small
          user_prompt: "{{ topic }}"
          extra: {script: {answers: [{error: {kind: authentication, message: no such key}}]}}
"#;

#[test]
fn plans_and_agents_are_shown_by_the_clients() {
    let scene = Scene::new();
    scene.write("team.yaml", TEAM);
    if let Some(mut command) = python(&scene) {
        command
            .arg(root().join("tests/clients/acp_client.py"))
            .arg(scene.path())
            .arg(program())
            .args(["acp", "team.yaml"]);
        assert_eq!(Running::start(command).end().ok().stdout.trim(), "done");
    }
    if let Some(mut command) = node(&scene, "acp_plans") {
        command.args(["acp", "team.yaml"]);
        assert_eq!(Running::start(command).end().ok().stdout.trim(), "done");
    }
}

#[test]
fn program_of_the_page_about_acp_prints_what_the_page_says() {
    let page = std::fs::read_to_string(root().join("docs/doors/acp.md")).unwrap();
    let (workflow, rest) = block(&page, "yaml");
    let (client, rest) = block(rest, "python");
    let (printed, _) = block(rest, "");
    let scene = Scene::new();
    scene.write("greeter.yaml", workflow);
    let Some(mut command) = python(&scene) else { return };
    let paths = [program().parent().unwrap().to_owned()];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::env::join_paths(paths.into_iter().chain(std::env::split_paths(&path))).unwrap();
    command.args(["-c", client]).env("PATH", paths);
    assert_eq!(Running::start(command).end().ok().stdout.trim(), printed.trim());
}

#[test]
fn session_goes_on_after_the_agent_is_killed() {
    let scene = scene();
    let files = json!({ "fs": { "readTextFile": true, "writeTextFile": true } });
    let mut editor = Editor::begin(&scene, files.clone());
    let session = editor.new_session(&scene);
    editor.prompt(&session, "hello");
    assert_eq!(editor.text(), "Hello, Ada!");
    editor.answers = false;
    editor.begin_asking("session/prompt", prompt(&session, "write"));
    let asked = editor.until_asked();
    assert_eq!(asked["params"]["toolCall"]["rawInput"]["path"], "new.txt", "{asked}");
    editor.running.kill();

    let mut editor = Editor::begin(&scene, files);
    let loaded = editor.ask("session/load", json!({ "sessionId": session, "cwd": scene.path(), "mcpServers": [] }));
    assert!(loaded.get("error").is_none(), "{loaded}");
    let call = editor.updates.iter().find(|update| update["sessionUpdate"] == "tool_call").unwrap().clone();
    // The run goes on, and the user is asked again about the same call.
    let again = editor.until_asked();
    assert_eq!(again["params"]["toolCall"]["toolCallId"], call["toolCallId"], "{again}");
    // The next prompt comes after it.
    assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
    let written = editor.asked.iter().find(|asked| asked["method"] == "fs/write_text_file").unwrap();
    assert_eq!(written["params"]["content"], "one\nthree\n");
    assert_eq!(editor.text(), "Done.Hello, Ada!");
    editor.running.end_input();
    editor.running.end().ok();
    let threads = scene.run("threads --json").ok().json();
    assert_eq!(threads.as_array().unwrap().len(), 1, "{threads}");
}

#[test]
fn other_commands_read_what_an_agent_runs_and_approve_nothing() {
    let scene = scene();
    let mut editor = Editor::begin(&scene, json!({ "fs": { "writeTextFile": true } }));
    let session = editor.new_session(&scene);
    editor.answers = false;
    let id = editor.begin_asking("session/prompt", prompt(&session, "write"));
    editor.until_asked();
    let shown = scene.run(&format!("show {session} --json")).ok().json();
    assert_eq!(shown["status"], "waiting", "{shown}");
    let inbox = scene.run("inbox --json").ok().json();
    let question = inbox[0]["id"].as_str().unwrap_or_else(|| panic!("{inbox}"));
    // A command in a terminal of the editor could send the same.
    scene.run(&format!("respond {question} --approve")).code(7).says("not isolated");
    editor.answers = true;
    editor.allow(&editor.asked[0].clone());
    assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
}

#[test]
fn sessions_of_two_clients_are_at_one_server() {
    let scene = scene();
    let place = crate::place::Place::on(scene, "");
    for _ in 0..2 {
        let mut editor = Editor::begin(&place.scene, json!({ "fs": { "writeTextFile": true } }));
        let session = editor.new_session(&place.scene);
        assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
        assert_eq!(editor.text(), "Hello, Ada!");
        editor.running.end_input();
        editor.running.end().ok();
        // Another process loads it by the id that its client has.
        let mut editor = Editor::begin(&place.scene, json!({}));
        let params = json!({ "sessionId": session, "cwd": place.scene.path(), "mcpServers": [] });
        let loaded = editor.ask("session/load", params);
        assert!(loaded.get("error").is_none(), "{loaded}");
        assert_eq!(editor.text(), "Hello, Ada!");
        assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
    }
    assert_eq!(place.get("/v1/threads").is(200).value()["threads"].as_array().map(Vec::len), Some(2));
}
