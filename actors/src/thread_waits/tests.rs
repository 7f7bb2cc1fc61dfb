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
