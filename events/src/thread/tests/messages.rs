//! Messages and variables from the application.

use proptest::prelude::*;

use super::*;
use crate::event::{LimitRaised, StrategyDecision};

fn add(bench: &mut Bench, text: &str) {
    bench.give(Input::AddMessage(Message::text(Role::User, text)));
}

#[test]
fn message_added_during_a_model_call_comes_after_its_answer() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    add(&mut bench, "and quick");
    bench.note_request();
    bench.asks(&["read"]);
    add(&mut bench, "please");
    bench.tool_says("42");
    bench.note_request();
    bench.says("it is 42");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 MESSAGE_ADDED
            model is called, tools Some(Auto):
              user: hello
          5 LLM_CALL_COMPLETED call=3
          6 TOOL_EXECUTION_REQUEST name=read
          7 MESSAGE_ADDED
          8 TOOL_EXECUTION_COMPLETED call=6
          9 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: read(c3_0)
              tool: c3_0: 42
              user: and quick
              user: please
         10 LLM_CALL_COMPLETED call=9
         11 LLM_EXECUTION_COMPLETED node=ask "it is 42"
         12 NODE_COMPLETED node=ask
         13 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn every_attempt_of_a_call_is_made_with_the_same_messages() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let before = bench.state().model_request();
    add(&mut bench, "and quick");
    bench.give(Input::Recover);
    assert_eq!(bench.state().model_request(), before);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 MESSAGE_ADDED
          5 THREAD_RECOVERED calls=[3]
          6 LLM_CALL_RETRIED attempt=2 call=3
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_message_added_during_a_try_outlives_it() {
    let mut bench = Bench::new(node_retry::RETRIED, "hello");
    bench.asks(&["read"]);
    add(&mut bench, "remember this");
    bench.tool_says("42");
    bench.model_fails(ErrorKind::Server);
    add(&mut bench, "and this");
    bench.tick_after_ms(100);
    bench.note_request();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 MESSAGE_ADDED
          7 TOOL_EXECUTION_COMPLETED call=5
          8 LLM_CALL_REQUESTED 2
          9 LLM_CALL_FAILED call=8 server
         10 LLM_EXECUTION_FAILED node=ask server
         11 NODE_FAILED node=ask attempt=1 server retry_at=+100
         12 MESSAGE_ADDED
            100 ms later
         13 NODE_STARTED node=ask attempt=2
         14 LLM_EXECUTION_REQUEST node=ask
         15 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              system: be kind
              user: remember this
              user: and this
              user: hello
        => running, waits for the world until +120100
    "#]]);
}

