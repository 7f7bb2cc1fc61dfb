//! Who is let in, from where, and what for.

use rethread_tests::attack;
use rethread_tests::binary::{Running, Scene};
use rethread_tests::needs;
use serde_json::{Value, json};

use crate::place::{Place, QUICK};

fn token(scene: &Scene, scope: &str) -> String {
    let made = scene.run(&format!("token create --scope {scope} --note for-the-test")).ok();
    made.stdout.trim().to_owned()
}

#[test]
fn a_token_allows_what_its_scope_says_until_it_is_revoked() {
    let scene = Scene::new();
    scene.run("serve --require-token --listen 127.0.0.1:0").code(3).says("rethread token create");
    let (read, operate, admin) = (token(&scene, "read"), token(&scene, "operate"), token(&scene, "admin"));
    let place = Place::on(scene, "--require-token");
    let ask = |method: &str, path: &str, token: &str| {
        let request = place.request(method, path).header("Authorization", &format!("Bearer {token}"));
        if method == "POST" { request.json(&json!({ "definition": QUICK })).send() } else { request.send() }
    };
    let nobody = place.get("/v1/threads");
    nobody.problem(401, "unauthorized");
    assert_eq!(nobody.header("www-authenticate"), Some("Bearer realm=\"rethread\""));
    place.get("/health/live").is(200);
    place.get("/v1/openapi.json").is(200);
    place.get("/metrics").problem(401, "unauthorized");
    ask("GET", "/v1/threads", "rethread_wrong").problem(401, "unauthorized");
    ask("GET", "/v1/threads", &read).is(200);
    ask("POST", "/v1/threads", &read).problem(403, "forbidden");
    let thread = ask("POST", "/v1/threads", &operate).is(201).value()["thread_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/threads/{thread}");
    while ask("GET", &path, &read).value()["status"] != "completed" {}
    ask("DELETE", &path, &operate).problem(403, "forbidden");
    let elsewhere = json!({ "definition": QUICK, "workspace": "/" });
    let request = place.request("POST", "/v1/threads").header("Authorization", &format!("Bearer {operate}"));
    request.json(&elsewhere).send().problem(403, "forbidden");
    ask("DELETE", &path, &admin).is(200);

    let all = place.scene.run("token list --json").ok().json();
    assert_eq!(all.as_array().map(Vec::len), Some(3));
    assert!(!all.to_string().contains(read.trim_start_matches("rethread_")), "{all}");
    let of_read = all.as_array().unwrap().iter().find(|kept| kept["scope"] == "read").unwrap();
    place.scene.run(&format!("token revoke {}", of_read["id"].as_str().unwrap())).ok();
    place.scene.run("token revoke nothing").code(5);
    ask("GET", "/v1/threads", &read).problem(401, "unauthorized");
    ask("GET", "/v1/threads", &operate).is(200);
}

#[test]
fn page_stores_its_token_in_a_cookie_without_script_access() {
    let scene = Scene::new();
    let token = token(&scene, "read");
    let place = Place::on(scene, "--require-token");
    place.post("/v1/session", &json!({ "token": "rethread_wrong" })).problem(401, "unauthorized");
    let session = place.post("/v1/session", &json!({ "token": token })).is(200);
    let cookie = session.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    place.request("GET", "/v1/threads").header("Cookie", &format!("other=1; {cookie}")).send().is(200);
    let ended = place.request("DELETE", "/v1/session").header("Cookie", cookie).send().is(204);
    assert!(ended.header("set-cookie").unwrap().contains("Max-Age=0"));
}

#[test]
fn token_is_required_on_non_loopback_addresses() {
    let scene = Scene::new();
    scene.run("serve --listen 0.0.0.0:0").code(3).says("is not a loopback address").says("rethread token create");
    let token = token(&scene, "read");
    let place = Place::at(scene, "0.0.0.0:0", "");
    let address = format!("127.0.0.1:{}", place.address.port()).parse().unwrap();
    let request = || crate::http::Request::new(address, "GET", "/v1/threads");
    request().send().problem(401, "unauthorized");
    request().header("Authorization", &format!("Bearer {token}")).send().is(200);
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let place = Place::with("--allow-host threads.example --allow-origin https://page.example");
    let port = place.address.port();
    let host = |host: &str| place.request("GET", "/v1/threads").header("Host", host).send();
    for good in
        ["localhost", &format!("localhost:{port}"), "127.0.0.1", "[::1]:80", "threads.example", "THREADS.example:80"]
    {
        host(good).is(200);
    }
    for bad in ["evil.example", "localhost.evil.example", "192.0.2.1", "127.0.0.1.evil.example", "", "[::1"] {
        let answer = host(bad);
        assert!([400, 421].contains(&answer.status), "{bad}: {}", answer.body);
    }
    let origin = |origin: &str| place.request("GET", "/v1/threads").header("Origin", origin).send();
    origin(&format!("http://127.0.0.1:{port}")).is(200);
    origin("https://page.example").is(200);
    let read = origin("https://page.example");
    assert_eq!(read.header("access-control-allow-origin"), Some("https://page.example"));
    assert_eq!(origin(&format!("http://127.0.0.1:{port}")).header("access-control-allow-origin"), None);
    let preflight = |from: &str| {
        let request = place.request("OPTIONS", "/v1/threads").header("Origin", from);
        request.header("Access-Control-Request-Method", "POST").send()
    };
    let asked = preflight("https://page.example").is(204);
    assert!(asked.header("access-control-allow-headers").is_some_and(|names| names.contains("authorization")));
    preflight("http://evil.example").problem(403, "foreign-origin");
    for bad in ["http://evil.example", "null", "http://127.0.0.1:1", "https://page.example.evil.example", "file://"] {
        origin(bad).problem(403, "foreign-origin");
    }
}

