//! MCP servers that a client passes with a session.

use serde_json::{Value, json};

use super::{CONFIG, Editor, scene};
use crate::doors::{FAILS, serve};
use crate::http::Request;
use crate::place::QUICK;
use rethread_tests::binary::Scene;

#[test]
fn tools_of_an_mcp_server_of_the_client_are_called() {
    let scene = scene();
    let server = scene.write("server.py", include_str!("../../../src/mcp_server.py"));
    let echo = "answers = [\n    { match = \"^say\", tool_calls = [{ name = \"test__echo\", arguments = { text = \"hi\" } }] },";
    scene.write("rethread.toml", CONFIG.replace("answers = [", echo));
    let mut editor = Editor::begin(&scene, json!({}));
    let mut new = |servers: Value| editor.ask("session/new", json!({ "cwd": scene.path(), "mcpServers": servers }));
    // One that does not start is an error, and nothing of it stays.
    let absent = json!([{ "name": "test", "command": "/does/not/exist", "args": [], "env": [] }]);
    let refused = new(absent);
    assert_eq!(refused["error"]["code"], -32_602, "{refused}");
    let given = json!([{ "name": "test", "command": "python3", "args": [server], "env": [] }]);
    let session = new(given.clone());
    let session = session["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{session}")).to_owned();
    // Another session shares it.
    assert!(new(given).get("error").is_none());
    let other = json!([{ "name": "test", "command": "python3", "args": [], "env": [] }]);
    assert_eq!(new(other)["error"]["code"], -32_602);
    assert_eq!(editor.prompt(&session, "say")["result"]["stopReason"], "end_turn");
    let ended = editor.updates.iter().rfind(|update| update["sessionUpdate"] == "tool_call_update").unwrap();
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["content"][0]["content"]["text"], "echo: hi", "{ended}");
}

#[test]
fn tools_of_an_mcp_server_over_http_are_called() {
    // A server with workflows as tools, which lets in those that have its token.
    let (place, token) = serve(Scene::new(), "", &[QUICK, FAILS]);
    let scene = scene();
    let quick = "answers = [\n    { match = \"^say\", tool_calls = [{ name = \"shop__quick\", arguments = { input = \"Ada\" } }] },\n\
                 { match = \"^break\", tool_calls = [{ name = \"shop__fails\", arguments = { input = \"Ada\" } }] },";
    scene.write("rethread.toml", CONFIG.replace("answers = [", quick));
    let mut editor = Editor::begin(&scene, json!({}));
    let server = |name: &str, token: &str| {
        let headers = json!([{ "name": "Authorization", "value": format!("Bearer {token}") }]);
        json!([{ "type": "http", "name": name, "url": format!("http://{}/mcp", place.address), "headers": headers }])
    };
    let mut new = |servers: Value| editor.ask("session/new", json!({ "cwd": scene.path(), "mcpServers": servers }));
    let refused = new(server("other", "not-this"));
    assert_eq!(refused["error"]["code"], -32_602, "{refused}");
    assert!(!refused.to_string().contains("not-this"), "{refused}");
    let session = new(server("shop", &token));
    let session = session["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{session}")).to_owned();
    for (prompt, status, text) in [("say", "completed", "Hello!"), ("break", "failed", "authentication")] {
        assert_eq!(editor.prompt(&session, prompt)["result"]["stopReason"], "end_turn");
        let ended = editor.updates.iter().rfind(|update| update["sessionUpdate"] == "tool_call_update").unwrap();
        assert_eq!(ended["status"], status, "{ended}");
        assert!(ended["content"].to_string().contains(text), "{ended}");
    }
    let threads = Request::new(place.address, "GET", "/v1/threads").header("Authorization", &format!("Bearer {token}"));
    assert_eq!(threads.send().is(200).value()["threads"].as_array().map(Vec::len), Some(2));
}
