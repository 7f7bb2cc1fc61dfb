use futures::executor::block_on;
use rethread_events::event::Event;
use rethread_events::ids::Time;
use rethread_store::{Append, MemoryStore, Tag};
use serde_json::json;

use super::*;
use crate::recorded::new_record;

fn thread(n: u8) -> ThreadId {
    ThreadId::from_bytes([n; 16])
}

fn state(n: u8) -> State {
    State::new(thread(n))
}

/// For a log in which this many threads have begun.
fn writer(n_threads: u8) -> Arc<SnapshotWriter> {
    let store = MemoryStore::new();
    (1..=n_threads).for_each(|n| begin(&store, n));
    Arc::new(SnapshotWriter::new(Arc::new(store), Crashes::off()))
}

fn begin(store: &dyn Store, n: u8) {
    let message = json!({ "message": { "role": "user", "content": "hello" }, "effect": "add" });
    let event = Event::from_data("MESSAGE_ADDED", message);
    let records = vec![new_record(&event.unwrap(), Time::from_unix_us(0), None, None).unwrap()];
    let append = Append {
        thread: thread(n),
        expected: Seq(0),
        fork_of: None,
        trace: None,
        tag: Tag(0),
        records,
        blobs: Vec::new(),
        keys: Vec::new(),
        is_awaited: true,
    };
    block_on(store.append(append)).unwrap();
}

/// Until all is done, however long that takes.
fn finish(writer: &SnapshotWriter) {
    writer.finish(Instant::now() + std::time::Duration::from_secs(600));
    assert!(writer.waiting.lock().is_empty());
}

fn kept(writer: &SnapshotWriter, n: u8) -> Vec<u64> {
    writer.store.snapshots(thread(n)).unwrap().into_iter().map(|seq| seq.0).collect()
}

#[test]
fn state_returned_for_a_later_seq_is_dropped() {
    let (writer, all) = (writer(250), 1..=250);
    actix_rt::System::new().block_on(async {
        for n in all.clone() {
            writer.keep(state(n), Seq(3_000), Hash::ZERO, Seq(0));
            writer.remove_unneeded(&state(n), Seq(3_001));
        }
    });
    finish(&writer);
    assert_eq!(all.filter(|n| !kept(&writer, *n).is_empty()).count(), 0);
}

#[test]
fn queued_snapshots_are_written_in_order_without_waiting() {
    let writer = writer(2);
    let turn = writer.turn.lock();
    actix_rt::System::new().block_on(async {
        writer.keep(state(1), Seq(3_000), Hash::ZERO, Seq(0));
        writer.keep(state(2), Seq(3_000), Hash::ZERO, Seq(0));
        writer.remove_unneeded(&state(1), Seq(3_001));
    });
    assert_eq!((kept(&writer, 1), kept(&writer, 2)), (vec![], vec![]));
    writer.finish(Instant::now());
    assert_eq!(writer.waiting.lock().len(), 3, "there is no time left");
    drop(turn);
    finish(&writer);
    assert_eq!((kept(&writer, 1), kept(&writer, 2)), (vec![], vec![3_000]));
}

#[test]
fn first_snapshot_replaces_unusable_ones() {
    let writer = writer(1);
    let keep = |seq, last| {
        writer.put(&state(1), Seq(seq), Hash::ZERO, Seq(last)).unwrap();
        kept(&writer, 1)
    };
    keep(20_000, 0);
    assert_eq!(keep(30_000, 20_000), [20_000, 30_000]);
    assert_eq!(keep(25_000, 0), [25_000]);
}

fn life(folder: &std::path::Path, work: impl FnOnce(&Arc<dyn Store>, &Arc<Crashes>)) {
    let options = rethread_store::Options::default();
    let store: Arc<dyn Store> = Arc::new(rethread_store::SledStore::open(folder, options).unwrap());
    let crashes = Crashes::open(&store, 3).unwrap();
    work(&store, &crashes);
    store.close().unwrap();
}

#[test]
fn snapshot_whose_writing_ends_the_process_is_not_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    life(folder.path(), |store, _| (1..=2).for_each(|n| begin(&**store, n)));
    for _ in 0..3 {
        life(folder.path(), |_, crashes| std::mem::forget(crashes.enter(|| Step::snapshot(thread(1), Seq(3_000)))));
    }
    life(folder.path(), |store, crashes| {
        let writer = Arc::new(SnapshotWriter::new(store.clone(), crashes.clone()));
        actix_rt::System::new().block_on(async {
            writer.keep(state(1), Seq(3_000), Hash::ZERO, Seq(0));
            writer.keep(state(2), Seq(3_000), Hash::ZERO, Seq(0));
        });
        finish(&writer);
        assert_eq!((kept(&writer, 1), kept(&writer, 2)), (vec![], vec![3_000]));
    });
}
