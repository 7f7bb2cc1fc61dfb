use super::*;
use crate::contract::{Append, LogReader as _, Store as _};
use crate::disk::SledStore;
use crate::disk::options::Options;
use crate::testing::{append, fork, put, scratch, thread};

/// A thread as it was listed; then it was deleted and these were written, all of it in the journal, or all of it in
/// sled. What checking the thread finds then.
fn after(former: &[Append], later: &[Append], is_sealed: bool) -> Verification {
    let dir = scratch();
    let mut store = SledStore::open(dir.path(), Options::default()).unwrap();
    let reopen = |store: &mut SledStore| {
        if is_sealed {
            store.close().unwrap();
            *store = SledStore::open(dir.path(), Options::default()).unwrap();
        }
    };
    for append in former {
        put(&store, append.clone()).unwrap();
    }
    reopen(&mut store);
    let last = former.last().unwrap().thread;
    let info = store.stream(last).unwrap();
    let sealed = last_by_position(&store.reader, &mut Verification::default()).unwrap().get(&last).copied();
    former.iter().rev().for_each(|append| store.delete(append.thread).unwrap());
    for append in later {
        put(&store, append.clone()).unwrap();
    }
    reopen(&mut store);
    let mut found = Verification::default();
    check_stream(&store.reader, &info, sealed, &mut found).unwrap();
    assert_eq!(store.verify().unwrap().faults, []);
    found
}

const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];

#[test]
fn restarted_thread_is_checked_as_it_is_now() {
    for is_sealed in [false, true] {
        for later in [&["x", "y"][..], &["v", "w", "x", "y", "z"], &FIVE, &["u", "v", "w", "x", "y", "z"]] {
            let found = after(&[append(thread(1), 0, &FIVE)], &[append(thread(1), 0, later)], is_sealed);
            assert_eq!((found.faults, found.n_records), (Vec::new(), later.len() as u64));
        }
    }
}

#[test]
fn deleted_thread_is_no_fault() {
    for is_sealed in [false, true] {
        assert_eq!(after(&[append(thread(1), 0, &FIVE)], &[], is_sealed).faults, []);
        let family = [append(thread(1), 0, &FIVE), fork(thread(2), thread(1), 2, &FIVE)];
        assert_eq!(after(&family, &[], is_sealed).faults, []);
        let other = [append(thread(1), 0, &["x"]), append(thread(2), 0, &["y", "z"])];
        assert_eq!(after(&family, &other, is_sealed).faults, []);
        let parent_only = [append(thread(1), 0, &["x"])];
        assert_eq!(after(&family, &parent_only, is_sealed).faults, []);
    }
}
