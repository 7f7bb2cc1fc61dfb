use serde_json::json;

use super::message::{Call, FromWorker, ToWorker, decode, encode};
use super::*;
use crate::Workspace;

#[test]
fn messages_are_as_the_guide_shows_them() {
    let guide = include_str!("../../../docs/guides/workers.md");
    let blocks = guide.split("```json\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let (mut calls, mut said, mut answers) = (0, Vec::new(), Vec::new());
    for line in blocks.flat_map(str::lines) {
        let is_type = |of: &str| line.starts_with(&format!("{{\"type\": \"{of}\""));
        if line.starts_with("{\"protocol\"") {
            let call: Call = decode(line.as_bytes()).unwrap();
            assert_eq!(decode::<Call>(&encode(&call)).unwrap(), call);
            calls += 1;
        } else if ["begin", "continue", "cancel", "received", "invalid"].iter().any(|of| is_type(of)) {
            answers.push(decode::<ToWorker>(line.as_bytes()).unwrap());
        } else {
            let message = decode::<FromWorker>(line.as_bytes()).unwrap();
            assert_eq!(decode::<FromWorker>(&encode(&message)).unwrap(), message);
            said.push(message);
        }
    }
    assert!(calls == 1 && said.len() >= 5 && answers.len() == 5, "{calls} {said:?} {answers:?}");
}

#[test]
fn unknown_key_of_a_message_is_an_error() {
    let error = decode::<FromWorker>(br#"{"type": "completed", "txt": "x"}"#).unwrap_err();
    assert!(error.contains("txt"), "{error}");
    assert!(decode::<FromWorker>(br#"{"type": "done"}"#).is_err());
    assert!(decode::<FromWorker>(b"").is_err());
}

#[test]
fn pool_is_named_by_a_label() {
    let folder = tempfile::tempdir().unwrap();
    let cx = |label: &str| {
        let labels = rethread_events::labels::Labels::new().with("machine", label).unwrap();
        ToolContext::new(Workspace::open(folder.path()).unwrap()).labels(labels)
    };
    let pool = Pool::OfLabel("machine".into());
    assert_eq!(pool.of(&cx("gpu-1")).unwrap(), "gpu-1");
    // A name that would be another subject.
    for label in ["*", ">", "a.b", "a b"] {
        let error = pool.of(&cx(label)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration, "{label}");
    }
    let error = Pool::OfLabel("absent".into()).of(&cx("x")).unwrap_err();
    assert!(error.message.contains("no label `absent`"), "{error}");
    assert!(Pool::Named("a.b".into()).check().is_err());
}

#[test]
fn lost_call_is_repeated_only_if_it_may_be() {
    assert!(lost(Recovery::Safe, "x".into()).retryable);
    assert!(lost(Recovery::Idempotent, "x".into()).retryable);
    let error = lost(Recovery::AtMostOnce, "x".into());
    assert_eq!((error.kind, error.retryable), (ErrorKind::Indeterminate, false));
}

#[tokio::test]
async fn call_without_a_server_has_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let workers = Workers::new(|| async { Err("nobody is there".to_owned()) }, CallerOptions::default());
    let registry = crate::Registry::new();
    let schema = json!({ "type": "object" });
    registry.register(workers.tool("far", "", schema, Pool::Named("default".into()))).unwrap();
    let cx = ToolContext::new(Workspace::open(folder.path()).unwrap());
    let error = registry.call("far", json!({}), cx.clone()).await.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ErrorKind::Connection, true));
    assert!(error.message.contains("nobody is there") && !cx.has_begun(), "{error}");
}

#[test]
fn options_that_lose_every_worker_are_refused() {
    let options = |heartbeat, lost_after| CallerOptions {
        heartbeat: Duration::from_millis(heartbeat),
        lost_after: Duration::from_millis(lost_after),
        ..CallerOptions::default()
    };
    assert!(options(1_000, 2_000).check().is_ok());
    assert!(options(1_000, 1_999).check().is_err());
    assert!(options(0, 1_000).check().is_err());
    assert!(CallerOptions { prefix: "a.b".into(), ..CallerOptions::default() }.check().is_err());
}
