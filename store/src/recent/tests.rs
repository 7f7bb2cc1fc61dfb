use futures::StreamExt as _;
use futures_util::FutureExt as _;
use rethread_events::ids::{Hash, Time, TraceId};

use super::*;
use crate::contract::Store;
use crate::follower::Records;
use crate::testing::{append, fork, put, thread};
use crate::{Kind, MemoryStore};

fn record(position: u64, of: u64, bytes: usize) -> Record {
    Record {
        position: Position(position),
        thread: thread(of),
        seq: Seq(position),
        kind: Kind(1),
        version: 1,
        recorded_at: Time::from_unix_us(0),
        trace: TraceId::from(thread(of)),
        cause: None,
        run: None,
        hash: Hash::ZERO,
        payload: vec![0; bytes].into(),
    }
}

fn beginning_at(first: u64) -> Arc<Recent<u64>> {
    Recent::beginning_at(Position(first), |record| record.position.0)
}

fn positions(taken: &CacheRead<u64>) -> Vec<u64> {
    match taken {
        CacheRead::Records(cached) => cached.iter().map(|cached| *cached.made).collect(),
        CacheRead::Gone | CacheRead::NotYet | CacheRead::Closed | CacheRead::Failed(_) => {
            panic!("there are no records")
        }
    }
}

fn batch_positions(batch: Batch<u64>) -> Vec<u64> {
    match batch.records {
        Records::Read(records) => records.iter().map(|record| record.position.0).collect(),
        Records::Shared(shared) => shared.iter().map(|position| **position).collect(),
    }
}

#[test]
fn cached_records_are_found_from_any_position() {
    let recent = beginning_at(5);
    let from = |next| recent.from(Position(next), None);
    assert!(matches!(from(5).0, CacheRead::NotYet));
    assert!(matches!(from(4).0, CacheRead::Gone));
    recent.take((5..9).map(|n| record(n, n % 2, 10)).collect());
    assert_eq!(positions(&from(5).0), [5, 6, 7, 8]);
    assert_eq!((positions(&from(8).0), from(8).1), (vec![8], Position(9)));
    assert!(matches!(from(9).0, CacheRead::NotYet));
    assert!(matches!(from(12).0, CacheRead::NotYet));
    let (of_thread, next) = recent.from(Position(6), Some(thread(1)));
    assert_eq!((positions(&of_thread), next), (vec![7], Position(9)));
    let (nothing, next) = recent.from(Position(5), Some(thread(9)));
    assert!(matches!(nothing, CacheRead::NotYet) && next == Position(9));
}

#[test]
fn records_over_the_limits_are_dropped_from_the_front() {
    let recent = beginning_at(0);
    let half = BYTES_MAX / 2;
    recent.take(vec![record(0, 1, half), record(1, 1, half), record(2, 1, half)]);
    assert_eq!(recent.range(), (Position(1), Position(3)));
    assert!(matches!(recent.from(Position(0), None).0, CacheRead::Gone));
    assert!(matches!(recent.from(Position(0), Some(thread(1))).0, CacheRead::Gone));
    assert_eq!(positions(&recent.from(Position(1), None).0), [1, 2]);
    let n = RECORDS_MAX as u64;
    recent.take((3..3 + n).map(|n| record(n, 1, 0)).collect());
    assert_eq!(recent.range(), (Position(3), Position(3 + n)));
    assert_eq!(positions(&recent.from(Position(3), None).0).len(), PAGE_RECORDS);
}

#[test]
fn listener_is_woken_by_its_thread_alone_until_dropped() {
    let recent = beginning_at(0);
    let (all, one, other) = (recent.listen(None), recent.listen(Some(thread(1))), recent.listen(Some(thread(2))));
    recent.take(vec![record(0, 1, 0)]);
    assert!(all.woken().now_or_never().is_some());
    assert!(one.woken().now_or_never().is_some());
    assert!(other.woken().now_or_never().is_none());
    drop((all, one, other));
    let listeners = recent.listeners.read();
    assert!(listeners.of_all.is_empty() && listeners.of_thread.is_empty());
}

