use super::*;

#[test]
fn timers_sort_by_time() {
    let keys = [1, 255, 256, u64::MAX].map(|us| timer_key(Time::from_unix_us(us)));
    assert!(keys.is_sorted());
    assert_eq!(changes(&keys[..2], &keys[1..3]), [KeyChange::Remove(keys[0].clone()), KeyChange::Add(keys[2].clone())]);
}
