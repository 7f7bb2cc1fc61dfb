//! Servers that end or stop, and a process that comes back after another one took the log over.

use std::time::{Duration, Instant};

use futures::executor::block_on;
use rethread_events::ids::Position;
use rethread_store::testing::nats::{Servers, program};
use rethread_store::testing::{append, put, texts, thread};
use rethread_store::{Access, JetStreamOptions, LogReader, Store, StoreError};

use super::{ONE, assert_same, open, options, own};

/// The number of the server that leads the stream. Asked for again while there is none: servers that have just been
/// ended or started choose one, and answer no question meanwhile.
fn leader(servers: &Servers, stream: &str) -> usize {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let name = runtime.block_on(async {
        let all: Vec<_> = servers.options(stream).servers.addresses.split(',').map(str::to_owned).collect();
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            match named_leader(&all, stream).await {
                Ok(Some(name)) => return name,
                asked => assert!(Instant::now() < deadline, "{asked:?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    name[1..].parse().unwrap()
}

async fn named_leader(servers: &[String], stream: &str) -> Result<Option<String>, async_nats::Error> {
    let context = async_nats::jetstream::new(async_nats::connect(servers).await?);
    let info = context.get_stream(stream).await?.get_info().await?;
    Ok(info.cluster.and_then(|cluster| cluster.leader))
}

#[test]
fn killed_leader_loses_nothing_and_doubles_nothing() {
    let Some(mut servers) = own(3, "") else { return };
    let options = JetStreamOptions { write_timeout: Duration::from_secs(120), ..servers.options("led") };
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), &options);
    let mut next = 0;
    for round in 0..3 {
        let at = leader(&servers, "led");
        let answers: Vec<_> = (next..next + 300)
            .flat_map(|n| [1, 2, 3].map(|id| store.append(append(thread(id), n, &[&format!("{n}")]))))
            .collect();
        servers.kill(at);
        for answer in answers {
            block_on(answer).unwrap();
        }
        next += 300;
        for id in 1..=3 {
            let expected: Vec<String> = (0..next).map(|n| n.to_string()).collect();
            assert_eq!(texts(&store, thread(id)), expected, "round {round}");
        }
        servers.restart(at);
    }
    assert_eq!(store.next_position(), Position(3 * next));
    drop(store);
    let fresh = tempfile::tempdir().unwrap();
    let filled = open(fresh.path(), &options);
    let log = rethread_store::SledStore::open(dir.path().join("log"), rethread_store::Options::default()).unwrap();
    assert_same(&log, &filled);
}

#[test]
fn write_without_server_fails_in_time_and_the_log_goes_on() {
    let Some(mut servers) = own(1, "") else { return };
    let options = JetStreamOptions { write_timeout: Duration::from_secs(1), ..servers.options("gone") };
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), &options);
    put(&store, append(thread(1), 0, &["a"])).unwrap();
    servers.kill(0);
    let error = put(&store, append(thread(1), 1, &["b"])).unwrap_err();
    let is_known = match &error {
        StoreError::Unavailable { .. } => true,
        StoreError::InDoubt { .. } => false,
        other => panic!("{other:?}"),
    };
    // Reads need no server.
    assert_eq!(texts(&store, thread(1)), ["a"]);
    servers.restart(0);
    // What is in doubt is written after all, once, before anything that comes later.
    let deadline = Instant::now() + Duration::from_secs(60);
    let expected = loop {
        match put(&store, append(thread(2), 0, &["x"])) {
            Ok(_) => break if is_known { vec!["a"] } else { vec!["a", "b"] },
            Err(StoreError::Conflict { .. }) => break if is_known { vec!["a"] } else { vec!["a", "b"] },
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    assert_eq!(texts(&store, thread(1)), expected);
}

#[test]
fn process_that_lost_the_log_writes_nothing() {
    let Some(options) = options(&ONE) else { return };
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let zombie = open(old.path(), &options);
    put(&zombie, append(thread(1), 0, &["before"])).unwrap();
    // As if it had been paused for longer than its lease: the lease is gone, and it does not know.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let context = async_nats::jetstream::new(async_nats::connect(&options.servers.addresses).await.unwrap());
        let bucket = context.get_key_value(format!("{}_lease", options.stream)).await.unwrap();
        bucket.purge("writer").await.unwrap();
    });
    let store = open(new.path(), &options);
    // Both write now; what the old one writes counts nowhere, whether it was published or not.
    let late: Vec<_> = (1..50).map(|n| zombie.append(append(thread(1), n, &["zombie"]))).collect();
    put(&store, append(thread(1), 1, &["after"])).unwrap();
    for answer in late {
        let error = block_on(answer).unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. } | StoreError::Fenced { .. }), "{error:?}");
    }
    assert!(matches!(zombie.put_value("v", b"1"), Err(StoreError::Locked { .. })));
    assert!(matches!(zombie.check_writable(), Err(StoreError::Locked { .. })));
    assert_eq!(texts(&store, thread(1)), ["before", "after"]);
    assert_eq!(store.value("v").unwrap(), None);
    drop((zombie, store));
    let fresh = tempfile::tempdir().unwrap();
    let filled = open(fresh.path(), &options);
    assert_eq!(texts(&filled, thread(1)), ["before", "after"]);
}

