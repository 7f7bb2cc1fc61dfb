//! What is limited, and what a fold refuses.

use super::*;
use crate::event::*;

pub(super) fn nested(levels: usize) -> serde_json::Value {
    (0..levels).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]))
}

#[test]
fn step_ends_at_its_event_limit_and_the_next_continues() {
    let n = 2_000;
    let nodes: String = (0..n).map(|i| format!("  - {{id: n{i}, start: {{}}}}\n")).collect();
    let yaml = format!("version: '1'\nname: long\nnodes:\n{nodes}");
    let mut bench = Bench::new(&yaml, "hello");
    assert_eq!(bench.log.len(), STEP_EVENTS_MAX);
    assert_eq!(bench.thread.waits_for(&bench.around()), Wait::Itself);
    let mut n_steps = 1;
    while bench.thread.waits_for(&bench.around()) == Wait::Itself {
        bench.give(Input::Tick);
        n_steps += 1;
    }
    assert_eq!(n_steps, 5);
    assert_eq!(bench.state().status(), Status::Completed);
    assert_eq!(bench.log.len(), 2 + 2 * n);
    laws::hold(&bench);
}

#[test]
fn an_event_that_cannot_follow_is_refused_and_changes_nothing() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read", "send"]);
    let error = ExecutionError::new(ErrorKind::Failed, "x");
    let started = Thread::started(bench.thread.workflow(), Start::new(Json::null()), bench.now).unwrap();
    let node = |id: &str| crate::ids::NodeId::from(id);
    let call = CallId(Seq(5));
    let wrong: Vec<Event> = vec![
        started.into(),
        ThreadForked {
            parent: bench.state().thread(),
            seq: Seq(2),
            changes: ForkChanges::default(),
            branch: None,
            branches: Vec::new(),
            globals: OrderedMap::default(),
            by: None,
        }
        .into(),
        ThreadResumed { by: None }.into(),
        ThreadCompleted { node_id: node("ask"), run_follows: false }.into(),
        ThreadCancelled::default().into(),
        ThreadFailed { node_id: None, error: error.clone(), run_follows: false }.into(),
        NodeStarted { node_id: node("ask"), attempt: 2, deadline: None }.into(),
        NodeCompleted { node_id: node("ask"), duration_ms: 0 }.into(),
        NodeFailed { node_id: node("ask"), attempt: 1, error: error.clone(), retry_at: None }.into(),
        NodeFailed { node_id: node("other"), attempt: 1, error: error.clone(), retry_at: None }.into(),
        RouteTaken { from: node("ask"), to: node("ask"), condition: None, error: None }.into(),
        LlmCallRequested { node_id: None, iteration: 2, aside: None, model_profile: None }.into(),
        LlmCallRetried { node_id: None, call_id: CallId(Seq(3)), attempt: 2, model_profile: None }.into(),
        LlmCallFailed::new(CallId(Seq(3)), error.clone()).into(),
        LlmExecutionFailed { node_id: node("ask"), error: error.clone() }.into(),
        ToolCallRetried { node_id: None, call_id: call, attempt: 3, not_before: bench.now, error: None }.into(),
        ToolCallRetried { node_id: None, call_id: CallId(Seq(4)), attempt: 2, not_before: bench.now, error: None }
            .into(),
        ToolExecutionFailed {
            node_id: None,
            call_id: CallId(Seq(3)),
            tool_call_id: None,
            error,
            duration_ms: 0,
            not_started: false,
        }
        .into(),
        UserInteractionResponded { node_id: None, interaction_id: call, input_data: Json::null(), by: None }.into(),
        LoopEnded { node_id: node("ask"), n_iterations: 1, error: None }.into(),
    ];
    for event in wrong {
        let mut state = bench.state().clone();
        let refused = state.apply(bench.now, &event).unwrap_err();
        assert_eq!(&state, bench.state(), "{refused}");
        bench.note(refused.to_string().split_once(": ").unwrap().1);
    }
    let mut new = State::new(bench.state().thread());
    for event in [
        Event::from(ThreadPaused { reason: None, by: None }),
        ThreadCancelled::default().into(),
        CheckpointCreated { label: "x".into(), by: None }.into(),
        Warning { code: WarningCode::LateAnswer, call_id: None, detail: String::new() }.into(),
    ] {
        bench.note(new.apply(bench.now, &event).unwrap_err());
    }
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=send
            THREAD_STARTED does not fit: the thread has begun already
            THREAD_FORKED does not fit: it does not follow the last event that it inherits
            THREAD_RESUMED does not fit: the thread is not paused
            THREAD_COMPLETED does not fit: the thread does not leave that node
            THREAD_CANCELLED does not fit: a call is still open
            THREAD_FAILED does not fit: a call is still open
            NODE_STARTED does not fit: no such try of a node is due
            NODE_COMPLETED does not fit: the node has not done its work
            NODE_FAILED does not fit: a call is still open
            NODE_FAILED does not fit: the thread is not in that node
            ROUTE_TAKEN does not fit: the thread does not leave that node
            LLM_CALL_REQUESTED does not fit: no model call is due
            LLM_CALL_RETRIED does not fit: no such model call is open
            LLM_CALL_FAILED does not fit: no such model call is open
            LLM_EXECUTION_FAILED does not fit: a call is still open
            TOOL_CALL_RETRIED does not fit: it is not the next attempt of the call
            TOOL_CALL_RETRIED does not fit: no such call is open
            TOOL_EXECUTION_FAILED does not fit: no such call is open
            USER_INTERACTION_RESPONDED does not fit: no such question is open
            LOOP_ENDED does not fit: no such loop is open
            thread 07070707-0707-0707-0707-070707070707, seq 0: THREAD_PAUSED does not fit: the thread has not begun
            thread 07070707-0707-0707-0707-070707070707, seq 0: THREAD_CANCELLED does not fit: the thread has not begun
            thread 07070707-0707-0707-0707-070707070707, seq 0: CHECKPOINT_CREATED does not fit: the thread has not begun
            thread 07070707-0707-0707-0707-070707070707, seq 0: WARNING does not fit: the thread has not begun
        => running, waits for the world until +12000
    "#]]);
}

#[test]
fn the_output_of_a_tool_that_is_nested_too_deep_is_a_failure() {
    let mut bench = Bench::new(tool_node::PUT, "me");
    let (call, attempt) = bench.open();
    let value = Some(nested(101).into());
    bench.give(bench::tool_answered(call, attempt, Vec::new(), value));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=write attempt=1
          2 TOOL_EXECUTION_REQUEST name=put
          3 TOOL_EXECUTION_FAILED call=2 malformed_response
          4 NODE_FAILED node=write attempt=1 malformed_response
          5 THREAD_FAILED node=write malformed_response
        => error, waits for nothing
    "#]]);
}
