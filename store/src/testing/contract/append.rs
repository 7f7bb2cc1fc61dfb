//! Appends: expectations, order, causes, limits.

use futures::executor::block_on;
use rethread_events::ids::{Hash, Position, Seq, TraceId};

use super::Backend;
use crate::testing::{append, fork, put, record, texts, thread};
use crate::{Append, Cause, Kind, NewRecord, PAYLOAD_BYTES_MAX, Record, StoreError, Tag, VALUE_BYTES_MAX};

/// All fields of all records survive.
pub fn records_are_read_as_written(backend: &mut dyn Backend) {
    let mut records = vec![record("first"), record("second"), record("")];
    records[0].cause = Some(Cause::At(Position(0)));
    records[1].cause = Some(Cause::SameAppend(0));
    records[1].kind = Kind(u16::MAX);
    records[1].version = 300;
    let store = backend.store();
    put(store, append(thread(9), 0, &["before"])).unwrap();
    let appended = put(store, Append { records: records.clone(), ..append(thread(1), 0, &[]) });
    let appended = appended.unwrap();
    assert_eq!(appended.first_position, Position(1));
    assert_eq!(appended.last_position, Position(3));
    assert_eq!(appended.last_seq, Seq(2));
    for _ in 0..2 {
        let store = backend.store();
        let read = store.read_stream(thread(1), Seq(0)..Seq(3), 10).unwrap();
        let mut before = Hash::ZERO;
        for (index, (new, record)) in records.iter().zip(&read).enumerate() {
            assert_eq!(record.thread, thread(1));
            assert_eq!(record.seq, Seq(index as u64));
            assert_eq!(record.position, Position(1 + index as u64));
            assert_eq!(record.kind, new.kind);
            assert_eq!(record.version, new.version);
            assert_eq!(record.recorded_at, new.recorded_at);
            assert_eq!(*record.payload, *new.payload);
            assert_eq!(record.trace, TraceId::from(thread(1)));
            before = Record::chain(
                before,
                record.thread,
                record.seq,
                record.recorded_at,
                record.trace,
                record.kind,
                record.version,
                &record.payload,
            );
            assert_eq!(record.hash, before);
        }
        assert_eq!(read[0].cause, Some(Position(0)));
        assert_eq!(read[1].cause, Some(Position(1)));
        assert_eq!(read[2].cause, None);
        assert_eq!(appended.hash, read[2].hash);
        assert_eq!(store.stream(thread(1)).unwrap().hash, read[2].hash);
        assert_eq!(store.next_position(), Position(4));
        backend.reopen();
    }
}

/// Compare and append.
pub fn a_wrong_expectation_is_a_conflict_and_writes_nothing(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b"])).unwrap();
    for _ in 0..2 {
        for expected in [0, 1, 3, u64::MAX] {
            let error = put(backend.store(), append(thread(1), expected, &["x"])).unwrap_err();
            match error {
                StoreError::Conflict { thread: of, expected: e, actual } => {
                    assert_eq!((of, e, actual), (thread(1), Seq(expected), Seq(2)));
                }
                other => panic!("{other:?}"),
            }
        }
        let error = put(backend.store(), append(thread(2), 1, &["x"])).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { actual: Seq(0), .. }), "{error:?}");
        assert_eq!(texts(backend.store(), thread(1)), ["a", "b"]);
        assert_eq!(backend.store().next_position(), Position(2));
        backend.reopen();
    }
    put(backend.store(), append(thread(1), 2, &["c"])).unwrap();
    assert_eq!(texts(backend.store(), thread(1)), ["a", "b", "c"]);
}

/// The order of the calls is the order in the log.
pub fn append_is_queued_before_the_previous_is_acknowledged(backend: &mut dyn Backend) {
    let store = backend.store();
    let answers: Vec<_> = (0..100).map(|n| store.append(append(thread(1), n, &[&n.to_string()]))).collect();
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(block_on(answer).unwrap().last_seq, Seq(n as u64));
    }
    backend.reopen();
    let expected: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(texts(backend.store(), thread(1)), expected);
}

