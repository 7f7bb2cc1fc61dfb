//! A person answers for the model.

use serde_json::json;

use super::*;
use crate::ids::ProfileId;

const HUMAN: &str = "
version: '1'
name: human
nodes:
  - id: chat
    llm: {provider: human, model: m, user_prompt: '{{ input }}', tool_mode: auto, available_tools: [read, wipe]}
";

#[test]
fn a_model_call_is_a_question_and_the_answer_is_that_of_the_model() {
    let mut bench = Bench::new(HUMAN, "hello");
    let status = bench.state().status();
    bench.note(format_args!("{status}, {} effect", bench.thread.effects().len()));
    bench.note_request();
    bench.tick_after_ms(1_000_000_000);
    bench.person_says(json!(["read", "wipe"]));
    let read = bench.thread.effects().iter().find(|effect| matches!(effect, Effect::CallTool(_))).unwrap().key().0;
    bench.tool_answers(read, "42");
    bench.person_says(json!(false));
    bench.person_says(json!("done"));
    bench.note_conversation();
    assert_eq!(bench.state().totals().n_llm_calls, 2);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=chat attempt=1
          2 LLM_EXECUTION_REQUEST node=chat
          3 LLM_CALL_REQUESTED 1
          4 USER_INTERACTION_REQUESTED node=chat llm_call=3
            waiting, 1 effect
            model is called, tools Some(Auto):
              user: hello
            1000000000 ms later
          5 USER_INTERACTION_RESPONDED interaction=4
          6 USER_INTERACTION_PROCESSED interaction=4
          7 LLM_CALL_COMPLETED call=3
          8 USER_INTERACTION_REQUESTED node=chat APPROVE_TOOL wipe
          9 TOOL_EXECUTION_REQUEST name=read
         10 TOOL_EXECUTION_COMPLETED call=9
         11 USER_INTERACTION_RESPONDED interaction=8
         12 USER_INTERACTION_PROCESSED interaction=8 reject
         13 LLM_CALL_REQUESTED 2
         14 USER_INTERACTION_REQUESTED node=chat llm_call=13
         15 USER_INTERACTION_RESPONDED interaction=14 "done"
         16 USER_INTERACTION_PROCESSED interaction=14
         17 LLM_CALL_COMPLETED call=13
         18 LLM_EXECUTION_COMPLETED node=chat "done"
         19 NODE_COMPLETED node=chat
         20 THREAD_COMPLETED node=chat
            user: hello
            assistant: read(c1_0) wipe(c1_1)
            tool: c1_0: 42
            tool: c1_1! Error (denied): a person refused this call
            assistant: done
        => completed, waits for nothing
    "#]]);
}

