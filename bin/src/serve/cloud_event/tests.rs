use rethread::store::{Kind, Record};
use rethread::{Event, Hash, Position, RecordedEvent, Seq, ThreadId, Time};
use rethread_events::ids::TraceId;

use super::*;

/// An event whose text is awkward in every form.
pub(in crate::serve) fn event(cause: Option<Position>) -> RecordedEvent {
    let thread = ThreadId::new(1_700_000_000_000, [7; 10]);
    let data = serde_json::json!({ "reason": "line\nbreak \u{2028} <b>" });
    let event = Event::from_data("THREAD_PAUSED", data).unwrap();
    let kind = event.event_type();
    let record = Record {
        position: Position(7),
        thread,
        seq: Seq(3),
        kind: Kind(kind.code),
        version: kind.version,
        recorded_at: "2026-01-31T12:00:00Z".parse::<Time>().unwrap(),
        trace: TraceId::from(thread),
        cause,
        run: None,
        hash: Hash::ZERO,
        payload: event.encode().unwrap().into(),
    };
    RecordedEvent { record, event }
}

#[test]
fn attributes_match_the_cloudevents_specification() {
    for cause in [None, Some(Position(2))] {
        let cloud_event = serde_json::to_value(CloudEvent(&event(cause))).unwrap();
        for (name, value) in cloud_event.as_object().unwrap() {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{name}");
            assert!(name == "data" || value.as_str().is_some_and(|text| !text.is_empty()), "{name}: {value}");
        }
        assert_eq!(cloud_event.get("cause").is_some(), cause.is_some());
    }
}
