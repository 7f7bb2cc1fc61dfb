//! Tools of the agent loop.

use super::*;

#[test]
fn tools_run_in_parallel_and_answer_in_order() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read", "put", "read", "send"]);
    bench.note(format_args!("{} run", bench.thread.effects().len()));
    let (first, second) = (CallId(Seq(5)), CallId(Seq(6)));
    bench.tool_answers(second, "second");
    let third = bench.thread.effects()[1].key().0;
    bench.tool_answers(third, "third");
    bench.tool_answers(first, "first");
    bench.tool_says("fourth");
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=put
            2 run
          7 TOOL_EXECUTION_COMPLETED call=6
          8 TOOL_EXECUTION_REQUEST name=read
          9 TOOL_EXECUTION_COMPLETED call=8
         10 TOOL_EXECUTION_REQUEST name=send
         11 TOOL_EXECUTION_COMPLETED call=5
         12 TOOL_EXECUTION_COMPLETED call=10
         13 LLM_CALL_REQUESTED 2
            user: hello
            assistant: read(c3_0) put(c3_1) read(c3_2) send(c3_3)
            tool: c3_0: first
            tool: c3_1: second
            tool: c3_2: third
            tool: c3_3: fourth
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn error_of_a_tool_goes_to_the_model() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    bench.tool_fails(ErrorKind::NotFound, false);
    bench.note_request();
    bench.says("there is no such file");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_FAILED call=5 not_found
          7 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: read(c3_0)
              tool: c3_0! Error (not_found): it broke
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=ask "there is no such file"
         10 NODE_COMPLETED node=ask
         11 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn tool_that_was_not_offered_does_not_run() {
    let yaml = ONE_LLM.replace("tool_mode: auto", "tool_mode: auto, available_tools: [read, put]");
    let mut bench = Bench::new(&yaml, "hello");
    bench.asks(&["fly", "send", "read"]);
    bench.note(format_args!("{} runs", bench.thread.effects().len()));
    bench.tool_says("42");
    bench.note_request();
    bench.says("done");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=fly
          6 TOOL_EXECUTION_FAILED call=5 unknown_tool
          7 TOOL_EXECUTION_REQUEST name=send
          8 TOOL_EXECUTION_FAILED call=7 unknown_tool
          9 TOOL_EXECUTION_REQUEST name=read
            1 runs
         10 TOOL_EXECUTION_COMPLETED call=9
         11 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: fly(c3_0) send(c3_1) read(c3_2)
              tool: c3_0! Error (unknown_tool): there is no tool `fly`: offered are read, put
              tool: c3_1! Error (unknown_tool): there is no tool `send`: offered are read, put
              tool: c3_2: 42
         12 LLM_CALL_COMPLETED call=11
         13 LLM_EXECUTION_COMPLETED node=ask "done"
         14 NODE_COMPLETED node=ask
         15 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_tool_is_tried_again_after_a_while_when_its_error_allows_it() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    bench.tool_fails(ErrorKind::Failed, true);
    let Effect::CallTool(run) = &bench.thread.effects()[0] else { panic!() };
    assert_eq!((run.attempt, run.not_before), (2, bench.now.plus_ms(50)));
    bench.tick_after_ms(50);
    bench.tool_fails(ErrorKind::Failed, true);
    bench.says("it does not work");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_CALL_RETRIED attempt=2 call=5 failed not_before=+50
            50 ms later
          7 TOOL_EXECUTION_FAILED call=5 failed
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_COMPLETED call=8
         10 LLM_EXECUTION_COMPLETED node=ask "it does not work"
         11 NODE_COMPLETED node=ask
         12 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn tool_is_not_retried_after_an_error_that_forbids_it() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    bench.tool_fails(ErrorKind::InvalidArguments, false);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_FAILED call=5 invalid_arguments
          7 LLM_CALL_REQUESTED 2
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn tool_that_may_have_written_is_never_retried() {
    for (kind, retried) in [
        (ErrorKind::Failed, true),
        (ErrorKind::Timeout, false),
        (ErrorKind::Panicked, false),
        (ErrorKind::Connection, false),
    ] {
        let mut bench = Bench::new(ONE_LLM, "hello");
        bench.asks(&["send"]);
        bench.tool_fails(kind, true);
        let again = bench.log.iter().any(|(_, event)| matches!(event, Event::ToolCallRetried(_)));
        assert_eq!(again, retried, "{kind}");
        laws::hold(&bench);
    }
}

#[test]
fn a_tool_that_answers_with_a_tool_call_has_failed() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    let (call, attempt) = bench.open();
    let nested =
        crate::message::ToolResult { tool_call_id: "c3_0".into(), name: None, content: Vec::new(), is_error: false };
    let content = vec![Part::ToolResult(nested)];
    bench.give(bench::tool_answered(call, attempt, content, None));
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_FAILED call=5 malformed_response
          7 LLM_CALL_REQUESTED 2
            user: hello
            assistant: read(c3_0)
            tool: c3_0! Error (malformed_response): the tool answered with something that is neither text nor a picture nor a document
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_key_is_the_same_for_every_attempt_and_another_for_every_call() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let keys = |bench: &Bench| -> Vec<String> {
        let effects = bench.thread.effects();
        effects
            .iter()
            .map(|effect| match effect {
                Effect::CallTool(run) => run.key(bench.state().thread()),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    bench.asks(&["put", "put"]);
    let before = keys(&bench);
    assert_ne!(before[0], before[1]);
    bench.give(Input::Recover);
    assert_eq!(keys(&bench), before);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=put
          6 TOOL_EXECUTION_REQUEST name=put
          7 THREAD_RECOVERED calls=[5,6]
          8 TOOL_CALL_RETRIED attempt=2 call=5 not_before=+0
          9 TOOL_CALL_RETRIED attempt=2 call=6 not_before=+0
        => running, waits for the world until +12000
    "#]]);
}

#[test]
fn call_is_not_timed_out_while_its_tool_waits_or_works() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["send"]);
    let Effect::CallTool(run) = &bench.thread.effects()[0] else { panic!() };
    assert_eq!(run.deadline, bench.now.plus_ms(1_000));
    assert_eq!(bench.state().next_deadline(), Some(run.overdue_at()));
    // As long for a place, as long for its work, and some time to say so.
    let overdue_ms = run.overdue_at().ms_since(bench.now);
    assert!(overdue_ms > 2_000);
    bench.tick_after_ms(overdue_ms - 1);
    assert_eq!(bench.thread.effects().len(), 1);
    bench.tick_after_ms(1);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=send
            11999 ms later
            1 ms later
          6 TOOL_EXECUTION_FAILED call=5 timeout
          7 LLM_CALL_REQUESTED 2
        => running, waits for the world until +132000
    "#]]);
}
