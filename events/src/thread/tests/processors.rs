//! Nodes that change the conversation: A3, C10, D10.

use super::*;

fn with(processor: &str) -> String {
    format!(
        "
version: '1'
name: processed
variables: {{n: 1}}
nodes:
  - {{id: first, llm: {{provider: mock, model: m, user_prompt: one, tool_mode: auto}}}}
  - id: change
    context_processor: {processor}
  - {{id: last, llm: {{provider: mock, model: m, user_prompt: three}}}}
"
    )
}

fn ran(processor: &str) -> Bench {
    let mut bench = Bench::new(&with(processor), "hello");
    bench.asks(&["read"]);
    bench.tool_says("42");
    bench.out.clear();
    bench.says("two");
    bench
}

#[test]
fn a_processor_that_is_built_in_changes_what_the_next_model_reads() {
    let mut bench = ran("{processor_name: truncate, processor_config: {tail: '{{ n }}'}}");
    bench.note_request();
    bench.note_value("output");
    bench.check(expect![[r#"
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=first "two"
         10 NODE_COMPLETED node=first
         11 NODE_STARTED node=change attempt=1
         12 CONTEXT_PROCESSING_REQUESTED node=change processor=truncate
         13 CONTEXT_PROCESSED call=12 output=1 [{"kept":{"from":3,"to":4}}]
         14 NODE_COMPLETED node=change
         15 NODE_STARTED node=last attempt=1
         16 LLM_EXECUTION_REQUEST node=last
         17 LLM_CALL_REQUESTED 1
            model is called, tools None:
              assistant: two
              user: three
            output = 1
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn variable_is_made_from_messages_and_message_from_variables() {
    let mut bench =
        ran("{processor_name: extract, processor_config: {variable: count, expression: messages|length + n}}");
    bench.note_value("[count, output]");
    bench.check(expect![[r#"
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=first "two"
         10 NODE_COMPLETED node=first
         11 NODE_STARTED node=change attempt=1
         12 CONTEXT_PROCESSING_REQUESTED node=change processor=extract
         13 CONTEXT_PROCESSED call=12 output=5 [{"kept":{"from":0,"to":4}}] {"count":5}
         14 NODE_COMPLETED node=change
         15 NODE_STARTED node=last attempt=1
         16 LLM_EXECUTION_REQUEST node=last
         17 LLM_CALL_REQUESTED 1
            [count, output] = [5,5]
        => running, waits for the world until +120000
    "#]]);
    let mut bench =
        ran("{processor_name: inject, processor_config: {content: 'it was {{ output }}', role: assistant}}");
    bench.note_request();
    bench.check(expect![[r#"
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=first "two"
         10 NODE_COMPLETED node=first
         11 NODE_STARTED node=change attempt=1
         12 CONTEXT_PROCESSING_REQUESTED node=change processor=inject
         13 CONTEXT_PROCESSED call=12 output=it was two [{"kept":{"from":0,"to":4}},{"new":{"role":"assistant","content":[{"type":"text","text":"it was two"}]}}]
         14 NODE_COMPLETED node=change
         15 NODE_STARTED node=last attempt=1
         16 LLM_EXECUTION_REQUEST node=last
         17 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: one
              assistant: read(c3_0)
              tool: c3_0: 42
              assistant: two
              assistant: it was two
              user: three
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_configuration_that_turns_out_wrong_fails_the_node() {
    let mut bench = ran("{processor_name: truncate, processor_config: {tail: '{{ output }}'}}");
    bench.note(bench.state().error().unwrap());
    bench.check(expect![[r#"
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=first "two"
         10 NODE_COMPLETED node=first
         11 NODE_STARTED node=change attempt=1
         12 CONTEXT_PROCESSING_REQUESTED node=change processor=truncate
         13 CONTEXT_PROCESSING_FAILED call=12 configuration
         14 NODE_FAILED node=change attempt=1 configuration
         15 THREAD_FAILED node=change configuration
            truncate: tail: a number of messages is expected, not "two"
        => error, waits for nothing
    "#]]);
}

fn own() -> Bench {
    ran("{processor_name: own, processor_config: {depth: '{{ n + 1 }}'}}")
}

#[test]
fn custom_processor_is_called_and_its_answer_is_applied() {
    let mut bench = own();
    let Some(Effect::RunProcessor(run)) = bench.thread.effects().into_iter().next() else { panic!() };
    bench.note(format_args!(
        "{} {:?}, {} messages",
        run.processor,
        run.config,
        bench.state().processor_messages().len()
    ));
    bench.give(Input::AddMessage(Message::text(Role::User, "by the way")));
    bench.processor_answers(Processed {
        messages: vec![ContextItem::New(Arc::new(Message::text(Role::User, "so far: two")))],
        variables: OrderedMap::from_iter([("depth".to_owned(), 7.into())]),
        output: Some("done".into()),
    });
    bench.note_value("[depth, output]");
    bench.note_request();
    bench.check(expect![[r#"
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=first "two"
         10 NODE_COMPLETED node=first
         11 NODE_STARTED node=change attempt=1
         12 CONTEXT_PROCESSING_REQUESTED node=change processor=own
            own OrderedMap({"depth": 2}), 4 messages
         13 MESSAGE_ADDED
         14 CONTEXT_PROCESSED call=12 output=done [{"new":{"role":"user","content":[{"type":"text","text":"so far: two"}]}},{"kept":{"from":4,"to":5}}] {"depth":7}
         15 NODE_COMPLETED node=change
         16 NODE_STARTED node=last attempt=1
         17 LLM_EXECUTION_REQUEST node=last
         18 LLM_CALL_REQUESTED 1
            [depth, output] = [7,"done"]
            model is called, tools None:
              user: so far: two
              user: by the way
              user: three
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn an_answer_that_no_model_would_accept_fails_the_node() {
    let kept = |from, to| ContextItem::Kept { from, to };
    let bad_name = || OrderedMap::from_iter([("1a".to_owned(), Json::null())]);
    for (processed, expected) in [
        (
            Processed { messages: vec![kept(0, 2)], ..Processed::default() },
            expect!["tool calls without a result directly after them: c3_0"],
        ),
        (
            Processed { messages: vec![kept(2, 4)], ..Processed::default() },
            expect!["message 0 is the result of `c3_0`, which is not the next call without a result"],
        ),
        (
            Processed { messages: vec![kept(0, 9)], ..Processed::default() },
            expect!["it keeps the messages 0 to 9 of 4: ranges must lie in the conversation, one after the other"],
        ),
        (
            Processed { messages: vec![kept(3, 4), kept(0, 1)], ..Processed::default() },
            expect!["it keeps the messages 0 to 1 of 4: ranges must lie in the conversation, one after the other"],
        ),
        (
            Processed { messages: vec![kept(0, 4)], variables: bad_name(), ..Processed::default() },
            expect!["`1a` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200"],
        ),
    ] {
        let mut bench = own();
        bench.processor_answers(processed);
        laws::hold(&bench);
        expected.assert_eq(&bench.state().error().unwrap().to_string());
        assert_eq!(bench.state().error().unwrap().kind, ErrorKind::MalformedResponse);
    }
}

#[test]
fn processor_with_a_lost_answer_gets_the_same_messages_again() {
    let mut bench = own();
    bench.now = bench.now.plus_ms(100_000);
    bench.give(Input::Recover);
    let late = bench::processed(bench.open().0, 1, Processed::default());
    bench.give(late);
    bench.tick_after_ms(59_999);
    bench.tick_after_ms(1);
    bench.check(expect![[r#"
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=first "two"
         10 NODE_COMPLETED node=first
         11 NODE_STARTED node=change attempt=1
         12 CONTEXT_PROCESSING_REQUESTED node=change processor=own
         13 THREAD_RECOVERED calls=[12]
         14 CONTEXT_PROCESSING_RETRIED attempt=2 call=12
         15 WARNING call=12 "stale_attempt"
            59999 ms later
            1 ms later
         16 CONTEXT_PROCESSING_FAILED call=12 timeout
         17 NODE_FAILED node=change attempt=1 timeout
         18 THREAD_FAILED node=change timeout
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_processor_that_fails_is_asked_again_as_its_node_says() {
    let yaml = with("{processor_name: own}")
        .replace("{processor_name: own}", "{processor_name: own}\n    retry: {max_attempts: 2}");
    let mut bench = Bench::new(&yaml, "hello");
    bench.says("two");
    bench.out.clear();
    let (call, attempt) = bench.open();
    let error = ExecutionError::new(ErrorKind::Failed, "it broke");
    bench.give(bench::processing_failed(call, attempt, error));
    bench.processor_answers(Processed::default());
    bench.check(expect![[r#"
          9 CONTEXT_PROCESSING_FAILED call=8 failed
         10 NODE_FAILED node=change attempt=1 failed retry_at=+0
         11 NODE_STARTED node=change attempt=2
         12 CONTEXT_PROCESSING_REQUESTED node=change processor=own
         13 CONTEXT_PROCESSED call=12 []
         14 NODE_COMPLETED node=change
         15 NODE_STARTED node=last attempt=1
         16 LLM_EXECUTION_REQUEST node=last
         17 LLM_CALL_REQUESTED 1
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_processor_is_closed_with_its_thread() {
    let mut bench = own();
    bench.give(Input::Cancel { reason: None });
    bench.check(expect![[r#"
          8 LLM_CALL_COMPLETED call=7
          9 LLM_EXECUTION_COMPLETED node=first "two"
         10 NODE_COMPLETED node=first
         11 NODE_STARTED node=change attempt=1
         12 CONTEXT_PROCESSING_REQUESTED node=change processor=own
         13 CONTEXT_PROCESSING_FAILED call=12 cancelled
         14 NODE_FAILED node=change attempt=1 cancelled
         15 THREAD_CANCELLED
        => cancelled, waits for nothing
    "#]]);
}
