//! Backup and restore of a log by a snapshot of its stream, as tools of NATS make it.

use std::path::Path;
use std::time::Duration;

use async_nats::Client;
use bytes::Bytes;
use futures_util::StreamExt as _;
use rethread_store::testing::{append, copy_as_killed, put, thread};
use rethread_store::{Access, JetStreamOptions, JetStreamStore, LogReader, Store, StoreError};
use serde_json::{Value, json};

use super::{open, own};

/// What a snapshot has: the configuration and state of the stream, and its data.
struct Snapshot {
    head: Value,
    chunks: Vec<Bytes>,
}

async fn client(options: &JetStreamOptions) -> Client {
    async_nats::connect(&options.servers.addresses).await.unwrap()
}

async fn request(client: &Client, subject: String, payload: Bytes) -> Value {
    let answer = client.request(subject, payload).await.unwrap();
    if answer.payload.is_empty() {
        return Value::Null;
    }
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    assert!(answer["error"].is_null(), "{answer}");
    answer
}

async fn snapshot(options: &JetStreamOptions) -> Snapshot {
    let client = client(options).await;
    let inbox = client.new_inbox();
    let mut messages = client.subscribe(inbox.clone()).await.unwrap();
    let wanted = json!({ "deliver_subject": inbox, "no_consumers": true, "chunk_size": 65_536 }).to_string();
    let subject = format!("$JS.API.STREAM.SNAPSHOT.{}", options.stream);
    let head = request(&client, subject, wanted.into()).await;
    let mut chunks = Vec::new();
    while let Some(message) = messages.next().await.filter(|message| !message.payload.is_empty()) {
        chunks.push(message.payload);
        if let Some(reply) = message.reply {
            client.publish(reply, Bytes::new()).await.unwrap();
        }
    }
    Snapshot { head, chunks }
}

async fn restore(options: &JetStreamOptions, snapshot: &Snapshot) {
    let client = client(options).await;
    let wanted = json!({ "config": snapshot.head["config"], "state": snapshot.head["state"] }).to_string();
    let begun = request(&client, format!("$JS.API.STREAM.RESTORE.{}", options.stream), wanted.into()).await;
    let to = begun["deliver_subject"].as_str().unwrap();
    for chunk in snapshot.chunks.iter().cloned().chain([Bytes::new()]) {
        request(&client, to.to_owned(), chunk).await;
    }
}

#[track_caller]
fn assert_refused(dir: &Path, options: &JetStreamOptions) {
    match JetStreamStore::open(dir, options.clone()) {
        Err(StoreError::Unsuitable { why, .. }) => assert!(why.contains("restored from an older backup"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn log_is_restored_from_a_snapshot_of_its_stream() {
    let (Some(old), Some(new)) = (own(1, ""), own(1, "")) else { return };
    let (old, new) = (old.options("agents"), new.options("agents"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (dir, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(dir.path(), &old);
    for n in 0..20 {
        put(&store, append(thread(n), 0, &["a", "b"])).unwrap();
    }
    store.put_value("name", b"value").unwrap();
    store.put_blob(None, &[7; 100_000]).unwrap();
    // Also while it is in use.
    let taken = runtime.block_on(snapshot(&old));
    put(&store, append(thread(50), 0, &["later"])).unwrap();
    store.close().unwrap();

    runtime.block_on(restore(&new, &taken));
    // A copy that has seen more than the snapshot is no copy of what was restored.
    assert_refused(dir.path(), &new);
    let restored = open(fresh.path(), &new);
    assert_eq!(restored.value("name").unwrap().unwrap(), b"value");
    assert_eq!(restored.streams(None, &[], 100).unwrap().len(), 20);
    put(&restored, append(thread(1), 2, &["goes on"])).unwrap();
    // Also once the stream is as long again.
    for n in 100..120 {
        put(&restored, append(thread(n), 0, &["x"])).unwrap();
    }
    restored.close().unwrap();
    assert_refused(dir.path(), &new);
    // Filled from what was restored and from what came later.
    let again = tempfile::tempdir().unwrap();
    let filled = open(again.path(), &new);
    assert_eq!(filled.stream(thread(1)).unwrap().last_seq.0, 2);
    assert_eq!(filled.verify().unwrap().faults, []);
    filled.close().unwrap();
}

#[test]
fn killed_copy_that_has_more_than_a_restored_stream_is_refused() {
    let (Some(old), Some(new)) = (own(1, ""), own(1, "")) else { return };
    let (old, new) = (old.options("agents"), new.options("agents"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (dir, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(dir.path(), &old);
    put(&store, append(thread(1), 0, &["a"])).unwrap();
    let taken = runtime.block_on(snapshot(&old));
    // What it noted last is in the snapshot.
    put(&store, append(thread(1), 1, &["later"])).unwrap();
    copy_as_killed(dir.path(), killed.path()).unwrap();
    store.close().unwrap();
    runtime.block_on(restore(&new, &taken));
    for access in [Access::Alone, Access::Shared] {
        let lease = Duration::from_secs(1);
        assert_refused(killed.path(), &JetStreamOptions { access, lease, ..new.clone() });
    }
    // Where the stream has all of it, a copy of the same state goes on.
    let again = open(killed.path(), &old);
    assert_eq!(again.stream(thread(1)).unwrap().last_seq.0, 1);
    assert_eq!(again.verify().unwrap().faults, []);
}