#[test]
fn every_answer_has_headers_that_restrict_browsers() {
    let place = Place::new();
    for path in ["/", "/v1/threads", "/nothing", "/v1/openapi.json"] {
        let answer = place.get(path);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe-inline") && !policy.contains('*'), "{path}: {policy}");
    }
}

#[test]
fn thread_content_is_never_served_as_a_page() {
    let place = Place::new();
    let hostile = "<script>alert(1)</script>\u{2028}\n</data>";
    let started = place.post("/v1/threads", &json!({ "definition": QUICK, "input": hostile })).is(201).value();
    let path = format!("/v1/threads/{}", started["thread_id"].as_str().unwrap());
    let events = place.get(&format!("{path}/events"));
    assert_eq!(events.header("content-type"), Some("application/json"));
    assert_eq!(events.value()["events"][0]["data"]["input"], Value::from(hostile));
    let blob = place.get(&format!("/v1/log/blobs/{}", started["workflow_hash"].as_str().unwrap())).is(200);
    assert_eq!(blob.header("content-disposition"), Some("attachment"));
}

#[test]
fn revoking_a_token_ends_its_streams() {
    for (kind, keep_alive) in
        [("text/event-stream", 3_600_000), ("application/x-ndjson", 3_600_000), ("text/event-stream", 50)]
    {
        let scene = Scene::new();
        let token = token(&scene, "read");
        let place = Place::on(scene, &format!("--keep-alive-ms {keep_alive}"));
        let request = place.request("GET", "/v1/events?after=now").header("Accept", kind);
        let mut stream = request.header("Authorization", &format!("Bearer {token}")).open().unwrap();
        assert_eq!(stream.status, 200);
        let all = place.scene.run("token list --json").ok().json();
        place.scene.run(&format!("token revoke {}", all[0]["id"].as_str().unwrap())).ok();
        // Where there are signs of life it ends without an event.
        let thread = (keep_alive > 50).then(|| place.start(QUICK));
        let mut said = String::new();
        while let Some(line) = stream.line().unwrap() {
            said.push_str(&line);
        }
        assert!(thread.is_none_or(|thread| !said.contains(&thread)), "{said}");
        assert!(said.contains("unauthorized"), "{said}");
    }
}

#[test]
fn concurrent_changes_of_tokens_are_all_applied() {
    let scene = Scene::new();
    for round in 0..3 {
        token(&scene, "admin");
        let id = scene.run("token list --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
        let start = |words: &str| Running::start(scene.command(words.split_whitespace()));
        let mut side_by_side: Vec<_> = (0..6).map(|_| start("token create --scope read")).collect();
        side_by_side.insert(round * 3, start(&format!("token revoke {id}")));
        side_by_side.into_iter().for_each(|running| drop(running.end().ok()));
        let all = scene.run("token list --json").ok().json();
        assert!(all.as_array().unwrap().iter().all(|kept| kept["id"] != id.as_str()), "{id} is there again: {all}");
        assert_eq!(all.as_array().unwrap().len(), 6, "{all}");
        for kept in all.as_array().unwrap() {
            scene.run(&format!("token revoke {}", kept["id"].as_str().unwrap())).ok();
        }
    }
}

#[test]
fn command_of_a_model_cannot_approve_a_call_at_the_server() {
    if !needs::program("python3") {
        return;
    }
    let place = Place::with(attack::OPTIONS);
    let thread = place.start(&attack::workflow(&place.scene, &place.address.to_string()));
    let path = format!("/v1/threads/{thread}/events?types=TOOL_EXECUTION_COMPLETED");
    place.until(&path, |page| page.to_string().contains("own token: "));
    let seen = place.get(&path).body;
    assert!(seen.contains("no token: 401") && seen.contains("own token: 401"), "{seen}");
    assert_eq!(place.at_rest(&thread)["status"], "waiting");
    assert!(!place.scene.file(attack::WRITTEN).exists());
    // The person who was given the token approves.
    let open = place.get(&format!("/v1/threads/{thread}/interactions")).is(200).value();
    let id = open["interactions"][0]["id"].as_str().unwrap();
    place.post(&format!("/v1/interactions/{id}/respond"), &json!({ "answer": true })).is(200);
    assert_eq!(place.at_rest(&thread)["status"], "completed");
    assert!(place.scene.file(attack::WRITTEN).exists());
}

#[test]
fn server_whose_tools_run_programs_needs_a_token_on_loopback() {
    let scene = Scene::new();
    let place = Place::on(scene, "--allow-commands");
    let made = place.token.clone().unwrap();
    assert!(made.len() > 50, "{made}");
    crate::http::Request::new(place.address, "GET", "/v1/threads").send().problem(401, "unauthorized");
    place.get("/v1/threads").is(200);
    place.scene.run("threads").code(1).says("RETHREAD_TOKEN");
    place.run_args(["threads"]).ok();
    // It is nowhere in the data directory.
    for entry in std::fs::read_dir(place.scene.data_dir()).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let bytes = std::fs::read(entry.path()).unwrap();
        assert!(!bytes.windows(made.len()).any(|part| part == made.as_bytes()), "{}", entry.path().display());
    }
    let Place { scene, server, .. } = place;
    server.kill();
    // The next start creates another one; without such tools, or if the risk is accepted, there is none.
    let place = Place::on(scene, "--allow-commands --isolate-commands --workspace workspace");
    assert!(place.token.as_ref().is_some_and(|token| *token != made));
    let Place { scene, server, .. } = place;
    server.kill();
    for options in ["--allow-write", "--allow-commands --no-token", "--allow-commands --read-only"] {
        let place = Place::with(options);
        assert_eq!(place.token, None, "{options}");
        place.get("/v1/threads").is(200);
    }
    // A token that exists is used in place of one that is made.
    let token = token(&scene, "read");
    let place = Place::on(scene, "--allow-commands");
    assert_eq!(place.token, None);
    place.get("/v1/threads").problem(401, "unauthorized");
    place.request("GET", "/v1/threads").header("Authorization", &format!("Bearer {token}")).send().is(200);
}

