use futures::FutureExt as _;
use rethread::store::{Kind, Record};
use rethread::{Event, Hash, Seq};
use rethread_events::ids::{Time, TraceId};

use super::*;

fn thread(n: u8) -> ThreadId {
    ThreadId::from_bytes([n; 16])
}

fn event(position: u64, of: u8, bytes: usize) -> Result<RecordedEvent, RuntimeError> {
    let event = Event::from_data("THREAD_RESUMED", serde_json::json!({})).unwrap();
    let record = Record {
        position: Position(position),
        thread: thread(of),
        seq: Seq(position),
        kind: Kind(event.event_type().code),
        version: 1,
        recorded_at: Time::from_unix_us(0),
        trace: TraceId::from(thread(of)),
        cause: None,
        hash: Hash::ZERO,
        payload: vec![0; bytes].into(),
    };
    Ok(RecordedEvent { record, event })
}

fn positions(taken: &Taken) -> Vec<u64> {
    match taken {
        Taken::Entries(entries) => entries.iter().map(|entry| entry.position().0).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_taken_is_there_from_any_position_on() {
    let hub = Hub::beginning_at(Position(5));
    assert!(matches!(hub.from(Position(5)), Taken::NotYet));
    assert!(matches!(hub.from(Position(4)), Taken::Gone));
    assert!(hub.take(&mut (5..9).map(|n| event(n, (n % 2) as u8, 10)).collect()));
    assert_eq!(positions(&hub.from(Position(5))), [5, 6, 7, 8]);
    assert_eq!(positions(&hub.from(Position(8))), [8]);
    assert!(matches!(hub.from(Position(9)), Taken::NotYet));
    assert!(matches!(hub.from(Position(12)), Taken::NotYet));
    let (of_thread, next) = hub.of_thread_from(thread(1), Position(6));
    assert_eq!((positions(&of_thread), next), (vec![7], Position(9)));
    let (nothing, next) = hub.of_thread_from(thread(9), Position(5));
    assert!(matches!(nothing, Taken::NotYet) && next == Position(9));
}

#[test]
fn what_is_over_the_limits_is_dropped_from_the_front_and_known_to_be_gone() {
    let hub = Hub::beginning_at(Position(0));
    let half = BYTES_MAX / 2;
    hub.take(&mut vec![event(0, 1, half), event(1, 1, half), event(2, 1, half)]);
    assert_eq!(hub.first(), Position(1));
    assert!(matches!(hub.from(Position(0)), Taken::Gone));
    assert!(matches!(hub.of_thread_from(thread(1), Position(0)).0, Taken::Gone));
    assert_eq!(positions(&hub.from(Position(1))), [1, 2]);
    let n = EVENTS_MAX as u64;
    hub.take(&mut (3..3 + n).map(|n| event(n, 1, 0)).collect());
    assert_eq!(hub.first(), Position(3));
    assert_eq!(positions(&hub.from(Position(3))).len(), BATCH);
}

#[test]
fn only_who_wants_an_event_is_woken_and_one_who_left_is_forgotten() {
    let hub = Hub::beginning_at(Position(0));
    let (all, one, other) = (hub.listen(None), hub.listen(Some(thread(1))), hub.listen(Some(thread(2))));
    hub.take(&mut vec![event(0, 1, 0)]);
    assert!(all.woken().now_or_never().is_some());
    assert!(one.woken().now_or_never().is_some());
    assert!(other.woken().now_or_never().is_none());
    drop((all, one, other));
    let listeners = hub.listeners.read();
    assert!(listeners.of_all.is_empty() && listeners.of_thread.is_empty());
}

#[test]
fn a_log_that_cannot_be_read_is_told_behind_what_could() {
    let hub = Hub::beginning_at(Position(0));
    assert!(!hub.take(&mut vec![event(0, 1, 0), Err(RuntimeError::NoThread(thread(1)))]));
    assert_eq!(positions(&hub.from(Position(0))), [0]);
    assert!(matches!(hub.from(Position(1)), Taken::Failed(RuntimeError::NoThread(_))));
}
