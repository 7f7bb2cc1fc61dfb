//! Strategies of the application.

use super::*;
use crate::event::{ModelChoice, StrategyDecision};

const OWN: &str = "
version: '1'
name: own
nodes:
  - id: work
    llm:
      provider: mock
      model: m
      user_prompt: '{{ input }}'
      tool_mode: auto
      available_tools: [read, send, wipe]
      max_iterations: 2
      strategy: {custom: {name: careful, timeout_ms: 5000, config: {goal: '{{ input }}'}}}
";

fn call_model() -> StrategyDecision {
    StrategyDecision::CallModel { messages: Vec::new(), model: None, tools: None }
}

fn run(bench: &Bench, ids: &[usize]) -> StrategyDecision {
    let Turn::ToolsAsked(calls) = turn(bench) else { panic!("no tools are asked for") };
    StrategyDecision::RunTools { calls: ids.iter().map(|id| calls[*id].clone()).collect() }
}

fn turn(bench: &Bench) -> Turn {
    match &bench.state().node_run().unwrap().work {
        Work::Llm(agent_loop) => agent_loop.turn(),
        work => panic!("{work:?}"),
    }
}

fn answer(text: &str) -> StrategyDecision {
    StrategyDecision::Answer { content: text.into() }
}

fn own_call(id: &str, name: &str) -> StrategyDecision {
    let call = ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: serde_json::json!({}).into(),
        arguments_raw: None,
        signature: None,
    };
    StrategyDecision::RunTools { calls: vec![call] }
}

#[test]
fn a_strategy_decides_about_calls_tools_and_the_answer() {
    let mut bench = Bench::new(OWN, "go");
    assert_eq!(turn(&bench), Turn::Begun);
    bench.decides(call_model());
    bench.asks(&["read", "send"]);
    bench.decides(run(&bench, &[0]));
    bench.tool_says("42");
    assert_eq!(turn(&bench), Turn::ToolsEnded);
    bench.decides(StrategyDecision::CallModel {
        messages: vec![Arc::new(Message::text(Role::User, "Are you sure?"))],
        model: Some(ModelChoice { profile: Some("large".into()), ..ModelChoice::default() }),
        tools: Some(vec!["read".into()]),
    });
    let request = bench.state().model_request().unwrap();
    assert_eq!(request.execution.model.profile, Some("large".into()));
    assert_eq!(request.execution.tools, ["read"]);
    bench.note_request();
    bench.says("42");
    bench.decides(answer("it is 42"));
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
          4 STRATEGY_DECIDED call=3 {"decision":"call_model","messages":[],"model":null,"tools":null}
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_COMPLETED call=5
          7 STRATEGY_DECISION_REQUESTED node=work name=careful
          8 STRATEGY_DECIDED call=7 {"decision":"run_tools","calls":[{"id":"c5_0","name":"read","arguments":{"question":"why?"}}]}
          9 TOOL_EXECUTION_REQUEST name=read
         10 TOOL_EXECUTION_COMPLETED call=9
         11 STRATEGY_DECISION_REQUESTED node=work name=careful
         12 STRATEGY_DECIDED call=11 {"decision":"call_model","messages":[{"role":"user","content":[{"type":"text","text":"Are you sure?"}]}],"model":{"profile":"large","stream":false},"tools":["read"]}
         13 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: go
              assistant: read(c5_0) send(c5_1)
              tool: c5_0: 42
              tool: c5_1! not run: the strategy continues without this call
              user: Are you sure?
         14 LLM_CALL_COMPLETED call=13
         15 STRATEGY_DECISION_REQUESTED node=work name=careful
         16 STRATEGY_DECIDED call=15 {"decision":"answer","content":"it is 42"}
         17 LLM_EXECUTION_COMPLETED node=work "it is 42"
         18 NODE_COMPLETED node=work
         19 THREAD_COMPLETED node=work
            user: go
            assistant: read(c5_0) send(c5_1)
            tool: c5_0: 42
            tool: c5_1! not run: the strategy continues without this call
            user: Are you sure?
            assistant: 42
            assistant: it is 42
        => completed, waits for nothing
    "#]]);
}

#[test]
fn an_answer_that_the_model_gave_is_not_said_twice() {
    let mut bench = Bench::new(OWN, "go");
    bench.decides(call_model());
    bench.says("42");
    bench.decides(answer("42"));
    bench.note_conversation();
    assert_eq!(bench.state().conversation().entries.len(), 2);
    assert_eq!(bench.state().output(), Some(&Json::from("42")));
}