#[test]
fn writes_go_on_as_soon_as_the_server_is_back() {
    let Some(mut servers) = own(1, "") else { return };
    // The heartbeats of a consumer find out after half a minute that it has ended with the server.
    let options = JetStreamOptions { write_timeout: Duration::from_secs(14), ..servers.options("back") };
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), &options);
    put(&store, append(thread(1), 0, &["a"])).unwrap();
    servers.kill(0);
    servers.restart(0);
    put(&store, append(thread(1), 1, &["b"])).unwrap();
    assert_eq!(texts(&store, thread(1)), ["a", "b"]);
}

#[test]
fn full_server_loses_nothing_acknowledged_and_goes_on() {
    let Some(program) = super::required(program(env!("CARGO_TARGET_TMPDIR"))) else { return };
    let mut servers = Servers::start_limited(&program, 4 << 20);
    let options = JetStreamOptions { write_timeout: Duration::from_secs(2), ..servers.options("agents") };
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let store = open(dirs[0].path(), &options);
    // Bytes that cannot be compressed.
    let mut random = 1_u64;
    let mut text = || -> String {
        let letters = (0..200_000).map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b' ' + (random >> 33) as u8 % 95)
        });
        letters.collect()
    };
    let mut n = 0;
    let refused = loop {
        match put(&store, append(thread(1), n, &[&text()])) {
            Ok(_) => n += 1,
            Err(error) => break error,
        }
        assert!(n < 100, "the server has no limit");
    };
    assert!(matches!(refused, StoreError::InDoubt { .. }), "{refused:?}");
    assert!(n > 3);
    // What was acknowledged can be read here, and by another process.
    assert_eq!(store.stream(thread(1)).unwrap().last_seq.0, n - 1);
    let reader = open(dirs[1].path(), &JetStreamOptions { access: Access::Read, ..options.clone() });
    assert_eq!(reader.stream(thread(1)).unwrap().last_seq.0, n - 1);
    drop(reader);
    servers.limit(0, Some(64 << 20));
    // What is in doubt is stored once or not at all, before anything later.
    let until = Instant::now() + Duration::from_secs(60);
    let next = loop {
        let next = store.stream(thread(1)).unwrap().last_seq.0 + 1;
        match put(&store, append(thread(1), next, &["small"])) {
            Ok(_) => break next,
            Err(error) => assert!(Instant::now() < until, "{error:?}"),
        }
    };
    assert!(next == n || next == n + 1, "{next} after {n}");
    put(&store, append(thread(2), 0, &["another"])).unwrap();
    let copy = open(dirs[2].path(), &JetStreamOptions { access: Access::Read, ..options });
    assert_same(&store, &copy);
}
