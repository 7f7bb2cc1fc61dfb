//! What is refused: servers and streams that could lose records, and folders that are no replica.

use async_nats::jetstream::{self, stream};
use rethread_store::testing::nats::Servers;
use rethread_store::testing::{append, put, thread};
use rethread_store::{
    Access, Asked, Credentials, JetStreamOptions, JetStreamStore, LogReader, Options, SledStore, Store, StoreError,
};

use super::{ONE, open, options, own};

fn refusal(dir: &std::path::Path, options: JetStreamOptions) -> String {
    match JetStreamStore::open(dir, options) {
        Err(StoreError::Unsuitable { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

fn with_credentials(mut options: JetStreamOptions, credentials: Credentials) -> JetStreamOptions {
    options.servers.credentials = credentials;
    options
}

fn change_stream(options: &JetStreamOptions, change: impl FnOnce(&mut stream::Config)) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let context = jetstream::new(async_nats::connect(&options.servers.addresses).await.unwrap());
        let mut config = match context.get_stream(&options.stream).await {
            Ok(stream) => stream.cached_info().config.clone(),
            Err(_) => stream::Config {
                name: options.stream.clone(),
                subjects: vec![format!("{}.>", options.stream)],
                ..stream::Config::default()
            },
        };
        change(&mut config);
        context.create_or_update_stream(config).await.unwrap();
    });
}

#[test]
fn stream_that_drops_messages_is_refused() {
    let Some(options) = options(&ONE) else { return };
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), &options));
    change_stream(&options, |config| config.max_age = std::time::Duration::from_secs(3600));
    assert!(refusal(dir.path(), options.clone()).contains("largest age"));
    change_stream(&options, |config| {
        config.max_age = std::time::Duration::ZERO;
        config.max_messages = 1000;
    });
    assert!(refusal(dir.path(), options.clone()).contains("limit of messages"));
    change_stream(&options, |config| config.max_messages = -1);
    drop(open(dir.path(), &options));
}

#[test]
fn stream_of_another_use_is_refused() {
    let Some(options) = options(&ONE) else { return };
    change_stream(&options, |_| {});
    let dir = tempfile::tempdir().unwrap();
    assert!(refusal(dir.path(), options).contains("not created for a log"));
}

#[test]
fn name_that_is_the_prefix_of_workers_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let why = refusal(dir.path(), JetStreamOptions::new("nats://127.0.0.1:1", "rethread"));
    assert!(why.contains("prefix of calls of workers"), "{why}");
}

#[test]
fn folder_of_another_log_is_refused() {
    let (Some(one), Some(other)) = (options(&ONE), options(&ONE)) else { return };
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), &one));
    assert!(refusal(dir.path(), other.clone()).contains("replica of another stream"));
    let dir = tempfile::tempdir().unwrap();
    drop(SledStore::open(dir.path(), Options::default()).unwrap());
    assert!(refusal(dir.path(), other).contains("a log of its own"));
}

#[test]
fn stream_that_lost_its_end_is_refused() {
    let Some(options) = options(&ONE) else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), &options);
    put(&store, append(thread(1), 0, &["a"])).unwrap();
    drop(store);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = runtime.block_on(async {
        let context = jetstream::new(async_nats::connect(&options.servers.addresses).await.unwrap());
        let config = context.get_stream(&options.stream).await.unwrap().cached_info().config.clone();
        context.delete_stream(&options.stream).await.unwrap();
        config
    });
    change_stream(&options, |new| *new = config);
    assert!(refusal(dir.path(), options).contains("restored from an older backup"));
}

#[test]
fn second_process_is_refused_and_the_first_goes_on() {
    let Some(mut options) = options(&ONE) else { return };
    options.lease = std::time::Duration::from_secs(1);
    options.replica.label = "the first".into();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(first.path(), &options);
    match JetStreamStore::open(second.path(), options.clone()) {
        Err(StoreError::Locked { holder, .. }) => assert!(holder.contains("the first"), "{holder}"),
        other => panic!("{other:?}"),
    }
    put(&store, append(thread(1), 0, &["a"])).unwrap();
    store.close().unwrap();
    // The lease was given up.
    let store = open(second.path(), &options);
    assert_eq!(store.stream(thread(1)).unwrap().last_seq.0, 0);
}

#[test]
fn credentials_are_needed_where_the_server_asks_for_them() {
    let Some(servers) = own(1, "authorization { user: ann, password: secret }") else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = servers.options("guarded");
    match JetStreamStore::open(dir.path(), options.clone()) {
        Err(StoreError::Unavailable { .. }) => {}
        other => panic!("{other:?}"),
    }
    let credentials = Credentials::Password { user: "ann".into(), password: "secret".into() };
    let options = with_credentials(options, credentials);
    let store = open(dir.path(), &options);
    put(&store, append(thread(1), 0, &["a"])).unwrap();
    assert!(!format!("{options:?}").contains("secret"));
}

#[test]
fn absent_server_is_an_error_in_time() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing listens on port 1.
    let options = JetStreamOptions::new("nats://ann:secret@127.0.0.1:1", "absent");
    let error = JetStreamStore::open(dir.path(), options).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
    for name in ["", "a.b", "a b", "a*"] {
        let error = JetStreamStore::open(dir.path(), JetStreamOptions::new("nats://127.0.0.1:1", name)).unwrap_err();
        assert!(matches!(error, StoreError::Unsuitable { .. }), "{error:?}");
    }
}

