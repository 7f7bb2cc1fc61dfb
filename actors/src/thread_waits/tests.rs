use super::*;

fn waits(waits: &ThreadWaits, in_log: bool) -> bool {
    waits.may_have(|| Ok::<_, ()>(in_log)).unwrap()
}

#[test]
fn log_is_read_until_the_answer_is_known() {
    let none = ThreadWaits::default();
    assert_eq!(none.may_have(|| Err("busy")), Err("busy"));
    assert!(!waits(&none, false));
    // It is not read again.
    assert!(!waits(&none, true));
    none.begins();
    assert!(waits(&none, false));
    let some = ThreadWaits::default();
    assert!(waits(&some, true));
}

#[test]
fn wait_that_begins_while_the_log_is_read_is_not_missed() {
    let racing = ThreadWaits::default();
    let find = || {
        racing.begins();
        Ok::<_, ()>(false)
    };
    assert_eq!(racing.may_have(find), Ok(true));
}

#[test]
fn log_that_others_write_is_read_again_until_there_is_a_wait() {
    let shared = ThreadWaits::new(true);
    assert!(!waits(&shared, false));
    assert!(!shared.has_none());
    assert!(waits(&shared, true));
    // It may be over by now: then a look for those of the thread finds none.
    assert!(waits(&shared, false));
}

#[test]
fn threads_that_end_while_others_are_looked_up_are_taken_by_the_same_task() {
    let [a, b, c] = [1, 2, 3].map(|n| ThreadId::from_bytes([n; 16]));
    let waits = ThreadWaits::new(true);
    assert!(waits.ended(a), "a task starts");
    assert!(!waits.ended(b));
    assert_eq!(waits.take_ended(), Some(vec![a, b]));
    assert!(!waits.ended(c), "the task has not ended");
    assert_eq!(waits.take_ended(), Some(vec![c]));
    assert_eq!(waits.take_ended(), None);
    assert!(waits.ended(a), "that one has ended, and another one starts");
}
