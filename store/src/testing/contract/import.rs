//! Imports of exported streams.

use rethread_events::ids::{Hash, Position, Seq};

use super::{Backend, all};
use crate::testing::{append, fork, put, record, texts, thread};
use crate::{Append, Cause, ForkPoint, Import, Kind, NewRecord, Record, StoreError, Tag};

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
pub fn changed_import_is_refused(backend: &mut dyn Backend) {
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

/// All of it or nothing, and the blobs go with the stream.
pub fn import_includes_its_blobs_and_values(backend: &mut dyn Backend) {
    put(backend.store(), append(thread(1), 0, &["a", "b"])).unwrap();
    let records = backend.store().read_stream(thread(1), Seq(0)..Seq(9), 9).unwrap();
    let blobs = vec![vec![1; 50_000], b"small".to_vec()];
    let values = vec![("imported".to_owned(), b"yes".to_vec())];
    let import = Import { fork_of: None, tag: Tag(0), records, blobs, keys: Vec::new(), values };
    let (small, large) = (Hash::of(b"small"), Hash::of(&[1; 50_000]));
    let refused = backend.store().import_with(import.clone());
    assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    assert!(backend.store().blob(small).is_err() && backend.store().value("imported").unwrap().is_none());
    backend.store().delete(thread(1)).unwrap();
    backend.store().import_with(import).unwrap();
    for _ in 0..3 {
        assert_eq!(texts(backend.store(), thread(1)), ["a", "b"]);
        assert_eq!(backend.store().blob(small).unwrap(), b"small");
        assert_eq!(backend.store().blob(large).unwrap().len(), 50_000);
        assert_eq!(backend.store().value("imported").unwrap().as_deref(), Some(&b"yes"[..]));
        backend.reopen();
    }
    backend.store().delete(thread(1)).unwrap();
    for hash in [small, large] {
        assert!(matches!(backend.store().blob(hash), Err(StoreError::NotFound { .. })));
    }
}

/// Otherwise the history of a long time could not be imported.
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
