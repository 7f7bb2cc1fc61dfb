//! Threads that take the next run.

use super::*;
use crate::event::OnMessage;
use crate::ids::RunId;

/// One model node that is asked what the run was given, with a budget and an initial variable.
pub(super) const CHAT: &str = "
version: '1'
name: chat
variables: {tone: kind}
timeout_ms: 60000
budget: {tokens: 40}
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: '{{ input }}', tool_mode: auto, max_iterations: 3, concurrent_tools: 2}
";

impl Bench {
    pub(super) fn run(&mut self, text: &str) {
        self.give(Input::Run(Box::new(RunInput { input: text.into(), ..RunInput::default() })));
    }

    pub(super) fn run_as(&mut self, text: &str, on_message: OnMessage) {
        let on_message = Some(on_message);
        self.give(Input::Run(Box::new(RunInput { input: text.into(), on_message, ..RunInput::default() })));
    }
}

#[test]
fn a_thread_that_has_ended_takes_the_next_run() {
    let mut bench = Bench::new(CHAT, "my name is Ada");
    bench.says("hello Ada");
    bench.now = bench.now.plus_ms(3_600_000);
    bench.run("what is my name?");
    bench.note_request();
    bench.says("Ada");
    let state = bench.state();
    assert_eq!((state.run_number(), state.run_id()), (2, RunId(Seq(8))));
    assert_eq!(state.run_totals().n_llm_calls, 1);
    assert_eq!(state.totals().n_llm_calls, 2);
    assert_eq!(state.started_at(), Some(bench::START));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=ask "hello Ada"
          6 NODE_COMPLETED node=ask
          7 THREAD_COMPLETED node=ask
          8 RUN_STARTED from=input
          9 NODE_STARTED node=ask attempt=1
         10 LLM_EXECUTION_REQUEST node=ask
         11 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              user: my name is Ada
              assistant: hello Ada
              user: what is my name?
         12 LLM_CALL_COMPLETED call=11
         13 LLM_EXECUTION_COMPLETED node=ask "Ada"
         14 NODE_COMPLETED node=ask
         15 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_run_begins_without_the_output_and_the_error_of_the_run_before() {
    let mut bench = Bench::new(CHAT, "one");
    bench.says("first");
    bench.run("two");
    assert_eq!(bench.state().output(), None);
    bench.model_fails(ErrorKind::Server);
    assert_eq!(bench.state().status(), Status::Error);
    bench.run("three");
    assert_eq!(bench.state().error(), None);
    bench.give(Input::Cancel { reason: None });
    bench.run("four");
    bench.note_request();
    bench.says("fourth");
    assert_eq!(bench.state().output(), Some(&"fourth".into()));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=ask "first"
          6 NODE_COMPLETED node=ask
          7 THREAD_COMPLETED node=ask
          8 RUN_STARTED from=input
          9 NODE_STARTED node=ask attempt=1
         10 LLM_EXECUTION_REQUEST node=ask
         11 LLM_CALL_REQUESTED 1
         12 LLM_CALL_FAILED call=11 server
         13 LLM_EXECUTION_FAILED node=ask server
         14 NODE_FAILED node=ask attempt=1 server
         15 THREAD_FAILED node=ask server
         16 RUN_STARTED from=input
         17 NODE_STARTED node=ask attempt=1
         18 LLM_EXECUTION_REQUEST node=ask
         19 LLM_CALL_REQUESTED 1
         20 LLM_CALL_FAILED call=19 cancelled
         21 LLM_EXECUTION_FAILED node=ask cancelled
         22 NODE_FAILED node=ask attempt=1 cancelled
         23 THREAD_CANCELLED
         24 RUN_STARTED from=input
         25 NODE_STARTED node=ask attempt=1
         26 LLM_EXECUTION_REQUEST node=ask
         27 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              user: one
              assistant: first
              user: two
              user: three
              user: four
         28 LLM_CALL_COMPLETED call=27
         29 LLM_EXECUTION_COMPLETED node=ask "fourth"
         30 NODE_COMPLETED node=ask
         31 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_run_that_is_queued_begins_when_the_one_before_has_ended() {
    let mut bench = Bench::new(CHAT, "one");
    bench.run("two");
    bench.run("three");
    bench.says("first");
    bench.note_request();
    bench.model_fails(ErrorKind::Server);
    bench.note_request();
    bench.says("third");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 RUN_QUEUED
          5 RUN_QUEUED
          6 LLM_CALL_COMPLETED call=3
          7 LLM_EXECUTION_COMPLETED node=ask "first"
          8 NODE_COMPLETED node=ask
          9 THREAD_COMPLETED node=ask
         10 RUN_STARTED from=queue
         11 NODE_STARTED node=ask attempt=1
         12 LLM_EXECUTION_REQUEST node=ask
         13 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              user: one
              assistant: first
              user: two
         14 LLM_CALL_FAILED call=13 server
         15 LLM_EXECUTION_FAILED node=ask server
         16 NODE_FAILED node=ask attempt=1 server
         17 THREAD_FAILED node=ask server
         18 RUN_STARTED from=queue
         19 NODE_STARTED node=ask attempt=1
         20 LLM_EXECUTION_REQUEST node=ask
         21 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              user: one
              assistant: first
              user: two
              user: three
         22 LLM_CALL_COMPLETED call=21
         23 LLM_EXECUTION_COMPLETED node=ask "third"
         24 NODE_COMPLETED node=ask
         25 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn run_that_goes_on_is_cancelled_without_those_that_wait() {
    let mut bench = Bench::new(CHAT, "one");
    bench.run("two");
    bench.run("three");
    bench.give(Input::CancelRun { run: RunId(Seq(0)), reason: Some("not needed".into()) });
    bench.give(Input::CancelRun { run: RunId(Seq(0)), reason: None });
    bench.says("second");
    bench.says("third");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 RUN_QUEUED
          5 RUN_QUEUED
          6 LLM_CALL_FAILED call=3 cancelled
          7 LLM_EXECUTION_FAILED node=ask cancelled
          8 NODE_FAILED node=ask attempt=1 cancelled
          9 THREAD_CANCELLED "not needed"
         10 RUN_STARTED from=queue
         11 NODE_STARTED node=ask attempt=1
         12 LLM_EXECUTION_REQUEST node=ask
         13 LLM_CALL_REQUESTED 1
            refused: run 0 of the thread neither goes on nor waits
         14 LLM_CALL_COMPLETED call=13
         15 LLM_EXECUTION_COMPLETED node=ask "second"
         16 NODE_COMPLETED node=ask
         17 THREAD_COMPLETED node=ask
         18 RUN_STARTED from=queue
         19 NODE_STARTED node=ask attempt=1
         20 LLM_EXECUTION_REQUEST node=ask
         21 LLM_CALL_REQUESTED 1
         22 LLM_CALL_COMPLETED call=21
         23 LLM_EXECUTION_COMPLETED node=ask "third"
         24 NODE_COMPLETED node=ask
         25 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_run_that_waits_is_called_off() {
    let mut bench = Bench::new(CHAT, "one");
    bench.run("two");
    bench.run("three");
    bench.give(Input::CancelRun { run: RunId(Seq(4)), reason: Some("not needed".into()) });
    bench.give(Input::CancelRun { run: RunId(Seq(4)), reason: None });
    bench.says("first");
    bench.says("third");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 RUN_QUEUED
          5 RUN_QUEUED
          6 RUN_CANCELLED "not needed"
            refused: run 4 of the thread neither goes on nor waits
          7 LLM_CALL_COMPLETED call=3
          8 LLM_EXECUTION_COMPLETED node=ask "first"
          9 NODE_COMPLETED node=ask
         10 THREAD_COMPLETED node=ask
         11 RUN_STARTED from=queue
         12 NODE_STARTED node=ask attempt=1
         13 LLM_EXECUTION_REQUEST node=ask
         14 LLM_CALL_REQUESTED 1
         15 LLM_CALL_COMPLETED call=14
         16 LLM_EXECUTION_COMPLETED node=ask "third"
         17 NODE_COMPLETED node=ask
         18 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn the_end_from_outside_calls_off_what_waits() {
    let mut bench = Bench::new(CHAT, "one");
    bench.run("two");
    bench.run_as("three", OnMessage::Steer);
    bench.give(Input::Cancel { reason: Some("enough".into()) });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 RUN_QUEUED
          5 MESSAGE_ADDED
          6 RUN_CANCELLED "the thread was cancelled: enough"
          7 RUN_CANCELLED "the thread was cancelled: enough"
          8 LLM_CALL_FAILED call=3 cancelled
          9 LLM_EXECUTION_FAILED node=ask cancelled
         10 NODE_FAILED node=ask attempt=1 cancelled
         11 THREAD_CANCELLED "enough"
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn too_many_runs_and_runs_that_are_refused_change_nothing() {
    let mut bench = Bench::new(CHAT, "one");
    for _ in 0..RUNS_QUEUED_MAX {
        bench.run("more");
    }
    let before = bench.state().clone();
    bench.out.clear();
    bench.run("one too many");
    bench.run_as("now", OnMessage::Reject);
    let steers = RunInput {
        input: serde_json::json!({"a": 1}).into(),
        on_message: Some(OnMessage::Steer),
        ..RunInput::default()
    };
    bench.give(Input::Run(Box::new(steers)));
    let definition = Some(Arc::new(workflow::parse(CHAT.as_bytes()).unwrap()));
    bench.give(Input::Run(Box::new(RunInput { input: "x".into(), definition, ..RunInput::default() })));
    let mut named = RunInput { input: "x".into(), ..RunInput::default() };
    named.variables.insert("not a name".into(), 1.into());
    bench.give(Input::Run(Box::new(named)));
    assert_eq!(&before, bench.state());
    expect![[r#"
            refused: 100 runs wait in the thread already: wait until one has begun, or call one off
            refused: run 0 is going on: wait for its end, or give `on_message` as queue, steer or interrupt
            refused: a message to the run that is going on is a text without variables: queue the run, or wait for its end
            refused: run 0 is going on, and a run that is given a definition cannot wait for it: send it when that has ended
            refused: `not a name` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200
    "#]].assert_eq(&bench.out.replace("    refused", "refused"));
}

#[test]
fn a_run_may_be_one_on_another_definition() {
    let mut bench = Bench::new(CHAT, "one");
    bench.says("first");
    let newer = CHAT.replace("tone: kind", "tone: harsh, depth: 2").replace("id: ask", "id: answer");
    let definition = Some(Arc::new(workflow::parse(newer.as_bytes()).unwrap()));
    bench.give(Input::Run(Box::new(RunInput { input: "two".into(), definition, ..RunInput::default() })));
    assert_eq!(bench.state().variables().get("tone"), Some(&"kind".into()), "a variable of the thread was set anew");
    assert_eq!(bench.state().variables().get("depth"), Some(&2.into()));
    bench.says("second");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=ask "first"
          6 NODE_COMPLETED node=ask
          7 THREAD_COMPLETED node=ask
          8 RUN_STARTED from=input
          9 NODE_STARTED node=answer attempt=1
         10 LLM_EXECUTION_REQUEST node=answer
         11 LLM_CALL_REQUESTED 1
         12 LLM_CALL_COMPLETED call=11
         13 LLM_EXECUTION_COMPLETED node=answer "second"
         14 NODE_COMPLETED node=answer
         15 THREAD_COMPLETED node=answer
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_fork_answers_nothing_that_its_parent_was_asked() {
    let mut bench = Bench::new(CHAT, "one");
    bench.run("two");
    bench.run_as("three", OnMessage::Steer);
    let mut fork = bench.fork(5, ForkChanges::default());
    fork.model_fails(ErrorKind::Server);
    fork.run("another two");
    fork.note_request();
    fork.says("second");
    fork.check(expect![[r#"
          6 THREAD_FORKED
          7 THREAD_RECOVERED calls=[3]
          8 LLM_CALL_RETRIED attempt=2 call=3
          9 LLM_CALL_FAILED call=3 server
         10 LLM_EXECUTION_FAILED node=ask server
         11 NODE_FAILED node=ask attempt=1 server
         12 THREAD_FAILED node=ask server
         13 RUN_STARTED from=input
         14 NODE_STARTED node=ask attempt=1
         15 LLM_EXECUTION_REQUEST node=ask
         16 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              user: one
              user: three
              user: another two
         17 LLM_CALL_COMPLETED call=16
         18 LLM_EXECUTION_COMPLETED node=ask "second"
         19 NODE_COMPLETED node=ask
         20 THREAD_COMPLETED node=ask
        => completed, waits for nothing
    "#]]);
}

#[test]
fn run_that_is_to_follow_another_is_refused_if_one_came_between() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    let first = bench.state().run_id();
    let after_first = || {
        let given = RunInput { input: "next".into(), after: Some(first), ..RunInput::default() };
        Input::Run(Box::new(given))
    };
    let refuses = |bench: &mut Bench| {
        let n = bench.log.len();
        bench.give(after_first());
        bench.log.len() == n
    };
    assert!(refuses(&mut bench), "it goes on");
    bench.says("one");
    bench.give(after_first());
    assert_ne!(bench.state().run_id(), first);
    assert!(refuses(&mut bench), "another one goes on");
    bench.says("two");
    assert!(bench.state().is_ended());
    assert!(refuses(&mut bench), "another one came and ended");
}
