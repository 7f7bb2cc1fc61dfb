use rethread_events::ids::Position;
use rethread_events::thread::State;

use super::*;

fn thread(n: usize) -> ThreadId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    ThreadId::from_bytes(bytes)
}

fn rest(n: usize) -> Rest {
    Rest { state: State::new(thread(n)), last_position: Position(n as u64) }
}

fn keep(ends: &RecentEnds, n: usize) {
    let since = ends.starts(thread(n));
    ends.keep(thread(n), 0, since, rest(n));
}

fn has(ends: &RecentEnds, n: usize) -> bool {
    ends.take(thread(n)).is_some()
}

#[test]
fn end_is_handed_out_once() {
    let ends = Arc::new(RecentEnds::default());
    let _wanted = ends.want(thread(1));
    keep(&ends, 1);
    assert_eq!(ends.take(thread(1)).map(|rest| rest.last_position), Some(Position(1)));
    assert!(!has(&ends, 1));
}

#[test]
fn end_is_held_only_while_it_is_wanted() {
    let ends = Arc::new(RecentEnds::default());
    keep(&ends, 1);
    assert!(!has(&ends, 1));
    let (first, second) = (ends.want(thread(1)), ends.want(thread(1)));
    keep(&ends, 1);
    drop(first);
    assert_eq!(ends.0.lock().n_held, 1);
    drop(second);
    let ends = ends.0.lock();
    assert!(ends.n_held == 0 && ends.wanted.is_empty());
}

#[test]
fn end_is_dropped_when_the_thread_goes_on() {
    let ends = Arc::new(RecentEnds::default());
    let _wanted = ends.want(thread(1));
    keep(&ends, 1);
    ends.starts(thread(1));
    assert!(!has(&ends, 1));
    keep(&ends, 1);
    assert!(has(&ends, 1));
}

#[test]
fn end_is_dropped_when_threads_are_deleted() {
    let ends = Arc::new(RecentEnds::default());
    let _wanted = ends.want(thread(1));
    keep(&ends, 1);
    ends.deleted();
    assert!(!has(&ends, 1));
    assert_eq!(ends.0.lock().n_held, 0);
}

#[test]
fn end_is_not_held_if_a_thread_was_deleted_in_the_life_of_its_actor() {
    let ends = Arc::new(RecentEnds::default());
    let _wanted = ends.want(thread(1));
    let since = ends.starts(thread(1));
    ends.deleted();
    ends.keep(thread(1), 0, since, rest(1));
    assert!(!has(&ends, 1));
    keep(&ends, 1);
    assert!(has(&ends, 1));
}

#[test]
fn large_ends_and_too_many_are_not_held() {
    let ends = Arc::new(RecentEnds::default());
    let _wanted: Vec<_> = (0..=ENDS_MAX).map(|n| ends.want(thread(n))).collect();
    ends.keep(thread(0), BYTES_MAX + 1, Deletions::default(), rest(0));
    assert!(!has(&ends, 0));
    (0..=ENDS_MAX).for_each(|n| keep(&ends, n));
    assert!(has(&ends, 0) && !has(&ends, ENDS_MAX));
}
