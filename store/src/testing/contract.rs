//! The contract of [`Store`], as checks that every backend must pass. Each is given a backend with an empty log, and
//! reopens it now and then.

use futures::StreamExt as _;
use futures::executor::block_on;
use rethread_events::ids::{Hash, Position, Seq, TraceId};

use super::{append, fork, put, record, texts, thread};
use crate::{
    Append, Cause, Filter, ForkPoint, Kind, NewRecord, PAYLOAD_BYTES_MAX, Record, Snapshot, Store, StoreError, Tag,
    VALUE_BYTES_MAX,
};

/// Something that keeps the contract.
pub trait Backend {
    /// The store.
    fn store(&self) -> &dyn Store;

    /// Lets the process end, in order or not, and begins anew on the same log. Nothing for one in memory.
    fn reopen(&mut self);
}

/// Makes one test of each check: `contract_tests!(MyBackend::new())`.
#[macro_export]
macro_rules! contract_tests {
    ($make:expr) => {
        $crate::contract_tests!($make;
            records_come_back_as_they_were_written
            a_wrong_expectation_is_a_conflict_and_writes_nothing
            appends_can_be_queued_before_the_one_before_is_answered
            what_is_queued_behind_a_failed_append_fails_too
            a_cause_may_be_named_before_it_has_a_position
            what_makes_no_sense_is_refused
            what_is_too_large_is_refused
            a_stream_is_read_in_ranges
            the_whole_log_is_read_by_position
            large_payloads_come_back_whole
            many_records_come_back_in_order
            streams_are_listed_by_id_and_tag
            a_trace_stays_with_its_stream
            a_fork_inherits_without_copying
            a_fork_of_a_fork_reads_through
            a_fork_may_follow_at_once
            a_fork_of_what_is_not_there_is_refused
            a_deleted_stream_is_gone
            a_stream_with_forks_is_not_deleted
            a_deleted_stream_can_begin_anew
            blobs_live_as_long_as_an_owner
            values_are_kept_by_name
            a_snapshot_replaces_the_one_before
            an_exported_stream_is_imported_with_its_hashes
            an_exported_fork_is_imported
            an_import_that_was_changed_is_refused
            an_import_may_be_larger_than_an_append
            a_subscription_catches_up_and_follows
            a_subscription_to_one_stream_sees_only_that
            a_subscription_filters_by_kind
            a_subscription_ends_with_the_store
            a_sound_log_verifies
            a_closed_store_says_so
        );
    };
    ($make:expr; $($name:ident)*) => {
        $(#[test]
        fn $name() {
            $crate::testing::contract::$name(&mut $make);
        })*
    };
}

fn all(store: &dyn Store) -> Vec<Record> {
    store.read_all(Position(0), usize::MAX).unwrap()
}

