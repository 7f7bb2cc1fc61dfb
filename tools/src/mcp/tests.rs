use std::path::PathBuf;
use std::process::Child;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::json::Json;
use rethread_events::message::Part;
use rethread_events::tool::{PersonRole, Recovery};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::built_in::fixture::Fixture;
use crate::{AskPerson, Progress, Question, Reply};

/// A workspace, a registry and the test server in it.
struct Rig {
    f: Fixture,
    servers: McpServers,
    reports: Vec<ServerReport>,
}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/mcp/tests/server.py")
}

/// The test server as a process, with more keys of its configuration.
fn process(f: &Fixture, more: Value) -> Value {
    let mut server = json!({ "command": "python3", "args": [script(), "stdio"], "env": { "LOG": f.path("log") } });
    server.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server
}

async fn rig_of(f: Fixture, servers: Value) -> Rig {
    let config = McpConfig::parse(&json!({ "mcpServers": servers }).to_string()).unwrap();
    let (servers, reports) = McpServers::connect(config, &f.registry, &f.workspace).await;
    Rig { f, servers, reports }
}

async fn rig(more: Value) -> Rig {
    let f = Fixture::new([]);
    let server = process(&f, more);
    rig_of(f, json!({ "s": server })).await
}

/// Waits until a message that the server got has all of these in it.
async fn logged(f: &Fixture, needles: &[&str]) -> String {
    let begun = Instant::now();
    loop {
        let log = std::fs::read_to_string(f.path("log")).unwrap_or_default();
        if let Some(line) = log.lines().find(|line| needles.iter().all(|needle| line.contains(needle))) {
            return line.to_owned();
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{needles:?} did not come");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_tools_of_a_server_are_listed_and_called() {
    let r = rig(json!({ "recovery": { "add": "safe" }, "approval": ["env"], "disabledTools": ["huge"] })).await;
    let tools = r.reports[0].tools.as_ref().unwrap();
    expect_test::expect![[
        r#"s__add s__ask s__big s__die s__env s__fail s__flood s__grow s__hang s__no_type s__picture s__raw s__refuse s__slow s__stop s__structured"#
    ]]
    .assert_eq(&tools.join(" "));
    expect_test::expect![[r#"
        the tool `broken` is left out: tool `s__broken` cannot be registered: the schema must have `"type": "object"` at its top, it has "string"
        the tool `add` is listed twice"#]]
    .assert_eq(&r.reports[0].warnings.join("\n"));
    assert_eq!(r.f.call("s__add", json!({ "a": 2, "b": 3 })).await, "5");
    let text = r.f.call("s__add", json!({ "a": 2 })).await;
    assert!(text.starts_with("invalid_arguments: the arguments do not match the tool's schema"), "{text}");
    assert_eq!(r.f.call("s__no_type", json!({})).await, "no.type");
    assert_eq!(r.f.call("s__fail", json!({})).await, "failed: it broke");
    assert_eq!(
        r.f.call("s__refuse", json!({})).await,
        "invalid_arguments: the server refused: not known: tools/call (-32602)"
    );
    // Annotations are hints; the configuration decides.
    let tool = |name| r.f.registry.get(name).unwrap();
    assert_eq!(tool("s__add").declared_recovery(), Recovery::Safe);
    assert_eq!(tool("s__fail").declared_recovery(), Recovery::AtMostOnce);
    assert_eq!(tool("s__env").person_role(), PersonRole::Approves);
    r.servers.shutdown().await;
    assert_eq!(r.f.registry.list().len(), 0);
}

#[tokio::test]
async fn failed_server_does_not_stop_the_others() {
    let f = Fixture::new([]);
    let good = process(&f, json!({}));
    let r = rig_of(
        f,
        json!({
            "good": good,
            "none": { "command": "/no/such/program", "isolation": false },
            "mute": { "command": "sleep", "args": ["1000"], "connect_timeout": 0.3 },
            "loud": { "command": "sh", "args": ["-c", "echo no luck >&2; exit 1"] },
            "liar": { "command": "sh", "args": ["-c", "while read x; do echo nonsense; done"], "connect_timeout": 1 },
            "gone": { "url": "http://127.0.0.1:1/mcp" },
            "bad": { "command": "x", "type": "http" },
            "off": { "command": "/no/such/program", "disabled": true },
        }),
    )
    .await;
    let outcomes: Vec<_> = r
        .reports
        .iter()
        .map(|report| match &report.tools {
            Ok(tools) => format!("{}: {} tools", report.server, tools.len()),
            Err(error) => format!("{}: {error}", report.server),
        })
        .collect();
    let expected = [
        "bad: its configuration cannot be used: `type` `http` does not fit",
        "gone: it cannot be connected to: ",
        "good: 17 tools",
        "liar: it cannot be connected to: ",
        "loud: it cannot be connected to: ",
        "mute: it cannot be connected to: it did not answer within 300 ms; one that ignores unknown methods answers after 10 s: raise connect_timeout",
        "none: it cannot be connected to: `/no/such/program` cannot be started: No such file",
    ];
    assert_eq!(outcomes.len(), expected.len(), "{outcomes:#?}");
    for (outcome, expected) in outcomes.iter().zip(expected) {
        assert!(outcome.starts_with(expected), "{outcome}");
    }
    assert!(outcomes[4].contains("its stderr: no luck"), "{}", outcomes[4]);
    assert_eq!(r.f.call("good__add", json!({ "a": 1, "b": 1 })).await, "2");
}

#[tokio::test]
async fn server_that_dies_is_a_retryable_error_and_restarts() {
    let r = rig(json!({})).await;
    let error = r.f.registry.call("s__die", json!({}), r.f.cx()).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Connection, true), "{error:?}");
    assert_eq!(error.message, "the connection to the server `s` was lost during the call");
    assert_eq!(r.f.call("s__add", json!({ "a": 2, "b": 3 })).await, "5");
}

#[tokio::test]
async fn death_of_a_server_is_noticed_while_a_child_holds_its_output() {
    let f = Fixture::new([]);
    // In a group of its own, so that it is not killed with the server.
    let line = format!("setsid sleep 30 & exec python3 {} stdio", script().display());
    let server = process(&f, json!({ "command": "sh", "args": ["-c", line], "isolation": false }));
    let r = rig_of(f, json!({ "s": server })).await;
    let begun = Instant::now();
    let error = r.f.registry.call("s__die", json!({}), r.f.cx()).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Connection, true), "{error:?}");
    assert_eq!(r.f.call("s__add", json!({ "a": 2, "b": 3 })).await, "5");
    assert!(begun.elapsed() < Duration::from_secs(25), "the end of the child was waited for");
    // Also where it dies before it answers anything.
    let dies = json!({ "command": "sh", "args": ["-c", "setsid sleep 30 & exit 3"], "isolation": false });
    let begun = Instant::now();
    let r = rig_of(Fixture::new([]), json!({ "s": dies })).await;
    let error = r.reports[0].tools.as_ref().unwrap_err().to_string();
    assert!(error.contains("its process ended before it answered"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(25), "the end of the child was waited for");
}

#[tokio::test]
async fn server_that_closes_its_output_and_lives_on_is_lost_at_once() {
    for isolation in [true, false] {
        let r = rig(json!({ "isolation": isolation })).await;
        let begun = Instant::now();
        let error = r.f.registry.call("s__die", json!({ "lives": true }), r.f.cx()).await.unwrap_err();
        assert_eq!((error.kind, error.retryable), (ErrorKind::Connection, true), "{isolation}: {error:?}");
        assert_eq!(error.message, "the connection to the server `s` was lost during the call");
        assert!(begun.elapsed() < Duration::from_secs(25), "the time limit of the call was waited for");
        assert_eq!(r.f.call("s__add", json!({ "a": 2, "b": 3 })).await, "5");
        // Also before it answers anything.
        let mute = json!({ "command": "sh", "args": ["-c", "exec >&-; sleep 1000"], "isolation": isolation });
        let r = rig_of(Fixture::new([]), json!({ "m": mute })).await;
        let error = r.reports[0].tools.as_ref().unwrap_err().to_string();
        assert!(error.contains("it closed the connection"), "{isolation}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(25), "the time limit of the connection was waited for");
    }
}

#[tokio::test]
async fn cancelled_call_is_cancelled_at_the_server() {
    let r = rig(json!({})).await;
    let cancel = CancellationToken::new();
    let call = r.f.registry.call("s__hang", json!({}), r.f.cx().cancel(cancel.clone()));
    let (answer, ()) = tokio::join!(call, async {
        logged(&r.f, &["tools/call", "hang"]).await;
        cancel.cancel();
    });
    assert_eq!(answer.unwrap_err().kind, ErrorKind::Cancelled);
    logged(&r.f, &["notifications/cancelled"]).await;
    assert_eq!(r.f.call("s__add", json!({ "a": 2, "b": 3 })).await, "5");
}

#[tokio::test]
async fn timed_out_call_ends_and_the_server_is_notified() {
    let r = rig(json!({ "timeoutMs": 300 })).await;
    let text = r.f.call("s__hang", json!({})).await;
    assert!(text.starts_with("timeout: `s__hang` was stopped after 300 ms"), "{text}");
    logged(&r.f, &["notifications/cancelled"]).await;
}

#[tokio::test]
async fn progress_of_a_server_is_progress_of_the_call() {
    let r = rig(json!({})).await;
    let (sender, receiver) = std::sync::mpsc::channel();
    let cx = r.f.cx().progress(Progress::new(move |text| {
        let _ = sender.send(text);
    }));
    assert_eq!(r.f.registry.call("s__slow", json!({}), cx).await.unwrap().text, "done");
    let messages: Vec<_> = receiver.try_iter().collect();
    assert!(messages.contains(&"2 of 2: step 2".to_owned()), "{messages:?}");
}

#[tokio::test]
async fn flood_of_progress_is_reported_in_part() {
    let r = rig(json!({})).await;
    let (sender, receiver) = std::sync::mpsc::channel();
    let cx = r.f.cx().progress(Progress::new(move |text| {
        let _ = sender.send(text);
    }));
    let begun = Instant::now();
    assert_eq!(r.f.registry.call("s__flood", json!({}), cx).await.unwrap().text, "done");
    let n_max = 3 + begun.elapsed().as_millis() / 500;
    let messages: Vec<_> = receiver.try_iter().collect();
    assert!((1..=n_max).contains(&(messages.len() as u128)), "{} of {n_max}", messages.len());
}

#[tokio::test]
async fn silent_server_is_replaced_if_no_other_call_waits() {
    let r = rig(json!({ "isolation": false })).await;
    let cancel = CancellationToken::new();
    let cx = r.f.cx().cancel(cancel.clone());
    let stops = r.f.registry.call("s__stop", json!({ "id": r.f.path("id") }), cx);
    let (error, ()) = tokio::join!(stops, async {
        let begun = Instant::now();
        let has_stopped = || {
            let id = std::fs::read_to_string(r.f.path("id")).unwrap_or_default();
            std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| stat.contains(") T "))
        };
        while !has_stopped() {
            assert!(begun.elapsed() < Duration::from_secs(120), "it did not stop");
            sleep(Duration::from_millis(10)).await;
        }
        cancel.cancel();
    });
    assert_eq!(error.unwrap_err().kind, ErrorKind::Cancelled);
    assert_eq!(r.f.call("s__add", json!({ "a": 2, "b": 3 })).await, "5");
}

#[tokio::test]
async fn answer_over_the_limit_ends_the_connection() {
    let r = rig(json!({})).await;
    let output = r.f.registry.call("s__big", json!({ "bytes": 1_000_000 }), r.f.cx()).await.unwrap();
    assert!(output.text.len() < 33 * 1024 && output.full.is_some_and(|full| full.len() == 1_000_000));
    let error = r.f.registry.call("s__huge", json!({}), r.f.cx()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connection, "{error:?}");
    assert_eq!(r.f.call("s__add", json!({ "a": 2, "b": 3 })).await, "5");
}

#[tokio::test]
async fn images_links_and_values_are_returned() {
    let r = rig(json!({})).await;
    let output = r.f.registry.call("s__picture", json!({}), r.f.cx()).await.unwrap();
    assert_eq!(output.text, "one\n[x: file:///x]");
    assert!(matches!(&output.parts[..], [Part::Image(image)] if image.data.as_deref() == Some("aGk=")));
    let output = r.f.registry.call("s__structured", json!({ "n": 7 }), r.f.cx()).await.unwrap();
    assert_eq!(output.value, Some(Json::from(json!({ "n": 7 }))));
    let output = r.f.registry.call("s__structured", json!({ "n": "x" }), r.f.cx()).await.unwrap();
    assert_eq!(output.value, None);
    assert!(output.text.contains("does not fit the schema"), "{}", output.text);
}

/// The result of a call of a tool `raw`, which must not wait for its timeout.
async fn raw(r: &Rig, name: &str, arguments: Value) -> String {
    let called = tokio::time::timeout(Duration::from_secs(20), r.f.call(name, arguments.clone())).await;
    called.unwrap_or_else(|_| panic!("{name} waits for {arguments}"))
}

#[tokio::test]
async fn answer_that_cannot_be_read_is_mended_or_ends_its_call() {
    let f = Fixture::new([]);
    let (_server, url) = http(&f).await;
    let over_http = json!({ "url": url, "headers": { "Authorization": "Bearer s3cret-token" } });
    let process = process(&f, json!({}));
    let r = rig_of(f, json!({ "http": over_http, "s": process })).await;
    let text = |text: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
    };
    for (line, expected) in [
        (text(r"head \ud83d tail"), "head \u{fffd} tail"),
        (text(r"head \udc00 tail"), "head \u{fffd} tail"),
        (text(r"head \ud83d\ude00 tail"), "head 😀 tail"),
        (
            r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":"E_GONE","message":"it is gone"}}"#.to_owned(),
            "E_GONE: it is gone",
        ),
        (r#"{"jsonrpc":"2.0","id":$ID,"error":"boom"}"#.to_owned(), "failed: the server refused: boom (-32000)"),
        (text(r"head \q tail"), "its answer cannot be read: invalid escape"),
        (
            r#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"a"}},"id":$ID}"#.to_owned(),
            "its answer cannot be read: expected",
        ),
        (format!("[{}]", text("a")), "its answer cannot be read: it is in a batch"),
    ] {
        for name in ["s__raw", "http__raw"] {
            let said = raw(&r, name, json!({ "line": line })).await;
            assert!(said.contains(expected), "{line}: {said}");
        }
    }
}

#[tokio::test]
async fn error_over_http_names_address_and_status() {
    let f = Fixture::new([]);
    let (_server, url) = http(&f).await;
    let secret = format!("{url}?token=s3cret-query");
    let server = json!({ "url": secret, "headers": { "Authorization": "Bearer s3cret-token" } });
    // The user takes the place of the header, and is refused.
    let refused = json!({ "url": secret.replace("127", "user:s3cret-password@127") });
    let gone = json!({ "url": "http://user:s3cret-password@127.0.0.1:1/mcp?token=s3cret-query" });
    let r = rig_of(f, json!({ "gone": gone, "m": server, "refused": refused })).await;
    for (report, said) in
        [(0, "(http://127.0.0.1:1/mcp)"), (2, &format!("HTTP 401 Unauthorized:  (send discover request) ({url})"))]
    {
        let error = r.reports[report].tools.as_ref().unwrap_err().to_string();
        assert!(error.ends_with(said) && !error.contains("s3cret"), "{error}");
    }
    let other = r#"{"jsonrpc":"2.0","id":9999,"result":{"content":[]}}"#;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":""}}"#;
    for (status, kind, line, expected) in [
        (404, "text/plain", "no such page", "HTTP 404 Not Found: no such page"),
        (429, "text/plain", "", "HTTP 429 Too Many Requests"),
        (500, "application/json", r#"{"error":"boom"}"#, r#"HTTP 500 Internal Server Error: {"error":"boom"}"#),
        (200, "text/html", "<p>hello", "HTTP 200 OK with `text/html` in place of a message: <p>hello"),
        (200, "application/json", "", "HTTP 200 OK with an empty body"),
        (200, "application/json", other, "HTTP 200 OK with the answer to request 9999 in place of"),
        (200, "application/json", note, "HTTP 200 OK with a request or a notification in place of an answer"),
        (200, "application/json", "{}", "HTTP 200 OK with a message that cannot be read"),
    ] {
        let said = raw(&r, "m__raw", json!({ "line": line, "status": status, "type": kind })).await;
        let expected = format!("connection: the call to the server `m` at {url} failed: {expected}");
        assert!(said.starts_with(&expected), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    let refused = r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no session"}}"#;
    let said = raw(&r, "m__raw", json!({ "line": refused, "status": 400 })).await;
    assert_eq!(said, "failed: the server refused: no session (-32600)");
}

#[tokio::test]
async fn odd_tool_is_left_out_and_the_others_are_registered() {
    let schema = json!({ "type": "object" });
    let odd = json!([
        { "name": "no_schema" },
        { "name": "null_schema", "inputSchema": null },
        { "name": "off", "inputSchema": 1 },
        { "name": 5, "inputSchema": schema },
        "a text",
        { "name": "kept", "inputSchema": schema, "icons": "a.png", "title": 1, "_meta": "s" },
        { "name": "grown", "inputSchema": schema, "description": 5, "outputSchema": true, "annotations": "ro" },
    ]);
    let env = json!({ "EXTRA": odd.to_string() });
    let r = rig(json!({ "env": env, "disabledTools": ["off"] })).await;
    let tools = r.reports[0].tools.as_ref().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(tools.len(), 19, "{tools:?}");
    expect_test::expect![[r#"
        the tool `broken` is left out: tool `s__broken` cannot be registered: the schema must have `"type": "object"` at its top, it has "string"
        the tool `add` is listed twice
        the tool `no_schema` is left out: it has no `inputSchema`
        the tool `null_schema` is left out: its `inputSchema` is not an object
        tool number 23 of the list is left out: it has no `name` that is a text
        tool number 24 of the list is left out: it has no `name` that is a text
        fields of the tool `kept` cannot be read and are ignored: `icons`, `title`, `_meta`
        fields of the tool `grown` cannot be read and are ignored: `description`, `outputSchema`, `annotations`"#]]
    .assert_eq(&r.reports[0].warnings.join("\n"));
    assert_eq!(r.f.call("s__grown", json!({})).await, "grown");
}

#[tokio::test]
async fn list_that_never_ends_is_read_once() {
    let f = Fixture::new([]);
    let server = process(&f, json!({ "env": { "ENDLESS": "1" } }));
    let r = rig_of(f, json!({ "s": server })).await;
    assert_eq!(r.reports[0].tools.as_ref().unwrap().len(), 17);
    let warnings = r.reports[0].warnings.join("\n");
    assert!(warnings.contains("a page that it named before"), "{warnings}");
}

#[test]
fn structured_content_is_read_whole_and_once() {
    let read = |result: Value| answer::from(serde_json::from_value(result).unwrap(), None).map(|output| output.text);
    let text = |text: &str| json!({ "type": "text", "text": text });
    let data = json!({ "projects": [{ "id": 1 }, { "id": 2 }] });
    let said = |content: &[Value], structured: &Value| {
        read(json!({ "content": content, "structuredContent": structured })).unwrap()
    };
    assert_eq!(said(&[text("2 items")], &data), format!("2 items\n{data}"));
    assert_eq!(said(&[], &data), data.to_string());
    assert_eq!(said(&[text("hello")], &Value::Null), "hello");
    let pretty = format!("{data:#}");
    assert_eq!(said(&[text(&pretty)], &data), pretty);
    assert_eq!(said(&[text("hello")], &json!({ "result": "hello" })), "hello");
    assert_eq!(said(&[text("{\"a\":1}"), text("b")], &json!({ "result": [{ "a": 1 }, "b"] })), "{\"a\":1}\nb");
    let picture = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
    let shown = said(&[text("a picture"), picture.clone()], &json!({ "result": [picture] }));
    assert!(shown.starts_with("a picture\n{") && !shown.contains("aGk="), "{shown}");
    let failed = read(json!({ "content": [text("it broke")], "structuredContent": { "code": 7 }, "isError": true }));
    assert_eq!(failed.unwrap_err().message, "it broke\n{\"code\":7}");
}

#[tokio::test]
async fn a_list_that_changes_is_listed_again() {
    let r = rig(json!({})).await;
    assert!(r.f.registry.get("s__grown").is_none());
    r.f.call("s__grow", json!({})).await;
    let begun = Instant::now();
    while r.f.registry.get("s__grown").is_none() {
        assert!(begun.elapsed() < Duration::from_secs(120), "the list was not read again");
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(r.f.call("s__grown", json!({})).await, "grown");
}

/// A person who always says the same.
struct Person {
    reply: Reply,
    asked: Mutex<Vec<Question>>,
}

impl AskPerson for Person {
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Reply, ExecutionError>> {
        self.asked.lock().unwrap().push(question);
        let reply = self.reply.clone();
        async move { Ok(reply) }.boxed()
    }
}

#[tokio::test]
async fn elicitation_is_shown_to_the_person() {
    let r = rig(json!({})).await;
    let cases = [
        (
            Reply::Accept(Json::from(json!({ "colour": "red" }))),
            r#"{"action": "accept", "content": {"colour": "red"}}"#,
        ),
        (Reply::Decline, r#"{"action": "decline"}"#),
        (Reply::Cancel, r#"{"action": "cancel"}"#),
    ];
    for (reply, expected) in cases {
        let person = Arc::new(Person { reply, asked: Mutex::default() });
        let cx = r.f.cx().key("call-1").ask(person.clone());
        assert_eq!(r.f.registry.call("s__ask", json!({}), cx).await.unwrap().text, expected);
        let asked = person.asked.lock().unwrap();
        assert_eq!((asked[0].from.as_str(), asked[0].message.as_str()), ("s", "Which colour?"));
        assert_eq!(&*asked[0].key, "call-1");
        assert_eq!(asked[0].schema.as_ref().unwrap().0["required"], json!(["colour"]));
    }
    // Without a person the answer is no.
    assert_eq!(r.f.call("s__ask", json!({})).await, r#"{"action": "decline"}"#);
}

#[tokio::test]
async fn ambiguous_elicitation_is_declined() {
    let r = rig(json!({})).await;
    let person = || Arc::new(Person { reply: Reply::Accept(Json::from(json!({}))), asked: Mutex::default() });
    let (first, second) = (person(), person());
    let asks = r.f.registry.call("s__ask", json!({ "after": r.f.path("go") }), r.f.cx().ask(first.clone()));
    let cancel = CancellationToken::new();
    let cx = r.f.cx().ask(second.clone()).cancel(cancel.clone());
    let (answer, _, ()) = tokio::join!(asks, r.f.registry.call("s__hang", json!({}), cx), async {
        logged(&r.f, &["tools/call", "\"ask\""]).await;
        logged(&r.f, &["tools/call", "\"hang\""]).await;
        r.f.write("go", "");
        logged(&r.f, &["\"action\""]).await;
        cancel.cancel();
    });
    assert_eq!(answer.unwrap().text, r#"{"action": "decline"}"#);
    assert!(first.asked.lock().unwrap().is_empty() && second.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_server_sees_no_secrets_and_ends_with_its_group() {
    let f = Fixture::new([]);
    let python = format!("sleep 1000 & echo $! > ids; exec python3 {} stdio", script().display());
    let server = process(&f, json!({ "command": "sh", "args": ["-c", python], "cwd": f.path(""), "isolation": false }));
    let r = rig_of(f, json!({ "s": server })).await;
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    let text = r.f.call("s__env", json!({})).await;
    assert!(text.contains("\"LOG\"") && !text.contains("CARGO_PKG_NAME"), "{text}");
    let id = r.f.read("ids").trim().to_owned();
    let is_running = || {
        std::fs::read_to_string(format!("/proc/{id}/stat"))
            .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap().starts_with('Z'))
    };
    assert!(is_running());
    // Also without a shutdown: it is enough that it is dropped.
    drop(r);
    let begun = Instant::now();
    while is_running() {
        assert!(begun.elapsed() < Duration::from_secs(120), "it is still running");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn mcp_server_is_isolated_unless_configured_otherwise() {
    if let Some(fault) = crate::Isolation::fault() {
        return rethread_tests::needs::skipped(fault);
    }
    let elsewhere = rethread_tests::needs::scratch_outside_tmp();
    let made = elsewhere.path().join("made");
    for (isolation, expected) in [
        (json!(null), false),
        (json!(true), false),
        (json!({ "network": false }), false),
        (json!({ "writable": [elsewhere.path()] }), true),
        (json!(false), true),
    ] {
        let f = Fixture::new([]);
        std::fs::copy(script(), f.path("server.py")).unwrap();
        let line = format!("touch {}; touch here; exec python3 server.py stdio", made.display());
        let more = json!({ "command": "sh", "args": ["-c", line], "cwd": f.path(""), "isolation": isolation });
        let server = process(&f, more);
        let r = rig_of(f, json!({ "s": server })).await;
        assert_eq!(r.f.call("s__add", json!({ "a": 2, "b": 3 })).await, "5", "{isolation}: {:?}", r.reports);
        assert!(r.f.path("here").exists());
        assert_eq!(std::fs::remove_file(&made).is_ok(), expected, "{isolation}");
        r.servers.shutdown().await;
    }
    // What it says of a folder that it cannot write comes with the setting.
    let f = Fixture::new([]);
    let line = format!("touch {} || exit 1", made.display());
    let r = rig_of(f, json!({ "s": { "command": "sh", "args": ["-c", line] } })).await;
    let error = r.reports[0].tools.as_ref().unwrap_err().to_string();
    assert!(error.contains("Read-only file system") && error.contains("`isolation.writable`"), "{error}");
}

/// Ends the server with the test.
struct Http(Child);

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn http(f: &Fixture) -> (Http, String) {
    let mut command = std::process::Command::new("python3");
    command.arg(script()).arg("http").arg(f.path("port")).env("LOG", f.path("log"));
    let server = Http(command.spawn().unwrap());
    let begun = Instant::now();
    loop {
        if let Ok(port) = std::fs::read_to_string(f.path("port")) {
            return (server, format!("http://127.0.0.1:{port}/mcp"));
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "the server did not begin");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn http_server_receives_the_configured_headers() {
    let f = Fixture::new([]);
    let (_server, url) = http(&f).await;
    let header = |token: &str| json!({ "url": url, "headers": { "Authorization": format!("Bearer {token}") } });
    let r = rig_of(f, json!({ "good": header("s3cret-token"), "bad": header("wr0ng-token") })).await;
    assert_eq!(r.reports[1].tools.as_ref().unwrap().len(), 17, "{:?}", r.reports);
    assert_eq!(r.f.call("good__add", json!({ "a": 2, "b": 3 })).await, "5");
    let error = r.reports[0].tools.as_ref().unwrap_err().to_string();
    assert!(error.starts_with("it cannot be connected to: ") && !error.contains("wr0ng"), "{error}");
}

#[tokio::test]
async fn lost_http_server_is_a_retryable_error() {
    let f = Fixture::new([]);
    let (server, url) = http(&f).await;
    let r = rig_of(f, json!({ "s": { "url": url, "headers": { "Authorization": "Bearer s3cret-token" } } })).await;
    assert_eq!(r.f.call("s__add", json!({ "a": 2, "b": 3 })).await, "5");
    drop(server);
    for _ in 0..2 {
        let error = r.f.registry.call("s__add", json!({ "a": 2, "b": 3 }), r.f.cx()).await.unwrap_err();
        assert_eq!((error.kind, error.retryable), (ErrorKind::Connection, true), "{error:?}");
    }
}

#[test]
fn a_text_that_is_a_json_object_or_list_is_the_value() {
    let value = |text: &str| {
        let result = json!({ "content": [{ "type": "text", "text": text }], "structuredContent": null });
        let result = serde_json::from_value(result).unwrap();
        super::answer::from(result, None).unwrap().value.map(|value| value.0.as_ref().clone())
    };
    assert_eq!(value(r#"{"n": 1}"#), Some(json!({ "n": 1 })));
    assert_eq!(value("[1, 2]"), Some(json!([1, 2])));
    assert_eq!(value("5"), None);
    assert_eq!(value("{not json}"), None);
}

/// What a server says is mutated, and its process ends after it.
#[tokio::test]
async fn mutated_server_messages_are_errors_or_tools() {
    let hello = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
    let tools = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","description":"Adds.","inputSchema":{"type":"object","properties":{"a":{"type":"number"}}}}],"nextCursor":null}}"#;
    let asks = r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}"#;
    let seeds = [format!("{hello}\n{tools}\n"), format!("{hello}\n{asks}\n{tools}\n"), format!("{asks}\n{hello}\n")];
    let seeds: Vec<_> = seeds.into_iter().map(String::into_bytes).collect();
    let mut inputs = Vec::new();
    rethread_tests::fuzz::fuzz("mcp", &seeds, 150, |bytes| inputs.push(bytes.to_vec()));
    for input in inputs {
        let f = Fixture::new([]);
        let said = f.path("said");
        std::fs::write(&said, input).unwrap();
        let r = rig_of(f, json!({ "s": { "command": "cat", "args": [said], "connectTimeoutMs": 5_000 } })).await;
        assert_eq!(r.reports.len(), 1);
        r.servers.shutdown().await;
    }
}

#[tokio::test]
async fn idempotent_tool_of_a_server_gets_its_key() {
    let r = rig(json!({ "recovery": { "add": "idempotent" }, "idempotencyArgument": { "add": "request_id" } })).await;
    let mut cx = r.f.cx();
    cx.key = "key-1".into();
    r.f.registry.call("s__add", json!({ "a": 2, "b": 3 }), cx).await.unwrap();
    let line = logged(&r.f, &["tools/call", "\"add\"", "io.rethread/idempotencyKey", "\"request_id\""]).await;
    assert_eq!(line.matches("\"key-1\"").count(), 2, "it is in `_meta` and in the argument: {line}");
    assert_eq!(r.f.call("s__no_type", json!({})).await, "no.type");
    let other = logged(&r.f, &["tools/call", "no.type"]).await;
    assert!(!other.contains("idempotencyKey"), "only a tool that is declared idempotent gets a key: {other}");
    r.servers.shutdown().await;
}
