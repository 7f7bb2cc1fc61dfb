//! Doors and webhooks of servers that have one log together.

use std::collections::BTreeSet;

use rethread_store::testing::nats::{Servers, program};
use rethread_tests::binary::{HANG, Running, Scene};
use rethread_tests::http::ask_within;
use rethread_tests::needs;
use rethread_tests::receiver::receiver;
use rethread_tests::workflows::CHAT;
use serde_json::{Value, json};

use crate::servers::{machine, serve, until};

/// Servers of one log, and their addresses.
struct Site {
    at: Vec<String>,
    running: Vec<Option<Running>>,
    _machines: Vec<Scene>,
    _servers: Servers,
}

impl Site {
    fn new(more: &str) -> Option<Self> {
        let program = program(env!("CARGO_TARGET_TMPDIR"));
        if program.is_none() {
            needs::skipped("pip cannot install the server of NATS");
        }
        let servers = Servers::start(&program?, 1, "");
        let machines: Vec<_> = (0..3).map(|_| machine(&servers)).collect();
        let (mut running, mut at) = (Vec::new(), Vec::new());
        for scene in &machines {
            let config = std::fs::read_to_string(scene.path().join("rethread.toml")).unwrap();
            scene.write("secret.txt", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
            scene.write("rethread.toml", format!("{config}{more}"));
            let (server, address) = serve(scene);
            running.push(Some(server));
            at.push(address);
        }
        let site = Self { at, running, _machines: machines, _servers: servers };
        until("the workflow is there", || {
            let headers = "content-type: application/yaml\r\n";
            ask_within(HANG, &site.at[0], "POST", "/v1/workflows", headers, CHAT)
                .is_some_and(|(status, _)| status == 201)
        });
        Some(site)
    }

    fn post(&self, server: usize, path: &str, headers: &str, body: &Value) -> String {
        post(&self.at[server], path, headers, body)
    }

    fn json(&self, server: usize, path: &str, headers: &str, body: &Value) -> Value {
        serde_json::from_str(&self.post(server, path, headers, body)).unwrap()
    }

    fn get(&self, server: usize, path: &str) -> Value {
        let mut found = Value::Null;
        until(path, || match ask_within(HANG, &self.at[server], "GET", path, "", "") {
            Some((200, text)) => {
                found = serde_json::from_str(&text).unwrap();
                true
            }
            Some((503, _)) | None => false,
            Some((status, text)) => panic!("{path}: {status} {text}"),
        });
        found
    }
}

/// Posts until the answer is a success: slots may be on their way.
fn post(at: &str, path: &str, headers: &str, body: &Value) -> String {
    let headers = format!("content-type: application/json\r\n{headers}");
    let mut answer = String::new();
    until(path, || match ask_within(HANG, at, "POST", path, &headers, &body.to_string()) {
        Some((200 | 201, text)) => {
            answer = text;
            true
        }
        Some((409 | 503, _)) | None => false,
        Some((status, text)) => panic!("{path}: {status} {text}"),
    });
    answer
}

#[test]
fn conversation_goes_on_at_another_server_through_every_door() {
    let Some(site) = Site::new("") else { return };
    for n in 0..3 {
        let (first, second, third) = (n, (n + 1) % 3, (n + 2) % 3);
        // OpenAI: what follows a response of another server, whole and as a stream.
        let asked = json!({ "model": "chat", "input": "Hi." });
        let said = site.json(first, "/v1/responses", &format!("idempotency-key: o{n}\r\n"), &asked);
        assert_eq!(said["output"][0]["content"][0]["text"], "Hello, Ada!", "{said}");
        let asked = json!({ "model": "chat", "input": "What is my name?", "previous_response_id": said["id"] });
        let said = site.json(second, "/v1/responses", "", &asked);
        assert_eq!(said["output"][0]["content"][0]["text"], "You are Ada.", "{said}");
        let asked = json!({ "model": "chat", "input": "Hi.", "previous_response_id": said["id"], "stream": true });
        let stream = site.post(third, "/v1/responses", "", &asked);
        assert!(stream.contains("response.completed") && stream.contains("Hello, Ada!"), "{stream}");

        // A2A: a task, and another one of its context.
        let message = |id: &str, text: &str, context: Option<&Value>| {
            let mut message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] });
            if let Some(context) = context {
                message["contextId"] = context.clone();
            }
            json!({ "jsonrpc": "2.0", "id": "r", "method": "SendMessage", "params": { "message": message } })
        };
        let headers = "a2a-version: 1.0\r\n";
        let begun = site.json(first, "/a2a/chat", headers, &message(&format!("a{n}"), "Hi.", None));
        let task = &begun["result"]["task"];
        let again = site.json(second, "/a2a/chat", headers, &message(&format!("a{n}"), "Hi.", None));
        assert_eq!(again["result"]["task"]["id"], task["id"], "{again}");
        let next = message(&format!("b{n}"), "What is my name?", Some(&task["contextId"]));
        let next = site.json(third, "/a2a/chat", headers, &next);
        assert_eq!(next["result"]["task"]["contextId"], task["contextId"], "{next}");
        assert_ne!(next["result"]["task"]["id"], task["id"], "{next}");

        // MCP without a session: the workflow is a tool.
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let call = json!({ "name": "chat", "arguments": { "input": "Hi." }, "_meta": meta });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
        let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: chat\r\naccept: \
                       application/json, text/event-stream\r\n";
        let said = site.post(second, "/mcp", headers, &call);
        assert!(said.contains("Hello, Ada!"), "{said}");
    }
}