/// All fields of all records survive.
pub fn records_come_back_as_they_were_written(backend: &mut dyn Backend) {
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
pub fn appends_can_be_queued_before_the_one_before_is_answered(backend: &mut dyn Backend) {
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
pub fn what_is_queued_behind_a_failed_append_fails_too(backend: &mut dyn Backend) {
    let store = backend.store();
    put(store, append(thread(1), 0, &["somebody else's", "somebody else's"])).unwrap();
    let stale = store.append(append(thread(1), 1, &["stale"]));
    let next = store.append(append(thread(1), 2, &["decided after the stale one"]));
    let other = store.append(append(thread(2), 0, &["another stream"]));
    let last = store.append(append(thread(1), 3, &["decided after that"]));
    for answer in [stale, next, last] {
        let error = block_on(answer).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    }
    block_on(other).unwrap();
    assert_eq!(texts(store, thread(1)).len(), 2);
    // Once the failure is known, the stream goes on; so it does when nobody wanted to know.
    put(store, append(thread(1), 2, &["a new decision"])).unwrap();
    drop(store.append(append(thread(1), 0, &["stale"])));
    // The answer that was dropped may still be on its way.
    let mut tries = 0;
    while let Err(error) = put(store, append(thread(1), 3, &["another"])) {
        tries += 1;
        assert!(tries < 1000 && matches!(error, StoreError::Conflict { .. }), "{error:?}");
    }
}

/// Faults of the caller.
pub fn what_makes_no_sense_is_refused(backend: &mut dyn Backend) {
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
pub fn what_is_too_large_is_refused(backend: &mut dyn Backend) {
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

/// Ranges and limits of a stream.
pub fn a_stream_is_read_in_ranges(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["0", "1", "2", "3"])).unwrap();
    backend.reopen();
    put(backend.store(), append(thread(1), 4, &["4", "5"])).unwrap();
    for _ in 0..2 {
        let read = |from, to, limit| -> Vec<u64> {
            let range = Seq(from)..Seq(to);
            let records = backend.store().read_stream(thread(1), range, limit).unwrap();
            records.iter().map(|record| record.seq.0).collect()
        };
        assert_eq!(read(0, 6, 100), [0, 1, 2, 3, 4, 5]);
        assert_eq!(read(1, 5, 100), [1, 2, 3, 4]);
        assert_eq!(read(3, u64::MAX, 2), [3, 4]);
        assert_eq!(read(5, 6, 1), [5]);
        assert!(read(6, 9, 5).is_empty());
        assert!(read(2, 2, 5).is_empty());
        #[allow(clippy::reversed_empty_ranges)]
        {
            assert!(read(4, 2, 5).is_empty());
        }
        assert!(read(0, 6, 0).is_empty());
        backend.reopen();
    }
    let missing = backend.store().read_stream(thread(2), Seq(0)..Seq(1), 1);
    assert!(matches!(missing, Err(StoreError::NotFound { .. })));
}

/// Positions are gapless and in order, and reading can begin anywhere.
pub fn the_whole_log_is_read_by_position(backend: &mut dyn Backend) {
    for round in 0..3 {
        for number in 0..20 {
            put(backend.store(), append(thread(number), round * 2, &["x", "y"])).unwrap();
        }
        let records = all(backend.store());
        let positions: Vec<u64> = records.iter().map(|record| record.position.0).collect();
        let expected: Vec<u64> = (0..(round + 1) * 40).collect();
        assert_eq!(positions, expected);
        backend.reopen();
    }
    let mut next = Position(0);
    let mut n = 0;
    loop {
        let records = backend.store().read_all(next, 7).unwrap();
        assert!(records.iter().all(|record| record.position.0 >= next.0));
        n += records.len();
        if records.len() < 7 {
            break;
        }
        next = records[6].position.next();
    }
    assert_eq!(n, 120);
    assert!(backend.store().read_all(Position(120), 7).unwrap().is_empty());
    assert!(backend.store().read_all(Position(u64::MAX), 7).unwrap().is_empty());
}

/// Whatever their size and however well they compress.
pub fn large_payloads_come_back_whole(backend: &mut dyn Backend) {
    let noise = |n: usize| -> Vec<u8> {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..n).map(|_| next()).collect()
    };
    let sizes = [16_000, 16_384, 16_385, 27_000, 33_000, 100_000, 3_000_000];
    let mut payloads: Vec<Vec<u8>> = sizes.iter().map(|n| noise(*n)).collect();
    payloads.extend(sizes.iter().map(|n| vec![b'x'; *n]));
    payloads.push(payloads[5].clone());
    let records: Vec<_> = payloads.iter().map(|p| NewRecord { payload: p.clone(), ..record("") }).collect();
    put(backend.store(), Append { records, ..append(thread(1), 0, &[]) }).unwrap();
    put(backend.store(), append(thread(2), 0, &["small"])).unwrap();
    for _ in 0..3 {
        for records in [
            backend.store().read_stream(thread(1), Seq(0)..Seq(99), 99).unwrap(),
            backend.store().read_all(Position(0), payloads.len()).unwrap(),
        ] {
            assert_eq!(records.len(), payloads.len());
            for (record, payload) in records.iter().zip(&payloads) {
                assert!(*record.payload == **payload, "{} bytes", payload.len());
            }
        }
        assert_eq!(backend.store().verify().unwrap().faults, []);
        backend.reopen();
    }
}

/// More than one seal and many chunks.
pub fn many_records_come_back_in_order(backend: &mut dyn Backend) {
    let mut answers = Vec::new();
    for seq in 0..300 {
        for number in 0..20 {
            let text = format!("{number} {seq} {}", "some more text ".repeat(20));
            answers.push(backend.store().append(append(thread(number), seq, &[&text])));
        }
    }
    for answer in answers {
        block_on(answer).unwrap();
    }
    for _ in 0..2 {
        let records = all(backend.store());
        assert_eq!(records.len(), 6000);
        for number in [0, 7, 19] {
            let own = backend.store().read_stream(thread(number), Seq(10)..Seq(290), 1000).unwrap();
            assert_eq!(own.len(), 280);
            for (record, seq) in own.iter().zip(10..) {
                assert_eq!(record.seq, Seq(seq));
                assert!(record.payload.starts_with(format!("{number} {seq} ").as_bytes()));
                assert_eq!(&records[record.position.0 as usize], record);
            }
        }
        backend.reopen();
    }
    assert_eq!(backend.store().verify().unwrap().n_records, 6000);
}

/// Sorted, after an id, by tag, up to a limit.
pub fn streams_are_listed_by_id_and_tag(backend: &mut dyn Backend) {
    for number in (0..30).rev() {
        let tag = Tag((number % 3) as u8);
        put(backend.store(), Append { tag, ..append(thread(number), 0, &["x"]) }).unwrap();
    }
    backend.reopen();
    for number in [4, 5] {
        let tag = Tag(7);
        put(backend.store(), Append { tag, ..append(thread(number), 1, &["y"]) }).unwrap();
    }
    put(backend.store(), Append { tag: Tag(7), ..append(thread(50), 0, &["x"]) }).unwrap();
    for _ in 0..2 {
        let list = |after: Option<u64>, tags: &[Tag], limit| -> Vec<u64> {
            let streams = backend.store().streams(after.map(thread), tags, limit).unwrap();
            let number = |id| (0..100).find(|number| thread(*number) == id).unwrap();
            streams.iter().map(|info| number(info.thread)).collect()
        };
        let expected: Vec<u64> = (0..30).chain([50]).collect();
        assert_eq!(list(None, &[], 100), expected);
        assert_eq!(list(Some(3), &[], 4), [4, 5, 6, 7]);
        assert_eq!(list(None, &[Tag(1)], 3), [1, 7, 10]);
        assert_eq!(list(None, &[Tag(7)], 100), [4, 5, 50]);
        assert_eq!(list(Some(4), &[Tag(7), Tag(0)], 3), [5, 6, 9]);
        assert_eq!(list(Some(28), &[Tag(2), Tag(7)], 3), [29, 50]);
        assert!(list(Some(50), &[], 3).is_empty());
        assert!(list(None, &[Tag(9)], 3).is_empty());
        assert!(list(None, &[], 0).is_empty());
        backend.reopen();
    }
    let info = backend.store().stream(thread(4)).unwrap();
    assert_eq!((info.last_seq, info.tag, info.fork_of), (Seq(1), Tag(7), None));
    assert!(matches!(backend.store().stream(thread(77)), Err(StoreError::NotFound { .. })));
}

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

/// What comes after the fork point on either side does not show on the other.
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
pub fn a_fork_may_follow_at_once(backend: &mut dyn Backend) {
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
pub fn a_fork_of_what_is_not_there_is_refused(backend: &mut dyn Backend) {
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

/// With everything that was its own; positions stay empty.
pub fn a_deleted_stream_is_gone(backend: &mut dyn Backend) {
    for number in 1..4 {
        put(backend.store(), append(thread(number), 0, &["a", "b"])).unwrap();
    }
    backend.reopen();
    put(backend.store(), append(thread(2), 2, &["c"])).unwrap();
    let info = backend.store().stream(thread(2)).unwrap();
    let snapshot = Snapshot { seq: info.last_seq, hash: info.hash, version: 1, state: b"state".to_vec() };
    backend.store().put_snapshot(thread(2), snapshot).unwrap();
    backend.store().delete(thread(2)).unwrap();
    for _ in 0..3 {
        let store = backend.store();
        let gone = store.read_stream(thread(2), Seq(0)..Seq(9), 9);
        assert!(matches!(gone, Err(StoreError::NotFound { .. })), "{gone:?}");
        assert!(matches!(store.stream(thread(2)), Err(StoreError::NotFound { .. })));
        assert_eq!(store.snapshot(thread(2)).unwrap(), None);
        let ids: Vec<_> = store.streams(None, &[], 9).unwrap().iter().map(|info| info.thread).collect();
        assert_eq!(ids, [thread(1), thread(3)]);
        let positions: Vec<_> = all(store).iter().map(|record| record.position.0).collect();
        assert_eq!(positions, [0, 1, 4, 5]);
        assert_eq!(store.next_position(), Position(7));
        assert_eq!(store.verify().unwrap().faults, []);
        assert!(matches!(store.delete(thread(2)), Err(StoreError::NotFound { .. })));
        backend.reopen();
    }
    assert_eq!(texts(backend.store(), thread(3)), ["a", "b"]);
}

/// Until the forks are deleted.
pub fn a_stream_with_forks_is_not_deleted(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b"])).unwrap();
    put(backend.store(), fork(thread(2), thread(1), 0, &["x"])).unwrap();
    backend.reopen();
    put(backend.store(), fork(thread(3), thread(1), 1, &["y"])).unwrap();
    for rest in [vec![thread(2), thread(3)], vec![thread(3)]] {
        match backend.store().delete(thread(1)) {
            Err(StoreError::InUse { thread: of, forks }) => {
                assert_eq!((of, forks), (thread(1), rest.clone()));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(texts(backend.store(), rest[0])[0], "a");
        backend.store().delete(rest[0]).unwrap();
        backend.reopen();
    }
    backend.store().delete(thread(1)).unwrap();
    assert!(all(backend.store()).is_empty());
}

/// At seq 0, with nothing of its former life.
pub fn a_deleted_stream_can_begin_anew(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b", "c"])).unwrap();
    backend.reopen();
    backend.store().delete(thread(1)).unwrap();
    put(backend.store(), append(thread(1), 0, &["A", "B"])).unwrap();
    for _ in 0..3 {
        assert_eq!(texts(backend.store(), thread(1)), ["A", "B"]);
        let positions: Vec<_> = all(backend.store()).iter().map(|r| r.position.0).collect();
        assert_eq!(positions, [3, 4]);
        assert_eq!(backend.store().verify().unwrap().faults, []);
        backend.reopen();
    }
    put(backend.store(), append(thread(1), 2, &["C"])).unwrap();
    backend.store().delete(thread(1)).unwrap();
    backend.reopen();
    assert!(all(backend.store()).is_empty());
}

/// Stored once however many name it, gone with the last that does.
pub fn blobs_live_as_long_as_an_owner(backend: &mut dyn Backend) {
    for number in 1..3 {
        put(backend.store(), append(thread(number), 0, &["x"])).unwrap();
    }
    let shared = vec![1; 70_000];
    let hash = backend.store().put_blob(Some(thread(1)), &shared).unwrap();
    assert_eq!(hash, Hash::of(&shared));
    assert_eq!(backend.store().put_blob(Some(thread(1)), &shared).unwrap(), hash);
    backend.reopen();
    assert_eq!(backend.store().put_blob(Some(thread(2)), &shared).unwrap(), hash);
    let kept = backend.store().put_blob(None, b"kept").unwrap();
    backend.store().put_blob(Some(thread(1)), b"kept").unwrap();
    let empty = backend.store().put_blob(None, b"").unwrap();
    let own = backend.store().put_blob(Some(thread(2)), b"own").unwrap();
    backend.reopen();
    backend.store().delete(thread(1)).unwrap();
    for _ in 0..2 {
        assert_eq!(backend.store().blob(hash).unwrap(), shared);
        assert_eq!(backend.store().blob(kept).unwrap(), b"kept");
        assert_eq!(backend.store().blob(empty).unwrap(), b"");
        backend.reopen();
    }
    backend.store().delete(thread(2)).unwrap();
    backend.reopen();
    backend.reopen();
    for gone in [hash, own] {
        assert!(matches!(backend.store().blob(gone), Err(StoreError::NotFound { .. })));
    }
    assert_eq!(backend.store().blob(kept).unwrap(), b"kept");
    assert_eq!(backend.store().put_blob(None, &shared).unwrap(), hash);
    assert_eq!(backend.store().blob(hash).unwrap(), shared);
}

/// Put, replace, list by prefix, remove.
pub fn values_are_kept_by_name(backend: &mut dyn Backend) {
    backend.store().put_value("cursor/a", b"1").unwrap();
    backend.store().put_value("cursor/b", &[5; VALUE_BYTES_MAX]).unwrap();
    backend.store().put_value("cursorless", b"").unwrap();
    backend.reopen();
    backend.store().put_value("cursor/a", b"2").unwrap();
    backend.store().put_value("other", b"3").unwrap();
    backend.store().remove_value("cursor/b").unwrap();
    backend.store().remove_value("never there").unwrap();
    for _ in 0..3 {
        let store = backend.store();
        assert_eq!(store.value("cursor/a").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(store.value("cursor/b").unwrap(), None);
        assert_eq!(store.value("cursorless").unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(store.value("nothing").unwrap(), None);
        let names: Vec<_> = store.values("cursor").unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["cursor/a", "cursorless"]);
        assert_eq!(store.values("cursor/").unwrap(), [("cursor/a".to_string(), b"2".to_vec())]);
        assert_eq!(store.values("").unwrap().len(), 3);
        backend.reopen();
    }
}

/// And is given back as long as nothing happens to it.
pub fn a_snapshot_replaces_the_one_before(backend: &mut dyn Backend) {
    let info = put(backend.store(), append(thread(1), 0, &["a", "b"])).unwrap();
    let snapshot =
        |seq: u64, n: usize| Snapshot { seq: Seq(seq), hash: info.hash, version: 3, state: vec![seq as u8; n] };
    assert_eq!(backend.store().snapshot(thread(1)).unwrap(), None);
    backend.store().put_snapshot(thread(1), snapshot(0, 200_000)).unwrap();
    backend.store().put_snapshot(thread(1), snapshot(1, 100)).unwrap();
    assert_eq!(backend.store().snapshot(thread(1)).unwrap(), Some(snapshot(1, 100)));
    backend.reopen();
    let found = backend.store().snapshot(thread(1)).unwrap();
    assert!(found.is_none() || found == Some(snapshot(1, 100)), "{found:?}");
    let nobody = backend.store().put_snapshot(thread(2), snapshot(0, 1));
    assert!(matches!(nobody, Err(StoreError::NotFound { .. })), "{nobody:?}");
}

/// Same hashes, new positions.
pub fn an_exported_stream_is_imported_with_its_hashes(backend: &mut dyn Backend) {
    let mut records = vec![record("a"), record("b"), record("c")];
    records[0].cause = Some(Cause::At(Position(0)));
    records[2].cause = Some(Cause::SameAppend(1));
    put(backend.store(), append(thread(9), 0, &["before"])).unwrap();
    put(backend.store(), Append { records, ..append(thread(1), 0, &[]) }).unwrap();
    let exported = backend.store().read_stream(thread(1), Seq(0)..Seq(9), 9).unwrap();
    let again = backend.store().import(None, Tag(5), exported.clone());
    assert!(matches!(again, Err(StoreError::Conflict { .. })), "{again:?}");
    backend.store().delete(thread(1)).unwrap();
    backend.reopen();
    let appended = backend.store().import(None, Tag(5), exported.clone()).unwrap();
    assert_eq!(appended.first_position, Position(4));
    for _ in 0..2 {
        let imported = backend.store().read_stream(thread(1), Seq(0)..Seq(9), 9).unwrap();
        for (before, after) in exported.iter().zip(&imported) {
            let moved = Record {
                position: Position(before.position.0 + 3),
                cause: before.cause.filter(|cause| cause.0 > 0).map(|c| Position(c.0 + 3)),
                ..before.clone()
            };
            assert_eq!(after, &moved);
            assert_eq!(after.id(), before.id());
        }
        assert_eq!(backend.store().stream(thread(1)).unwrap().tag, Tag(5));
        assert_eq!(backend.store().verify().unwrap().faults, []);
        backend.reopen();
    }
    put(backend.store(), append(thread(1), 3, &["goes on"])).unwrap();
}

/// On top of its parent.
pub fn an_exported_fork_is_imported(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b"])).unwrap();
    put(backend.store(), fork(thread(2), thread(1), 0, &["x", "y"])).unwrap();
    let own = backend.store().read_stream(thread(2), Seq(1)..Seq(9), 9).unwrap();
    let point = backend.store().stream(thread(2)).unwrap().fork_of;
    backend.store().delete(thread(2)).unwrap();
    backend.reopen();
    let elsewhere = Some(ForkPoint { parent: thread(1), seq: Seq(1) });
    let refused = backend.store().import(elsewhere, Tag(0), own.clone());
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    backend.store().import(point, Tag(0), own.clone()).unwrap();
    backend.reopen();
    assert_eq!(texts(backend.store(), thread(2)), ["a", "x", "y"]);
    let now = backend.store().read_stream(thread(2), Seq(1)..Seq(9), 9).unwrap();
    let hashes = |records: &[Record]| -> Vec<Hash> { records.iter().map(|r| r.hash).collect() };
    assert_eq!(hashes(&now), hashes(&own));
}

/// Any change at all, and nothing is written.
pub fn an_import_that_was_changed_is_refused(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b", "c"])).unwrap();
    let exported = backend.store().read_stream(thread(1), Seq(0)..Seq(9), 9).unwrap();
    backend.store().delete(thread(1)).unwrap();
    let changed = |change: &dyn Fn(&mut Vec<Record>)| {
        let mut records = exported.clone();
        change(&mut records);
        records
    };
    let imports = [
        changed(&|records| records[1].payload = b"B".as_slice().into()),
        changed(&|records| records[1].kind = Kind(9)),
        changed(&|records| records[1].thread = thread(2)),
        changed(&|records| records[2].seq = Seq(3)),
        changed(&|records| records.swap(0, 1)),
        changed(&|records| drop(records.remove(1))),
        changed(&|records| drop(records.remove(0))),
    ];
    for records in imports {
        let refused = backend.store().import(None, Tag(0), records);
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    }
    assert!(all(backend.store()).is_empty());
    backend.store().import(None, Tag(0), exported).unwrap();
}

/// Otherwise what grew over a long time could not be brought back.
pub fn an_import_may_be_larger_than_an_append(backend: &mut dyn Backend) {
    for seq in 0..36 {
        let payload = vec![seq as u8; 2 << 20];
        let big = NewRecord { payload, cause: Some(Cause::At(Position(seq / 2))), ..record("") };
        put(backend.store(), Append { records: vec![big], ..append(thread(1), seq, &[]) }).unwrap();
    }
    let exported = backend.store().read_stream(thread(1), Seq(0)..Seq(99), 99).unwrap();
    backend.store().delete(thread(1)).unwrap();
    let appended = backend.store().import(None, Tag(0), exported.clone()).unwrap();
    assert_eq!((appended.first_position, appended.last_position), (Position(36), Position(71)));
    for _ in 0..2 {
        let imported = backend.store().read_stream(thread(1), Seq(0)..Seq(99), 99).unwrap();
        assert_eq!(imported.len(), 36);
        for (before, after) in exported.iter().zip(&imported).skip(1) {
            assert_eq!(before.hash, after.hash);
            assert_eq!(after.cause, before.cause.map(|cause| Position(cause.0 + 36)));
        }
        backend.reopen();
    }
    put(backend.store(), append(thread(1), 36, &["goes on"])).unwrap();
}

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
    assert!(futures::FutureExt::now_or_never(subscription.next()).is_none());
    for seq in 0..50 {
        put(backend.store(), append(thread(4), seq, &["y"])).unwrap();
        let record = block_on(subscription.next()).unwrap().unwrap();
        assert_eq!(record.position, Position(301 + seq));
    }
    let mut now = backend.store().subscribe(backend.store().next_position(), Filter::default());
    assert!(futures::FutureExt::now_or_never(now.next()).is_none());
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
        assert!(futures::FutureExt::now_or_never(subscription.next()).is_none());
    }
    let mut subscription = backend.store().subscribe(Position(0), only(5));
    assert_eq!(&*block_on(subscription.next()).unwrap().unwrap().payload, b"own");
    assert!(futures::FutureExt::now_or_never(subscription.next()).is_none());
    put(backend.store(), append(thread(1), 600, &["another's"])).unwrap();
    put(backend.store(), append(thread(5), 102, &["more"])).unwrap();
    assert_eq!(&*block_on(subscription.next()).unwrap().unwrap().payload, b"more");
    let mut early = backend.store().subscribe(Position(0), only(77));
    assert!(futures::FutureExt::now_or_never(early.next()).is_none());
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
    assert!(futures::FutureExt::now_or_never(subscription.next()).is_none());
}

/// Also for one that waits.
pub fn a_subscription_ends_with_the_store(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["x"])).unwrap();
    let mut waiting = backend.store().subscribe(Position(1), Filter::default());
    assert!(futures::FutureExt::now_or_never(waiting.next()).is_none());
    let waiter = std::thread::spawn(move || block_on(waiting.next()).is_none());
    backend.store().close().unwrap();
    assert!(waiter.join().unwrap());
}

/// Nothing is found, everything is counted.
pub fn a_sound_log_verifies(backend: &mut dyn Backend) {
    assert_eq!(backend.store().verify().unwrap(), crate::Verification::default());
    super::write_small_log(backend.store()).unwrap();
    for _ in 0..3 {
        let verification = backend.store().verify().unwrap();
        assert_eq!(verification.faults, []);
        assert_eq!((verification.n_streams, verification.n_records), (6, 17));
        backend.reopen();
    }
}

/// Everything answers `Closed`.
pub fn a_closed_store_says_so(backend: &mut dyn Backend) {
    let store = backend.store();
    put(store, append(thread(1), 0, &["x"])).unwrap();
    let snapshot = Snapshot { seq: Seq(0), hash: Hash::ZERO, version: 1, state: Vec::new() };
    store.close().unwrap();
    let answers = [
        put(store, append(thread(1), 1, &["x"])).map(drop),
        store.read_stream(thread(1), Seq(0)..Seq(1), 1).map(drop),
        store.read_all(Position(0), 1).map(drop),
        store.stream(thread(1)).map(drop),
        store.streams(None, &[], 1).map(drop),
        store.put_blob(None, b"x").map(drop),
        store.blob(Hash::ZERO).map(drop),
        store.put_snapshot(thread(1), snapshot),
        store.snapshot(thread(1)).map(drop),
        store.put_value("x", b"x"),
        store.value("x").map(drop),
        store.values("x").map(drop),
        store.remove_value("x"),
        store.delete(thread(1)),
        store.verify().map(drop),
        store.close(),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(StoreError::Closed)), "{answer:?}");
    }
}
