//! Clients that do not do as the protocol says.

use serde_json::{Value, json};

use super::{Editor, prompt, scene};
use crate::doors::DECIDES;

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}

#[test]
fn rubbish_is_answered_and_ends_nothing() {
    let scene = scene();
    let mut editor = Editor::start(&scene, "acp");
    // Before `initialize`.
    assert!(code(&editor.ask("session/new", json!({ "cwd": scene.path(), "mcpServers": [] }))) < 0);
    for (line, expected) in [
        ("rubbish", -32_700),
        ("[]", -32_600),
        ("17", -32_600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32_600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"initialize"}"#, -32_600),
    ] {
        editor.running.write(&format!("{line}\n"));
        let answer = editor.next();
        assert_eq!(code(&answer), expected, "{line}: {answer}");
    }
    editor.running.write_bytes(b"\xff\xfe\n");
    assert_eq!(code(&editor.next()), -32_700);
    // A version that does not exist yet gets the one that there is.
    let begun = editor.ask("initialize", json!({ "protocolVersion": 9, "clientCapabilities": {} }));
    assert_eq!(begun["result"]["protocolVersion"], 1, "{begun}");
    let session = editor.new_session(&scene);
    for (method, params, expected) in [
        ("session/prompt", json!({ "sessionId": session }), -32_602),
        ("session/prompt", json!({ "sessionId": session, "prompt": "hello" }), -32_602),
        ("session/prompt", prompt(&session, "  "), -32_602),
        ("session/new", json!({ "mcpServers": [] }), -32_602),
        ("session/new", json!({ "cwd": scene.file("rethread.toml"), "mcpServers": [] }), -32_602),
        ("session/load", json!({ "sessionId": "last", "cwd": scene.path(), "mcpServers": [] }), -32_002),
        ("session/fork", json!({ "sessionId": session }), -32_601),
        ("nothing/at_all", json!({}), -32_601),
    ] {
        let answer = editor.ask(method, params);
        assert_eq!(code(&answer), expected, "{method}: {answer}");
    }
    assert_eq!(scene.run("threads --json").ok().json(), json!([]));
    assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
    editor.running.end_input();
    editor.running.end().ok();
}

#[test]
fn message_that_is_too_long_is_refused() {
    let scene = scene();
    let mut editor = Editor::begin(&scene, json!({}));
    let long = json!({ "jsonrpc": "2.0", "id": 9, "method": "session/new", "params": { "cwd": "x".repeat(17 << 20) } });
    editor.send(&long);
    let answer = editor.next();
    assert_eq!(code(&answer), -32_600, "{answer}");
    let session = editor.new_session(&scene);
    assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
}

#[test]
fn flood_of_requests_is_limited_and_answered() {
    let scene = scene();
    let mut editor = Editor::begin(&scene, json!({}));
    let session = editor.new_session(&scene);
    let n = 2_000;
    for _ in 0..n {
        editor.n += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": editor.n, "method": "session/prompt", "params": prompt("x", "y") });
        editor.send(&request);
    }
    for _ in 0..n {
        assert_eq!(code(&editor.next()), -32_002);
    }
    // Many sessions.
    let refused = (0..300).find_map(|_| {
        let new = editor.ask("session/new", json!({ "cwd": scene.path(), "mcpServers": [] }));
        new.get("error").cloned()
    });
    assert!(refused.unwrap()["message"].as_str().unwrap().contains("which is the limit"));
    assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
}

#[test]
fn question_that_is_not_shown_whole_is_not_approved() {
    let scene = scene();
    scene.write("decides.yaml", DECIDES);
    let mut editor = Editor::start(&scene, "acp decides.yaml");
    editor.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
    let session = editor.new_session(&scene);
    editor.prompt(&session, &"x".repeat(20_000));
    assert!(editor.text().contains("more bytes"), "{}", editor.text());
    let refused = editor.prompt(&session, "yes");
    assert!(refused["error"]["message"].as_str().unwrap().contains("too long to be shown whole"), "{refused}");
    let rejected = editor.prompt(&session, "no");
    assert_eq!(rejected["result"]["stopReason"], "end_turn", "{rejected}");
}

#[test]
fn client_that_answers_no_question_can_cancel() {
    let scene = scene();
    let mut editor = Editor::begin(&scene, json!({ "fs": { "writeTextFile": true } }));
    let session = editor.new_session(&scene);
    editor.answers = false;
    let id = editor.begin_asking("session/prompt", prompt(&session, "write"));
    editor.until_asked();
    editor.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    // An answer that comes late, and an option that was not offered, change nothing.
    let asked = editor.asked[0].clone();
    editor.allow(&asked);
    let id = editor.begin_asking("session/prompt", prompt(&session, "write"));
    let asked = editor.until_asked();
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "always" } });
    editor.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": outcome }));
    let answer = editor.answer(id);
    assert_eq!(code(&answer), -32_603, "{answer}");
    assert!(!scene.file("new.txt").exists());
    // The question is still open, and the next prompt puts it again.
    editor.answers = true;
    assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
    assert_eq!(editor.text(), "Done.Hello, Ada!");
}

#[test]
fn prompt_cancelled_at_once_is_answered() {
    let scene = scene();
    let mut editor = Editor::begin(&scene, json!({}));
    let session = editor.new_session(&scene);
    for _ in 0..20 {
        let id = editor.begin_asking("session/prompt", prompt(&session, "wait"));
        editor.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
        assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    }
    assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
}

#[test]
fn second_agent_on_a_log_is_told_who_has_it() {
    let scene = scene();
    let mut first = Editor::begin(&scene, json!({}));
    first.new_session(&scene);
    let mut second = Editor::begin(&scene, json!({}));
    let refused = second.ask("session/new", json!({ "cwd": scene.path(), "mcpServers": [] }));
    assert_eq!(code(&refused), -32_603, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("rethread acp"), "{refused}");
    first.running.end_input();
    first.running.end().ok();
    second.new_session(&scene);
}

#[test]
fn session_that_waits_for_an_answer_can_be_cancelled_and_deleted() {
    let scene = scene();
    let mut editor = Editor::begin(&scene, json!({}));
    let session = editor.new_session(&scene);
    assert_eq!(editor.prompt(&session, "ask")["result"]["stopReason"], "end_turn");
    assert_eq!(editor.text(), "Which colour?");
    editor.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
    // The next prompt is no answer to the question.
    assert_eq!(editor.prompt(&session, "hello")["result"]["stopReason"], "end_turn");
    assert_eq!(editor.text(), "Hello, Ada!");
    let runs = scene.run("runs last --json").ok().json();
    let of = |at: usize| runs["runs"][at]["status"].clone();
    assert_eq!((of(1), of(0)), (json!("cancelled"), json!("completed")), "{runs}");
    // A cancellation of a session that does nothing changes nothing.
    editor.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
    assert_eq!(editor.prompt(&session, "ask")["result"]["stopReason"], "end_turn");
    assert_eq!(editor.ask("session/delete", json!({ "sessionId": session }))["result"], json!({}));
    let listed = editor.ask("session/list", json!({}));
    assert_eq!(listed["result"]["sessions"], json!([]), "{listed}");
    // One that is not open, and whose run goes on, is refused.
    let session = editor.new_session(&scene);
    let id = editor.begin_asking("session/prompt", prompt(&session, "wait"));
    while editor.updates.is_empty() {
        let message = editor.next();
        editor.take(message);
    }
    let refused = editor.ask("session/delete", json!({ "sessionId": session }));
    assert_eq!(code(&refused), -32_600, "{refused}");
    editor.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
}