/// Of requests for a thread with the same name that come to all servers at the same moment, one begins it.
#[test]
fn named_thread_is_begun_by_one_server() {
    let Some(site) = Site::new("") else { return };
    for n in 0..6 {
        let asked = |run: String, text: &str| {
            json!({
                "threadId": format!("t{n}"), "runId": run, "messages": [{ "id": run, "role": "user", "content": text }],
                "tools": [], "context": [], "forwardedProps": {}, "state": {},
            })
        };
        std::thread::scope(|scope| {
            for server in 0..3 {
                let (at, body) = (&site.at[server], asked(format!("r{server}"), "Hi."));
                scope.spawn(move || {
                    let said = post(at, "/agui/chat", "accept: text/event-stream\r\n", &body);
                    assert!(said.contains("RUN_FINISHED"), "{said}");
                });
            }
        });
        for server in 0..3 {
            let path = format!("/v1/threads?label=agui_thread=t{n}");
            until("its runs are there", || {
                let page = site.get(server, &path);
                let threads = page["threads"].as_array().unwrap();
                assert!(threads.len() < 2, "{page}");
                let id = threads.first().map(|thread| thread["thread_id"].as_str().unwrap().to_owned());
                id.is_some_and(|id| {
                    site.get(server, &format!("/v1/threads/{id}/runs"))["runs"].as_array().unwrap().len() == 3
                })
            });
        }
    }
}

/// Each server has the webhook, one at a time delivers, and no event is left out when that one is killed.
#[test]
fn webhook_is_delivered_by_one_server_and_goes_on_at_another() {
    let (url, posts) = receiver([]);
    let Some(mut site) = Site::new(&format!(
        "[webhooks.audit]\nurl = \"{url}\"\nsecret_file = \"secret.txt\"\nfrom_the_beginning = true\n"
    )) else {
        return;
    };
    let mut seen = Vec::new();
    for n in 0..3 {
        let mut last = 0;
        for server in n..3 {
            let body = json!({ "workflow": "chat", "input": "Hi." });
            let started = site.json(server, "/v1/threads", &format!("idempotency-key: {n}-{server}\r\n"), &body);
            let path = format!("/v1/threads/{}", started["thread_id"].as_str().unwrap());
            until("it ends", || {
                let thread = site.get(server, &path);
                last = last.max(thread["last_position"].as_u64().unwrap());
                thread["status"] == "completed"
            });
        }
        let position = |event: &Value| event["position"].as_str().unwrap().parse::<u64>().unwrap();
        while seen.iter().max().is_none_or(|newest| *newest < last) {
            seen.push(position(&posts.recv_timeout(HANG).unwrap().event));
        }
        let distinct: BTreeSet<_> = seen.iter().copied().collect();
        assert!(n > 0 || seen.len() == distinct.len(), "repeated where nobody was killed: {seen:?}");
        assert!(distinct.into_iter().eq(0..=*seen.iter().max().unwrap()), "{seen:?}");
        if n < 2 {
            site.running[n].take().unwrap().kill();
        }
    }
}