#[test]
fn a_strategy_runs_tools_that_no_model_asked_for() {
    let mut bench = Bench::new(OWN, "go");
    bench.decides(own_call("mine", "read"));
    bench.tool_says("42");
    bench.decides(answer("42"));
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
          4 STRATEGY_DECIDED call=3 {"decision":"run_tools","calls":[{"id":"mine","name":"read","arguments":{}}]}
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_COMPLETED call=5
          7 STRATEGY_DECISION_REQUESTED node=work name=careful
          8 STRATEGY_DECIDED call=7 {"decision":"answer","content":"42"}
          9 LLM_EXECUTION_COMPLETED node=work "42"
         10 NODE_COMPLETED node=work
         11 THREAD_COMPLETED node=work
            user: go
            assistant: read(mine)
            tool: mine: 42
            assistant: 42
        => completed, waits for nothing
    "#]]);
}

#[test]
fn tools_of_a_strategy_are_approved_of_as_any() {
    let mut bench = Bench::new(OWN, "go");
    bench.decides(own_call("mine", "wipe"));
    bench.person_says(serde_json::json!(true));
    bench.tool_says("wiped");
    bench.decides(answer("clean"));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
          4 STRATEGY_DECIDED call=3 {"decision":"run_tools","calls":[{"id":"mine","name":"wipe","arguments":{}}]}
          5 USER_INTERACTION_REQUESTED node=work APPROVE_TOOL wipe
          6 USER_INTERACTION_RESPONDED interaction=5
          7 USER_INTERACTION_PROCESSED interaction=5 approve
          8 TOOL_EXECUTION_REQUEST name=wipe
          9 TOOL_EXECUTION_COMPLETED call=8
         10 STRATEGY_DECISION_REQUESTED node=work name=careful
         11 STRATEGY_DECIDED call=10 {"decision":"answer","content":"clean"}
         12 LLM_EXECUTION_COMPLETED node=work "clean"
         13 NODE_COMPLETED node=work
         14 THREAD_COMPLETED node=work
        => completed, waits for nothing
    "#]]);
    // What the node does not offer does not run.
    let mut bench = Bench::new(OWN, "go");
    bench.decides(own_call("mine", "put"));
    assert!(bench.out.contains("unknown_tool"), "{}", bench.out);
    laws::hold(&bench);
}

#[test]
fn tool_calls_that_are_passed_over_have_a_result_that_says_so() {
    let mut bench = Bench::new(OWN, "go");
    bench.decides(call_model());
    bench.asks(&["send"]);
    bench.decides(call_model());
    bench.note_request();
    bench.asks(&["send"]);
    bench.decides(answer("never mind"));
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
          4 STRATEGY_DECIDED call=3 {"decision":"call_model","messages":[],"model":null,"tools":null}
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_COMPLETED call=5
          7 STRATEGY_DECISION_REQUESTED node=work name=careful
          8 STRATEGY_DECIDED call=7 {"decision":"call_model","messages":[],"model":null,"tools":null}
          9 LLM_CALL_REQUESTED 2
            model is called, tools Some(Auto):
              user: go
              assistant: send(c5_0)
              tool: c5_0! not run: the strategy continues without this call
         10 LLM_CALL_COMPLETED call=9
         11 STRATEGY_DECISION_REQUESTED node=work name=careful
         12 STRATEGY_DECIDED call=11 {"decision":"answer","content":"never mind"}
         13 LLM_EXECUTION_COMPLETED node=work "never mind"
         14 NODE_COMPLETED node=work
         15 THREAD_COMPLETED node=work
            user: go
            assistant: send(c5_0)
            tool: c5_0! not run: the strategy continues without this call
            assistant: send(c9_0)
            tool: c9_0! not run: the strategy continues without this call
            assistant: never mind
        => completed, waits for nothing
    "#]]);
}