/// The subjects of a row of a guide that ends so.
fn listed(guide: &str, of: &str) -> String {
    let line = guide.lines().find(|line| line.starts_with('|') && line.ends_with(of)).unwrap();
    let subjects = line.trim_start_matches('|').split('|').next().unwrap().split(',');
    subjects.map(|subject| format!("\"{}\"", subject.trim().trim_matches('`'))).collect::<Vec<_>>().join(", ")
}

/// A server that allows what docs/guides/jetstream.md lists, and more.
fn restricted(to_publish: &str, to_subscribe: &str) -> Option<(Servers, JetStreamOptions)> {
    let guide = include_str!("../../../docs/guides/jetstream.md");
    let of = ["the messages of the log", "the stream", "the lease"];
    let permissions = format!(
        "{{ publish: {{ allow: [{}{to_publish}] }}, subscribe: {{ allow: [{}{to_subscribe}] }} }}",
        of.map(|what| listed(guide, &format!("publish: {what} |"))).join(", "),
        listed(guide, "subscribe: answers |"),
    );
    let user = format!("authorization {{ users: [{{ user: ann, password: secret, permissions: {permissions} }}] }}");
    let servers = own(1, &user)?;
    let credentials = Credentials::Password { user: "ann".into(), password: "secret".into() };
    let options = with_credentials(servers.options("agents"), credentials);
    Some((servers, options))
}

#[test]
fn listed_permissions_are_enough() {
    let Some((_servers, options)) = restricted("", "") else { return };
    for folder in [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()] {
        let store = open(folder.path(), &options);
        let next = store.stream(thread(1)).map_or(0, |info| info.last_seq.0 + 1);
        put(&store, append(thread(1), next, &["a"])).unwrap();
        put(&store, append(thread(2), 0, &["b"])).unwrap();
        store.delete(thread(2)).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !runtime.block_on(options.status()).unwrap().nodes.iter().any(|node| node.has_log) {
            assert!(std::time::Instant::now() < deadline, "the process is not listed");
        }
        store.close().unwrap();
    }
}

/// Those that docs/guides/shared.md lists as well.
#[test]
fn listed_permissions_are_enough_to_share_a_log() {
    let guide = include_str!("../../../docs/guides/shared.md");
    let (requests, answers) = (listed(guide, "publish and subscribe: requests |"), listed(guide, "publish: answers |"));
    for is_enough in [true, false] {
        let (publish, subscribe) = match is_enough {
            true => (format!(", {requests}, {answers}"), format!(", {requests}")),
            false => (format!(", {answers}"), String::new()),
        };
        let Some((_servers, options)) = restricted(&publish, &subscribe) else { return };
        let write_timeout = std::time::Duration::from_millis(if is_enough { 20_000 } else { 500 });
        let options = JetStreamOptions { access: Access::Shared, write_timeout, ..options };
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let stores = folders.each_ref().map(|folder| open(folder.path(), &options));
        let logs = stores.each_ref().map(|store| store.shared().unwrap());
        for log in &logs {
            log.answer_with(std::sync::Arc::new(|request| Box::pin(async move { request })));
        }
        // Each gives the other a part of the slots.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while logs.iter().any(|log| log.share().borrow().slots.is_empty()) {
            assert!(std::time::Instant::now() < deadline, "the slots are not divided");
            let leaving = logs[0].share().borrow().leaving();
            if !leaving.is_empty() {
                futures::executor::block_on(logs[0].give(leaving)).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        for (asks, has) in [(0, 1), (1, 0)] {
            let slot = logs[has].share().borrow().slots.iter().next().unwrap();
            let answer = futures::executor::block_on(logs[asks].ask(slot.place(thread(1)), "hello".into()));
            match is_enough {
                true => assert_eq!(answer.unwrap(), Asked::Answered("hello".into())),
                false => assert!(!matches!(answer, Ok(Asked::Answered(_))), "{answer:?}"),
            }
        }
    }
}

#[test]
fn foreign_messages_on_the_subjects_of_a_log_are_skipped() {
    let Some(options) = options(&ONE) else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), &options);
    put(&store, append(thread(1), 0, &["a"])).unwrap();
    let publish = || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let context = jetstream::new(async_nats::connect(&options.servers.addresses).await.unwrap());
            let id = thread(1);
            for subject in ["op", "takeover", "summary", "anything.else", "value.x", &format!("thread.{id}")] {
                for payload in ["", "hello", "\u{1}\u{0}\u{0}"] {
                    let subject = format!("{}.{subject}", options.stream);
                    context.publish(subject, payload.into()).await.unwrap().await.unwrap();
                }
            }
        });
    };
    publish();
    // The process that has it goes on, and so does one that opens it later, with the same replica and with a new one.
    put(&store, append(thread(1), 1, &["b"])).unwrap();
    store.close().unwrap();
    publish();
    let again = open(dir.path(), &options);
    put(&again, append(thread(1), 2, &["c"])).unwrap();
    again.close().unwrap();
    let fresh = tempfile::tempdir().unwrap();
    let store = open(fresh.path(), &options);
    assert_eq!((store.stream(thread(1)).unwrap().last_seq.0, store.verify().unwrap().faults), (2, vec![]));
}
