//! What the end of a request, of a connection or of a token does to runs, and other cases at the edge of the protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use rethread_tests::binary::Scene;
use serde_json::{Value, json};

use super::stdio::log_alone;
use super::{Door, MODERN, message, text};
use crate::doors::{CHAT, DECIDES, FAILS, long_and_hidden};

/// Asks, and hangs once it is answered.
const ASKS_AND_HANGS: &str = r#"
version: "1"
name: asks-and-hangs
nodes:
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Which colour?
      answer: choice
      choices: [red, blue]
      variables: [{variable_name: colour, expression: "{{ input }}"}]
  - id: paint
    llm:
      provider: mock
      model: scripted
      user_prompt: "{{ colour }}"
      extra: {script: {otherwise: {chunks: [never], delay_ms: 3600000}}}
edges: [{from: ask, to: paint}]
"#;

impl Door {
    fn n_with(&self, status: &str) -> usize {
        self.place.get(&format!("/v1/threads?status={status}")).is(200).value()["threads"].as_array().unwrap().len()
    }

    fn until_one_is(&self, status: &str) {
        self.place
            .until(&format!("/v1/threads?status={status}"), |page| page["threads"].as_array().unwrap().len() == 1);
    }

    /// Waits until no request follows a run.
    fn until_none_follows(&self) {
        for _ in 0..600 {
            if self.place.get("/metrics").is(200).body.contains("rethread_subscribers 0\n") {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("the request has not ended");
    }
}

#[test]
fn token_that_is_revoked_cancels_no_run() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50");
    let created = door.place.scene.run("token create --scope operate --json").ok().json();
    let client = door.client().with(created["token"].as_str().unwrap());
    let call = json!({ "name": "hangs", "arguments": {} });
    let mut stream = client.modern("tools/call", call).open().unwrap();
    door.until_one_is("running");
    door.place.scene.run(&format!("token revoke {}", created["id"].as_str().unwrap())).ok();
    // The server ends the response.
    while let Ok(Some(_)) = stream.line() {}
    door.until_none_follows();
    assert_eq!((door.n_with("running"), door.n_with("cancelled")), (1, 0));
}

#[test]
fn tokens_that_cannot_be_read_for_a_moment_cancel_no_run() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50");
    let client = door.client();
    let mut stream = client.modern("tools/call", json!({ "name": "hangs", "arguments": {} })).open().unwrap();
    door.until_one_is("running");
    let file = door.place.scene.data_dir().join("tokens.json");
    let tokens = std::fs::read(&file).unwrap();
    std::fs::write(&file, "rubbish").unwrap();
    while let Ok(Some(_)) = stream.line() {}
    std::fs::write(&file, tokens).unwrap();
    door.until_none_follows();
    assert_eq!((door.n_with("running"), door.n_with("cancelled")), (1, 0));
}

#[test]
fn request_that_only_answers_cancels_no_run() {
    let door = Door::on(Scene::new(), "--keep-alive-ms 50");
    door.place.put(ASKS_AND_HANGS);
    let client = door.client();
    let waits = client.call("asks-and-hangs", json!({}));
    let asked = waits["structuredContent"]["questions"][0]["id"].clone();
    let call = json!({ "name": "respond", "arguments": { "interaction": asked, "answer": "blue" } });
    let stream = client.modern("tools/call", call).open().unwrap();
    door.until_one_is("running");
    drop(stream);
    door.until_none_follows();
    // The same for a request that names the thread as its state, which is no secret.
    let thread = waits["structuredContent"]["thread_id"].clone();
    let call = json!({ "name": "asks-and-hangs", "arguments": {}, "requestState": thread });
    drop(client.modern("tools/call", call).open().unwrap());
    door.until_none_follows();
    assert_eq!((door.n_with("running"), door.n_with("cancelled")), (1, 0));
}

#[test]
fn what_is_not_shown_whole_is_not_approved() {
    let door = Door::new();
    door.place.put(&long_and_hidden());
    door.place.put(DECIDES);
    let client = door.client();
    let asked = |workflow: &str, input: &str| {
        let waits = client.call(workflow, json!({ "input": input }));
        (text(&waits).to_owned(), waits["structuredContent"].clone())
    };
    let respond =
        |asked: &str, answer: Value| client.call("respond", json!({ "interaction": asked, "answer": answer }));
    let id = |text: &str| text.split("\n- ").nth(1).unwrap().split(": ").next().unwrap().to_owned();
    let (shown, _) = asked("long", "long");
    assert!(shown.contains("more bytes"), "{shown}");
    for answer in [json!(true), json!({ "decision": "approve" }), json!({ "decision": "edit", "arguments": {} })] {
        let refused = respond(&id(&shown), answer);
        assert!(text(&refused).contains("too long to be shown whole"), "{refused}");
    }
    assert_eq!(text(&respond(&id(&shown), json!({ "decision": "reject" }))), "Looked.");
    // As the form of a client that sends its request again.
    let (shown, waits) = asked("decides", &"x".repeat(20_000));
    let answers = json!({ id(&shown): { "action": "accept", "content": { "answer": true } } });
    let params = json!({
        "name": "decides", "arguments": {}, "requestState": waits["thread_id"], "inputResponses": answers,
    });
    let refused = message(&client.modern("tools/call", params).send());
    assert!(refused.to_string().contains("too long to be shown whole"), "{refused}");
    respond(&id(&shown), json!(false));
    assert_eq!(door.n_with("completed"), 2);
}

