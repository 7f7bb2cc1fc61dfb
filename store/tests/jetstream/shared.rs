//! Several processes write one log.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use rethread_store::testing::{append, put, thread};
use rethread_store::{
    Access, Asked, JetStreamOptions, JetStreamStore, LogReader, Options, SLOTS, Share, Slots, Store, StoreError,
    Watcher,
};

use super::{ONE, THREE, assert_same, open, options};

fn shared(options: &JetStreamOptions) -> JetStreamOptions {
    JetStreamOptions { access: Access::Shared, lease: Duration::from_secs(1), ..options.clone() }
}

fn share(store: &JetStreamStore) -> Share {
    *store.shared().unwrap().share().borrow()
}

/// Waits for what another process does.
fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < until, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn members_write_one_log() {
    let Some(options) = options(&THREE).map(|options| shared(&options)) else { return };
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let stores = dirs.each_ref().map(|dir| open(dir.path(), &options));
    std::thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            scope.spawn(move || {
                for seq in 0..50 {
                    put(store, append(thread(number as u64), seq, &["mine"])).unwrap();
                    // Larger than a message may be, so that the messages of the others come between.
                    let bytes: Vec<u8> =
                        (0..2_500_000_u32).map(|n| (n.wrapping_mul(2_654_435_761 + seq as u32) >> 13) as u8).collect();
                    if seq % 25 == number as u64 {
                        store.put_blob(Some(thread(number as u64)), &bytes).unwrap();
                    }
                }
            });
        }
    });
    let last = stores.iter().map(|store| store.next_position()).max().unwrap();
    assert_eq!(last.0, 150);
    for store in &stores[1..] {
        eventually("the replica gets all", || store.next_position() == last);
        assert_same(&stores[0], store);
    }
}

#[test]
fn one_of_two_appends_after_the_same_record_is_refused() {
    let Some(options) = options(&ONE).map(|options| shared(&options)) else { return };
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let stores = dirs.each_ref().map(|dir| open(dir.path(), &options));
    for seq in 0..100 {
        let answers = stores.each_ref().map(|store| store.append(append(thread(1), seq, &["race"])));
        let answers = answers.map(block_on);
        let refused = answers.iter().filter(|answer| matches!(answer, Err(StoreError::Conflict { .. }))).count();
        let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!((accepted, refused), (1, 1), "{answers:?}");
        let next = stores[0].next_position().max(stores[1].next_position());
        stores.iter().for_each(|store| eventually("the record is there", || store.next_position() == next));
    }
    assert_same(&stores[0], &stores[1]);
}

#[test]
fn slots_go_to_those_that_are_there() {
    let Some(options) = options(&ONE).map(|options| shared(&options)) else { return };
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let first = open(dirs[0].path(), &options);
    assert_eq!(share(&first), Share { slots: Slots::ALL, n_excess: 0 });
    let second = open(dirs[1].path(), &options);
    assert_eq!(share(&second), Share::default());
    eventually("it has too many", || share(&first).n_excess == SLOTS / 2);
    let given: Slots = share(&first).slots.iter().take(SLOTS / 2).collect();
    block_on(first.shared().unwrap().give(given)).unwrap();
    eventually("they are given", || share(&second).slots == given);
    assert_eq!(share(&first), Share { slots: Slots::ALL.without(&given), n_excess: 0 });
    let third = open(dirs[2].path(), &options);
    let more: Slots = share(&first).slots.iter().take(20).collect();
    block_on(first.shared().unwrap().give(more)).unwrap();
    eventually("the one with the fewest gets them", || share(&third).slots == more);
    // One that closes the log leaves at once, and nothing is nobody's.
    second.close().unwrap();
    eventually("its slots are divided", || share(&first).slots.len() + share(&third).slots.len() == SLOTS);
    first.close().unwrap();
    eventually("the last one has all", || share(&third).slots == Slots::ALL);
    third.close().unwrap();
    let alone = open(dirs[0].path(), &JetStreamOptions { access: Access::Alone, ..options });
    assert!(alone.shared().is_none());
}

