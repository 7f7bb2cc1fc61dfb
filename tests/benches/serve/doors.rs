//! Protocols of others beside the API: how long a client waits for the first byte of an answer, and the memory of streams.

use std::time::Instant;

use rethread_tests::binary::Scene;
use serde_json::{Value, json};

use crate::client::{Client, Server};
use crate::{QUICK, Size, quantile, say, told};

/// A request for a streamed answer, and what the first line with text of it contains.
struct Streamed {
    door: &'static str,
    path: &'static str,
    body: fn(usize) -> Value,
    first: &'static str,
}

/// Says a word, and nothing more for an hour.
const TALKS: &str = r#"
version: "1"
name: talks
nodes:
  - id: a
    llm:
      provider: mock
      model: m
      user_prompt: "{{ input }}"
      stream: true
      tool_mode: auto
      extra:
        script:
          answers:
            - {call: 0, chunks: ["Hello "], tool_calls: [{name: list_folder, arguments: {}}]}
            - {call: 1, chunks: [never], delay_ms: 3600000}
"#;

const DOORS: [Streamed; 4] = [
    Streamed {
        door: "AG-UI",
        path: "/agui/",
        body: |i| {
            let id = format!("t{i}");
            json!({
                "threadId": id, "runId": id, "state": null, "tools": [], "context": [], "forwardedProps": null,
                "messages": [{ "id": id, "role": "user", "content": "Ada" }],
            })
        },
        first: "TEXT_MESSAGE_CONTENT",
    },
    Streamed {
        door: "chat completions",
        path: "/v1/chat/completions",
        body: |_| json!({ "stream": true, "messages": [{ "role": "user", "content": "Ada" }] }),
        first: r#""content":"Hello"#,
    },
    Streamed {
        door: "responses",
        path: "/v1/responses",
        body: |_| json!({ "stream": true, "input": "Ada" }),
        first: "response.output_text.delta",
    },
    Streamed {
        door: "A2A",
        path: "/a2a/",
        body: |i| {
            let message = json!({ "messageId": format!("m{i}"), "role": "ROLE_USER", "parts": [{ "text": "Ada" }] });
            json!({ "jsonrpc": "2.0", "id": i, "method": "SendStreamingMessage", "params": { "message": message } })
        },
        first: "artifactUpdate",
    },
];

impl Streamed {
    /// Asks a workflow and reads up to the first text of the answer.
    fn begin(&self, server: &Server, workflow: &str, i: usize) -> Client {
        let mut body = (self.body)(i);
        let path = if self.path.ends_with('/') { format!("{}{workflow}", self.path) } else { self.path.to_owned() };
        // The doors with the workflow in the path ignore it.
        body["model"] = workflow.into();
        let mut client = Client::to(server.address).post_stream(&path, &body);
        client.line_with(self.first);
        client
    }
}

/// From sending the request to the first byte of the answer: through each door and, in turns with it, through the API.
pub(crate) fn first(size: Size) {
    let server = Server::start(Scene::new(), "");
    let mut client = Client::to(server.address);
    client.post_text("/v1/workflows", "application/yaml", QUICK);
    let (mut api, mut doors) = (Vec::new(), DOORS.map(|_| Vec::new()));
    for i in 0..size.of(400) {
        let began = Instant::now();
        let started = client.post("/v1/threads", &json!({ "workflow": "quick", "input": "Ada" }));
        let thread = started["thread_id"].as_str().unwrap();
        let mut stream =
            Client::to(server.address).stream(&format!("/v1/threads/{thread}/events?types=LLM_EXECUTION_PROGRESS"));
        stream.line_with("event: LLM_EXECUTION_PROGRESS");
        api.push(began.elapsed());
        for (door, took) in DOORS.iter().zip(&mut doors) {
            let began = Instant::now();
            drop(door.begin(&server, "quick", i));
            took.push(began.elapsed());
        }
    }
    api.sort_unstable();
    let floor = quantile(&api, 0.5);
    told("request to the first text, the API", api);
    for (door, mut took) in DOORS.iter().zip(doors) {
        took.sort_unstable();
        let above = quantile(&took, 0.5).as_secs_f64() - floor.as_secs_f64();
        told(&format!("the same, {}: {:+.2} ms in the middle", door.door, above * 1e3), took);
    }
}

/// The memory of a server with many open streams, whose threads wait for a model.
pub(crate) fn streams(size: Size) {
    let n = size.of(1_000);
    for door in &DOORS {
        let server = Server::start(Scene::new(), "");
        Client::to(server.address).post_text("/v1/workflows", "application/yaml", TALKS);
        drop(door.begin(&server, "talks", n));
        let before = server.resident_kib();
        let open: Vec<_> = (0..n).map(|i| door.begin(&server, "talks", i)).collect();
        let after = server.resident_kib();
        let figure = format!("{} MiB, {} MiB before", after / 1024, before / 1024);
        say(&format!("memory of the server with {n} streams of {}", door.door), &figure);
        drop(open);
        server.stop();
    }
}
