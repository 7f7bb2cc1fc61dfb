use rethread_events::event::Event;
use rethread_events::ids::{Hash, Position, Time};
use rethread_events::thread::State;

use super::*;

fn thread(n: u8) -> ThreadId {
    ThreadId::from_bytes([n; 16])
}

/// A state after this many events; their content does not matter here.
fn state(of: u8, n: u64) -> Loaded {
    let mut state = State::new(thread(of));
    let warning = serde_json::json!({ "code": "late_answer", "call_id": null, "detail": "late" });
    let started = serde_json::json!({
        "workflow": { "name": "w", "hash": Hash::ZERO }, "input": "", "variables": {}, "entry": "a", "deadline": null,
        "max_iterations": 5, "workspace": null, "budget": null, "on_limit": "fail",
        "labels": {}, "messages": [],
    });
    state.apply(Time::from_unix_us(0), &Event::from_data("THREAD_STARTED", started).unwrap()).unwrap();
    for _ in 1..n {
        state.apply(Time::from_unix_us(0), &Event::from_data("WARNING", warning.clone()).unwrap()).unwrap();
    }
    Loaded { state, last_position: Position(n), ..Loaded::empty(thread(of)) }
}

#[test]
fn latest_state_not_after_a_moment_is_found() {
    let kept = KeptStates::default();
    for n in [2, 4, 8] {
        kept.keep(thread(1), &state(1, n));
    }
    kept.keep(thread(2), &state(2, 3));
    let found = |seq| kept.before(thread(1), Seq(seq)).map(|loaded| loaded.state.next_seq().0);
    assert_eq!(
        (found(0), found(1), found(2), found(5), found(7), found(99)),
        (None, Some(2), Some(2), Some(4), Some(8), Some(8))
    );
    assert!(kept.before(thread(3), Seq(9)).is_none());
}

#[test]
fn least_recently_used_states_are_dropped_first() {
    let kept = KeptStates::default();
    kept.keep(thread(1), &state(1, 1));
    kept.keep(thread(1), &state(1, 2));
    for n in 0..STATES_MAX as u64 - 2 {
        kept.keep(thread(2), &state(2, n + 1));
        kept.keep(thread(2), &state(2, n + 1));
    }
    assert!(kept.before(thread(1), Seq(0)).is_some());
    kept.keep(thread(3), &state(3, 1));
    assert!(kept.before(thread(1), Seq(0)).is_some(), "it was used");
    assert_eq!(kept.before(thread(1), Seq(5)).map(|loaded| loaded.state.next_seq()), Some(Seq(1)), "the other went");
    assert_eq!(kept.states.lock().len(), STATES_MAX);
}

#[test]
fn cached_states_have_a_limit_of_bytes() {
    let kept = KeptStates::default();
    let large = |of, bytes| kept.keep(thread(of), &Loaded { bytes, ..state(of, 1) });
    let is_kept = |of| kept.before(thread(of), Seq(9)).is_some();
    let taken = || kept.states.lock().iter().map(|(_, known)| takes(known)).sum::<usize>();
    (1..=40).for_each(|of| large(of, BYTES_MAX / 20 + 1));
    assert!((BYTES_MAX * 9 / 10..=BYTES_MAX).contains(&taken()), "{}", taken());
    assert!(!is_kept(21) && is_kept(22) && is_kept(40));
    large(41, BYTES_MAX / 2);
    assert!((BYTES_MAX * 9 / 10..=BYTES_MAX).contains(&taken()), "{}", taken());
    assert!(is_kept(22) && is_kept(40) && is_kept(41), "the last used are left");
    large(42, BYTES_MAX + 1);
    assert!(!is_kept(42) && is_kept(41), "it would be too much alone");
}

#[test]
fn states_are_kept_at_multiples_of_5000_events() {
    let kept = |next| KeptStates::is_kept_at(Seq(next));
    assert_eq!((kept(0), kept(EVERY - 1), kept(EVERY), kept(2 * EVERY)), (false, false, true, true));
}
