use super::*;

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
