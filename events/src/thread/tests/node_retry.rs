//! A failed node is tried again.

use super::*;

pub(super) const RETRIED: &str = "
version: '1'
name: retried
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: '{{ input }}', tool_mode: auto, system_prompt: be kind}
    retry: {max_attempts: 3, backoff_ms: 100, backoff_ms_max: 150}
";

fn after_before() -> Bench {
    let before = "nodes:\n  - {id: before, llm: {provider: mock, model: m, user_prompt: before}}";
    let mut bench = Bench::new(&RETRIED.replace("nodes:", before), "hello");
    bench.says("was before");
    bench
}

#[test]
fn a_further_try_waits_longer_each_time_and_begins_with_the_conversation_as_it_was() {
    let mut bench = after_before();
    bench.asks(&["read"]);
    bench.tool_says("42");
    bench.model_fails(ErrorKind::Server);
    bench.tick_after_ms(99);
    bench.tick_after_ms(1);
    bench.note_request();
    bench.model_fails(ErrorKind::Server);
    bench.tick_after_ms(150);
    bench.model_fails(ErrorKind::Server);
    bench.note_conversation();
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=before attempt=1
          2 LLM_EXECUTION_REQUEST node=before
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=before "was before"
          6 NODE_COMPLETED node=before
          7 NODE_STARTED node=ask attempt=1
          8 LLM_EXECUTION_REQUEST node=ask
          9 LLM_CALL_REQUESTED 1
         10 LLM_CALL_COMPLETED call=9
         11 TOOL_EXECUTION_REQUEST name=read
         12 TOOL_EXECUTION_COMPLETED call=11
         13 LLM_CALL_REQUESTED 2
         14 LLM_CALL_FAILED call=13 server
         15 LLM_EXECUTION_FAILED node=ask server
         16 NODE_FAILED node=ask attempt=1 server retry_at=+100
            99 ms later
            1 ms later
         17 NODE_STARTED node=ask attempt=2
         18 LLM_EXECUTION_REQUEST node=ask
         19 LLM_CALL_REQUESTED 1
            model is called, tools Some(Auto):
              system: be kind
              user: before
              assistant: was before
              user: hello
         20 LLM_CALL_FAILED call=19 server
         21 LLM_EXECUTION_FAILED node=ask server
         22 NODE_FAILED node=ask attempt=2 server retry_at=+250
            150 ms later
         23 NODE_STARTED node=ask attempt=3
         24 LLM_EXECUTION_REQUEST node=ask
         25 LLM_CALL_REQUESTED 1
         26 LLM_CALL_FAILED call=25 server
         27 LLM_EXECUTION_FAILED node=ask server
         28 NODE_FAILED node=ask attempt=3 server
         29 THREAD_FAILED node=ask server
            user: before
            assistant: was before
            system: be kind
            user: hello
        => error, waits for nothing
    "#]]);
}

