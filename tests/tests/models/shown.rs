//! Sources and media of an answer, as the command line, the HTTP API and the doors show them.

use std::net::SocketAddr;

use rethread_tests::binary::Running;
use serde_json::{Value, json};

use crate::fakes::{Lane, Protocol};
use crate::http::{Request, Response};

const SOURCE: &str = "https://example.org/sky";

/// A lane whose workflow `one` sends this prompt to a model that searches or makes images.
fn lane(prompt: &str) -> Lane {
    let lane = Lane::of(Protocol::Responses, "gpt-5.6-terra");
    lane.workflow("one", &format!("nodes:\n  - {{id: a, llm: {{profile_id: main, user_prompt: {prompt}}}}}\n"));
    lane
}

/// A server with the workflow of a lane.
struct Served {
    lane: Lane,
    address: SocketAddr,
    _server: Running,
}

impl Served {
    fn of(prompt: &str) -> Self {
        Self::on(lane(prompt))
    }

    fn on(lane: Lane) -> Self {
        let mut server = lane.begin("serve --listen 127.0.0.1:0");
        let address = rethread_tests::http::address(&server.wait_until_said("serving ")).parse().unwrap();
        let served = Self { lane, address, _server: server };
        let file = std::fs::read(served.lane.scene.file("one.yaml")).unwrap();
        let put = served.request("POST", "/v1/workflows").body("application/yaml", file).send();
        assert!(put.status < 300, "{}", put.body);
        served
    }

