use std::sync::mpsc::channel;

use super::*;
use crate::testing::{append, thread};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);

fn queue(patience: Duration) -> Arc<Queue> {
    Arc::new(Queue::new(1 << 20, patience))
}

/// The answer is dropped: nobody is told.
fn push(queue: &Queue, number: u64, is_awaited: bool) {
    drop(queue.append(Append { is_awaited, ..append(thread(number), 0, &["text"]) }));
}

/// Takes once, on another thread.
fn take(queue: &Arc<Queue>, is_busy: bool) -> std::sync::mpsc::Receiver<usize> {
    let (sender, receiver) = channel();
    let queue = Arc::clone(queue);
    std::thread::spawn(move || {
        let mut taken = VecDeque::new();
        queue.take(&mut taken, usize::MAX, is_busy, LONG);
        sender.send(taken.len())
    });
    receiver
}

#[test]
fn appends_that_nobody_waits_for_are_taken_with_the_next_one_that_is_awaited() {
    let queue = queue(LONG);
    let taken = take(&queue, false);
    push(&queue, 1, false);
    push(&queue, 2, false);
    push(&queue, 3, true);
    assert_eq!(taken.recv(), Ok(3));
}

#[test]
fn hurry_has_what_is_there_taken() {
    let queue = queue(LONG);
    let taken = take(&queue, false);
    push(&queue, 1, false);
    push(&queue, 2, false);
    queue.hurry();
    assert_eq!(taken.recv(), Ok(2));
    // Nothing is there: the next one is kept again.
    queue.hurry();
    let taken = take(&queue, false);
    push(&queue, 3, false);
    push(&queue, 4, true);
    assert_eq!(taken.recv(), Ok(2));
}

#[test]
fn an_append_that_nobody_waits_for_is_taken_after_its_time() {
    let queue = queue(Duration::from_millis(1));
    push(&queue, 1, false);
    assert_eq!(take(&queue, false).recv(), Ok(1));
    // One that comes when the writer has waited for nothing for longer than that wakes it.
    let taken = take(&queue, false);
    std::thread::sleep(Duration::from_millis(20));
    push(&queue, 2, false);
    assert_eq!(taken.recv(), Ok(1));
}

#[test]
fn enough_appends_are_taken_though_nobody_waits_for_them() {
    let queue = queue(LONG);
    let taken = take(&queue, false);
    (0..ENOUGH as u64).for_each(|number| push(&queue, number, false));
    assert_eq!(taken.recv(), Ok(ENOUGH));
}

#[test]
fn a_busy_writer_takes_enough_or_what_is_there_when_it_is_woken() {
    let queue = queue(Duration::ZERO);
    let taken = take(&queue, true);
    push(&queue, 1, true);
    push(&queue, 2, true);
    queue.wake_writer();
    assert_eq!(taken.recv(), Ok(2));
}

#[test]
fn a_closed_queue_gives_what_is_there() {
    let queue = queue(LONG);
    push(&queue, 1, false);
    let taken = take(&queue, false);
    queue.close();
    assert_eq!(taken.recv(), Ok(1));
}
