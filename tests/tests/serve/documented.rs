//! What the documents say of the API is what it does: the page by example, and the OpenAPI document.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use rethread_tests::binary::root;
use rethread_tests::provider::{Provider, Said, Wire};
use serde_json::{Value, json};

use crate::http::{Request, Response};
use crate::place::{Place, QUICK};

/// A request of the page.
struct Example {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
    status: u16,
}

/// The `http` blocks of the page, each with the status in the line after it.
fn examples(page: &str) -> Vec<Example> {
    let blocks = page.split("```http\n").skip(1);
    blocks
        .map(|block| {
            let (text, after) = block.split_once("```").unwrap();
            let (head, body) = text.split_once("\n\n").unwrap_or((text.trim_end(), ""));
            let mut lines = head.lines();
            let (method, path) = lines.next().unwrap().split_once(' ').unwrap();
            let headers = lines.map(|line| line.split_once(": ").unwrap()).map(|(n, v)| (n.to_owned(), v.to_owned()));
            let status = after.trim_start().strip_prefix("→ `").unwrap_or_else(|| panic!("{path}: no status"));
            Example {
                method: method.to_owned(),
                path: path.to_owned(),
                headers: headers.collect(),
                body: body.trim_end().to_owned(),
                status: status[..3].parse().unwrap(),
            }
        })
        .collect()
}

