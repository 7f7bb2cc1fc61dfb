//! Answers that are late, repeated, or for no open call.

use super::*;
use crate::event::{LlmExecutionProgress, LlmTryFailed};

#[test]
fn a_repeated_answer_of_a_model_changes_nothing() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let (call, attempt) = bench.open();
    bench.asks(&["read"]);
    let answer = bench::answer(call, "again", &["send"], FinishReason::ToolCalls);
    bench.give(Input::reported(attempt, answer));
    bench.give(bench::model_failed(call, attempt, ExecutionError::new(ErrorKind::Server, "late")));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 WARNING call=3 "late_answer"
          7 WARNING call=3 "late_answer"
        => running, waits for the world until +12000
    "#]]);
}

#[test]
fn a_repeated_tool_result_changes_nothing() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read", "put"]);
    let (call, _) = bench.open();
    bench.tool_says("42");
    bench.tool_answers(call, "43");
    bench.give(bench::tool_failed(call, 1, true, ExecutionError::new(ErrorKind::Failed, "x")));
    bench.tool_says("44");
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=put
          7 TOOL_EXECUTION_COMPLETED call=5
          8 WARNING call=5 "late_answer"
          9 WARNING call=5 "late_answer"
         10 TOOL_EXECUTION_COMPLETED call=6
         11 LLM_CALL_REQUESTED 2
            user: hello
            assistant: read(c3_0) put(c3_1)
            tool: c3_0: 42
            tool: c3_1: 44
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_result_after_the_end_changes_nothing() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    let (call, _) = bench.open();
    bench.give(Input::Cancel { reason: None });
    bench.tool_answers(call, "42");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_FAILED call=5 cancelled
          7 LLM_EXECUTION_FAILED node=ask cancelled
          8 NODE_FAILED node=ask attempt=1 cancelled
          9 THREAD_CANCELLED
         10 WARNING call=5 "late_answer"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn an_answer_to_a_call_that_never_was_changes_nothing() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.tool_answers(CallId(Seq(1_000)), "42");
    bench.tool_answers(CallId(Seq(0)), "42");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 WARNING call=1000 "unknown_call"
          5 WARNING call=0 "late_answer"
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn an_answer_of_the_wrong_kind_changes_nothing() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let (model, attempt) = bench.open();
    bench.tool_answers(model, "I am no model");
    bench.give(bench::tool_progress(model, attempt, "no"));
    bench.asks(&["read"]);
    let (tool, attempt) = bench.open();
    let answer = bench::answer(tool, "I am no tool", &[], FinishReason::Stop);
    bench.give(Input::reported(attempt, answer));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 WARNING call=3 "unknown_call"
          5 LLM_CALL_COMPLETED call=3
          6 TOOL_EXECUTION_REQUEST name=read
          7 WARNING call=6 "unknown_call"
        => running, waits for the world until +12000
    "#]]);

    let mut bench = Bench::new(interaction::APPROVAL, "hello");
    let (question, attempt) = bench.open();
    bench.tool_answers(question, "I am no person");
    let error = ExecutionError::new(ErrorKind::Failed, "nor I");
    bench.give(bench::model_failed(question, attempt, error));
    bench.give(Input::Respond { interaction: CallId(Seq(1)), data: Json::null() });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=approve attempt=1
          2 USER_INTERACTION_REQUESTED node=approve
          3 WARNING call=2 "unknown_call"
          4 WARNING call=2 "unknown_call"
            refused: the thread has no interaction 1
        => waiting, waits for a person until +60000
    "#]]);
}

#[test]
fn abandoned_attempt_is_ignored() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    let (call, attempt) = bench.open();
    bench.tick_after_ms(12_000);
    let content = vec![Part::text("late")];
    bench.give(bench::tool_answered(call, attempt, content, None));
    bench.tool_says("in time");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
            12000 ms later
          6 TOOL_CALL_RETRIED attempt=2 call=5 timeout not_before=+12050
          7 WARNING call=5 "stale_attempt"
          8 TOOL_EXECUTION_COMPLETED call=5
          9 LLM_CALL_REQUESTED 2
        => running, waits for the world until +132000
    "#]]);
}

#[test]
fn progress_is_recorded_while_its_call_is_open_and_not_after() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let (call, attempt) = bench.open();
    let (node_id, call_id, restarted) = (None, call, false);
    let piece = |index| {
        let (text, reasoning) = ("h".into(), String::new());
        let piece = LlmExecutionProgress { node_id: None, call_id, attempt, index, text, reasoning, restarted };
        Input::reported(attempt, piece)
    };
    bench.give(piece(0));
    let error = ExecutionError::retryable(ErrorKind::RateLimit, "slow down");
    bench.give(Input::reported(
        attempt,
        LlmTryFailed {
            node_id,
            call_id,
            try_number: 1,
            error,
            wait_ms: 10,
            model: None,
            fallback_from: None,
            used: None,
        },
    ));
    bench.asks(&["read"]);
    bench.give(piece(1));
    let (tool, attempt) = bench.open();
    bench.give(bench::tool_progress(tool, attempt, "half"));
    bench.give(bench::tool_progress(tool, 2, "of another attempt"));
    bench.tool_says("42");
    bench.give(bench::tool_progress(tool, attempt, "late"));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_EXECUTION_PROGRESS attempt=1 call=3
          5 LLM_TRY_FAILED call=3 rate_limit
          6 LLM_CALL_COMPLETED call=3
          7 TOOL_EXECUTION_REQUEST name=read
          8 TOOL_EXECUTION_PROGRESS attempt=1 call=7 "half"
          9 TOOL_EXECUTION_COMPLETED call=7
         10 LLM_CALL_REQUESTED 2
        => running, waits for the world until +120000
    "#]]);
}
