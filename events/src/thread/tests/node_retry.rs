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
fn retry_backs_off_and_begins_with_the_original_conversation() {
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
              user: before
              assistant: was before
              system: be kind
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
fn error_that_a_retry_cannot_mend_is_not_retried() {
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
                 16 NODE_FAILED node=ask attempt=1 server (not tried again, whatever `retry` says: `send` began in this try and may have changed something; a tool whose calls may be repeated is declared `safe`, or `idempotent`)
                 17 THREAD_FAILED node=ask server (not tried again, whatever `retry` says: `send` began in this try and may have changed something; a tool whose calls may be repeated is declared `safe`, or `idempotent`)
                => error, waits for nothing
            "#]]);
        }
    }
}

/// Whether the node is tried again when a later model call fails after this end of a call.
fn is_repeated_after(tool: &str, kind: ErrorKind, retryable: bool, begun: bool) -> bool {
    let yaml = with_retry("{max_attempts: 3, on: [server, failed]}");
    let mut bench = Bench::new(&yaml, "hello");
    bench.asks(&[tool]);
    for _ in 0..2 {
        // Where the tool itself allows another attempt it fails once more.
        let Some(Effect::CallTool(run)) = bench.thread.effects().into_iter().next() else { break };
        bench.now = bench.now.max(run.not_before);
        let error = ExecutionError { retryable, ..ExecutionError::new(kind, "it broke") };
        let (call, attempt) = (run.call, run.attempt);
        bench.give(bench::tool_failed(call, attempt, begun, error));
    }
    bench.model_fails(ErrorKind::Server);
    let status = bench.state().status();
    laws::hold(&bench);
    if status == Status::Error {
        let error = bench.state().error().unwrap();
        let cause = error.cause.unwrap();
        assert!(
            cause.contains(&format!("`{tool}` began in this try")) && cause.contains("whatever `retry` says"),
            "{cause}"
        );
    }
    status == Status::Running
}

#[test]
fn tool_that_says_it_failed_may_have_written() {
    assert!(!is_repeated_after("send", ErrorKind::Failed, false, true));
    assert!(!is_repeated_after("send", ErrorKind::InvalidArguments, false, true));
    assert!(!is_repeated_after("put", ErrorKind::Failed, false, true), "another call has another key");
    assert!(is_repeated_after("read", ErrorKind::Failed, false, true));
}

#[test]
fn tool_that_says_it_did_nothing_did_not_write() {
    assert!(is_repeated_after("send", ErrorKind::Failed, true, true), "the tool allows another try");
    assert!(is_repeated_after("send", ErrorKind::Failed, false, false), "it has not begun");
    assert!(is_repeated_after("send", ErrorKind::Connection, false, false));
    assert!(!is_repeated_after("send", ErrorKind::Connection, true, true), "its answer may have been lost");
}

#[test]
fn tool_node_repeats_an_idempotent_tool_under_the_same_key() {
    let yaml = "
version: '1'
name: store
nodes:
  - {id: store, tool: {tool_name: TOOL}, retry: {max_attempts: 2, on: [failed, timeout]}}
";
    let key = |bench: &Bench| match &bench.thread.effects()[0] {
        Effect::CallTool(run) => run.key(bench.state().thread()),
        other => panic!("{other:?}"),
    };
    for kind in [ErrorKind::Failed, ErrorKind::Timeout] {
        let mut bench = Bench::new(&yaml.replace("TOOL", "put"), "hello");
        let first = key(&bench);
        bench.tool_fails(kind, false);
        assert_eq!(key(&bench), first, "{}", bench.out);
        let fork = bench.fork(bench.log.len() - 1, ForkChanges::default());
        assert_eq!(key(&fork), first);
        bench.tool_says("stored");
        assert_eq!(bench.state().status(), Status::Completed);
        laws::hold(&bench);

        let mut bench = Bench::new(&yaml.replace("TOOL", "send"), "hello");
        bench.tool_fails(kind, false);
        assert_eq!(bench.state().status(), Status::Error);
        laws::hold(&bench);
    }
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
          8 NODE_FAILED node=ask attempt=1 timeout (not tried again, whatever `retry` says: `send` began in this try and may have changed something; a tool whose calls may be repeated is declared `safe`, or `idempotent`)
          9 THREAD_FAILED node=ask timeout (not tried again, whatever `retry` says: `send` began in this try and may have changed something; a tool whose calls may be repeated is declared `safe`, or `idempotent`)
        => error, waits for nothing
    "#]]);
}

#[test]
fn timed_out_reading_node_is_retried_with_a_new_deadline() {
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
          7 ROUTE_TAKEN from=ask to=sorry condition=error quota quota
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
fn jitter_is_a_part_of_the_wait_and_replays_the_same() {
    let waits = |jitter: &str, id: u8| {
        let yaml =
            with_retry(&format!("{{max_attempts: 100, backoff_ms: 1000, backoff_ms_max: 1000, jitter: {jitter}}}"));
        let workflow = Arc::new(workflow::parse(yaml.as_bytes()).unwrap());
        let mut around = Env { now: bench::START, tools: &Toolbox, models: &Toolbox, permits: &NoWaits };
        let started = Thread::started(&workflow, Start::new("hello"), around.now).unwrap();
        let (mut thread, _) = Thread::begin(ThreadId::from_bytes([id; 16]), workflow, started, &around).unwrap();
        let mut waits = Vec::new();
        for _ in 0..50 {
            let (call, attempt) = thread.effects()[0].key();
            let error = ExecutionError::new(ErrorKind::Server, "down");
            let events = thread.step(bench::model_failed(call, attempt, error), &around).unwrap();
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
