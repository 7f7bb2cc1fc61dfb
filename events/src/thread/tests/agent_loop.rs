//! The agent loop: calls, answers, how it ends.

use super::*;

#[test]
fn a_model_asks_for_a_tool_and_answers() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    bench.tool_says("42");
    bench.note_request();
    bench.says("it is 42");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_COMPLETED call=5
          7 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: read(c3_0)
              tool: c3_0: 42
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=ask "it is 42"
         10 NODE_COMPLETED node=ask
         11 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_model_that_answers_at_once_ends_the_loop() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.says("hi");
    assert_eq!(bench.state().output(), Some(&Json::from("hi")));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=ask "hi"
          6 NODE_COMPLETED node=ask
          7 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_model_that_never_answers_meets_max_iterations() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    for _ in 0..3 {
        bench.asks(&["read"]);
        bench.tool_says("42");
    }
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_COMPLETED call=5
          7 LLM_CALL_REQUESTED 2
          8 LLM_CALL_COMPLETED call=7
          9 TOOL_EXECUTION_REQUEST name=read
         10 TOOL_EXECUTION_COMPLETED call=9
         11 LLM_CALL_REQUESTED 3
         12 LLM_CALL_COMPLETED call=11
         13 TOOL_EXECUTION_REQUEST name=read
         14 TOOL_EXECUTION_COMPLETED call=13
         15 LLM_EXECUTION_FAILED node=ask limit
         16 NODE_FAILED node=ask attempt=1 limit
         17 THREAD_FAILED node=ask limit
        => error, waits for nothing
    "#]]);
}

#[test]
fn paused_turn_of_a_provider_is_continued() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.answers("one moment", &[], FinishReason::Pause);
    bench.says("done");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_CALL_REQUESTED 2
          6 LLM_CALL_COMPLETED call=5
          7 LLM_EXECUTION_COMPLETED node=ask "done"
          8 NODE_COMPLETED node=ask
          9 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_failed_model_call_fails_the_node_and_the_thread() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.model_fails(ErrorKind::Authentication);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_FAILED call=3 authentication
          5 LLM_EXECUTION_FAILED node=ask authentication
          6 NODE_FAILED node=ask attempt=1 authentication
          7 THREAD_FAILED node=ask authentication
        => error, waits for nothing
    "#]]);
}

