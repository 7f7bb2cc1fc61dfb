//! Reading by stream, by position, by list.

use futures::executor::block_on;
use rethread_events::ids::{Hash, Position, Seq};

use super::{Backend, all};
use crate::testing::{append, put, record, thread};
use crate::{Append, NewRecord, Snapshot, StoreError, Tag};

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

/// For payloads of all sizes and compression ratios.
pub fn large_payloads_are_read_unchanged(backend: &mut dyn Backend) {
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
pub fn many_records_are_read_in_order(backend: &mut dyn Backend) {
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

/// Nothing is found, everything is counted.
pub fn intact_log_verifies_without_faults(backend: &mut dyn Backend) {
    assert_eq!(backend.store().verify().unwrap(), crate::Verification::default());
    crate::testing::write_small_log(backend.store()).unwrap();
    for _ in 0..3 {
        let verification = backend.store().verify().unwrap();
        assert_eq!(verification.faults, []);
        assert_eq!((verification.n_streams, verification.n_records), (6, 17));
        backend.reopen();
    }
}

/// Everything answers `Closed`.
pub fn closed_store_refuses_every_call(backend: &mut dyn Backend) {
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
        store.snapshots(thread(1)).map(drop),
        store.snapshot(thread(1), Seq(0)).map(drop),
        store.keep_snapshots(thread(1), &[]),
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
