use rethread::store::{Kind, Record};
use rethread::{Event, Hash, Seq, ThreadId, Time};
use rethread_events::ids::TraceId;

use super::*;

/// An event whose text is awkward in every form.
fn event_caused_by(cause: Option<Position>) -> RecordedEvent {
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

fn event() -> RecordedEvent {
    event_caused_by(Some(Position(5)))
}

fn text(events: &[RecordedEvent], form: Form) -> String {
    let pieces = form.pieces(events);
    pieces.iter().map(|piece| std::str::from_utf8(&piece.text).unwrap()).collect()
}

#[test]
fn sse_block_has_position_name_and_one_line_of_data() {
    let block = text(&[event()], Form::Sse);
    let lines: Vec<_> = block.lines().collect();
    assert_eq!(lines.len(), 4, "{block}");
    assert_eq!((lines[0], lines[1], lines[3]), ("id: 7", "event: THREAD_PAUSED", ""));
    let data: serde_json::Value = serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(data, serde_json::to_value(CloudEvent::new(&event())).unwrap());
    assert_eq!(data["data"]["reason"], "line\nbreak \u{2028} <b>");
    assert!(!block.contains('\r') && block.ends_with("\n\n"));
}

#[test]
fn json_line_has_the_documented_form() {
    let line = text(&[event()], Form::Lines);
    assert_eq!(line, format!("{}\n", event().to_json()));
    let expected = r#"{"position":7,"thread_id":"018bcfe5-6800-7707-8707-070707070707","seq":3,"run_id":null,"id":"#;
    assert!(line.starts_with(expected), "{line}");
    assert_eq!(RecordedEvent::from_json(&serde_json::from_str(&line).unwrap()).unwrap(), event().record);
}

#[test]
fn many_events_are_split_between_two_events() {
    let events: Vec<_> = (0..1_000)
        .map(|n| {
            let mut event = event();
            event.record.position = Position(n);
            event
        })
        .collect();
    let pieces = Form::Lines.pieces(&events);
    assert!(pieces.len() > 2);
    let mut next = 0;
    for piece in &pieces {
        assert!(piece.text.ends_with(b"\n"));
        next += piece.text.iter().filter(|byte| **byte == b'\n').count() as u64;
        assert_eq!(piece.last, Position(next - 1));
    }
    assert_eq!(next, 1_000);
    assert!(Form::Sse.pieces(&[]).is_empty());
}

#[test]
fn attributes_match_the_cloudevents_specification() {
    for cause in [None, Some(Position(2))] {
        let cloud_event = serde_json::to_value(CloudEvent::new(&event_caused_by(cause))).unwrap();
        for (name, value) in cloud_event.as_object().unwrap() {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{name}");
            assert!(name == "data" || value.as_str().is_some_and(|text| !text.is_empty()), "{name}: {value}");
        }
        assert_eq!(cloud_event.get("cause").is_some(), cause.is_some());
    }
}