    fn request(&self, method: &str, path: &str) -> Request {
        Request::new(self.address, method, path)
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Response {
        self.request("POST", path).header("A2A-Version", "1.0").json(body).send().is(200)
    }

    #[track_caller]
    fn json(&self, path: &str, body: &Value) -> Value {
        self.post(path, body).value()
    }

    /// The events of a stream.
    #[track_caller]
    fn events(&self, path: &str, body: &Value) -> Vec<Value> {
        let text = self.post(path, body).body;
        let lines = text.lines().filter_map(|line| line.strip_prefix("data:").map(str::trim));
        lines.filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// What stands between two places of a text, in characters.
fn between(text: &str, start: &Value, end: &Value) -> String {
    let at = |place: &Value| usize::try_from(place.as_u64().unwrap()).unwrap();
    text.chars().skip(at(start)).take(at(end) - at(start)).collect()
}

#[test]
fn sources_are_printed_after_the_answer_and_not_on_stdout() {
    let lane = lane("SEARCH");
    let ran = lane.run("run one.yaml --input x").ok();
    let answer = lane.run("show last --json").ok().json()["output"].as_str().unwrap().to_owned();
    assert_eq!(ran.stdout, format!("{answer}\n"));
    assert!(ran.stderr.contains(&format!("source [1] Sky {SOURCE}")), "{ran}");
    assert!(!lane.run("run one.yaml --input x --quiet").ok().stderr.contains(SOURCE));
    let shown = lane.run("show last").ok().stdout;
    assert!(shown.contains(&format!("source      [1] Sky {SOURCE}")), "{shown}");
    let events = lane.run("events last").ok().stdout;
    assert!(events.contains("[1 source]"), "{events}");
    let chat = lane.talk("chat one.yaml", "SEARCH\n").ok();
    assert!(!chat.stdout.contains(SOURCE) && chat.stderr.contains(SOURCE), "{chat}");
}

#[test]
fn made_image_is_written_to_a_file_and_read_over_http() {
    let lane = lane("IMAGE");
    let ran = lane.run("run one.yaml --input x").ok();
    assert!(!ran.stdout.contains("image") && ran.stderr.contains("image/png"), "{ran}");
    assert!(lane.run("events last").ok().stdout.contains("1 image"));
    let listed = lane.run("media last --json").ok().json();
    assert_eq!((&listed[0]["kind"], &listed[0]["media_type"]), (&json!("image"), &json!("image/png")), "{listed}");
    let written = lane.run("media last --out files").ok().stdout;
    let path = lane.scene.file(written.trim());
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && path.extension().is_some_and(|extension| extension == "png"));
    // A file is never overwritten.
    let again = lane.run("media last --out files").ok().stdout;
    assert_ne!(again, written);
    assert_eq!(std::fs::read(lane.scene.file(again.trim())).unwrap(), bytes);
    let thread = lane.run("threads --json").ok().json()[0]["thread_id"].as_str().unwrap().to_owned();
    let served = Served::on(lane);
    let read = |part: &str| {
        served.request("GET", &format!("/v1/threads/{thread}/events/{}/media/{part}", listed[0]["seq"])).send()
    };
    let answer = read(&listed[0]["part"].to_string()).is(200);
    assert_eq!(answer.bytes, bytes);
    assert_eq!(answer.header("content-type"), Some("image/png"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let saved_as = answer.header("content-disposition").unwrap();
    assert!(saved_as.starts_with("attachment; filename=") && saved_as.contains(".png"), "{saved_as}");
    for part in ["99", "-1", "x"] {
        read(part).problem(404, "no-such-part");
    }
}

#[test]
fn openai_door_has_sources_and_images_in_its_own_forms() {
    let served = Served::of("SEARCH");
    let body = json!({ "model": "one", "messages": [{ "role": "user", "content": "x" }] });
    let message = served.json("/v1/chat/completions", &body)["choices"][0]["message"].clone();
    let citation = &message["annotations"][0]["url_citation"];
    assert_eq!((&citation["url"], &citation["title"]), (&json!(SOURCE), &json!("Sky")), "{message}");
    let text = message["content"].as_str().unwrap();
    assert_eq!(between(text, &citation["start_index"], &citation["end_index"]), "the sky is blue", "{message}");
    assert!(message.get("images").is_none(), "{message}");
    let chunks =
        served.events("/v1/chat/completions", &json!({ "stream": true, "model": "one", "messages": body["messages"] }));
    let streamed: Vec<_> =
        chunks.iter().filter(|chunk| chunk["choices"][0]["delta"]["annotations"].is_array()).collect();
    assert_eq!(streamed.len(), 1, "{chunks:?}");
    assert_eq!(streamed[0]["choices"][0]["delta"]["annotations"], message["annotations"]);

    let whole = served.json("/v1/responses", &json!({ "model": "one", "input": "x" }));
    let part = &whole["output"][0]["content"][0];
    assert_eq!(part["annotations"][0]["url"], SOURCE, "{whole}");
    let events = served.events("/v1/responses", &json!({ "model": "one", "input": "x", "stream": true }));
    let at = |kind: &str| {
        events.iter().position(|event| event["type"] == kind).unwrap_or_else(|| panic!("{kind}: {events:?}"))
    };
    let added = &events[at("response.output_text.annotation.added")];
    assert_eq!((&added["annotation"], &added["annotation_index"]), (&part["annotations"][0], &json!(0)));
    assert!(at("response.output_text.annotation.added") < at("response.content_part.done"));
    let done = &events[at("response.content_part.done")]["part"];
    assert_eq!(done["annotations"], part["annotations"]);
    assert_eq!(events[at("response.completed")]["response"]["output"][0]["content"][0], *done);

    let served = Served::of("IMAGE");
    let message = served.json("/v1/chat/completions", &body)["choices"][0]["message"].clone();
    let url = message["images"][0]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,iVBOR"), "{message}");
    let whole = served.json("/v1/responses", &json!({ "model": "one", "input": "x" }));
    let images = |output: &Value| {
        let items = output.as_array().unwrap().iter().filter(|item| item["type"] == "image_generation_call");
        items.map(|item| item["result"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(images(&whole["output"]).len(), 1, "{whole}");
    let events = served.events("/v1/responses", &json!({ "model": "one", "input": "x", "stream": true }));
    assert_eq!(images(&events.last().unwrap()["response"]["output"]), images(&whole["output"]));
    let items: Vec<_> = events.iter().filter(|event| event["type"] == "response.output_item.done").collect();
    let last = &events.last().unwrap()["response"]["output"];
    assert_eq!(items.len(), last.as_array().unwrap().len(), "{events:?}");
    for item in items {
        assert_eq!(
            last[usize::try_from(item["output_index"].as_u64().unwrap()).unwrap()]["type"],
            item["item"]["type"]
        );
    }
}

#[test]
fn a2a_door_has_sources_as_metadata_and_files_as_parts() {
    let send = |served: &Served, modes: Value| {
        let message = json!({ "messageId": "m-1", "role": "ROLE_USER", "parts": [{ "text": "x" }] });
        let body = json!({ "message": message, "configuration": { "acceptedOutputModes": modes } });
        let answer = served.json("/a2a/one/message:send", &body);
        answer["task"]["artifacts"][0]["parts"].clone()
    };
    let parts = send(&Served::of("SEARCH"), json!([]));
    assert_eq!(parts[0]["metadata"]["sources"][0]["url"], SOURCE, "{parts}");
    let parts = send(&Served::of("IMAGE"), json!([]));
    let file = parts.as_array().unwrap().last().unwrap();
    assert_eq!(file["mediaType"], "image/png", "{parts}");
    assert!(file["raw"].as_str().unwrap().starts_with("iVBOR") && file["filename"].as_str().unwrap().ends_with(".png"));
    let parts = send(&Served::of("IMAGE"), json!(["text/plain"]));
    assert_eq!(parts.as_array().unwrap().len(), 1, "only what the client accepts: {parts}");
}

#[test]
fn mcp_door_has_images_and_links_to_sources() {
    let call = |prompt: &str| {
        let lane = lane(prompt);
        let ask = |id: u32, method: &str, params: Value| {
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n"
        };
        let begin = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        lane.run("run one.yaml --input x --quiet").ok();
        let mut running = lane.begin("mcp");
        running.write(&ask(1, "initialize", begin));
        running.wait_for("\"id\":1");
        running.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        running.write(&ask(2, "tools/list", json!({})));
        running.wait_for("\"id\":2");
        running.write(&ask(3, "tools/call", json!({ "name": "one", "arguments": { "input": "x" } })));
        running.wait_for("\"id\":3");
        running.end_input();
        let said = running.end().stdout;
        let answer = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|line| line["id"] == 3);
        answer.unwrap_or_else(|| panic!("{said}"))["result"]["content"].clone()
    };
    let of_type = |content: &Value, kind: &str| {
        content.as_array().unwrap_or_else(|| panic!("{content}")).iter().find(|block| block["type"] == kind).cloned()
    };
    let content = call("SEARCH");
    let link = of_type(&content, "resource_link").unwrap_or_else(|| panic!("{content}"));
    assert_eq!((&link["uri"], &link["title"]), (&json!(SOURCE), &json!("Sky")), "{link}");
    let content = call("IMAGE");
    let image = of_type(&content, "image").unwrap_or_else(|| panic!("{content}"));
    assert_eq!(image["mimeType"], "image/png");
}

#[test]
fn usage_and_metrics_count_the_providers_cache() {
    let lane = Lane::with(Protocol::Anthropic, "claude-sonnet-5-5", "price_list = \"anthropic\"");
    let long = "word ".repeat(6_000);
    lane.workflow("one", &format!(
        "nodes:\n  - {{id: a, llm: {{profile_id: main, system_prompt: \"{long}\", user_prompt: x}}}}\n  - {{id: b, llm: {{profile_id: \
         main, user_prompt: again}}}}\n"
    ));
    let served = Served::on(lane);
    served.json("/v1/chat/completions", &json!({ "model": "one", "messages": [{ "role": "user", "content": "x" }] }));
    let lane = &served.lane;
    let usage = lane.run("usage --json").ok().json()["models"][0].clone();
    let cached = usage["usage"]["cached_input_tokens"].as_u64().unwrap();
    assert!(cached > 4_000, "{usage}");
    let calls = lane.run("usage --by call --json").ok().lines();
    let saved = calls.iter().filter_map(|call| call["cache_saved_nanousd"].as_i64());
    assert_eq!(usage["cache_saved_nanousd"].as_i64(), Some(saved.sum()), "{usage}");
    let text = lane.run("usage").ok().stdout;
    assert!(text.contains("CACHED") && text.contains("SAVED") && text.contains(&cached.to_string()), "{text}");
    let metrics = served.request("GET", "/metrics").send().is(200).body;
    let value = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(&format!("rethread_llm_{name}{{")));
        let line = line.unwrap_or_else(|| panic!("{name}: {metrics}"));
        assert!(line.contains("gen_ai_response_model=\"claude-sonnet-5-5\""), "{line}");
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    assert_eq!(value("cached_input_tokens_total") as u64, cached);
    let net = value("cache_saved_usd_total") - value("cache_extra_usd_total");
    assert!((net * 1e9 - usage["cache_saved_nanousd"].as_f64().unwrap()).abs() < 2.0, "{metrics}");
}