#[test]
fn read_error_follows_the_records_read_before_it() {
    let recent = beginning_at(0);
    recent.take(vec![record(0, 1, 0)]);
    recent.ring.write().failed = Some(StoreError::Invalid("broken".into()));
    assert_eq!(positions(&recent.from(Position(0), None).0), [0]);
    assert!(matches!(recent.from(Position(1), None).0, CacheRead::Failed(StoreError::Invalid(_))));
}

/// Runs what follows a log, on a runtime with blocking threads.
fn block_on<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

#[test]
fn lagging_follower_of_the_log_sees_each_position_once() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        for seq in 0..1_500 {
            put(&*store, append(thread(1), seq, &["x"])).unwrap();
        }
        let recent = beginning_at(1_000);
        let reading = tokio::spawn({
            let (recent, store) = (recent.clone(), store.clone());
            async move { recent.run(store).await }
        });
        let follow =
            |from| recent.follow(store.clone(), Position(from), |batch| ControlFlow::Continue(batch_positions(batch)));
        let (mut all, mut slow) = (follow(0), follow(1_499));
        let mut next = 0;
        while next < 1_500 {
            for position in all.next().await.unwrap().unwrap() {
                assert_eq!(position, next);
                next += 1;
            }
        }
        // More than is kept comes while one of them does not read.
        let n = RECORDS_MAX as u64 + 2_000;
        for seq in 0..n {
            put(&*store, append(thread(2), seq, &["x"])).unwrap();
        }
        let mut from = 1_499;
        for follower in [&mut slow, &mut all] {
            while from < 1_500 + n {
                for position in follower.next().await.unwrap().unwrap() {
                    assert_eq!(position, from);
                    from += 1;
                }
            }
            from = 1_500;
        }
        store.close().unwrap();
        assert!(all.next().await.is_none());
        reading.await.unwrap();
    });
}

#[test]
fn follower_of_a_thread_sees_inherited_and_new_records_once() {
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let recent = beginning_at(0);
        let reading = tokio::spawn({
            let (recent, store) = (recent.clone(), store.clone());
            async move { recent.run(store).await }
        });
        for seq in 0..700 {
            put(&*store, append(thread(1), seq, &["x"])).unwrap();
        }
        put(&*store, fork(thread(2), thread(1), 599, &["own"])).unwrap();
        let n_records = |batch| ControlFlow::Continue(batch_positions(batch).len());
        let mut follower = recent.follow_thread(store.clone(), thread(2), Seq(10), n_records);
        let mut n_seen = 0;
        for seq in 0..5 {
            put(&*store, append(thread(1), 700 + seq, &["other"])).unwrap();
            put(&*store, append(thread(2), 601 + seq, &["own"])).unwrap();
            while n_seen < 592 + seq as usize {
                n_seen += follower.next().await.unwrap().unwrap();
            }
            assert_eq!(n_seen, 592 + seq as usize, "a record came twice");
        }
        store.close().unwrap();
        reading.await.unwrap();
    });
}

#[test]
fn a_thread_is_followed_without_a_ring_and_without_a_runtime() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for seq in 0..200 {
        put(&*store, append(thread(1), seq, &["x"])).unwrap();
    }
    let mut records = crate::follow_thread(store.clone(), thread(1), Seq(100));
    let mut next = Seq(100);
    futures::executor::block_on(async {
        for end in [200, 201, 202] {
            while next < Seq(end) {
                for record in records.next().await.unwrap().unwrap() {
                    assert_eq!(record.seq, next);
                    next = next.next();
                }
            }
            store.append(append(thread(1), end, &["x"])).await.unwrap();
        }
        store.close().unwrap();
        while let Some(rest) = records.next().await {
            rest.unwrap();
        }
    });
}