/// A caller that does not wait names what came before by its seq.
pub fn a_cause_may_be_named_before_it_has_a_position(backend: &mut dyn Backend) {
    let store = backend.store();
    put(store, append(thread(9), 0, &["another"])).unwrap();
    let follows = |seq: u64, cause: u64| {
        let mut append = append(thread(1), seq, &["follows"]);
        append.records[0].cause = Some(Cause::Own(Seq(cause)));
        append
    };
    let queued = [append(thread(1), 0, &["a", "b", "c"]), follows(3, 1), follows(4, 2), follows(5, 3)];
    let answers: Vec<_> = queued.into_iter().map(|append| store.append(append)).collect();
    for answer in answers {
        futures::executor::block_on(answer).unwrap();
    }
    let mut second = append(thread(1), 6, &["x", "y"]);
    second.records[1].cause = Some(Cause::Own(Seq(0)));
    assert!(matches!(put(store, second), Err(StoreError::Invalid(_))));
    for _ in 0..2 {
        let read = backend.store().read_stream(thread(1), Seq(3)..Seq(6), 10).unwrap();
        let causes: Vec<_> = read.iter().map(|record| record.cause).collect();
        assert_eq!(causes, [2, 3, 4].map(|position| Some(Position(position))));
        backend.reopen();
    }
}

/// Even where the later expectation would hold.
pub fn append_queued_after_a_failed_one_fails(backend: &mut dyn Backend) {
    let store = backend.store();
    put(store, append(thread(1), 0, &["another writer's", "another writer's"])).unwrap();
    let stale = store.append(append(thread(1), 1, &["stale"]));
    let next = store.append(append(thread(1), 2, &["decided after the stale one"]));
    let other = store.append(append(thread(2), 0, &["another stream"]));
    let last = store.append(append(thread(1), 3, &["decided after that"]));
    let error = block_on(stale).unwrap_err();
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    for answer in [next, last] {
        let error = block_on(answer).unwrap_err();
        assert!(matches!(error, StoreError::Fenced { .. }), "{error:?}");
    }
    block_on(other).unwrap();
    assert_eq!(texts(store, thread(1)).len(), 2);
    // After the failure was received or dropped, the stream accepts appends.
    put(store, append(thread(1), 2, &["a new decision"])).unwrap();
    drop(store.append(append(thread(1), 0, &["stale"])));
    // The answer that was dropped may still be on its way.
    let mut tries = 0;
    while let Err(error) = put(store, append(thread(1), 3, &["another"])) {
        tries += 1;
        assert!(tries < 1000 && matches!(error, StoreError::Fenced { .. }), "{error:?}");
    }
}

/// Faults of the caller.
pub fn invalid_append_is_refused(backend: &mut dyn Backend) {
    let store = backend.store();
    let itself = NewRecord { cause: Some(Cause::SameAppend(0)), ..record("x") };
    let nonsense = [
        append(thread(1), 0, &[]),
        Append { records: vec![itself], ..append(thread(1), 0, &[]) },
        fork(thread(1), thread(1), 0, &["x"]),
    ];
    for append in nonsense {
        let error = put(store, append).unwrap_err();
        assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
    }
    assert!(matches!(store.put_value("", b"x"), Err(StoreError::Invalid(_))));
    assert!(matches!(store.put_value("a\0b", b"x"), Err(StoreError::Invalid(_))));
    assert!(matches!(store.import(None, Tag(0), Vec::new()), Err(StoreError::Invalid(_))));
    assert_eq!(store.next_position(), Position(0));
}

/// Limits of payloads and values.
pub fn too_large_write_is_refused(backend: &mut dyn Backend) {
    let store = backend.store();
    let huge = NewRecord { payload: vec![0; PAYLOAD_BYTES_MAX + 1], ..record("") };
    let error = put(store, Append { records: vec![huge], ..append(thread(1), 0, &[]) });
    assert!(matches!(error, Err(StoreError::TooLarge { .. })), "{error:?}");
    let error = store.put_blob(None, &vec![0; PAYLOAD_BYTES_MAX + 1]);
    assert!(matches!(error, Err(StoreError::TooLarge { .. })), "{error:?}");
    let error = store.put_value("name", &[0; VALUE_BYTES_MAX + 1]);
    assert!(matches!(error, Err(StoreError::TooLarge { .. })), "{error:?}");
    put(store, append(thread(1), 0, &["goes on"])).unwrap();
}