#[test]
fn filtered_answer_leaves_no_tool_call_without_a_result() {
    for reason in [FinishReason::ContentFilter, FinishReason::Error] {
        let mut bench = Bench::new(ONE_LLM, "hello");
        bench.answers("I will", &["read", "send"], reason);
        bench.note_conversation();
        if reason == FinishReason::ContentFilter {
            bench.check(expect![[r#"
                  0 THREAD_STARTED
                  1 NODE_STARTED node=ask attempt=1
                  2 LLM_EXECUTION_REQUEST node=ask
                  3 LLM_CALL_REQUESTED 1
                  4 LLM_CALL_COMPLETED call=3
                  5 LLM_EXECUTION_FAILED node=ask content_filter
                  6 NODE_FAILED node=ask attempt=1 content_filter
                  7 THREAD_FAILED node=ask content_filter
                    user: hello
                    assistant: I will read(c3_0) send(c3_1)
                    tool: c3_0! not run: the provider's content filter stopped the answer
                    tool: c3_1! not run: the provider's content filter stopped the answer
                => error, waits for nothing
            "#]]);
        } else {
            bench.check(expect![[r#"
                  0 THREAD_STARTED
                  1 NODE_STARTED node=ask attempt=1
                  2 LLM_EXECUTION_REQUEST node=ask
                  3 LLM_CALL_REQUESTED 1
                  4 LLM_CALL_COMPLETED call=3
                  5 LLM_EXECUTION_FAILED node=ask malformed_response
                  6 NODE_FAILED node=ask attempt=1 malformed_response
                  7 THREAD_FAILED node=ask malformed_response
                    user: hello
                    assistant: I will read(c3_0) send(c3_1)
                    tool: c3_0! not run: the provider reported its answer as faulty
                    tool: c3_1! not run: the provider reported its answer as faulty
                => error, waits for nothing
            "#]]);
        }
    }
}

#[test]
fn an_answer_cut_at_the_output_limit_is_an_answer() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.answers("it is", &[], FinishReason::Length);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=ask "it is"
          6 NODE_COMPLETED node=ask
          7 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

/// A call without arguments, with half of them, and with all of them.
fn cut_answer(call: CallId, tools: [&str; 3], finish_reason: FinishReason) -> LlmCallCompleted {
    let mut answer = bench::answer(call, "", &tools, finish_reason);
    let calls = Arc::make_mut(&mut answer.message).content.iter_mut().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    });
    for (i, call) in calls.enumerate() {
        match i {
            0 => call.arguments = serde_json::json!({}).into(),
            1 => (call.arguments, call.arguments_raw) = (Json::null(), Some("{\"question\": \"w".into())),
            _ => {}
        }
    }
    answer
}

#[test]
fn call_cut_at_the_output_limit_is_not_run() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let (call, attempt) = bench.open();
    bench.give(Input::reported(attempt, cut_answer(call, ["read", "read", "read"], FinishReason::Length)));
    bench.tool_says("42");
    bench.note_request();
    bench.says("it is 42");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_FAILED call=5 limit
          7 TOOL_EXECUTION_REQUEST name=read
          8 TOOL_EXECUTION_FAILED call=7 limit
          9 TOOL_EXECUTION_REQUEST name=read
         10 TOOL_EXECUTION_COMPLETED call=9
         11 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: read(c3_0) read(c3_1) read(c3_2)
              tool: c3_0! Error (limit): the answer reached the output limit (`max_tokens`) before the arguments of this call were complete, so it did not run; call it again, with less in it
              tool: c3_1! Error (limit): the answer reached the output limit (`max_tokens`) before the arguments of this call were complete, so it did not run; call it again, with less in it
              tool: c3_2: 42
         12 LLM_CALL_COMPLETED call=11
         13 LLM_EXECUTION_COMPLETED node=ask "it is 42"
         14 NODE_COMPLETED node=ask
         15 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn call_without_arguments_runs_where_no_limit_cut_it() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let (call, attempt) = bench.open();
    bench.give(Input::reported(attempt, cut_answer(call, ["read", "read", "read"], FinishReason::ToolCalls)));
    assert_eq!(bench.thread.effects().len(), 2, "{}", bench.out);
}

#[test]
fn cut_call_is_put_to_no_person_and_starts_no_agent() {
    let yaml = "
version: '1'
name: many
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: hi, tool_mode: auto, available_tools: [wipe, ask], agents: [helper], handoffs: [other], approve_tools: [wipe]}
  - {id: other, context_processor: {processor_name: extract, processor_config: {variable: x, expression: input}}}
edges: []
workflows:
  helper: {nodes: [{id: h, context_processor: {processor_name: extract, processor_config: {variable: x, expression: input}}}]}
";
    for tool in ["wipe", "ask", "helper", "transfer_to_other"] {
        let mut bench = Bench::new(yaml, "hello");
        let (call, attempt) = bench.open();
        let mut answer = cut_answer(call, [tool; 3], FinishReason::Length);
        Arc::make_mut(&mut answer.message).content.truncate(1);
        bench.give(Input::reported(attempt, answer));
        let failed =
            bench.log.iter().filter(|(_, event)| matches!(event, Event::ToolExecutionFailed(e) if e.not_started));
        assert_eq!(failed.count(), 1, "{tool}: {}", bench.out);
        assert!(matches!(&bench.thread.effects()[..], [Effect::CallModel(_)]), "{tool}: {}", bench.out);
        laws::hold(&bench);
    }
}

#[test]
fn a_refusal_fails_the_node_with_what_the_model_said() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let (call, attempt) = bench.open();
    let mut answer = bench::answer(call, "", &[], FinishReason::Refusal);
    Arc::make_mut(&mut answer.message).content = vec![Part::Refusal { text: "no".into() }];
    bench.give(Input::reported(attempt, answer));
    let error = bench.state().error().unwrap();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Denied, "the model refused: no"));
    assert_eq!(bench.state().totals().usage.input_tokens, Some(10), "it is paid for");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_FAILED node=ask denied
          6 NODE_FAILED node=ask attempt=1 denied
          7 THREAD_FAILED node=ask denied
        => error, waits for nothing
    "#]]);
}

#[test]
fn an_answer_that_ended_before_any_text_fails_the_node() {
    for (finish_reason, text, kind) in [
        (FinishReason::Length, "", Some(ErrorKind::Limit)),
        (FinishReason::Length, " \n", Some(ErrorKind::Limit)),
        (FinishReason::Length, "half an ans", None),
        (FinishReason::Other, "", Some(ErrorKind::MalformedResponse)),
        (FinishReason::Refusal, "I will not.", Some(ErrorKind::Denied)),
        (FinishReason::Stop, "", None),
    ] {
        let mut bench = Bench::new(ONE_LLM, "hello");
        let (call, attempt) = bench.open();
        bench.give(Input::reported(attempt, bench::answer(call, text, &[], finish_reason)));
        assert_eq!(bench.state().error().map(|error| error.kind), kind, "{finish_reason:?} {text:?}");
    }
}

#[test]
fn answer_that_cannot_be_stored_is_a_failed_call() {
    let bench = Bench::new(ONE_LLM, "hello");
    let (call, attempt) = bench.open();
    let mut answers = Vec::new();
    let mut wrong_role = bench::answer(call, "hi", &[], FinishReason::Stop);
    Arc::make_mut(&mut wrong_role.message).role = Role::User;
    answers.push(wrong_role);
    answers.push(bench::answer(call, "", &["read"; 1_001], FinishReason::ToolCalls));
    let mut deep = bench::answer(call, "", &["read"], FinishReason::ToolCalls);
    if let Part::ToolCall(tool) = &mut Arc::make_mut(&mut deep.message).content[0] {
        tool.arguments = limits::nested(101).into();
    }
    answers.push(deep);
    let mut errors = String::new();
    for answer in answers {
        let mut bench = bench.clone();
        bench.give(Input::reported(attempt, answer));
        let Some(Event::LlmCallFailed(e)) = bench.log.iter().map(|(_, event)| event).nth(4) else {
            panic!("{}", bench.out)
        };
        errors += &format!("{}\n", e.error);
        laws::hold(&bench);
    }
    expect![[r#"
        the answer does not have the role assistant
        the answer has 1001 tool calls, the limit is 1000
        a value is nested deeper than 100 levels
    "#]]
    .assert_eq(&errors);
}