/// A request is worked on for longer than a member may be silent: it is answered, and not in doubt.
#[test]
fn request_is_waited_for_as_long_as_it_is_worked_on() {
    let Some(options) = options(&ONE).map(|options| shared(&options)) else { return };
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    // The first one has all slots.
    let [answers, asks] = dirs.each_ref().map(|dir| open(dir.path(), &options));
    answers.shared().unwrap().answer_with(Arc::new(|request| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(12)).await;
            request
        })
    }));
    let asked = block_on(asks.shared().unwrap().ask(thread(1), "well?".into())).unwrap();
    assert!(matches!(&asked, Asked::Answered(answer) if answer == "well?"), "{asked:?}");
    asks.close().unwrap();
    answers.close().unwrap();
}

/// A disk that takes nothing more.
#[derive(Default)]
struct Full(AtomicBool);

impl Watcher for Full {
    fn write(&self, _path: &Path, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        if self.0.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

#[test]
fn process_whose_copy_has_no_room_hands_the_log_on() {
    for access in [Access::Shared, Access::Alone] {
        let Some(options) = options(&ONE).map(|options| JetStreamOptions { access, ..shared(&options) }) else {
            return;
        };
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let full = Arc::new(Full::default());
        let replica = Options { watcher: Some(full.clone()), ..Options::default() };
        let first = open(dirs[0].path(), &JetStreamOptions { replica, ..options.clone() });
        put(&first, append(thread(1), 0, &["one"])).unwrap();
        let other = (access == Access::Shared).then(|| open(dirs[1].path(), &options));
        full.0.store(true, Ordering::SeqCst);
        // It was published: only others know what came of it.
        let in_doubt = put(&first, append(thread(1), 1, &["two"]));
        assert!(matches!(in_doubt, Err(StoreError::InDoubt { .. })), "{in_doubt:?}");
        for refused in [first.check_writable(), put(&first, append(thread(1), 2, &["three"])).map(drop)] {
            let Err(StoreError::Stopped { why, .. }) = refused else { panic!("{refused:?}") };
            assert!(matches!(*why, StoreError::Full { .. }), "{why}");
        }
        let other = other.unwrap_or_else(|| open(dirs[1].path(), &options));
        if access == Access::Shared {
            eventually("its slots are taken over", || share(&other).slots == Slots::ALL);
        }
        put(&other, append(thread(1), 2, &["three"])).unwrap();
        // With room, it is filled up when it is opened again.
        full.0.store(false, Ordering::SeqCst);
        drop(first);
        other.close().unwrap();
        let again = open(dirs[0].path(), &options);
        assert_eq!(again.next_position().0, 3);
        assert_eq!(again.verify().unwrap().faults, []);
    }
}

#[test]
fn log_is_shared_by_all_or_by_none() {
    let Some(options) = options(&ONE).map(|options| shared(&options)) else { return };
    let alone = JetStreamOptions { access: Access::Alone, ..options.clone() };
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let holder = open(dirs[0].path(), &alone);
    let refused = JetStreamStore::open(dirs[1].path(), options.clone());
    assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    put(&holder, append(thread(1), 0, &["alone"])).unwrap();
    holder.close().unwrap();
    let member = open(dirs[1].path(), &options);
    let refused = JetStreamStore::open(dirs[2].path(), alone.clone());
    assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    put(&member, append(thread(1), 1, &["one of several"])).unwrap();
    member.close().unwrap();
    put(&open(dirs[2].path(), &alone), append(thread(1), 2, &["alone again"])).unwrap();
}

#[test]
fn reader_follows_and_writes_nothing() {
    let Some(options) = options(&ONE) else { return };
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let holder = open(dirs[0].path(), &options);
    put(&holder, append(thread(1), 0, &["one"])).unwrap();
    let reader = open(dirs[1].path(), &JetStreamOptions { access: Access::Read, ..options });
    // What was there is there at once.
    assert_same(&holder, &reader);
    put(&holder, append(thread(1), 1, &["two"])).unwrap();
    eventually("it follows", || reader.next_position() == holder.next_position());
    let refused = put(&reader, append(thread(1), 2, &["three"]));
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
    assert!(reader.shared().is_none());
    assert_eq!(reader.stream_metrics().unwrap().slots, 0);
    assert_eq!(holder.stream_metrics().unwrap().slots, SLOTS);
    reader.close().unwrap();
    put(&holder, append(thread(1), 2, &["three"])).unwrap();
}