#[test]
fn impossible_decision_fails_the_node() {
    let mut bench = Bench::new(OWN, "go");
    bench.decides(StrategyDecision::RunTools { calls: Vec::new() });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
          4 STRATEGY_DECISION_FAILED call=3 malformed_response
          5 LLM_EXECUTION_FAILED node=work malformed_response
          6 NODE_FAILED node=work attempt=1 malformed_response
          7 THREAD_FAILED node=work malformed_response
        => error, waits for nothing
    "#]]);
    let offers = |tools: &[&str], messages| StrategyDecision::CallModel {
        messages,
        model: None,
        tools: Some(tools.iter().map(|&tool| tool.into()).collect()),
    };
    let person = ModelChoice { provider: Some("human".into()), ..ModelChoice::default() };
    for decision in [
        offers(&["put"], Vec::new()),
        offers(&[], vec![Arc::new(Message::text(Role::System, "obey"))]),
        StrategyDecision::CallModel { messages: Vec::new(), model: Some(person), tools: None },
        own_call("", "read"),
    ] {
        let mut bench = Bench::new(OWN, "go");
        bench.decides(decision);
        assert_eq!(bench.state().status(), Status::Error, "{}", bench.out);
        laws::hold(&bench);
    }
    let mut bench = Bench::new(OWN, "go");
    bench.decides(call_model());
    bench.asks(&["send"]);
    bench.decides(own_call("another", "send"));
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
          4 STRATEGY_DECIDED call=3 {"decision":"call_model","messages":[],"model":null,"tools":null}
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_COMPLETED call=5
          7 STRATEGY_DECISION_REQUESTED node=work name=careful
          8 STRATEGY_DECISION_FAILED call=7 malformed_response
          9 LLM_EXECUTION_FAILED node=work malformed_response
         10 NODE_FAILED node=work attempt=1 malformed_response
         11 THREAD_FAILED node=work malformed_response
            user: go
            assistant: send(c5_0)
            tool: c5_0! not run: the last answer has no tool call `another`
        => error, waits for nothing
    "#]]);
}

#[test]
fn strategy_fails_the_node_by_decision_error_or_timeout() {
    let mut bench = Bench::new(OWN, "go");
    let error = ExecutionError::new(ErrorKind::Denied, "not on a Sunday");
    bench.decides(StrategyDecision::Fail { error });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
          4 STRATEGY_DECIDED call=3 {"decision":"fail","error":{"kind":"denied","message":"not on a Sunday","retryable":false}}
          5 LLM_EXECUTION_FAILED node=work denied
          6 NODE_FAILED node=work attempt=1 denied
          7 THREAD_FAILED node=work denied
        => error, waits for nothing
    "#]]);
    let mut bench = Bench::new(OWN, "go");
    let (call, attempt) = bench.open();
    let error = ExecutionError::new(ErrorKind::Panicked, "it panicked");
    bench.give(bench::decision_failed(call, attempt, error));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
          4 STRATEGY_DECISION_FAILED call=3 panicked
          5 LLM_EXECUTION_FAILED node=work panicked
          6 NODE_FAILED node=work attempt=1 panicked
          7 THREAD_FAILED node=work panicked
        => error, waits for nothing
    "#]]);
    let mut bench = Bench::new(OWN, "go");
    bench.tick_after_ms(5_000);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
            5000 ms later
          4 STRATEGY_DECISION_FAILED call=3 timeout
          5 LLM_EXECUTION_FAILED node=work timeout
          6 NODE_FAILED node=work attempt=1 timeout
          7 THREAD_FAILED node=work timeout
        => error, waits for nothing
    "#]]);
}

#[test]
fn lost_decision_is_requested_again_and_a_late_one_ignored() {
    let mut bench = Bench::new(OWN, "go");
    bench.give(Input::Recover);
    let (call, _) = bench.open();
    bench.give(bench::decided(call, 1, answer("early")));
    bench.decides(answer("in time"));
    bench.give(bench::decided(call, 2, answer("late")));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
          4 THREAD_RECOVERED calls=[3]
          5 STRATEGY_DECISION_RETRIED attempt=2 call=3
          6 WARNING call=3 "stale_attempt"
          7 STRATEGY_DECIDED call=3 {"decision":"answer","content":"in time"}
          8 LLM_EXECUTION_COMPLETED node=work "in time"
          9 NODE_COMPLETED node=work
         10 THREAD_COMPLETED node=work
         11 WARNING call=3 "late_answer"
        => completed, waits for nothing
    "#]]);
}

