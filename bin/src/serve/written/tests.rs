use super::*;
use crate::serve::cloud_event::tests;

fn event() -> RecordedEvent {
    tests::event(Some(Position(5)))
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
    assert_eq!(data, serde_json::to_value(CloudEvent(&event())).unwrap());
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
