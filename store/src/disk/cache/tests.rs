use super::*;
use rethread_events::ids::{Hash, Seq, Time};

use crate::record::{Kind, Record};
use crate::testing::thread;

fn rows(bytes: usize) -> Arc<[Row]> {
    let record = Record {
        position: Position(0),
        thread: thread(1),
        seq: Seq(0),
        kind: Kind(0),
        version: 0,
        recorded_at: Time::from_unix_us(0),
        trace: thread(1).into(),
        cause: None,
        run: None,
        hash: Hash::ZERO,
        payload: vec![0; bytes].into(),
    };
    [Row { record, before: Hash::ZERO, blob: None }].into()
}

#[test]
fn least_recently_used_rows_are_dropped_first() {
    let cache = Cache::new(10_000);
    let fresh = cache.fresh();
    let key = |n| Key::Chunk(Position(n), 0);
    for n in 0..3 {
        cache.insert(key(n), &rows(2_500), fresh);
    }
    assert!(cache.find(key(0)).is_some());
    cache.insert(key(3), &rows(2_500), fresh);
    let there: Vec<bool> = (0..4).map(|n| cache.find(key(n)).is_some()).collect();
    assert_eq!(there, [true, false, true, true]);
    cache.insert(Key::Seal(Position(0)), &rows(50_000), fresh);
    assert!(cache.find(Key::Seal(Position(0))).is_some());
    assert!((0..4).all(|n| cache.find(key(n)).is_none()));
    cache.clear();
    assert!(cache.find(Key::Seal(Position(0))).is_none());
}

#[test]
fn outdated_read_is_not_cached() {
    let cache = Cache::new(10_000);
    let (key, before) = (Key::Seal(Position(0)), cache.fresh());
    cache.clear();
    cache.insert(key, &rows(10), before);
    assert!(cache.find(key).is_none());
    cache.insert(key, &rows(10), cache.fresh());
    assert!(cache.find(key).is_some());
}