#[test]
fn what_another_try_cannot_mend_is_not_tried_again() {
    let mut bench = Bench::new(RETRIED, "hello");
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
fn a_try_in_which_something_was_written_is_not_repeated() {
    for tool in ["put", "send"] {
        let mut bench = after_before();
        bench.out.clear();
        bench.asks(&[tool]);
        bench.tool_says("done");
        bench.model_fails(ErrorKind::Server);
        if tool == "put" {
            laws::hold(&bench);
            assert_eq!(bench.state().status(), Status::Error);
        } else {
            bench.check(expect![[r#"
                 10 LLM_CALL_COMPLETED call=9
                 11 TOOL_EXECUTION_REQUEST name=send
                 12 TOOL_EXECUTION_COMPLETED call=11
                 13 LLM_CALL_REQUESTED 2
                 14 LLM_CALL_FAILED call=13 server
                 15 LLM_EXECUTION_FAILED node=ask server
                 16 NODE_FAILED node=ask attempt=1 server (not tried again, because `send` wrote to the world in this try, or may have)
                 17 THREAD_FAILED node=ask server (not tried again, because `send` wrote to the world in this try, or may have)
                => error, waits for nothing
            "#]]);
        }
    }
}

#[test]
fn a_tool_that_says_it_failed_did_not_write_and_the_try_is_repeated() {
    let mut bench = Bench::new(RETRIED, "hello");
    bench.asks(&["send"]);
    bench.tool_fails(ErrorKind::Failed, false);
    bench.model_fails(ErrorKind::Server);
    bench.tick_after_ms(100);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=send
          6 TOOL_EXECUTION_FAILED call=5 failed
          7 LLM_CALL_REQUESTED 2
          8 LLM_CALL_FAILED call=7 server
          9 LLM_EXECUTION_FAILED node=ask server
         10 NODE_FAILED node=ask attempt=1 server retry_at=+100
            100 ms later
         11 NODE_STARTED node=ask attempt=2
         12 LLM_EXECUTION_REQUEST node=ask
         13 LLM_CALL_REQUESTED 1
        => running, waits for the world until +120100
    "#]]);
}

#[test]
fn a_node_that_timed_out_while_it_wrote_is_not_repeated() {
    let yaml = RETRIED.replace("    retry:", "    timeout_ms: 700\n    retry:");
    let mut bench = Bench::new(&yaml, "hello");
    bench.asks(&["send"]);
    bench.tick_after_ms(700);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=send
            700 ms later
          6 TOOL_EXECUTION_FAILED call=5 timeout
          7 LLM_EXECUTION_FAILED node=ask timeout
          8 NODE_FAILED node=ask attempt=1 timeout (not tried again, because `send` wrote to the world in this try, or may have)
          9 THREAD_FAILED node=ask timeout (not tried again, because `send` wrote to the world in this try, or may have)
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_node_that_timed_out_while_it_read_is_repeated_with_a_new_deadline() {
    let yaml = RETRIED.replace("    retry:", "    timeout_ms: 700\n    retry:");
    let mut bench = Bench::new(&yaml, "hello");
    bench.asks(&["read"]);
    bench.tick_after_ms(700);
    bench.tick_after_ms(100);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
            700 ms later
          6 TOOL_EXECUTION_FAILED call=5 timeout
          7 LLM_EXECUTION_FAILED node=ask timeout
          8 NODE_FAILED node=ask attempt=1 timeout retry_at=+800
            100 ms later
          9 NODE_STARTED node=ask attempt=2
         10 LLM_EXECUTION_REQUEST node=ask
         11 LLM_CALL_REQUESTED 1
        => running, waits for the world until +1500
    "#]]);
}

#[test]
fn a_try_that_is_due_waits_for_the_end_of_a_pause() {
    let mut bench = Bench::new(RETRIED, "hello");
    bench.model_fails(ErrorKind::Server);
    bench.tick_after_ms(40);
    bench.give(Input::Pause { reason: None });
    bench.tick_after_ms(1_000);
    bench.give(Input::Resume);
    bench.tick_after_ms(59);
    bench.tick_after_ms(1);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_FAILED call=3 server
          5 LLM_EXECUTION_FAILED node=ask server
          6 NODE_FAILED node=ask attempt=1 server retry_at=+100
            40 ms later
          7 THREAD_PAUSED
            1000 ms later
          8 THREAD_RESUMED
            59 ms later
            1 ms later
          9 NODE_STARTED node=ask attempt=2
         10 LLM_EXECUTION_REQUEST node=ask
         11 LLM_CALL_REQUESTED 1
        => running, waits for the world until +121100
    "#]]);
}

#[test]
fn a_failure_goes_to_the_node_that_is_named_for_it() {
    let yaml = "
version: '1'
name: caught
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: hello}
    on_error: sorry
  - id: sorry
    llm: {provider: mock, model: m, user_prompt: say sorry}
edges: []
";
    let mut bench = Bench::new(yaml, "hello");
    bench.model_fails(ErrorKind::Quota);
    bench.says("sorry");
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_FAILED call=3 quota
          5 LLM_EXECUTION_FAILED node=ask quota
          6 NODE_FAILED node=ask attempt=1 quota
          7 ROUTE_TAKEN from=ask to=sorry condition=error quota
          8 NODE_STARTED node=sorry attempt=1
          9 LLM_EXECUTION_REQUEST node=sorry
         10 LLM_CALL_REQUESTED 1
         11 LLM_CALL_COMPLETED call=10
         12 LLM_EXECUTION_COMPLETED node=sorry "sorry"
         13 NODE_COMPLETED node=sorry
         14 THREAD_COMPLETED node=sorry
        => completed, waits for nothing
    "#]]);
}

fn with_retry(retry: &str) -> String {
    RETRIED.replace("{max_attempts: 3, backoff_ms: 100, backoff_ms_max: 150}", retry)
}

#[test]
fn a_policy_names_the_errors_after_which_it_holds() {
    let yaml = with_retry("{max_attempts: 3, on: [authentication, timeout]}");
    let mut bench = Bench::new(&yaml, "hello");
    bench.model_fails(ErrorKind::Authentication);
    bench.model_fails(ErrorKind::Server);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_FAILED call=3 authentication
          5 LLM_EXECUTION_FAILED node=ask authentication
          6 NODE_FAILED node=ask attempt=1 authentication retry_at=+0
          7 NODE_STARTED node=ask attempt=2
          8 LLM_EXECUTION_REQUEST node=ask
          9 LLM_CALL_REQUESTED 1
         10 LLM_CALL_FAILED call=9 server
         11 LLM_EXECUTION_FAILED node=ask server
         12 NODE_FAILED node=ask attempt=2 server
         13 THREAD_FAILED node=ask server
        => error, waits for nothing
    "#]]);
}

#[test]
fn chance_takes_its_part_of_the_wait_and_is_the_same_in_every_replay() {
    let waits = |jitter: &str, id: u8| {
        let yaml =
            with_retry(&format!("{{max_attempts: 100, backoff_ms: 1000, backoff_ms_max: 1000, jitter: {jitter}}}"));
        let workflow = Arc::new(workflow::parse(yaml.as_bytes()).unwrap());
        let mut around = Surroundings { now: bench::START, tools: &Toolbox, models: &Toolbox };
        let started = Thread::started(&workflow, "hello".into(), None, around.now);
        let (mut thread, _) = Thread::begin(ThreadId::from_bytes([id; 16]), workflow, started, &around).unwrap();
        let mut waits = Vec::new();
        for _ in 0..50 {
            let (call, attempt) = thread.effects()[0].key();
            let error = ExecutionError::new(ErrorKind::Server, "down");
            let events = thread.step(Input::ModelFailed { call, attempt, error }, &around).unwrap();
            let retry_at = events.iter().find_map(|event| match event {
                Event::NodeFailed(e) => e.retry_at,
                _ => None,
            });
            waits.push(retry_at.unwrap().ms_since(around.now));
            around.now = retry_at.unwrap();
            thread.step(Input::Tick, &around).unwrap();
        }
        waits
    };
    assert!(waits("none", 1).iter().all(|wait| *wait == 1_000));
    let (full, equal) = (waits("full", 1), waits("equal", 1));
    assert_eq!(full, waits("full", 1));
    assert_ne!(full, waits("full", 2));
    assert!(full.iter().all(|wait| *wait <= 1_000) && full.iter().any(|wait| *wait < 500));
    assert!(equal.iter().all(|wait| (500..=1_000).contains(wait)));
    assert!(equal.iter().any(|wait| *wait != equal[0]));
}
