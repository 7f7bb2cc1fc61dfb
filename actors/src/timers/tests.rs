use super::*;

const HOUR_MS: u64 = 3_600_000;

#[test]
fn a_long_wait_is_slept_in_parts() {
    let now = Time::from_unix_us(1_790_000_000_000_000);
    assert_eq!(until(now.plus_ms(10), now), Duration::from_millis(10));
    assert_eq!(until(now.plus_ms(HOUR_MS), now), SLEEP_MAX);
    assert_eq!(until(now, now.plus_ms(HOUR_MS)), Duration::ZERO);
}

/// What sleeps sees that its time has come within one such part, however far the clock was set forward meanwhile.
#[test]
fn a_clock_that_is_set_forward_is_noticed_at_the_next_look() {
    let began = Time::from_unix_us(1_790_000_000_000_000);
    let due = began.plus_ms(HOUR_MS);
    let slept = until(due, began);
    let now = began.plus_ms(slept.as_millis() as u64 + HOUR_MS);
    assert_eq!(until(due, now), Duration::ZERO);
    let timers = Timers::default();
    let thread = ThreadId::from_bytes([7; 16]);
    timers.set(thread, due);
    assert_eq!(timers.take_due(began), (vec![], Some(due)));
    assert_eq!(timers.take_due(now), (vec![thread], None));
}

#[test]
fn a_thread_is_woken_at_the_earliest_of_its_times_and_once() {
    let (timers, thread) = (Timers::default(), ThreadId::from_bytes([1; 16]));
    let at = Time::from_unix_us;
    timers.set(thread, at(20));
    timers.set(thread, at(30));
    assert_eq!(timers.take_due(at(10)), (vec![], Some(at(20))));
    timers.set(thread, at(15));
    assert_eq!(timers.take_due(at(40)), (vec![thread], None));
    timers.set(thread, at(50));
    timers.clear(thread);
    assert_eq!(timers.take_due(at(60)), (vec![], None));
}
