//! Forks, and the traces that streams belong to.

use futures::executor::block_on;
use rethread_events::ids::{Seq, TraceId};

use super::{Backend, all};
use crate::testing::{append, fork, put, texts, thread};
use crate::{Append, ForkPoint, StoreError};

/// The first append decides.
pub fn a_trace_stays_with_its_stream(backend: &mut dyn Backend) {
    let (given, other) = (TraceId::from_bytes([1; 16]), TraceId::from_bytes([2; 16]));
    let first = Append { trace: Some(given), ..append(thread(1), 0, &["a"]) };
    put(backend.store(), first).unwrap();
    backend.reopen();
    let second = Append { trace: Some(other), ..append(thread(1), 1, &["b"]) };
    put(backend.store(), second).unwrap();
    backend.reopen();
    let traces: Vec<_> = all(backend.store()).iter().map(|record| record.trace).collect();
    assert_eq!(traces, [given, given]);
}

/// Records after the fork point on either side are invisible on the other.
pub fn a_fork_inherits_without_copying(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b", "c"])).unwrap();
    put(backend.store(), fork(thread(2), thread(1), 1, &["B"])).unwrap();
    backend.reopen();
    put(backend.store(), append(thread(1), 3, &["d"])).unwrap();
    put(backend.store(), append(thread(2), 3, &["C"])).unwrap();
    for _ in 0..2 {
        let store = backend.store();
        assert_eq!(texts(store, thread(1)), ["a", "b", "c", "d"]);
        assert_eq!(texts(store, thread(2)), ["a", "b", "B", "C"]);
        let records = store.read_stream(thread(2), Seq(0)..Seq(9), 9).unwrap();
        let owners: Vec<_> = records.iter().map(|record| record.thread).collect();
        assert_eq!(owners, [thread(1), thread(1), thread(2), thread(2)]);
        let own = store.read_stream(thread(2), Seq(1)..Seq(3), 9).unwrap();
        assert_eq!(own.iter().map(|record| record.seq.0).collect::<Vec<_>>(), [1, 2]);
        let info = store.stream(thread(2)).unwrap();
        assert_eq!(info.fork_of, Some(ForkPoint { parent: thread(1), seq: Seq(1) }));
        assert_eq!(info.last_seq, Seq(3));
        assert_eq!(all(store).len(), 6);
        assert_eq!(store.verify().unwrap().faults, []);
        backend.reopen();
    }
}

/// Two levels, at every possible point.
pub fn a_fork_of_a_fork_reads_through(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["0", "1", "2"])).unwrap();
    put(backend.store(), fork(thread(2), thread(1), 1, &["2'", "3'"])).unwrap();
    backend.reopen();
    for seq in 0..4 {
        put(backend.store(), fork(thread(10 + seq), thread(2), seq, &["end"])).unwrap();
    }
    for _ in 0..2 {
        let whole = ["0", "1", "2'", "3'"];
        for seq in 0..4 {
            let mut expected = whole[..=seq as usize].to_vec();
            expected.push("end");
            assert_eq!(texts(backend.store(), thread(10 + seq)), expected);
        }
        assert_eq!(backend.store().verify().unwrap().faults, []);
        backend.reopen();
    }
}

/// The parent's append need not be answered before the fork is queued.
pub fn fork_is_accepted_before_its_parent_is_acknowledged(backend: &mut dyn Backend) {
    let store = backend.store();
    let parent = store.append(append(thread(1), 0, &["a", "b"]));
    let early = store.append(fork(thread(2), thread(1), 0, &["x"]));
    let late = store.append(fork(thread(3), thread(1), 1, &["y"]));
    let more = store.append(append(thread(3), 3, &["z"]));
    for answer in [parent, early, late, more] {
        block_on(answer).unwrap();
    }
    backend.reopen();
    assert_eq!(texts(backend.store(), thread(2)), ["a", "x"]);
    assert_eq!(texts(backend.store(), thread(3)), ["a", "b", "y", "z"]);
}

/// No parent, no such seq, or the stream has begun.
pub fn fork_of_a_missing_record_is_refused(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b"])).unwrap();
    let store = backend.store();
    let no_parent = put(store, fork(thread(3), thread(2), 0, &["x"]));
    assert!(matches!(no_parent, Err(StoreError::NotFound { .. })), "{no_parent:?}");
    let no_seq = put(store, fork(thread(3), thread(1), 2, &["x"]));
    assert!(matches!(no_seq, Err(StoreError::NotFound { .. })), "{no_seq:?}");
    put(store, fork(thread(3), thread(1), 1, &["x"])).unwrap();
    let again = put(store, fork(thread(3), thread(1), 1, &["x"]));
    assert!(matches!(again, Err(StoreError::Conflict { .. })), "{again:?}");
    let wrong = Append { expected: Seq(1), ..fork(thread(4), thread(1), 1, &["x"]) };
    assert!(matches!(put(store, wrong), Err(StoreError::Conflict { .. })));
}
