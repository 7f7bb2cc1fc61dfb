use futures_util::FutureExt;

use super::*;

fn thread() -> ThreadId {
    ThreadId::from_bytes([1; 16])
}

fn rest() -> Rest {
    Rest { state: State::new(thread()), last_position: Position(7) }
}

#[test]
fn cancelled_wait_leaves_no_waiter() {
    let waiters = Waiters::default();
    let stays = waiters.wait(thread(), Until::Ended).unwrap();
    for _ in 0..100 {
        drop(waiters.wait(thread(), Until::AtRest).unwrap());
    }
    assert_eq!(waiters.waiters.lock().get(&thread()).unwrap().len(), 1);
    drop(stays);
    assert!(waiters.waiters.lock().is_empty());
}

#[test]
fn end_notifies_all_waiters_and_rest_only_its_own() {
    let waiters = Waiters::default();
    let (end, at_rest) =
        (waiters.wait(thread(), Until::Ended).unwrap(), waiters.wait(thread(), Until::AtRest).unwrap());
    waiters.at_rest(thread(), rest, false);
    assert!(at_rest.rest().now_or_never().flatten().is_some());
    assert_eq!(waiters.waiters.lock().get(&thread()).unwrap().len(), 1);
    waiters.at_rest(thread(), rest, true);
    assert!(end.rest().now_or_never().flatten().is_some());
    assert!(waiters.waiters.lock().is_empty());
}

#[test]
fn when_the_actor_leaves_those_who_ask_for_a_rest_look_again() {
    let waiters = Waiters::default();
    let (end, at_rest) =
        (waiters.wait(thread(), Until::Ended).unwrap(), waiters.wait(thread(), Until::AtRest).unwrap());
    waiters.left(thread(), false);
    assert_eq!(at_rest.rest().now_or_never().map(|rest| rest.is_none()), Some(true));
    waiters.left(thread(), true);
    assert_eq!(end.rest().now_or_never().map(|rest| rest.is_none()), Some(true));
}

#[test]
fn nobody_waits_after_the_end_of_the_shutdown() {
    let waiters = Waiters::default();
    let before = waiters.wait(thread(), Until::Ended).unwrap();
    waiters.close();
    assert!(matches!(before.rest().now_or_never(), Some(Some(Err(ReadError::Runtime(RuntimeError::ShuttingDown))))));
    assert!(matches!(waiters.wait(thread(), Until::Ended).map(drop), Err(RuntimeError::ShuttingDown)));
}
