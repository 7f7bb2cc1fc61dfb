//! Subscriptions.

use futures::executor::block_on;
use futures_util::StreamExt as _;
use rethread_events::ids::{Position, Seq};

use super::Backend;
use crate::testing::{append, fork, put, record, thread};
use crate::{Append, Filter, Kind, NewRecord};

/// No gap and no duplicate at the seam.
pub fn a_subscription_catches_up_and_follows(backend: &mut dyn Backend) {
    for seq in 0..300 {
        drop(backend.store().append(append(thread(seq % 3), seq / 3, &["x"])));
    }
    put(backend.store(), append(thread(3), 0, &["x"])).unwrap();
    backend.reopen();
    let mut subscription = backend.store().subscribe(Position(5), Filter::default());
    for position in 5..301 {
        let record = block_on(subscription.next()).unwrap().unwrap();
        assert_eq!(record.position, Position(position));
    }
    assert!(futures_util::FutureExt::now_or_never(subscription.next()).is_none());
    for seq in 0..50 {
        put(backend.store(), append(thread(4), seq, &["y"])).unwrap();
        let record = block_on(subscription.next()).unwrap().unwrap();
        assert_eq!(record.position, Position(301 + seq));
    }
    let mut now = backend.store().subscribe(backend.store().next_position(), Filter::default());
    assert!(futures_util::FutureExt::now_or_never(now.next()).is_none());
}

/// The same where reads run beside the subscriber, over several of them, and with what is written meanwhile.
pub fn a_subscription_reads_ahead_and_misses_nothing(backend: &mut dyn Backend) {
    // Enough that a seal has one stream in several chunks.
    for seq in 0..900 {
        for number in 0..3 {
            drop(backend.store().append(append(thread(number), seq, &["x"])));
        }
    }
    put(backend.store(), append(thread(3), 0, &["x"])).unwrap();
    backend.reopen();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let only = Filter { threads: vec![thread(1)], kinds: Vec::new() };
        let (mut all, mut one) =
            (backend.store().subscribe(Position(5), Filter::default()), backend.store().subscribe(Position(5), only));
        let mut next = Position(5);
        let mut n_written = 0;
        while next < Position(2_701 + n_written) {
            // One record, then the rest of its batch: none is lost between the two ways to take them.
            let first = all.next().await.unwrap().unwrap();
            let rest = if next == Position(5) { all.next_batch().await.unwrap().unwrap() } else { Vec::new() };
            for record in std::iter::once(first).chain(rest) {
                assert_eq!(record.position, next);
                next = next.next();
            }
            if n_written < 20 {
                put(backend.store(), append(thread(4), n_written, &["y"])).unwrap();
                n_written += 1;
            }
        }
        for seq in 2..900 {
            assert_eq!(one.next().await.unwrap().unwrap().seq, Seq(seq));
        }
        // One that is dropped in the middle of a read is no harm.
        let mut dropped = backend.store().subscribe(Position(0), Filter::default());
        assert!(dropped.next().await.is_some());
    });
}

/// In order, from the middle as well, and not what it inherits.
pub fn a_subscription_to_one_stream_sees_only_that(backend: &mut dyn Backend) {
    for seq in 0..600 {
        for number in 0..3 {
            drop(backend.store().append(append(thread(number), seq, &["x"])));
        }
    }
    put(backend.store(), fork(thread(5), thread(1), 100, &["own"])).unwrap();
    backend.reopen();
    let only = |number| Filter { threads: vec![thread(number)], kinds: Vec::new() };
    for from in [0, 900, 1795] {
        let mut subscription = backend.store().subscribe(Position(from), only(1));
        let first = from.saturating_sub(1).div_ceil(3);
        for seq in first..600 {
            let record = block_on(subscription.next()).unwrap().unwrap();
            assert_eq!((record.thread, record.seq), (thread(1), Seq(seq)), "from {from}");
        }
        assert!(futures_util::FutureExt::now_or_never(subscription.next()).is_none());
    }
    let mut subscription = backend.store().subscribe(Position(0), only(5));
    assert_eq!(&*block_on(subscription.next()).unwrap().unwrap().payload, b"own");
    assert!(futures_util::FutureExt::now_or_never(subscription.next()).is_none());
    put(backend.store(), append(thread(1), 600, &["another's"])).unwrap();
    put(backend.store(), append(thread(5), 102, &["more"])).unwrap();
    assert_eq!(&*block_on(subscription.next()).unwrap().unwrap().payload, b"more");
    let mut early = backend.store().subscribe(Position(0), only(77));
    assert!(futures_util::FutureExt::now_or_never(early.next()).is_none());
    put(backend.store(), append(thread(77), 0, &["begun"])).unwrap();
    assert_eq!(&*block_on(early.next()).unwrap().unwrap().payload, b"begun");
}

/// Kinds and streams together.
pub fn a_subscription_filters_by_kind(backend: &mut dyn Backend) {
    for number in 0..4 {
        let records = (0..5).map(|kind| NewRecord { kind: Kind(kind), ..record("x") }).collect();
        put(backend.store(), Append { records, ..append(thread(number), 0, &[]) }).unwrap();
    }
    backend.reopen();
    let filter = Filter { threads: vec![thread(1), thread(3)], kinds: vec![Kind(2), Kind(4)] };
    let mut subscription = backend.store().subscribe(Position(0), filter);
    for (number, kind) in [(1, 2), (1, 4), (3, 2), (3, 4)] {
        let record = block_on(subscription.next()).unwrap().unwrap();
        assert_eq!((record.thread, record.kind), (thread(number), Kind(kind)));
    }
    assert!(futures_util::FutureExt::now_or_never(subscription.next()).is_none());
}

/// Also for one that waits.
pub fn a_subscription_ends_with_the_store(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["x"])).unwrap();
    let mut waiting = backend.store().subscribe(Position(1), Filter::default());
    assert!(futures_util::FutureExt::now_or_never(waiting.next()).is_none());
    let waiter = std::thread::spawn(move || block_on(waiting.next()).is_none());
    backend.store().close().unwrap();
    assert!(waiter.join().unwrap());
}