#[test]
fn the_limits_of_calls_and_of_decisions_hold() {
    let mut bench = Bench::new(OWN, "go");
    for _ in 0..2 {
        bench.decides(call_model());
        bench.says("hm");
    }
    bench.decides(call_model());
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 STRATEGY_DECISION_REQUESTED node=work name=careful
          4 STRATEGY_DECIDED call=3 {"decision":"call_model","messages":[],"model":null,"tools":null}
          5 LLM_CALL_REQUESTED 1
          6 LLM_CALL_COMPLETED call=5
          7 STRATEGY_DECISION_REQUESTED node=work name=careful
          8 STRATEGY_DECIDED call=7 {"decision":"call_model","messages":[],"model":null,"tools":null}
          9 LLM_CALL_REQUESTED 2
         10 LLM_CALL_COMPLETED call=9
         11 STRATEGY_DECISION_REQUESTED node=work name=careful
         12 STRATEGY_DECIDED call=11 {"decision":"call_model","messages":[],"model":null,"tools":null}
         13 LLM_EXECUTION_FAILED node=work limit
         14 NODE_FAILED node=work attempt=1 limit
         15 THREAD_FAILED node=work limit
        => error, waits for nothing
    "#]]);

    let mut bench = Bench::new(&OWN.replace("nodes:", "on_limit: pause\nnodes:"), "go");
    for i in 0..8 {
        bench.decides(own_call(&format!("mine{i}"), "read"));
        bench.tool_says("42");
    }
    assert_eq!(bench.state().status(), Status::Paused);
    bench.give(Input::Raise(crate::event::LimitRaised { iterations: Some(1), ..Default::default() }));
    bench.decides(answer("done"));
    assert_eq!(bench.state().status(), Status::Completed);
    laws::hold(&bench);
}

#[test]
fn tool_that_is_not_offered_is_not_asked_about_and_does_not_run() {
    let yaml = OWN.replace("available_tools:", "approve_tools: [wipe]\n      available_tools:");
    let mut bench = Bench::new(&yaml, "go");
    bench.decides(StrategyDecision::CallModel { messages: Vec::new(), model: None, tools: Some(vec!["read".into()]) });
    bench.asks(&["wipe"]);
    let wanted = run(&bench, &[0]);
    bench.decides(wanted);
    let requests = bench.log.iter().filter_map(|(_, event)| match event {
        Event::ToolExecutionRequest(e) => Some((e.name.as_str(), e.recovery)),
        _ => None,
    });
    assert_eq!(requests.collect::<Vec<_>>(), [("wipe", Recovery::AtMostOnce)], "{}", bench.out);
    let refused = |(_, event): &(Time, Event)| match event {
        Event::ToolExecutionFailed(e) => e.error.kind == ErrorKind::UnknownTool,
        _ => false,
    };
    assert!(bench.log.iter().any(refused), "{}", bench.out);
    assert!(bench.log.iter().all(|(_, event)| !matches!(event, Event::UserInteractionRequested(_))), "{}", bench.out);
    laws::hold(&bench);
}

#[test]
fn unusable_answer_fails_the_node_before_the_strategy_is_asked() {
    let cases = [
        ("", FinishReason::Refusal, ErrorKind::Denied),
        ("", FinishReason::Length, ErrorKind::Limit),
        ("  ", FinishReason::Length, ErrorKind::Limit),
    ];
    for (text, reason, kind) in cases {
        let mut bench = Bench::new(OWN, "go");
        bench.decides(call_model());
        bench.answers(text, &[], reason);
        assert_eq!(bench.state().error().map(|error| error.kind), Some(kind), "{}", bench.out);
        laws::hold(&bench);
    }
    // With text, the strategy sees why the model stopped.
    let mut bench = Bench::new(OWN, "go");
    bench.decides(call_model());
    bench.answers("half", &[], FinishReason::Length);
    assert_eq!(turn(&bench), Turn::Answered { content: "half".into(), finish_reason: FinishReason::Length });
    bench.decides(answer("half"));
    assert_eq!(bench.state().status(), Status::Completed, "{}", bench.out);
    laws::hold(&bench);
}

#[test]
fn tool_calls_of_an_unusable_answer_do_not_run() {
    let mut bench = Bench::new(OWN, "go");
    bench.decides(call_model());
    bench.answers("", &["send"], FinishReason::Refusal);
    assert_eq!(bench.state().error().map(|error| error.kind), Some(ErrorKind::Denied), "{}", bench.out);
    assert!(!bench.out.contains("TOOL_EXECUTION_REQUEST"), "{}", bench.out);
    assert!(matches!(bench.state().conversation().entries.last().map(|entry| entry.message.role), Some(Role::Tool)));
    laws::hold(&bench);
}
