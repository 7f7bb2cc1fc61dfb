//! Requests that no client sends, and clients that misbehave.

use rethread_tests::binary::Scene;
use serde_json::{Value, json};

use super::{Door, call, error, in_context, later, message, next, to_task, with};
use crate::doors::{DECIDES, long_and_hidden};
use crate::http::Request;
use crate::place::Place;

#[test]
fn malformed_requests_are_errors_of_json_rpc_and_start_nothing() {
    let door = Door::on(Scene::new(), "--body-bytes-max 20000");
    let send = |body: &str| door.request(&door.token, "chat").body("application/json", body).send();
    for body in ["{", "", "\"text", "{\"jsonrpc\": \"2.0\", \"id\": 1,"] {
        error(&send(body), 200, -32_700, "INVALID_JSON");
    }
    error(&send(&"[".repeat(5_000)), 200, -32_700, "INVALID_JSON");
    for body in [
        json!([]),
        json!([call("ListTasks", &json!({}))]),
        json!("text"),
        json!(null),
        json!({}),
        json!({ "jsonrpc": "1.0", "id": 1, "method": "ListTasks" }),
        json!({ "jsonrpc": "2.0", "method": "ListTasks" }),
        json!({ "jsonrpc": "2.0", "id": null, "method": "ListTasks" }),
        json!({ "jsonrpc": "2.0", "id": {}, "method": "ListTasks" }),
        json!({ "jsonrpc": "2.0", "id": "x".repeat(256), "method": "ListTasks" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": 7 }),
    ] {
        error(&send(&body.to_string()), 200, -32_600, "INVALID_REQUEST");
    }
    let with_id = send(&json!({ "jsonrpc": "1.0", "id": 7, "method": "ListTasks" }).to_string()).value();
    assert_eq!(with_id["id"], 7);
    for method in ["", "message/send", "sendMessage", "DeleteTask"] {
        let refused = door.call("chat", method, &json!({})).send();
        error(&refused, 200, -32_601, "METHOD_NOT_FOUND");
        assert_eq!(refused.value()["id"], "r1");
    }
    for params in [json!([]), json!("text"), json!(7)] {
        error(&door.call("chat", "SendMessage", &params).send(), 200, -32_602, "INVALID_PARAMS");
    }
    error(&send(&format!("[{}", " ".repeat(20_000))), 413, -32_000, "TOO_LARGE");
    let as_text = door.request(&door.token, "chat").body("text/plain", "{}").send();
    error(&as_text, 415, -32_000, "UNSUPPORTED_MEDIA_TYPE");
    let by_get = Request::new(door.place.address, "GET", "/a2a/chat").send();
    error(&by_get, 405, -32_000, "METHOD_NOT_ALLOWED");
    assert_eq!(door.place.n_threads(), 0);
}

#[test]
fn parameters_that_cannot_be_used_are_named_and_start_nothing() {
    let door = Door::new();
    let hello = message("m1", "Hello.");
    let thread = "01890000-0000-7000-8000-000000000001";
    for (place, value, code, reason) in [
        ("/message", json!(null), -32_602, "INVALID_PARAMS"),
        ("/message", json!([]), -32_602, "INVALID_PARAMS"),
        ("/tenant", json!("acme"), -32_602, "INVALID_PARAMS"),
        ("/message/messageId", json!(""), -32_602, "INVALID_PARAMS"),
        ("/message/messageId", json!("x".repeat(300)), -32_602, "INVALID_PARAMS"),
        ("/message/role", json!("ROLE_AGENT"), -32_602, "INVALID_PARAMS"),
        ("/message/role", json!(null), -32_602, "INVALID_PARAMS"),
        ("/message/parts", json!([]), -32_602, "INVALID_PARAMS"),
        ("/message/parts", json!([{}]), -32_602, "INVALID_PARAMS"),
        ("/message/parts", json!([{ "text": "a", "url": "b" }]), -32_602, "INVALID_PARAMS"),
        ("/message/parts", json!([{ "raw": "aGk=", "mediaType": "video/mp4" }]), -32_005, "CONTENT_TYPE_NOT_SUPPORTED"),
        ("/message/metadata", json!({ "interactionId": 7 }), -32_602, "INVALID_PARAMS"),
        ("/message/contextId", json!("nothing"), -32_001, "TASK_NOT_FOUND"),
        ("/message/contextId", json!(thread), -32_001, "TASK_NOT_FOUND"),
        ("/message/taskId", json!("nothing"), -32_001, "TASK_NOT_FOUND"),
        ("/message/taskId", json!(format!("{thread}-0")), -32_001, "TASK_NOT_FOUND"),
        ("/configuration", json!({ "historyLength": -1 }), -32_602, "INVALID_PARAMS"),
        ("/configuration", json!({ "returnImmediately": "perhaps" }), -32_602, "INVALID_PARAMS"),
        ("/configuration", json!({ "acceptedOutputModes": ["image/png"] }), -32_005, "CONTENT_TYPE_NOT_SUPPORTED"),
        (
            "/configuration",
            json!({ "taskPushNotificationConfig": { "url": "http://127.0.0.1:1" } }),
            -32_003,
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
        ),
    ] {
        for method in ["SendMessage", "SendStreamingMessage"] {
            let params = with(hello.clone(), place, &value);
            error(&door.call("chat", method, &params).send(), 200, code, reason);
        }
    }
    for (name, value) in [
        ("pageSize", json!(0)),
        ("pageSize", json!(101)),
        ("pageToken", json!("nothing")),
        ("status", json!("RUNNING")),
        ("historyLength", json!(-1)),
        ("statusTimestampAfter", json!("yesterday")),
        ("tenant", json!("acme")),
    ] {
        error(&door.call("chat", "ListTasks", &json!({ name: value })).send(), 200, -32_602, "INVALID_PARAMS");
    }
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        error(&door.call("chat", method, &json!({})).send(), 200, -32_602, "INVALID_PARAMS");
        for id in ["", "nothing", thread, &format!("{thread}-0"), &format!("{thread}-x")] {
            error(&door.call("chat", method, &json!({ "id": id })).send(), 200, -32_001, "TASK_NOT_FOUND");
        }
    }
    for method in ["CreateTaskPushNotificationConfig", "ListTaskPushNotificationConfigs"] {
        let refused = door.call("chat", method, &json!({})).send();
        error(&refused, 200, -32_003, "PUSH_NOTIFICATION_NOT_SUPPORTED");
    }
    error(&door.call("chat", "GetExtendedAgentCard", &Value::Null).send(), 200, -32_004, "UNSUPPORTED_OPERATION");
    error(&door.call("data", "SendMessage", &message("m2", "no JSON")).send(), 200, -32_602, "INVALID_PARAMS");
    assert_eq!(door.place.n_threads(), 0);
    // A message that was refused can be sent again.
    let params = with(hello.clone(), "/message/contextId", &json!(thread));
    error(&door.call("chat", "SendMessage", &params).send(), 200, -32_001, "TASK_NOT_FOUND");
    assert_eq!(door.task("chat", &hello)["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn tokens_and_scopes_are_those_of_the_api() {
    let door = Door::new();
    let reader = door.place.scene.run("token create --scope read").ok().stdout.trim().to_owned();
    let send =
        |token: &str, method: &str, params: &Value| door.request(token, "chat").json(&call(method, params)).send();
    let task = door.task("chat", &message("m1", "Hello."));
    for (method, params) in [
        ("SendMessage", message("m2", "Hello.")),
        ("SendStreamingMessage", message("m2", "Hello.")),
        ("CancelTask", json!({ "id": task["id"] })),
    ] {
        error(&send(&reader, method, &params), 403, -32_000, "FORBIDDEN");
    }
    assert_eq!(send(&reader, "GetTask", &json!({ "id": task["id"] })).is(200).value()["result"], task);
    let wrong = send("wrong", "ListTasks", &json!({}));
    error(&wrong, 401, -32_000, "UNAUTHORIZED");
    assert!(wrong.header("www-authenticate").is_some());
    let in_rest = |token: &str, method: &str, path: &str| {
        let request =
            Request::new(door.place.address, method, &format!("/a2a/chat/{path}")).header("A2A-Version", "1.0");
        let answer = request.header("Authorization", &format!("Bearer {token}")).json(&message("m2", "Hello.")).send();
        (answer.status, answer.value()["error"]["status"].as_str().unwrap_or_default().to_owned())
    };
    let cancel = format!("tasks/{}:cancel", task["id"].as_str().unwrap());
    assert_eq!(in_rest(&reader, "POST", &cancel), (403, "PERMISSION_DENIED".into()));
    assert_eq!(in_rest(&reader, "POST", "message:send"), (403, "PERMISSION_DENIED".into()));
    assert_eq!(in_rest("wrong", "POST", "message:send"), (401, "UNAUTHENTICATED".into()));
    assert_eq!(in_rest(&door.token, "POST", "tasks/nothing:cancel"), (404, "NOT_FOUND".into()));
    assert_eq!(in_rest(&door.token, "POST", "tasks/nothing:destroy"), (404, "NOT_FOUND".into()));
    assert_eq!(in_rest(&door.token, "POST", &cancel), (400, "FAILED_PRECONDITION".into()));
    assert_eq!(in_rest(&door.token, "GET", "extendedAgentCard"), (400, "FAILED_PRECONDITION".into()));
    assert_eq!(in_rest(&door.token, "POST", "tasks/x/pushNotificationConfigs"), (400, "FAILED_PRECONDITION".into()));
    assert_eq!(in_rest(&door.token, "DELETE", "tasks/x"), (405, "UNIMPLEMENTED".into()));
    assert_eq!(door.place.n_threads(), 1);
}

#[test]
fn other_versions_of_the_protocol_are_refused() {
    let door = Door::new();
    let ask = |path: &str, version: Option<&str>| {
        let request = Request::new(door.place.address, "POST", path);
        let mut request = request.header("Authorization", &format!("Bearer {}", door.token));
        if let Some(version) = version {
            request = request.header("A2A-Version", version);
        }
        request.json(&call("SendMessage", &message("m1", "Hello."))).send()
    };
    for version in
        [None, Some(""), Some("0.3"), Some("2.0"), Some("1.1"), Some("1"), Some("1.0."), Some("1.0.x"), Some("one")]
    {
        let refused = ask("/a2a/chat", version);
        error(&refused, 200, -32_009, "VERSION_NOT_SUPPORTED");
        assert_eq!(refused.value()["id"], "r1");
    }
    let in_rest = ask("/a2a/chat/message:send", Some("0.3")).is(400).value();
    assert_eq!(in_rest["error"]["details"][0]["reason"], "VERSION_NOT_SUPPORTED", "{in_rest}");
    assert_eq!(door.place.n_threads(), 0);
    ask("/a2a/chat", Some("1.0.1")).is(200);
    assert!(ask("/a2a/chat?A2A-Version=1.0", None).is(200).value()["error"].is_null());
}

#[test]
fn client_that_reconnects_a_thousand_times_costs_others_nothing() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50 --subscribers-max 20");
    let task = door.task("hangs", &later(message("m1", "Hello.")));
    door.until("hangs", &task, "TASK_STATE_WORKING");
    let subscribe = json!({ "id": task["id"] });
    let mut n_followed = 0;
    for _ in 0..1_000 {
        let mut stream = door.call("hangs", "SubscribeToTask", &subscribe).open().unwrap();
        match stream.status {
            200 => {
                next(&mut stream, "task");
                n_followed += 1;
            }
            status => assert_eq!(status, 503),
        }
    }
    assert!(n_followed > 0);
    // Others are served meanwhile, and the places are free again.
    assert!(door.task("chat", &later(message("m2", "Hello.")))["id"].is_string());
    door.place.until("/v1/info", |_| door.place.get("/metrics").is(200).body.contains("rethread_subscribers 0\n"));
    assert_eq!(door.get("hangs", &task)["status"]["state"], "TASK_STATE_WORKING");
}

#[test]
fn answer_to_a_question_counts_once_and_fits_its_question() {
    let door = Door::new();
    let task = door.task("asks", &message("m1", "Paint."));
    let question = task["status"]["message"]["parts"][1]["data"]["interactionId"].clone();
    let refuse =
        |params: &Value, code, reason| error(&door.call("asks", "SendMessage", params).send(), 200, code, reason);
    refuse(&to_task(message("m2", "green"), &task), -32_602, "INVALID_PARAMS");
    let named = |id: &str, name: &Value| {
        with(to_task(message(id, "blue"), &task), "/message/metadata", &json!({ "interactionId": name }))
    };
    refuse(
        &named("m3", &json!(format!("{}-99", task["contextId"].as_str().unwrap()))),
        -32_004,
        "UNSUPPORTED_OPERATION",
    );
    let picture = with(
        to_task(message("m4", ""), &task),
        "/message/parts",
        &json!([{ "raw": "aGk=", "mediaType": "image/png" }]),
    );
    refuse(&picture, -32_005, "CONTENT_TYPE_NOT_SUPPORTED");
    assert_eq!(door.get("asks", &task)["status"], task["status"]);
    // A message to the context is a task of its own, which waits.
    let queued = door.task("asks", &later(in_context(message("m5", "blue"), &task)));
    assert_eq!(queued["status"]["state"], "TASK_STATE_SUBMITTED");
    assert_eq!(door.task("asks", &named("m6", &question))["status"]["state"], "TASK_STATE_COMPLETED");
    refuse(&named("m7", &question), -32_004, "UNSUPPORTED_OPERATION");
}

#[test]
fn text_decides_about_no_tool_call() {
    let door = Door::new();
    let task = door.task("approves", &message("m1", "Hello."));
    let asked = task["status"]["message"]["parts"][1]["data"].clone();
    assert_eq!(
        (&asked["toolCall"]["name"], &asked["schema"]["anyOf"][0]["type"]),
        (&json!("list_folder"), &json!("boolean"))
    );
    for (n, text) in ["yes", "true", "approve", "{\"decision\": \"approve\"}"].iter().enumerate() {
        let said = to_task(message(&format!("text-{n}"), text), &task);
        error(&door.call("approves", "SendMessage", &said).send(), 200, -32_602, "INVALID_PARAMS");
    }
    let decided =
        |id: &str, data: Value| with(to_task(message(id, ""), &task), "/message/parts", &json!([{ "data": data }]));
    error(
        &door.call("approves", "SendMessage", &decided("m2", json!({ "decision": "perhaps" }))).send(),
        200,
        -32_602,
        "INVALID_PARAMS",
    );
    assert_eq!(door.get("approves", &task)["status"], task["status"]);
    let done = door.task("approves", &decided("m3", json!({ "decision": "reject", "reason": "too risky" })));
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn what_is_not_shown_whole_is_not_approved() {
    let door = Door::with(&long_and_hidden());
    let ask = |text: &str| door.task("long", &message(&format!("m-{text}"), text));
    let decided = |task: &Value, id: &str, data: Value| {
        with(to_task(message(id, ""), task), "/message/parts", &json!([{ "data": data }]))
    };
    let hidden = ask("hidden");
    let shown = hidden["status"]["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(shown.contains("⟨U+202E⟩") && !shown.contains('\u{202e}'), "{shown}");
    let long = ask("long");
    let shown = long["status"]["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(shown.len() < 17_000 && shown.contains("more bytes"), "{} bytes", shown.len());
    for data in [json!(true), json!({ "decision": "approve" }), json!({ "decision": "edit", "arguments": {} })] {
        let refused = door.call("long", "SendMessage", &decided(&long, "m1", data)).send();
        error(&refused, 200, -32_602, "INVALID_PARAMS");
    }
    let done = door.task("long", &decided(&long, "m2", json!({ "decision": "reject" })));
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
    let done = door.task("long", &decided(&hidden, "m3", json!(true)));
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn question_that_is_not_shown_whole_is_answered_elsewhere() {
    let door = Door::with(DECIDES);
    let decided = |task: &Value, id: &str, answer: bool| {
        with(to_task(message(id, ""), task), "/message/parts", &json!([{ "data": answer }]))
    };
    let long = door.task("decides", &message("m1", &"x".repeat(20_000)));
    error(&door.call("decides", "SendMessage", &decided(&long, "m2", true)).send(), 200, -32_602, "INVALID_PARAMS");
    let rejected = door.task("decides", &decided(&long, "m3", false));
    assert_eq!(rejected["status"]["state"], "TASK_STATE_COMPLETED");
    let short = door.task("decides", &message("m4", "Go on?"));
    let approved = door.task("decides", &decided(&short, "m5", true));
    assert_eq!(approved["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn server_that_stops_says_so_and_the_task_goes_on_after_it() {
    let door = Door::new();
    let mut stream = door.call("hangs", "SendStreamingMessage", &message("m1", "Hello.")).open().unwrap();
    let task = next(&mut stream, "task");
    next(&mut stream, "artifactUpdate");
    let Door { place, token } = door;
    let Place { scene, server, token: admin, .. } = place;
    server.signal("TERM");
    assert_eq!(next(&mut stream, "error")["data"][0]["reason"], "STOPPING");
    server.end().ok();
    let mut place = Place::on(scene, "--require-token");
    place.token = admin;
    let door = Door { place, token };
    door.until("hangs", &task, "TASK_STATE_WORKING");
}

#[test]
fn address_that_is_none_is_refused_when_the_server_starts() {
    let scene = Scene::new();
    scene.write("rethread.toml", "[serve.doors]\na2a_url = \"agents.example.com\"\n");
    scene.run("serve --listen 127.0.0.1:0").code(3).says("a2a_url");
}
