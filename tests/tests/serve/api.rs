//! Threads from start to end over HTTP, and what bad input is answered with.

use std::io::Read as _;

use serde_json::{Value, json};

use crate::place::{GREETING, Place, QUICK};

#[test]
fn thread_is_started_answered_read_and_deleted() {
    let place = Place::new();
    let hash = place.put(GREETING);
    let started = place.post("/v1/threads", &json!({ "workflow": "greeting", "input": "Ada" })).is(201);
    let thread = started.value()["thread_id"].as_str().unwrap().to_owned();
    assert_eq!(started.header("location"), Some(format!("/v1/threads/{thread}").as_str()));
    assert_eq!(started.value()["workflow_hash"], hash);
    let outcome = place.at_rest(&thread);
    assert_eq!(
        (outcome["status"].as_str(), outcome["output"].as_str()),
        (Some("waiting"), Some("Hello, Ada! How are you?"))
    );

    let open = place.get("/v1/interactions").is(200).value();
    let question = open["interactions"][0].clone();
    assert_eq!((&question["thread_id"], &question["prompt"]), (&json!(thread), &json!("Is that all?")));
    let id = question["id"].as_str().unwrap();
    place.post(&format!("/v1/interactions/{id}/respond"), &json!({ "answer": "yes" })).is(200);
    let outcome = place.at_rest(&thread);
    assert_eq!((outcome["status"].as_str(), &outcome["success"]), (Some("completed"), &json!(true)));

    let state = place.get(&format!("/v1/threads/{thread}/state")).is(200).value();
    assert_eq!(state["variables"]["done"], true);
    let before = place.get(&format!("/v1/threads/{thread}/state?checkpoint=greeted")).is(200).value();
    assert_eq!(before["variables"].get("done"), None);
    let seq = before["seq"].as_u64().unwrap();
    assert_eq!(place.get(&format!("/v1/threads/{thread}/state?seq={seq}")).is(200).value(), before);
    let graph = place.get(&format!("/v1/threads/{thread}/graph?seq={seq}")).is(200).value();
    let visits: Vec<_> =
        graph["parts"][0]["nodes"].as_array().unwrap().iter().map(|node| node["visits"].clone()).collect();
    assert_eq!(visits[..2], [json!(1), json!(0)]);

    place.request("DELETE", &format!("/v1/threads/{thread}")).send().is(200);
    place.get(&format!("/v1/threads/{thread}")).problem(404, "no-thread");
}

#[test]
fn the_examples_run_in_the_folder_of_the_server() {
    let place = Place::with("--allow-write --allow-commands");
    let examples = rethread_tests::binary::root().join("docs/examples");
    for entry in std::fs::read_dir(examples).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let outcome = place.at_rest(&place.start(&text));
        assert!(matches!(outcome["status"].as_str(), Some("completed" | "waiting")), "{outcome}\n{text}");
    }
}