#[test]
fn token_is_not_created_where_tools_can_read_it() {
    let scene = Scene::new();
    scene.run("serve --listen 127.0.0.1:0 --allow-commands --quiet").code(3).says("rethread token create");
    let log = std::fs::File::create(scene.file("log")).unwrap();
    let words = "serve --listen 127.0.0.1:0 --allow-commands";
    let status = scene.command(words.split_whitespace()).stderr(log).status().unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(std::fs::read_to_string(scene.file("log")).unwrap().contains("rethread token create"));
    scene.run("serve --listen 0.0.0.0:0 --no-token").code(2).says("--no-token");
    scene.run("serve --no-token --require-token").code(2);
}

#[test]
fn events_record_by_which_token_a_thread_was_changed() {
    let scene = Scene::new();
    let token = token(&scene, "admin");
    let id = scene.run("token list --json").ok().json()[0]["id"].as_str().unwrap().to_owned();
    let mut place = Place::on(scene, "");
    let by_token = |path: &str, body: &Value| {
        let request = place.request("POST", path).header("Authorization", &format!("Bearer {token}"));
        request.json(body).send().is(200)
    };
    let (thread, question) = place.asking();
    place.post(&format!("/v1/threads/{thread}/pause"), &json!({})).is(200);
    by_token(&format!("/v1/threads/{thread}/resume"), &json!({}));
    by_token(&format!("/v1/interactions/{question}/respond"), &json!({ "answer": "yes" }));
    let events = place.get(&format!("/v1/threads/{thread}/events")).is(200).value();
    let by = |kind: &str| {
        events["events"].as_array().unwrap().iter().find(|event| event["type"] == kind).unwrap()["data"]["by"].clone()
    };
    let of_token = json!({ "kind": "token", "id": id, "name": "for-the-test" });
    assert_eq!(by("THREAD_PAUSED"), json!({ "kind": "anonymous" }));
    assert_eq!(by("THREAD_RESUMED"), of_token);
    assert_eq!(by("USER_INTERACTION_RESPONDED"), of_token);
    assert_eq!(place.at_rest(&thread)["status"], "completed");
    let said = place.scene.run(&format!("events {thread}")).ok().stdout;
    assert!(said.contains(&format!("by token {id} (for-the-test)")), "{said}");
    let delete = place.request("DELETE", &format!("/v1/threads/{thread}"));
    delete.header("Authorization", &format!("Bearer {token}")).send().is(200);
    let line = place.server.wait_until_said("thread deleted");
    assert!(line.contains("audit") && line.contains(&thread) && line.contains(&id), "{line}");
}

#[test]
fn expired_token_is_refused_with_the_reason() {
    let scene = Scene::new();
    let create = |expires: &str| {
        let words = format!("token create --scope read --owner Ada --expires {expires} --json");
        scene.run(&words).ok().json()["token"].as_str().unwrap().to_owned()
    };
    let (expired, valid) = (create("0s"), create("90d"));
    scene.run("token create --scope read --expires never").code(2).says("30d");
    let listed = scene.run("token list").ok().stdout;
    assert!(listed.contains("expired ") && listed.contains("expires ") && listed.contains("Ada"), "{listed}");
    let place = Place::on(scene, "--require-token");
    let ask =
        |token: &str| place.request("GET", "/v1/threads").header("Authorization", &format!("Bearer {token}")).send();
    let problem = ask(&expired).problem(401, "unauthorized");
    assert!(problem["detail"].as_str().unwrap().contains("expired at"), "{problem}");
    ask(&valid).is(200);
}
