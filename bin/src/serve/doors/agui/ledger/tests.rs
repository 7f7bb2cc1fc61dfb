use rethread::ThreadId;

use super::*;

const CHILD: ThreadId = ThreadId::from_bytes([7; 16]);

fn sent(event: Event, of: Option<ThreadId>) -> Sent {
    Sent { subagent_run_id: of, ..event.into() }
}

fn step(name: &str, of: Option<ThreadId>) -> Sent {
    sent(Event::StepStarted { step_name: name.into() }, of)
}

#[test]
fn everything_that_is_open_is_closed_once_the_newest_first() {
    let mut ledger = Ledger::default();
    for event in [
        step("outer", None),
        step("inner", None),
        sent(Event::StepFinished { step_name: "inner".into() }, None),
        sent(Event::TextMessageStart { message_id: "m".into(), role: "assistant" }, None),
        sent(
            Event::ToolCallStart { tool_call_id: "c".into(), tool_call_name: "t".into(), parent_message_id: None },
            None,
        ),
        sent(Event::ReasoningStart { message_id: "r".into() }, None),
        sent(Event::ReasoningMessageStart { message_id: "r".into(), role: "reasoning" }, None),
    ] {
        ledger.note(&event);
    }
    let closed: Vec<_> = ledger.close().into_iter().map(|sent| sent.event).collect();
    assert_eq!(
        closed,
        [
            Event::ReasoningMessageEnd { message_id: "r".into() },
            Event::ReasoningEnd { message_id: "r".into() },
            Event::ToolCallEnd { tool_call_id: "c".into() },
            Event::TextMessageEnd { message_id: "m".into() },
            Event::StepFinished { step_name: "outer".into() },
        ]
    );
    assert!(ledger.close().is_empty());
}

#[test]
fn what_belongs_to_a_subagent_is_closed_before_it_and_suspends_it() {
    let mut ledger = Ledger::default();
    let started = Event::SubagentStarted {
        name: "a".into(),
        description: None,
        parent_subagent_run_id: None,
        parent_tool_call_id: None,
    };
    for event in [step("node", None), sent(started, Some(CHILD)), step("node", Some(CHILD))] {
        ledger.note(&event);
    }
    assert!(ledger.has_subagent(CHILD));
    let closed = ledger.close();
    let suspended = Event::SubagentFinished { result: None, outcome: SubagentOutcome::Suspended };
    let finished = || Event::StepFinished { step_name: "node".into() };
    assert_eq!(closed, [sent(finished(), Some(CHILD)), sent(suspended, Some(CHILD)), sent(finished(), None)]);
    assert!(!ledger.has_subagent(CHILD));
}

#[test]
fn what_a_subagent_has_open_is_closed_without_the_rest() {
    let mut ledger = Ledger::default();
    for event in [step("node", None), step("node", Some(CHILD))] {
        ledger.note(&event);
    }
    let finished = |of| sent(Event::StepFinished { step_name: "node".into() }, of);
    assert_eq!(ledger.close_of(CHILD), [finished(Some(CHILD))]);
    assert_eq!(ledger.close(), [finished(None)]);
}