#[test]
fn unreadable_answer_is_refused_and_question_stays_open() {
    let mut bench = Bench::new(HUMAN, "hello");
    bench.person_says(json!({"tool": 1}));
    bench.person_says(json!([]));
    bench.person_says(json!("hello"));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=chat attempt=1
          2 LLM_EXECUTION_REQUEST node=chat
          3 LLM_CALL_REQUESTED 1
          4 USER_INTERACTION_REQUESTED node=chat llm_call=3
            refused: neither a text nor a list of tools
            refused: neither a text nor a list of tools
          5 USER_INTERACTION_RESPONDED interaction=4 "hello"
          6 USER_INTERACTION_PROCESSED interaction=4
          7 LLM_CALL_COMPLETED call=3
          8 LLM_EXECUTION_COMPLETED node=chat "hello"
          9 NODE_COMPLETED node=chat
         10 THREAD_COMPLETED node=chat
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_restart_is_no_new_attempt() {
    let mut bench = Bench::new(HUMAN, "hello");
    bench.give(Input::Recover);
    let (question, attempt) = bench.open();
    bench.give(bench::model_failed(CallId(Seq(3)), 1, ExecutionError::new(ErrorKind::Failed, "no")));
    assert_eq!((question, attempt), (CallId(Seq(4)), 1));
    for answer in ["hello", "hello", "bye"] {
        bench.person_answers(question, json!(answer));
    }
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=chat attempt=1
          2 LLM_EXECUTION_REQUEST node=chat
          3 LLM_CALL_REQUESTED 1
          4 USER_INTERACTION_REQUESTED node=chat llm_call=3
          5 WARNING call=3 "late_answer"
          6 USER_INTERACTION_RESPONDED interaction=4 "hello"
          7 USER_INTERACTION_PROCESSED interaction=4
          8 LLM_CALL_COMPLETED call=3
          9 LLM_EXECUTION_COMPLETED node=chat "hello"
         10 NODE_COMPLETED node=chat
         11 THREAD_COMPLETED node=chat
            refused: interaction 4 is closed: it was answered, cancelled or timed out
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_question_that_is_taken_back_or_late_is_a_failed_call() {
    let mut bench = Bench::new(HUMAN, "hello");
    let (interaction, _) = bench.open();
    bench.give(Input::CancelInteraction { interaction });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=chat attempt=1
          2 LLM_EXECUTION_REQUEST node=chat
          3 LLM_CALL_REQUESTED 1
          4 USER_INTERACTION_REQUESTED node=chat llm_call=3
          5 USER_INTERACTION_FAILED interaction=4 "cancelled"
          6 LLM_CALL_FAILED call=3 cancelled
          7 LLM_EXECUTION_FAILED node=chat cancelled
          8 NODE_FAILED node=chat attempt=1 cancelled
          9 THREAD_FAILED node=chat cancelled
        => error, waits for nothing
    "#]]);

    let yaml = HUMAN.replace("tool_mode: auto", "llm_timeout_ms: 5000, tool_mode: auto");
    let mut bench = Bench::new(&yaml, "hello");
    bench.tick_after_ms(5_000);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=chat attempt=1
          2 LLM_EXECUTION_REQUEST node=chat
          3 LLM_CALL_REQUESTED 1
          4 USER_INTERACTION_REQUESTED node=chat llm_call=3
            5000 ms later
          5 USER_INTERACTION_FAILED interaction=4 "timeout"
          6 LLM_CALL_FAILED call=3 timeout
          7 LLM_EXECUTION_FAILED node=chat timeout
          8 NODE_FAILED node=chat attempt=1 timeout
          9 THREAD_FAILED node=chat timeout
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_cancelled_thread_closes_the_question_and_the_call() {
    let mut bench = Bench::new(HUMAN, "hello");
    bench.give(Input::Cancel { reason: None });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=chat attempt=1
          2 LLM_EXECUTION_REQUEST node=chat
          3 LLM_CALL_REQUESTED 1
          4 USER_INTERACTION_REQUESTED node=chat llm_call=3
          5 USER_INTERACTION_FAILED interaction=4 "cancelled"
          6 LLM_CALL_FAILED call=3 cancelled
          7 LLM_EXECUTION_FAILED node=chat cancelled
          8 NODE_FAILED node=chat attempt=1 cancelled
          9 THREAD_CANCELLED
        => cancelled, waits for nothing
    "#]]);

    let mut bench = Bench::new(HUMAN, "hello");
    bench.give(Input::Pause { reason: None });
    bench.person_says(json!("hello"));
    bench.give(Input::Cancel { reason: None });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=chat attempt=1
          2 LLM_EXECUTION_REQUEST node=chat
          3 LLM_CALL_REQUESTED 1
          4 USER_INTERACTION_REQUESTED node=chat llm_call=3
          5 THREAD_PAUSED
          6 USER_INTERACTION_RESPONDED interaction=4 "hello"
          7 USER_INTERACTION_FAILED interaction=4 "cancelled"
          8 LLM_CALL_FAILED call=3 cancelled
          9 LLM_EXECUTION_FAILED node=chat cancelled
         10 NODE_FAILED node=chat attempt=1 cancelled
         11 THREAD_CANCELLED
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn fork_swaps_a_model_and_a_person() {
    let bench = Bench::new(HUMAN, "hello");
    let to = |profile| ForkChanges { profile: Some(ProfileId::from(profile)), ..ForkChanges::default() };
    let mut fork = bench.fork(4, to("large"));
    fork.says("hello from the model");
    fork.check(expect![[r#"
          5 THREAD_FORKED
          6 USER_INTERACTION_FAILED interaction=4 "cancelled"
          7 LLM_CALL_COMPLETED call=3
          8 LLM_EXECUTION_COMPLETED node=chat "hello from the model"
          9 NODE_COMPLETED node=chat
         10 THREAD_COMPLETED node=chat
        => completed, waits for nothing
    "#]]);

    let bench = Bench::new(ONE_LLM, "hello");
    let mut fork = bench.fork(3, to("human"));
    fork.tick_after_ms(1_000_000);
    fork.person_says(json!("hello from the person"));
    fork.check(expect![[r#"
          4 THREAD_FORKED
          5 USER_INTERACTION_REQUESTED node=ask llm_call=3
            1000000 ms later
          6 USER_INTERACTION_RESPONDED interaction=5 "hello from the person"
          7 USER_INTERACTION_PROCESSED interaction=5
          8 LLM_CALL_COMPLETED call=3
          9 LLM_EXECUTION_COMPLETED node=ask "hello from the person"
         10 NODE_COMPLETED node=ask
         11 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}
