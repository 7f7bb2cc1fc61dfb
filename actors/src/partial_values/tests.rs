#![allow(clippy::unwrap_used)]

use rethread_events::ids::Seq;
use serde_json::json;

use super::*;

const CALL: CallId = CallId(Seq(3));

fn asked(with_schema: bool) -> Event {
    let data = json!({
        "node_id": "sum", "prompt": "p", "system_prompt": null, "tool_mode": "none", "tools": [], "tool_catalog": null,
        "model": {"provider": "mock", "model": "m"}, "max_iterations": 1, "concurrent_tools_max": 1,
        "llm_timeout_ms": null, "approve_tools": [], "person_tools": [], "relay": false, "summary": null,
        "strategy": {"strategy": "react"}, "context": "shared", "agents": [], "handoffs": [],
        "guardrails": [], "client_tools": [], "joins": true,
        "output": with_schema.then(|| json!({"schema": {}, "max_repairs": 0})),
    });
    Event::from_data("LLM_EXECUTION_REQUEST", data).unwrap()
}

fn piece(attempt: u32, index: u64, text: &str) -> Event {
    let (node_id, text) = (Some("sum".into()), text.to_owned());
    LlmExecutionProgress { node_id, call_id: CALL, attempt, index, text, reasoning: String::new(), restarted: false }
        .into()
}

fn after(events: &[Event]) -> Vec<Option<Value>> {
    let mut values = PartialValues::default();
    events.iter().map(|event| values.push(event).map(|partial| partial.value)).collect()
}

#[test]
fn a_value_grows_with_the_pieces_of_its_text() {
    let pieces = ["Here: `", "``json\n{\"na", "me\": \"A", "da\", \"n\": [1", ", 2]}", "\n```", " Done."];
    let events: Vec<_> = pieces.iter().zip(0..).map(|(text, index)| piece(1, index, text)).collect();
    let values = after(&[vec![asked(true)], events].concat());
    let expected = [
        None,
        None,
        Some(json!({})),
        Some(json!({"name": "A"})),
        Some(json!({"name": "Ada", "n": [1]})),
        Some(json!({"name": "Ada", "n": [1, 2]})),
        Some(json!({"name": "Ada", "n": [1, 2]})),
        Some(json!({"name": "Ada", "n": [1, 2]})),
    ];
    assert_eq!(values, expected);
}

#[test]
fn another_attempt_begins_anew_and_pieces_of_the_earlier_one_are_void() {
    let events = [asked(true), piece(1, 0, "[1, 2,"), piece(2, 0, "[3,"), piece(1, 1, " 4]"), piece(2, 1, " 5]")];
    let last = after(&events).pop().unwrap();
    assert_eq!(last, Some(json!([3, 5])));
    let restarted = LlmExecutionProgress {
        node_id: Some("sum".into()),
        call_id: CALL,
        attempt: 1,
        index: 1,
        text: "[7]".into(),
        reasoning: String::new(),
        restarted: true,
    };
    assert_eq!(after(&[asked(true), piece(1, 0, "[1"), restarted.into()]).pop().unwrap(), Some(json!([7])));
}

#[test]
fn nothing_is_guessed_where_pieces_or_the_schema_are_missing() {
    let answer = || [piece(1, 0, "[1,"), piece(1, 1, " 2]")];
    assert_eq!(after(&answer()), [None, None], "the request was not given");
    assert_eq!(after(&[vec![asked(false)], answer().to_vec()].concat()), [None, None, None], "it has no schema");
    assert_eq!(after(&[asked(true), piece(1, 1, "[2]")]), [None, None], "its beginning was not given");
}

#[test]
fn a_long_answer_is_not_read_as_it_grows() {
    let half = format!("[\"{}", "x".repeat(ANSWER_BYTES_MAX - 2));
    let values = after(&[asked(true), piece(1, 0, &half), piece(1, 1, "x"), piece(1, 2, "\"]")]);
    assert!(values[1].is_some());
    assert_eq!(values[2..], [None, None]);
}