#[test]
fn server_prints_nothing_on_stdout_and_lists_newest_first() {
    let place = Place::new();
    let ids: Vec<_> = (0..7).map(|_| place.start(QUICK)).collect();
    for id in &ids {
        place.at_rest(id);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = place.get(&format!("/v1/threads?limit=3{cursor}&status=completed")).is(200).value();
        let names =
            page["threads"].as_array().unwrap().iter().map(|thread| thread["thread_id"].as_str().unwrap().to_owned());
        seen.extend(names);
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let mut expected = ids.clone();
    expected.sort();
    let oldest = place.get("/v1/threads?order=oldest").is(200).value();
    let oldest: Vec<_> =
        oldest["threads"].as_array().unwrap().iter().map(|thread| thread["thread_id"].as_str().unwrap()).collect();
    assert_eq!(oldest, expected);
    expected.reverse();
    assert_eq!(seen, expected);
    let with_usage = place.get("/v1/threads?include=usage&limit=1").is(200).value();
    assert_eq!(with_usage["threads"][0]["usage"]["llm_calls"], 1);
    let none = place.get("/v1/threads?workflow=another").is(200).value();
    assert_eq!((none["threads"].as_array().map(Vec::len), &none["next"]), (Some(0), &Value::Null));
    place.server.signal("TERM");
    place.server.end().ok().silent();
}

#[test]
fn branches_at_a_limit_continue_with_their_thread() {
    let place = Place::new();
    let work = |id: &str| {
        let calls = json!({ "tool_calls": [{ "name": "list_folder", "arguments": { "path": "." } }] });
        let script = json!({ "answers": [calls, { "text": "done" }] });
        let llm = json!({
            "provider": "mock", "model": "m", "user_prompt": "go", "tool_mode": "auto", "max_iterations": 1,
            "available_tools": ["list_folder"], "extra": { "script": script },
        });
        json!({ "nodes": [{ "id": id, "llm": llm }] })
    };
    let parallel = json!({ "branches": { "left": work("l"), "right": work("r") } });
    let workflow = json!({
        "version": "1", "name": "limited", "on_limit": "pause", "nodes": [{ "id": "both", "parallel": parallel }],
    });
    let thread = place.start(&workflow.to_string());
    let path = format!("/v1/threads/{thread}");
    place.until(&path, |shown| shown["status"] == "paused");
    place.post(&format!("{path}/resume"), &json!({ "iterations": 1 })).is(200);
    let outcome = place.at_rest(&thread);
    assert_eq!(outcome["output"], json!({ "left": "done", "right": "done" }));
    place.post(&format!("{path}/resume"), &json!({})).is(409);
}

#[test]
fn threads_are_paused_resumed_changed_forked_and_cancelled() {
    let place = Place::new();
    let (thread, _) = place.asking();
    let path = |what: &str| format!("/v1/threads/{thread}/{what}");
    place.request("POST", &path("pause")).send().is(200);
    place.post(&path("pause"), &json!({ "reason": "lunch" })).problem(409, "conflict");
    assert_eq!(place.get(&format!("/v1/threads/{thread}")).value()["status"], "paused");
    place.post(&path("resume"), &json!({})).is(200);
    place.post(&path("resume"), &json!({})).problem(409, "conflict");
    place.post(&path("messages"), &json!({ "role": "user", "content": "And Bob?" })).is(200);
    place.post(&path("messages"), &json!({ "role": "nobody", "content": "And Bob?" })).problem(422, "unusable");
    for (content, why) in [(json!([{}]), "missing field `type`"), (json!({}), "expected a sequence")] {
        let problem =
            place.post(&path("messages"), &json!({ "role": "user", "content": content })).problem(422, "unusable");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
    }
    let parts = json!([{ "type": "text", "text": "And Carl?" }]);
    place.post(&path("messages"), &json!({ "role": "user", "content": parts })).is(200);
    place.post(&path("variables"), &json!({ "variables": { "colour": "green" } })).is(200);
    let named = place.post(&path("checkpoints"), &json!({ "label": "before lunch" })).is(201).value();
    place.post(&path("checkpoints"), &json!({ "label": "before lunch" })).problem(409, "conflict");
    let names = place.get(&path("checkpoints")).is(200).value();
    assert_eq!(names["checkpoints"][1], named);
    let state = place.get(&path("state")).value();
    assert_eq!((&state["variables"]["colour"], &state["messages"][2]["role"]), (&json!("green"), &json!("user")));

    let forked = place
        .post(&path("fork"), &json!({ "checkpoint": "greeted", "variables": { "colour": "red" } }))
        .is(201)
        .value();
    assert_eq!(forked["forked_from"]["thread_id"], thread);
    let fork = forked["thread_id"].as_str().unwrap();
    assert_eq!(place.at_rest(fork)["status"], "waiting");
    assert_eq!(place.get(&format!("/v1/threads/{fork}/state")).value()["variables"]["colour"], "red");
    place.post(&path("fork"), &json!({ "seq": 100_000 })).problem(404, "no-moment");

    let ended = place.post(&path("cancel"), &json!({ "reason": "enough" })).is(200).value();
    assert_eq!(ended["status"], "cancelled");
    place.post(&path("cancel"), &json!({})).problem(409, "conflict");
    place.request("DELETE", &format!("/v1/threads/{thread}")).send().problem(409, "in-use");
}

#[test]
fn workflow_faults_are_reported_with_their_places() {
    let place = Place::new();
    let faulty = "version: \"1\"\nname: x\nnodes:\n  - id: a\n    tool: {tool_name: no_such_tool}\n  - id: a\n    llm: {profile_id: none, user_prompt: \"{{ x\"}\n";
    let problem =
        place.request("POST", "/v1/workflows").body("application/yaml", faulty).send().problem(422, "invalid-workflow");
    let faults = problem["faults"].as_array().unwrap();
    assert!(faults.len() >= 2, "{problem}");
    assert!(faults.iter().all(|fault| fault["place"]["line"].as_u64().is_some_and(|line| line > 1)), "{problem}");
    let inline = place.post("/v1/threads", &json!({ "definition": faulty })).problem(422, "invalid-workflow");
    assert_eq!(inline["faults"], problem["faults"]);
    let checked = place.request("POST", "/v1/workflows?dry_run=true").body("text/yaml", QUICK).send().is(200).value();
    assert_eq!(checked["created"], false);
    assert_eq!(place.get("/v1/workflows").value()["workflows"], json!([]));
    let hash = place.put(QUICK);
    place.put(&QUICK.replace("Hello!", "Hi!"));
    let versions = place.get("/v1/workflows/quick").is(200).value();
    assert_eq!((versions["versions"].as_array().map(Vec::len), &versions["versions"][0]), (Some(2), &json!(hash)));
    let definition = place.get(&format!("/v1/definitions/{hash}")).is(200).value();
    let again = place.post("/v1/workflows", &definition["definition"]).is(200).value();
    assert_eq!(again["hash"], hash, "a definition that was read can be put again");
}

#[test]
fn invalid_requests_are_problems_with_advice() {
    let place = Place::with("--body-bytes-max 2000");
    let (thread, _) = place.asking();
    for (method, path, status, kind) in [
        ("GET", "/v1/threads/nonsense", 404, "no-thread"),
        ("GET", "/v1/threads/00000000-0000-7000-8000-000000000000/state", 404, "no-thread"),
        ("GET", "/v1/threads?status=happy", 400, "invalid-request"),
        ("GET", "/v1/threads?limit=0", 400, "invalid-request"),
        ("GET", "/v1/threads?limit=many", 400, "invalid-request"),
        ("GET", "/v1/threads?colour=green", 400, "invalid-request"),
        ("GET", "/v1/threads?since=yesterday", 400, "invalid-request"),
        ("GET", "/v1/threads?cursor=x", 400, "invalid-request"),
        ("GET", "/v1/events?types=NO_SUCH", 400, "invalid-request"),
        ("GET", "/v1/events?after=-1", 400, "invalid-request"),
        ("GET", "/v1/events?family=00000000-0000-7000-8000-000000000000", 404, "no-thread"),
        ("GET", "/v1/definitions/zz", 404, "no-workflow"),
        ("GET", "/v1/workflows/none", 404, "no-workflow"),
        ("GET", "/v1/log/blobs/00", 404, "no-such-part"),
        ("GET", "/nothing/here", 404, "not-found"),
        ("PUT", "/v1/threads", 405, "method-not-allowed"),
        ("POST", "/v1/interactions/x/cancel", 404, "no-interaction"),
    ] {
        place.request(method, path).send().problem(status, kind);
    }
    for (query, status, kind) in [
        ("seq=999999", 404, "no-moment"),
        ("checkpoint=none", 404, "no-moment"),
        ("at=1999-01-01T00:00:00Z", 404, "no-moment"),
        ("at=noon", 400, "invalid-request"),
        ("seq=1&checkpoint=greeted", 400, "invalid-request"),
    ] {
        place.get(&format!("/v1/threads/{thread}/state?{query}")).problem(status, kind);
    }
    let start = |body: &str| place.request("POST", "/v1/threads").body("application/json", body).send();
    start("{").problem(400, "invalid-request");
    start("[]").problem(400, "invalid-request");
    start("{}").problem(400, "invalid-request");
    start(r#"{"workflow": "a", "hash": "b"}"#).problem(400, "invalid-request");
    start(r#"{"workflow": "a", "inputs": 1}"#).problem(400, "invalid-request");
    start(r#"{"workflow": "a"}"#).problem(404, "no-workflow");
    start(&format!(r#"{{"workflow": "{}"}}"#, "a".repeat(3_000))).problem(413, "too-large");
    place.request("POST", "/v1/threads").body("text/plain", "{}").send().problem(415, "unsupported-media-type");
    place.request("POST", "/v1/workflows").body("text/plain", "{}").send().problem(415, "unsupported-media-type");
    let allow = place.request("PUT", "/v1/threads").send();
    assert_eq!(allow.header("allow"), Some("GET, POST"));
}

#[test]
fn metrics_count_what_happened() {
    let place = Place::new();
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let text = place.get("/metrics").is(200).body;
    for line in [
        "rethread_threads{status=\"completed\"} 1",
        "rethread_events_appended_total{type=\"THREAD_COMPLETED\"} 1",
        "rethread_calls_open{kind=\"model\"} 0",
        "rethread_subscribers 0",
        "rethread_http_requests_total{route=\"/v1/threads\",method=\"POST\",status=\"201\"} 1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is missing:\n{text}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
    }
}

#[test]
fn tools_and_profiles_are_listed_without_secrets() {
    let scene = rethread_tests::binary::Scene::new();
    scene.write(
        "rethread.toml",
        "default_profile = \"fast\"\n[profiles.fast]\nprovider = \"openai_chat\"\nmodel = \"m\"\napi_key_file = \"secret.txt\"\nheaders = {x-secret = \"hunter2\"}\n",
    );
    scene.write("secret.txt", "sk-hunter2");
    let place = Place::on(scene, "");
    let profiles = place.get("/v1/profiles").is(200);
    assert!(!profiles.body.contains("hunter2") && !profiles.body.contains("secret"), "{}", profiles.body);
    assert_eq!(profiles.value()["profiles"][0]["is_default"], true);
    let tools = place.get("/v1/tools").is(200).value();
    assert!(
        tools["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "read_file" && tool["recovery"] == "safe")
    );
    let info = place.get("/v1/info").is(200).value();
    assert_eq!((&info["scope"], &info["read_only"]), (&json!("admin"), &json!(false)));
}

#[test]
fn import_of_a_diverged_thread_is_a_conflict() {
    let (here, there) = (Place::new(), Place::new());
    let (thread, question) = here.asking();
    let export = |place: &Place| place.scene.run(&format!("export {thread}")).ok().stdout;
    let import =
        |place: &Place, text: String| place.request("POST", "/v1/import").body("application/x-ndjson", text).send();
    let beginning = export(&here);
    import(&there, beginning.clone()).is(200);
    for (place, answer) in [(&here, "yes"), (&there, "no")] {
        place.post(&format!("/v1/interactions/{question}/respond"), &json!({ "answer": answer })).is(200);
        assert_eq!(place.at_rest(&thread)["status"], "completed");
    }
    let before = export(&here);
    let problem = import(&here, export(&there)).problem(409, "conflict");
    assert_eq!((&problem["place"]["thread_id"], problem["place"]["line"].is_u64()), (&json!(thread), true));
    assert_eq!(export(&here), before, "nothing of it is here");
    assert_eq!(import(&here, beginning).is(200).value()["known"], json!([thread]), "what both began with is the same");
}

#[test]
fn answers_are_gzipped_on_request_and_streams_never() {
    let place = Place::new();
    let (thread, _) = place.asking();
    let path = format!("/v1/threads/{thread}/state");
    let plain = place.get(&path).is(200);
    assert_eq!(plain.header("content-encoding"), None);
    let ask = |encodings: &str| place.request("GET", &path).header("Accept-Encoding", encodings).send().is(200);
    for takes in ["gzip", "br, gzip;q=0.5", "GZIP"] {
        let packed = ask(takes);
        assert_eq!((packed.header("content-encoding"), packed.header("vary")), (Some("gzip"), Some("accept-encoding")));
        assert!(packed.bytes.len() < plain.bytes.len(), "{} of {}", packed.bytes.len(), plain.bytes.len());
        let mut text = String::new();
        flate2::read::GzDecoder::new(&packed.bytes[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, plain.body);
    }
    for takes in ["br", "gzip;q=0", "identity;q=0, *;q=0", "deflate", "nonsense"] {
        assert_eq!((ask(takes).header("content-encoding"), ask(takes).body), (None, plain.body.clone()), "{takes}");
    }
    let refused = place.request("GET", "/v1/threads/x").header("Accept-Encoding", "gzip").send();
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    for kind in ["text/event-stream", "application/x-ndjson"] {
        let events = place.request("GET", &format!("/v1/threads/{thread}/events")).header("Accept", kind);
        let mut stream = events.header("Accept-Encoding", "gzip").open().unwrap();
        assert_eq!((stream.status, stream.header("content-encoding")), (200, None));
        while !stream.line().unwrap().unwrap().contains("THREAD_STARTED") {}
    }
}

#[test]
fn workflow_with_any_name_is_found() {
    let place = Place::new();
    for (name, encoded) in [
        ("a+b 50% x", "a%2Bb%2050%25%20x"),
        ("a/b e", "a%2fb%20e"),
        ("100%25", "100%2525"),
        ("plus+plain", "plus+plain"),
        ("\u{e4}%2B", "%C3%A4%252B"),
    ] {
        place.put(&QUICK.replace("name: quick", &format!("name: '{name}'")));
        let found = place.get(&format!("/v1/workflows/{encoded}")).is(200).value();
        assert_eq!(found["name"], name);
    }
    place.get("/v1/workflows/a%252Bb").problem(404, "no-workflow");
    place.get("/v1/workflows/50%").problem(404, "no-workflow");
}

#[test]
fn usage_pages_add_up() {
    let place = Place::new();
    let threads: Vec<_> = (0..3).map(|_| place.start(QUICK)).collect();
    for thread in &threads {
        place.at_rest(thread);
    }
    let all = place.get("/v1/usage").is(200).value();
    assert_eq!((&all["models"][0]["calls"], &all["next"]), (&json!(3), &Value::Null));
    let pages = |path: &str| {
        let (mut calls, mut after) = (Vec::new(), String::new());
        loop {
            let page = place.get(&format!("{path}?by=call&limit=1{after}")).is(200).value();
            calls.extend(page["calls"].as_array().unwrap().iter().cloned());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return calls,
            }
        }
    };
    let calls = pages("/v1/usage");
    let whole = place.get("/v1/usage?by=call").is(200).value();
    assert_eq!((calls.len(), Value::Array(calls)), (3, whole["calls"].clone()));
    let of_thread = format!("/v1/threads/{}/usage", threads[1]);
    let calls = pages(&of_thread);
    assert_eq!((calls.len(), calls[0]["thread_id"].as_str()), (1, Some(&*threads[1])));
    for bad in ["by=node", "after=x", "limit=0", "since=now"] {
        place.get(&format!("{of_thread}?{bad}")).problem(400, "invalid-request");
        place.get(&format!("/v1/usage?{bad}")).problem(400, "invalid-request");
    }
}

#[test]
fn trailing_slash_leads_to_the_same_route() {
    let place = Place::new();
    place.put(GREETING);
    let thread = place.start(QUICK);
    place.at_rest(&thread);
    let of_thread = format!("/v1/threads/{thread}");
    let of_outcome = format!("/v1/threads/{thread}/outcome");
    // The card has no workflow here.
    for path in ["/v1/workflows", "/health/live", "/.well-known/agent-card.json", &of_thread, &of_outcome] {
        let (plain, slashed) = (place.get(path), place.get(&format!("{path}/")));
        assert_eq!((slashed.status, &slashed.body), (plain.status, &plain.body), "{path}");
        let expected = if path.starts_with("/.well-known") { 404 } else { 200 };
        assert_eq!(plain.status, expected, "{path}: {}", plain.body);
    }
    assert_eq!(place.get("/v1/threads/?limit=0").status, place.get("/v1/threads?limit=0").status);
    // Each door says what is wrong with the message, and not that there is nothing.
    for path in [
        "/mcp",
        "/agui/greeting",
        "/a2a/greeting",
        "/a2a/greeting/message:send",
        "/v1/chat/completions",
        "/v1/responses",
    ] {
        let send = |path: &str| place.post(path, &json!({ "wrong": 1 }));
        let (plain, slashed) = (send(path), send(&format!("{path}/")));
        assert_eq!((slashed.status, &slashed.body), (plain.status, &plain.body), "{path}");
        assert!(![404, 405].contains(&plain.status), "{path}: {}", plain.body);
    }
    place.get("/v1/nothing/").problem(404, "not-found");
}