#[test]
fn state_of_a_request_to_another_tool_is_refused() {
    let door = Door::new();
    let client = door.client();
    let waits = client.call("asks", json!({}))["structuredContent"].clone();
    let asked = waits["questions"][0]["id"].as_str().unwrap();
    let answers = json!({ asked: { "action": "accept", "content": { "answer": "blue" } } });
    let call = |tool: &str| {
        let params = json!({
            "name": tool, "arguments": {}, "requestState": waits["thread_id"], "inputResponses": answers,
        });
        message(&client.modern("tools/call", params).send())
    };
    let refused = call("chat");
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("another tool")), "{refused}");
    assert_eq!(door.n_with("waiting"), 1);
    assert_eq!(text(&call("asks")["result"]), "Painted blue.");
}

/// Polls a task.
fn until(ask: &mut impl FnMut(&str, Value) -> Value, task: &Value, status: &str) -> Value {
    for _ in 0..600 {
        let now = ask("tasks/get", json!({ "taskId": task }))["result"].clone();
        if now["status"] == status {
            return now;
        }
        // Long enough that the log closes between the requests.
        std::thread::sleep(std::time::Duration::from_millis(400));
    }
    panic!("the task does not come to be {status}");
}

#[test]
fn task_that_is_answered_over_stdio_runs_to_its_end() {
    // Longer than the log stays open after a request.
    let slow = ASKS_AND_HANGS.replace("never", "painted").replace("3600000", "2000").replace("asks-and-hangs", "slow");
    let scene = log_alone(&[&slow]);
    let mut command = scene.command(["mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |method: &str, mut params: Value| -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        });
        writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    let begun = ask("tools/call", json!({ "name": "slow", "arguments": {} }));
    let task = begun["result"]["taskId"].clone();
    assert!(task.is_string(), "{begun}");
    let asks = until(&mut ask, &task, "input_required");
    let key = asks["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answer = json!({ key: { "action": "accept", "content": { "answer": "blue" } } });
    let update = json!({ "taskId": task, "inputResponses": answer });
    let updated = ask("tasks/update", update);
    assert!(updated["error"].is_null(), "{updated}");
    assert_eq!(text(&until(&mut ask, &task, "completed")["result"]), "painted");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn questions_are_listed_in_pages() {
    let door = Door::new();
    let client = door.client();
    (0..3).for_each(|_| drop(client.call("asks", json!({}))));
    let list = |arguments: Value| client.call("questions", arguments)["structuredContent"].clone();
    let first = list(json!({ "limit": 2 }));
    let rest = list(json!({ "limit": 2, "cursor": first["next"] }));
    assert!(first["next"].is_string() && rest["next"].is_null(), "{first} {rest}");
    let ids = [&first["questions"][0]["id"], &first["questions"][1]["id"], &rest["questions"][0]["id"]];
    assert!(ids.iter().all(|id| id.is_string()) && ids[0] != ids[2] && ids[1] != ids[2], "{ids:?}");
    let of_one = list(json!({ "thread": first["questions"][1]["thread_id"], "limit": 1 }));
    assert_eq!((&of_one["questions"][0]["id"], &of_one["next"]), (ids[1], &json!(null)));
    assert_eq!(list(json!({ "cursor": rest["questions"][0]["id"] }))["questions"], json!([]));
}

#[test]
fn exact_name_of_a_workflow_comes_before_a_changed_one() {
    let door = Door::new();
    let client = door.client();
    door.place.put(&CHAT.replace("name: chat", "name: a b"));
    let name = client.tools().into_iter().find(|name| name.starts_with("a_b_")).unwrap();
    door.place.put(&FAILS.replace("name: fails", &format!("name: {name}")));
    assert_eq!(client.call(&name, json!({}))["isError"], true);
    assert_eq!(client.tools().iter().filter(|listed| **listed == name).count(), 1);
}

#[test]
fn resource_that_does_not_exist_has_the_code_of_the_revision() {
    let door = Door::new();
    let mut client = door.client();
    let uri = "rethread://threads/nothing/explain";
    let read = client.modern("resources/read", json!({ "uri": uri })).header("Mcp-Name", uri).send();
    assert_eq!(message(&read)["error"]["code"], -32_602, "{}", read.body);
    client.begin().is(200);
    let read = client.post("resources/read", json!({ "uri": uri }));
    assert_eq!(message(&read)["error"]["code"], -32_002, "{}", read.body);
}