#[test]
fn http_page_shows_the_actual_responses() {
    let page = std::fs::read_to_string(root().join("docs/HTTP.md")).unwrap();
    let place = Place::new();
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    let examples = examples(&page);
    assert!(examples.len() > 20);
    for example in examples {
        let mut path = example.path.clone();
        for (name, value) in &known {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        let mut request = place.request(&example.method, &path);
        let mut streams = false;
        for (name, value) in &example.headers {
            streams |= value == "text/event-stream";
            if !name.eq_ignore_ascii_case("content-type") {
                request = request.header(name, value);
            }
        }
        if let Some((_, media_type)) = example.headers.iter().find(|(name, _)| name == "Content-Type") {
            request = request.body(media_type, example.body.as_str());
        }
        if streams {
            assert_eq!(request.open().unwrap().status, example.status, "{path}");
            continue;
        }
        let answer = request.send();
        assert_eq!(answer.status, example.status, "{} {path}: {}", example.method, answer.body);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match (example.method.as_str(), example.path.as_str()) {
            ("POST", "/v1/workflows") => known.extend(text(&answer.value()["hash"]).map(|hash| ("hash", hash))),
            ("POST", "/v1/threads") => known.extend(text(&answer.value()["thread_id"]).map(|id| ("thread", id))),
            ("POST", path) if path.ends_with("/fork") => {
                let fork = text(&answer.value()["thread_id"]).unwrap();
                place.at_rest(&fork);
                known.insert("fork", fork);
            }
            ("GET", "/v1/interactions") => {
                let first = text(&answer.value()["interactions"][0]["id"]).unwrap();
                known.insert("interaction", first);
            }
            _ => {}
        }
    }
}

/// The OpenAPI document, and what real answers are compared with.
struct Document {
    document: Value,
    /// What came, and was compared.
    seen: BTreeSet<(String, String, u16)>,
}

impl Document {
    /// The schema of an answer, if the document has one.
    fn schema(&self, path: &str, method: &str, status: u16) -> Option<Value> {
        let response = &self.document["paths"][path][method]["responses"][status.to_string()];
        let content = response["content"].as_object()?;
        let schema = content.get("application/json").or_else(|| content.get("application/problem+json"))?;
        let mut whole = schema["schema"].clone();
        whole["components"] = self.document["components"].clone();
        Some(whole)
    }

    /// Sends a request to a route, with the values of its path's parts, and compares the answer.
    fn send(&mut self, request: Request, method: &str, path: &str, status: u16) -> Response {
        let answer = request.send();
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        if let Some(schema) = self.schema(path, method, status) {
            let validator: Validator = jsonschema::validator_for(&schema).unwrap();
            let value = answer.value();
            let faults: Vec<_> =
                validator.iter_errors(&value).map(|error| format!("{error} at {}", error.instance_path())).collect();
            assert!(faults.is_empty(), "{method} {path} {status}: {faults:#?}\n{value:#}");
        }
        self.seen.insert((path.to_owned(), method.to_owned(), status));
        answer
    }
}

#[test]
fn each_documented_status_occurs_and_fits_its_schema() {
    let nobody = "00000000-0000-7000-8000-000000000000";
    let painter = Provider::start(|_, _| {
        let parts = json!([{ "text": "Here." }, { "inlineData": { "mimeType": "image/png", "data": "aGVsbG8=" } }]);
        Said::Whole(json!({
            "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP" }],
            "usageMetadata": { "promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3 },
        }))
    });
    let profile = format!(
        "[profiles.painter]\nprovider = \"gemini\"\nmodel = \"m\"\nbase_url = \"{}\"\nauth = \"none\"\n",
        painter.base_url(Wire::Gemini)
    );
    let scene = crate::incoming::configured(&format!(
        "{profile}[memory]\nnamespace = []\n[incoming.{nobody}]\nsignature = 'github'\nsignal = '{{event}}'\nkeep_for_s = 0\n"
    ));
    let place = Place::on(scene, "--body-bytes-max 200000");
    let mut api = Document { document: place.get("/v1/openapi.json").value(), seen: BTreeSet::new() };
    let (thread, question) = place.asking();
    let quick = place.start(QUICK);
    place.at_rest(&quick);
    let painted =
        place.start("version: '1'\nname: painted\nnodes: [{id: a, llm: {profile_id: painter, user_prompt: Paint.}}]\n");
    place.at_rest(&painted);
    let answers = place.get(&format!("/v1/threads/{painted}/events?types=LLM_CALL_COMPLETED")).value();
    let picture = format!("/v1/threads/{painted}/events/{}/media/1", answers["events"][0]["seq"]);
    let of_picture = "/v1/threads/{thread}/events/{seq}/media/{part}";
    let shown = api.send(place.request("GET", &picture), "get", of_picture, 200);
    assert_eq!((shown.body.as_str(), shown.header("content-type")), ("hello", Some("image/png")));
    let hash = place.get("/v1/workflows/quick").value()["newest"].as_str().unwrap().to_owned();
    let exported = place.scene.run(&format!("export {quick}")).ok().stdout;
    let fill = |path: &str, of: &str| {
        let path = path.replace("{thread}", of).replace("{interaction}", of).replace("{name}", of);
        path.replace("{hash}", of).replace("{wait}", "2")
    };
    let sse = |request: Request| request.header("Accept", "text/event-stream");

    // The documents that are checked.
    for (path, of) in [
        ("/v1/workflows", ""),
        ("/v1/workflows/{name}", "quick"),
        ("/v1/definitions/{hash}", &hash),
        ("/v1/threads", ""),
        ("/v1/threads/{thread}", &thread),
        ("/v1/threads/{thread}/outcome", &quick),
        ("/v1/threads/{thread}/state", &thread),
        ("/v1/threads/{thread}/steps", &thread),
        ("/v1/threads/{thread}/family", &thread),
        ("/v1/threads/{thread}/checkpoints", &thread),
        ("/v1/threads/{thread}/graph", &thread),
        ("/v1/threads/{thread}/explain", &thread),
        ("/v1/threads/{thread}/usage", &thread),
        ("/v1/usage", ""),
        ("/v1/threads/{thread}/tree", &thread),
        ("/v1/threads/{thread}/events", &thread),
        ("/v1/threads/{thread}/interactions", &thread),
        ("/v1/interactions", ""),
        ("/v1/events", ""),
        ("/v1/tools", ""),
        ("/v1/profiles", ""),
        ("/v1/info", ""),
        ("/v1/openapi.json", ""),
        ("/health/live", ""),
        ("/health/ready", ""),
        ("/metrics", ""),
        ("/v1/log", ""),
        ("/v1/log/records", ""),
        ("/v1/log/streams", ""),
        ("/v1/log/streams/{thread}", &thread),
        ("/v1/log/streams/{thread}/records", &thread),
        ("/v1/log/blobs/{hash}", &hash),
        ("/v1/log/values", ""),
    ] {
        api.send(place.request("GET", &fill(path, of)), "get", path, 200);
    }
    for path in ["/v1/threads", "/v1/threads/{thread}"] {
        let query = if path == "/v1/threads" { "?include=usage" } else { "" };
        api.send(place.request("GET", &format!("{}{query}", fill(path, &thread))), "get", path, 200);
    }
    // What is not there, and what cannot be understood.
    let gets: Vec<String> = api.document["paths"].as_object().unwrap().keys().cloned().collect();
    for path in &gets {
        let responses = api.document["paths"][path]["get"]["responses"].clone();
        if responses.get("404").is_some() {
            let of = if path.contains("{name}") { "nothing" } else { nobody };
            let query = if path == "/v1/events" { format!("?family={nobody}") } else { String::new() };
            api.send(place.request("GET", &format!("{}{query}", fill(path, of))), "get", path, 404);
        }
        if responses.get("400").is_some() {
            api.send(place.request("GET", &format!("{}?colour=green", fill(path, &thread))), "get", path, 400);
        }
    }
    api.send(sse(place.request("GET", "/v1/events?follow=false&after=now")), "get", "/v1/events", 204);
    let of_thread = "/v1/threads/{thread}/events";
    api.send(sse(place.request("GET", &format!("{}?after=now", fill(of_thread, &quick)))), "get", of_thread, 204);

    // Bodies that are none of what is read.
    let bodies = api.document["paths"].clone();
    let bodies = bodies.as_object().unwrap().iter();
    for (path, method, item) in bodies.flat_map(|(path, item)| ["post", "put"].map(|method| (path, method, item))) {
        let Some(kinds) = item[method]["requestBody"]["content"].as_object() else { continue };
        let of = if path.contains("{interaction}") { format!("{nobody}-3") } else { nobody.to_owned() };
        let kind = kinds.keys().next().unwrap();
        let send = |kind: &str, body: String| place.request(&method.to_uppercase(), &fill(path, &of)).body(kind, body);
        api.send(send(kind, "x".repeat(300_000)), method, path, 413);
        api.send(send("text/plain", "{}".into()), method, path, 415);
        // The body of a webhook is read after its signature.
        if kinds.len() == 1 && kind == "application/json" && path != "/v1/incoming/{name}" {
            api.send(send(kind, "[7]".into()), method, path, 400);
        }
    }

    // What is done: route, whose it is, the body, the status.
    let post = |path: &str, of: &str, body: Value| place.request("POST", &fill(path, of)).json(&body);
    let workflow = |text: &str| place.request("POST", "/v1/workflows").body("application/yaml", text);
    api.send(workflow(QUICK), "post", "/v1/workflows", 200);
    api.send(workflow(&QUICK.replace("quick", "other")), "post", "/v1/workflows", 201);
    api.send(workflow("name: x"), "post", "/v1/workflows", 422);
    api.send(
        place.request("POST", "/v1/workflows?colour=green").body("application/yaml", QUICK),
        "post",
        "/v1/workflows",
        400,
    );
    let start = "/v1/threads";
    api.send(post(start, "", json!({ "hash": hash, "input": [1, null] })), "post", start, 201);
    api.send(post(start, "", json!({ "workflow": "nothing" })), "post", start, 404);
    api.send(post(start, "", json!({ "definition": "name: x" })), "post", start, 422);
    let fork = "/v1/threads/{thread}/fork";
    let forked = api.send(post(fork, &thread, json!({ "seq": 3 })), "post", fork, 201).value();
    api.send(post(fork, nobody, json!({})), "post", fork, 404);
    api.send(post(fork, &thread, json!({ "profile": "nothing" })), "post", fork, 422);
    let rerun = "/v1/threads/{thread}/rerun";
    api.send(post(rerun, &quick, json!({})), "post", rerun, 200);
    api.send(post(rerun, &quick, json!({ "live_from": 2 })), "post", rerun, 201);
    api.send(post(rerun, nobody, json!({})), "post", rerun, 404);
    api.send(post(rerun, &quick, json!({ "live_from": 2, "definition": "name: x" })), "post", rerun, 422);
    let (message, variables) = ("/v1/threads/{thread}/messages", "/v1/threads/{thread}/variables");
    let checkpoint = "/v1/threads/{thread}/checkpoints";
    for (path, good, bad) in [
        (message, json!({ "role": "user", "content": "x" }), Some(json!({ "role": "x", "content": "x" }))),
        (variables, json!({ "variables": { "a": 1 } }), Some(json!({ "variables": { "a b": 1 } }))),
        (checkpoint, json!({ "label": "here" }), None),
        ("/v1/threads/{thread}/pause", json!({ "reason": "lunch" }), None),
        ("/v1/threads/{thread}/resume", json!({}), None),
    ] {
        let done = if path == checkpoint { 201 } else { 200 };
        api.send(post(path, &thread, good.clone()), "post", path, done);
        api.send(post(path, nobody, good.clone()), "post", path, 404);
        api.send(post(path, &quick, good), "post", path, 409);
        if let Some(bad) = bad {
            api.send(post(path, &thread, bad), "post", path, 422);
        }
    }
    let runs = "/v1/threads/{thread}/runs";
    let queued = api.send(post(runs, &thread, json!({ "input": "x" })), "post", runs, 201).value();
    api.send(post(runs, nobody, json!({ "input": "x" })), "post", runs, 404);
    api.send(post(runs, &thread, json!({ "input": "x", "on_message": "reject" })), "post", runs, 409);
    api.send(post(runs, &thread, json!({ "input": "x", "workflow": "quick" })), "post", runs, 409);
    api.send(post(runs, &thread, json!({ "input": 1, "on_message": "steer" })), "post", runs, 422);
    api.send(place.request("GET", &fill(runs, &thread)), "get", runs, 200);
    api.send(place.request("GET", &fill(runs, nobody)), "get", runs, 404);
    api.send(place.request("GET", &fill(message, &thread)), "get", message, 200);
    api.send(place.request("GET", &fill(message, nobody)), "get", message, 404);
    for path in [of_thread, "/v1/threads/{thread}/usage"] {
        let waits = format!("{}?run={}", fill(path, &thread), queued["run_id"]);
        api.send(place.request("GET", &waits), "get", path, 409);
    }
    api.send(post(rerun, &thread, json!({ "run_id": queued["run_id"] })), "post", rerun, 409);
    let of_run = |path: &str, run: &Value| path.replace("{run}", &run.to_string());
    let (of, first) = ("/v1/threads/{thread}/runs/{run}/cancel", json!(0));
    api.send(post(&of_run(of, &queued["run_id"]), &thread, json!({})), "post", of, 200);
    api.send(post(&of_run(of, &queued["run_id"]), &thread, json!({})), "post", of, 409);
    api.send(post(&of_run(of, &first), nobody, json!({})), "post", of, 404);
    let of = "/v1/threads/{thread}/runs/{run}/outcome";
    for (thread, status) in [(quick.as_str(), 200), (thread.as_str(), 409), (nobody, 404)] {
        api.send(place.request("GET", &fill(&of_run(of, &first), thread)), "get", of, status);
    }
    let holds = place.start(
        "version: '1'\nname: hold\nnodes: [{id: hold, wait: {for_ms: 3600000}}, {id: on, signal: {name: go, schema: {type: string}}}]",
    );
    place.until(&fill("/v1/threads/{thread}", &holds), |shown| shown["status"] == "suspended");
    let (of, until) = ("/v1/threads/{thread}/waits/{wait}", json!({ "until": "2020-01-01T00:00:00Z" }));
    let wait = of.replace("{wait}", "2");
    api.send(post(&wait, &holds, json!({ "until": "2500-01-01T00:00:00Z" })), "post", of, 422);
    api.send(post(&wait, nobody, until.clone()), "post", of, 404);
    api.send(post(&wait, &holds, until.clone()), "post", of, 200);
    place.until(&fill("/v1/threads/{thread}/state", &holds), |state| state["pending"][0]["kind"] == "signal");
    api.send(post(&wait, &holds, until), "post", of, 409);
    let migrate = "/v1/threads/{thread}/migrate";
    api.send(post(migrate, &holds, json!({ "hash": hash, "from": "another" })), "post", migrate, 200);
    api.send(post(migrate, nobody, json!({ "hash": hash })), "post", migrate, 404);
    api.send(post(migrate, &quick, json!({ "definition": QUICK.replace("quick", "quicker") })), "post", migrate, 409);
    api.send(post(migrate, &holds, json!({ "hash": hash })), "post", migrate, 422);
    let signals = "/v1/signals/{name}";
    api.send(post(signals, "stay", json!({ "payload": "x" })), "post", signals, 409);
    api.send(post(signals, "go", json!({ "payload": 7 })), "post", signals, 422);
    let incoming = "/v1/incoming/{name}";
    let deliver = |event: &str, body: &str| {
        let request = place.request("POST", &fill(incoming, nobody)).header("X-GitHub-Event", event);
        request.header("X-Hub-Signature-256", &crate::incoming::github(body)).body("application/json", body)
    };
    api.send(post(incoming, "nothing", json!({})), "post", incoming, 404);
    api.send(post(incoming, nobody, json!({})), "post", incoming, 401);
    api.send(deliver("ping", "{}"), "post", incoming, 204);
    api.send(deliver("go", "{"), "post", incoming, 400);
    api.send(deliver("go", "7"), "post", incoming, 422);
    api.send(deliver("stay", "{}"), "post", incoming, 409);
    api.send(deliver("go", "\"x\""), "post", incoming, 200);
    let schedule = "/v1/schedules/{name}";
    let put = |body: &str| place.request("PUT", &fill(schedule, "yearly")).body("application/json", body.to_owned());
    api.send(put("{"), "put", schedule, 400);
    api.send(put(r#"{"workflow": "nothing", "cron": "@yearly"}"#), "put", schedule, 404);
    api.send(put(r#"{"workflow": "quick", "cron": "@never"}"#), "put", schedule, 422);
    api.send(put(r#"{"workflow": "quick", "cron": "@yearly"}"#), "put", schedule, 200);
    api.send(place.request("GET", "/v1/schedules"), "get", "/v1/schedules", 200);
    api.send(place.request("GET", &fill(schedule, "yearly")), "get", schedule, 200);
    let past = |until: &str| json!({ "after": "2020-06-01T00:00:00Z", "until": until });
    for (what, body) in [("pause", json!({})), ("resume", json!({})), ("backfill", past("2021-06-01T00:00:00Z"))] {
        let of = format!("{schedule}/{what}");
        api.send(post(&of, "yearly", body.clone()), "post", &of, 200);
        api.send(post(&of, "nothing", body), "post", &of, 404);
    }
    let backfill = "/v1/schedules/{name}/backfill";
    api.send(post(backfill, "yearly", past("9999-01-01T00:00:00Z")), "post", backfill, 422);
    api.send(place.request("DELETE", &fill(schedule, "yearly")), "delete", schedule, 204);
    api.send(place.request("DELETE", &fill(schedule, "yearly")), "delete", schedule, 404);
    let kept = place.start(crate::memories::KEEP);
    place.at_rest(&kept);
    let memories = "/v1/memories";
    let listed = api.send(place.request("GET", memories), "get", memories, 200).value();
    api.send(place.request("GET", "/v1/memories?query=Ada"), "get", memories, 200);
    api.send(place.request("GET", "/v1/memories/namespaces"), "get", "/v1/memories/namespaces", 200);
    let memory = "/v1/memories/{memory}";
    let forget = |query: &str| {
        let id = listed["memories"][0]["id"].as_str().unwrap();
        place.request("DELETE", &format!("{}{query}", memory.replace("{memory}", id)))
    };
    api.send(forget("?colour=green"), "delete", memory, 400);
    api.send(forget(""), "delete", memory, 204);
    api.send(forget(""), "delete", memory, 404);
    let again = "version: '1'\nname: again\nnodes: [{id: on, signal: {name: go, schema: {type: string}}}]";
    let again = place.start(again);
    place.until(&fill("/v1/threads/{thread}", &again), |shown| shown["status"] == "suspended");
    api.send(post(signals, "go", json!({ "payload": "x" })), "post", signals, 200);
    let respond = "/v1/interactions/{interaction}/respond";
    let keyed = |body: Value| post(respond, &question, body).header("Idempotency-Key", "k");
    api.send(keyed(json!({ "answer": "yes" })), "post", respond, 200);
    api.send(keyed(json!({ "answer": "no" })), "post", respond, 422);
    api.send(post(respond, &question, json!({ "answer": "no" })), "post", respond, 409);
    api.send(post(respond, &format!("{nobody}-3"), json!({ "answer": 1 })), "post", respond, 404);
    api.send(post(fork, &thread, json!({ "seq": 9999, "answers": {} })), "post", fork, 404);
    let answered = json!({ "answers": { question.as_str(): "no" }, "seq": place.last_seq(&thread) });
    api.send(post(fork, &thread, answered), "post", fork, 409);
    let take_back = "/v1/interactions/{interaction}/cancel";
    let (_, other) = place.asking();
    api.send(place.request("POST", &fill(take_back, &other)), "post", take_back, 200);
    api.send(place.request("POST", &fill(take_back, &other)), "post", take_back, 409);
    api.send(place.request("POST", &fill(take_back, "nothing")), "post", take_back, 404);
    let cancel = "/v1/threads/{thread}/cancel";
    let fork_id = forked["thread_id"].as_str().unwrap();
    place.at_rest(fork_id);
    let one = "/v1/threads/{thread}";
    api.send(place.request("DELETE", &fill(one, fork_id)), "delete", one, 409);
    api.send(post(cancel, fork_id, json!({})), "post", cancel, 200);
    api.send(post(cancel, fork_id, json!({})), "post", cancel, 409);
    api.send(post(cancel, nobody, json!({})), "post", cancel, 404);
    api.send(place.request("DELETE", &fill(one, fork_id)), "delete", one, 200);
    api.send(place.request("DELETE", &fill(one, fork_id)), "delete", one, 404);
    api.send(place.request("POST", "/v1/log/verify"), "post", "/v1/log/verify", 200);
    api.send(post("/v1/gc", "", json!({})), "post", "/v1/gc", 422);
    api.send(post("/v1/gc", "", json!({ "status": ["cancelled"], "limit": 1 })), "post", "/v1/gc", 200);
    api.send(place.request("POST", "/v1/log/compact"), "post", "/v1/log/compact", 200);
    api.send(place.request("GET", "/v1/log/backup"), "get", "/v1/log/backup", 200);
    let import = |text: String| place.request("POST", "/v1/import").body("application/x-ndjson", text);
    api.send(import(exported.clone()), "post", "/v1/import", 200);
    api.send(import("{}".into()), "post", "/v1/import", 422);
    let unknown = place.request("POST", "/v1/import?colour=green").body("application/x-ndjson", exported.clone());
    api.send(unknown, "post", "/v1/import", 400);
    let token = place.scene.run("token create --scope read").ok().stdout;
    let session = "/v1/session";
    api.send(post(session, "", json!({ "token": token.trim() })), "post", session, 200);
    api.send(post(session, "", json!({ "token": "x" })), "post", session, 401);
    api.send(place.request("DELETE", session), "delete", session, 204);

    // Shown elsewhere: `stops::draining_server_is_not_ready_and_still_answers`,
    // `api::import_of_a_diverged_thread_is_a_conflict`, and
    // `idempotency::concurrent_identical_requests_start_one_thread`. Limits of labels (429) are in `label_limits`.
    let elsewhere = [
        ("/health/ready", "get", 503),
        ("/v1/import", "post", 409),
        ("/v1/threads", "post", 409),
        ("/v1/threads", "post", 429),
        ("/v1/threads/{thread}/fork", "post", 429),
        ("/v1/threads/{thread}/rerun", "post", 429),
        ("/v1/threads/{thread}/resume", "post", 429),
        ("/v1/threads/{thread}/runs", "post", 429),
    ];
    let mut missing = Vec::new();
    for (path, item) in api.document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for status in operation["responses"].as_object().unwrap().keys().filter(|status| *status != "default") {
                let status: u16 = status.parse().unwrap();
                let is_seen = api.seen.contains(&(path.clone(), method.clone(), status));
                if !is_seen && !elsewhere.contains(&(path.as_str(), method.as_str(), status)) {
                    missing.push(format!("{method} {path} {status}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "never came: {missing:#?}");
}