#[test]
fn a_message_that_no_model_would_accept_is_refused() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.give(Input::AddMessage(Message::text(Role::System, "obey")));
    bench.give(Input::AddMessage(Message::text(Role::Tool, "42")));
    let call = bench::answer(CallId(Seq(0)), "", &["read"], FinishReason::ToolCalls);
    bench.give(Input::AddMessage(Message::clone(&call.message)));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
            refused: a message that is added has the role user or assistant
            refused: a message that is added has the role user or assistant
            refused: a message that is added has no tool call and no tool result
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn variables_are_set_for_the_nodes_that_follow() {
    let yaml = "
version: '1'
name: two
nodes:
  - id: a
    llm: {provider: mock, model: m, user_prompt: first}
  - id: b
    llm: {provider: mock, model: m, user_prompt: '{{ topic }} after {{ output }}, {{ llm_calls|length }} call'}
";
    let mut bench = Bench::stored(yaml, "hello");
    let topic = OrderedMap::from_iter([("topic".to_owned(), Json::from("tea"))]);
    bench.give(Input::SetVariables(topic));
    bench.says("one");
    bench.note_request();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=a attempt=1
          2 LLM_EXECUTION_REQUEST node=a
          3 LLM_CALL_REQUESTED 1
          4 VARIABLES_UPDATED
          5 LLM_CALL_COMPLETED call=3
          6 LLM_EXECUTION_COMPLETED node=a "one"
          7 NODE_COMPLETED node=a
          8 NODE_STARTED node=b attempt=1
          9 LLM_EXECUTION_REQUEST node=b
         10 LLM_CALL_REQUESTED 1
            model is called, tools None:
              user: first
              assistant: one
              user: tea after one, 1 call
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_variable_that_no_expression_could_name_is_refused() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    for name in ["", "1a", "a b", "a-b", "ä", "messages", "tool_calls", &"x".repeat(201)] {
        bench.give(Input::SetVariables(OrderedMap::from_iter([(name.to_owned(), Json::null())])));
    }
    bench.give(Input::SetVariables(OrderedMap::from_iter([("deep".to_owned(), limits::nested(101).into())])));
    bench.give(Input::SetVariables(OrderedMap::from_iter([("deep".to_owned(), limits::nested(100).into())])));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
            refused: `` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: `1a` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: `a b` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: `a-b` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: `ä` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: `messages` is made from the conversation and cannot be set
            refused: `tool_calls` is made from the conversation and cannot be set
            refused: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
            refused: a value is nested deeper than 100 levels
          4 VARIABLES_UPDATED
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn message_during_the_last_call_is_answered_by_another_call() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    add(&mut bench, "in French, please");
    bench.says("hello");
    bench.note_request();
    bench.says("bonjour");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 MESSAGE_ADDED
          5 LLM_CALL_COMPLETED call=3
          6 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: hello
              assistant: hello
              user: in French, please
          7 LLM_CALL_COMPLETED call=6
          8 LLM_EXECUTION_COMPLETED node=ask "bonjour"
          9 NODE_COMPLETED node=ask
         10 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn message_that_the_last_allowed_call_cannot_read_is_refused() {
    let yaml = ONE_LLM.replace("max_iterations: 3", "max_iterations: 1");
    let mut bench = Bench::new(&yaml, "hello");
    add(&mut bench, "in French, please");
    bench.says("hello");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
            refused: node `ask` makes the last of its 1 model calls (max_iterations), which cannot read the message any more: send it when the node has ended, or raise the limit
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=ask "hello"
          6 NODE_COMPLETED node=ask
          7 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);

    let mut bench = Bench::new(&yaml.replace("nodes:", "on_limit: pause\nnodes:"), "hello");
    add(&mut bench, "in French, please");
    bench.says("hello");
    bench.give(Input::Raise(LimitRaised { iterations: Some(1), ..LimitRaised::default() }));
    bench.says("bonjour");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 MESSAGE_ADDED
          5 LLM_CALL_COMPLETED call=3
          6 THREAD_PAUSED "node `ask` has called the model 1 times (max_iterations); go on with: rethread resume 07070707-0707-0707-0707-070707070707 --more N"
          7 LIMIT_RAISED
          8 THREAD_RESUMED
          9 LLM_CALL_REQUESTED 2
         10 LLM_CALL_COMPLETED call=9
         11 LLM_EXECUTION_COMPLETED node=ask "bonjour"
         12 NODE_COMPLETED node=ask
         13 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn message_after_the_last_model_node_is_named_in_a_warning() {
    let yaml = "
version: '1'
name: ends_with_a_tool
nodes:
  - {id: ask, llm: {provider: mock, model: m, user_prompt: hello}}
  - {id: look, tool: {tool_name: read}}
";
    let mut bench = Bench::new(yaml, "hello");
    bench.says("hello");
    add(&mut bench, "thank you");
    bench.tool_says("42");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=ask "hello"
          6 NODE_COMPLETED node=ask
          7 NODE_STARTED node=look attempt=1
          8 TOOL_EXECUTION_REQUEST name=read
          9 MESSAGE_ADDED
         10 TOOL_EXECUTION_COMPLETED call=8
         11 NODE_COMPLETED node=look
         12 WARNING "unread_message"
         13 THREAD_COMPLETED node=look
        => completed, waits for nothing
    "#]]);
}

/// How the model reaches its answer, and what it answers to a request for a plan or a choice.
const STRATEGIES: [&str; 4] = [
    "",
    ", strategy: {plan_and_execute: {}}",
    ", strategy: {multi_llm: {profiles: [one, two], by: three, combine: merge}}",
    ", strategy: {custom: {name: own}}",
];

proptest! {
    /// At any time, before or after an answer, in a pause or not: an accepted message is in the request of a later
    /// model call of the node.
    #[test]
    fn accepted_message_is_read_whenever_it_comes(
        n_rounds in 0..3_u32,
        when in 0..12_usize,
        in_pause in any::<bool>(),
        strategy in 0..STRATEGIES.len(),
        on_limit in prop_oneof![Just("fail"), Just("pause")],
        max_iterations in 3..7_u32,
    ) {
        let yaml = format!(
            "version: '1'\nname: any\non_limit: {on_limit}\nnodes:\n  - {{id: ask, llm: {{provider: mock, model: m, \
             user_prompt: hello, tool_mode: auto, max_iterations: {max_iterations}{}}}}}\n",
            STRATEGIES[strategy]
        );
        let mut bench = Bench::new(&yaml, "hello");
        let (mut n_rounds, mut was_accepted, mut was_read, mut step) = (n_rounds, false, false, 0);
        while !bench.state().is_ended() {
            prop_assert!(step < 60, "it does not end\n{}", bench.out);
            let is_now = step == when;
            step += 1;
            if bench.state().is_paused() {
                bench.give(Input::Raise(LimitRaised { iterations: Some(3), ..LimitRaised::default() }));
                continue;
            }
            if is_now && in_pause {
                bench.give(Input::Pause { reason: None });
            } else if is_now {
                add(&mut bench, "and in French");
            }
            let Some(effect) = bench.thread.effects().into_iter().next() else { panic!("{}", bench.out) };
            match effect {
                Effect::CallModel(open) => {
                    let request = bench.state().model_request_of(open.call).unwrap();
                    was_read |= request.messages.iter().any(|message| message.joined_text().contains("in French"));
                    match request.form {
                        Some(_) => bench.says(r#"{"steps": ["look"]}"#),
                        None if n_rounds > 0 => {
                            n_rounds -= 1;
                            bench.asks(&["read"]);
                        }
                        None => bench.says("so"),
                    }
                }
                Effect::CallTool(_) => bench.tool_says("42"),
                Effect::AskStrategy(_) => {
                    let Some(NodeRun { work: Work::Llm(agent_loop), .. }) = bench.state().node_run() else { panic!() };
                    bench.decides(match agent_loop.turn() {
                        Turn::Answered { content, .. } => StrategyDecision::Answer { content },
                        Turn::ToolsAsked(calls) => StrategyDecision::RunTools { calls },
                        Turn::Begun | Turn::ToolsEnded => {
                            StrategyDecision::CallModel { messages: Vec::new(), model: None, tools: None }
                        }
                    });
                }
                other => panic!("{other:?}"),
            }
            if is_now && in_pause && bench.state().is_paused() {
                add(&mut bench, "and in French");
                bench.give(Input::Resume);
            }
            let was_added = |(_, event): &(Time, Event)| matches!(event, Event::MessageAdded(_));
            was_accepted |= bench.log.iter().any(was_added);
        }
        if bench.state().status() == Status::Completed {
            prop_assert_eq!(was_accepted, was_read, "{}", bench.out);
        }
        laws::hold(&bench);
    }
}
