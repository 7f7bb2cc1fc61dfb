//! Which inputs are kept, and which are dropped first.

use rethread_events::event::{LlmExecutionProgress, ToolExecutionCompleted, ToolExecutionProgress};
use rethread_events::ids::CallId;
use rethread_events::message::Part;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::permit_waits::{PermitWaits, RunningCall, WaitPlace};

const CALL: CallId = CallId(Seq(7));
const LATER: CallId = CallId(Seq(9));

fn answer(call: CallId, text: &str) -> WorkReport {
    let content = vec![Part::text(text)];
    let answer = ToolExecutionCompleted {
        node_id: None,
        call_id: call,
        tool_call_id: None,
        content,
        value: None,
        duration_ms: 0,
        full_output: None,
    };
    WorkReport { input: Input::reported(1, answer), place: None }
}

fn progress(call: CallId) -> WorkReport {
    let message = "half of it".into();
    let progress = ToolExecutionProgress { node_id: None, call_id: call, attempt: 1, message };
    WorkReport { input: Input::reported(1, progress), place: None }
}

fn piece(call: CallId) -> WorkReport {
    let (text, reasoning) = ("and so on".into(), String::new());
    let (call_id, attempt, index, restarted) = (call, 1, 0, false);
    let piece = LlmExecutionProgress { node_id: None, call_id, attempt, index, text, reasoning, restarted };
    WorkReport { input: Input::reported(attempt, piece), place: None }
}

/// Two calls that are running, and the tokens that call them off.
fn running() -> (RunningCalls, [CancellationToken; 2]) {
    let tokens = [CancellationToken::new(), CancellationToken::new()];
    let place = || WaitPlace {
        among: Arc::default(),
        attempt: (rethread_events::ids::ThreadId::new(1, [0; 10]), CALL, 1),
        is_tool: false,
    };
    let running = |token: &CancellationToken| RunningCall {
        _cancel: token.clone().drop_guard(),
        waits: PermitWaits::new(place(), Arc::new(())),
    };
    let calls = [CALL, LATER].into_iter().zip(&tokens).map(|(call, token)| ((call, 1), running(token)));
    (RunningCalls(calls.collect()), tokens)
}

#[test]
fn call_that_is_not_in_the_log_is_cancelled() {
    let (running, [call, later]) = running();
    let kept = RetainedWork::before(Seq(9), running, Asking::new());
    assert!(kept.known().contains(&(CALL, 1)) && !call.is_cancelled());
    assert!(!kept.known().contains(&(LATER, 1)) && later.is_cancelled());
    assert!(answer(CALL, "").is_before(Seq(9)) && !answer(LATER, "").is_before(Seq(9)));
}

#[test]
fn room_is_given_back() {
    let room = MemoryBudget::new(2_000);
    let mut kept = RetainedWork::default();
    kept.keep(answer(CALL, "x"), None, &room);
    assert!(kept.known().contains(&(CALL, 1)));
    kept.keep(answer(LATER, &"x".repeat(2_000)), None, &room);
    assert!(!kept.known().contains(&(LATER, 1)), "there is no room for that");
    drop(kept);
    assert!(room.place(2_000).is_some());
}

#[test]
fn sender_that_waited_retains_its_place() {
    let room = MemoryBudget::new(1_000);
    let mut kept = RetainedWork::default();
    kept.keep(answer(CALL, "x"), None, &room);
    let Tell { input, place, .. } = kept.waiting.pop_front().unwrap();
    let mut other = RetainedWork::default();
    other.keep(answer(LATER, "x"), None, &room);
    assert!(!other.known().contains(&(LATER, 1)), "the place is taken still");
    kept.keep(WorkReport { input, place }, None, &room);
    assert!(kept.known().contains(&(CALL, 1)));
}

#[test]
fn progress_is_forgotten_before_a_call_is_given_up() {
    let (running, [call, later]) = running();
    let mut kept = RetainedWork::before(Seq(10), running, Asking::new());
    let none = MemoryBudget::new(0);
    kept.keep(progress(CALL), None, &none);
    assert!(kept.waiting.is_empty() && !call.is_cancelled());
    kept.keep(piece(LATER), None, &none);
    assert!(later.is_cancelled(), "an answer with a hole is none");
}

#[test]
fn progress_leaves_room_for_the_answer() {
    let room = MemoryBudget::new(usize::MAX);
    let mut kept = RetainedWork::default();
    for _ in 0..10_000 {
        kept.keep(progress(CALL), None, &room);
    }
    assert_eq!(kept.waiting.len(), ASIDES_MAX);
    kept.keep(answer(CALL, "x"), None, &room);
    assert!(kept.known().contains(&(CALL, 1)));
    for _ in 0..10_000 {
        kept.keep(piece(LATER), None, &room);
    }
    assert!(kept.waiting.len() <= INPUTS_MAX);
}

#[test]
fn lack_of_room_is_reported_only_to_outside_callers() {
    let room = MemoryBudget::new(1_000);
    let mut kept = RetainedWork::default();
    kept.keep(answer(CALL, "x"), None, &room);
    let (reply, _answer) = crate::port::Reply::channel(None);
    kept.waiting.push_back(Tell::asked(Input::Resume, reply));
    assert_eq!(kept.take_asking().len(), 1);
    assert!(kept.known().contains(&(CALL, 1)) && kept.waiting.len() == 1);
}
