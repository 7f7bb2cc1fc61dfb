//! Pause and resume.

use super::*;

fn pause(bench: &mut Bench) {
    bench.give(Input::Pause { reason: Some("lunch".into()) });
}

fn cancel(bench: &mut Bench) {
    bench.give(Input::Cancel { reason: Some("enough".into()) });
}

#[test]
fn paused_thread_accepts_results_and_begins_nothing() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read", "put", "send"]);
    pause(&mut bench);
    bench.tool_says("first");
    bench.tool_says("second");
    bench.note(format_args!("{} run", bench.thread.effects().len()));
    bench.give(Input::Resume);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_REQUEST name=put
          7 THREAD_PAUSED "lunch"
          8 TOOL_EXECUTION_COMPLETED call=5
          9 TOOL_EXECUTION_COMPLETED call=6
            0 run
         10 THREAD_RESUMED
         11 TOOL_EXECUTION_REQUEST name=send
        => running, waits for the world until +12000
    "#]]);
}

#[test]
fn the_clocks_of_calls_stand_still_in_a_pause() {
    let mut bench = Bench::new(&ONE_LLM.replace("    llm:", "    timeout_ms: 50000\n    llm:"), "hello");
    bench.asks(&["read"]);
    bench.tick_after_ms(400);
    pause(&mut bench);
    bench.tick_after_ms(100_000);
    bench.give(Input::Resume);
    bench.tick_after_ms(11_599);
    bench.tick_after_ms(1);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
            400 ms later
          6 THREAD_PAUSED "lunch"
            100000 ms later
          7 THREAD_RESUMED
            11599 ms later
            1 ms later
          8 TOOL_CALL_RETRIED attempt=2 call=5 timeout not_before=+112050
        => running, waits for the world until +124050
    "#]]);
}

#[test]
fn a_retry_that_is_decided_in_a_pause_waits_from_its_end() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.asks(&["read"]);
    pause(&mut bench);
    bench.tick_after_ms(10_000);
    bench.tool_fails(ErrorKind::Failed, true);
    bench.tick_after_ms(10_000);
    bench.give(Input::Resume);
    let Effect::CallTool(run) = &bench.thread.effects()[0] else { panic!() };
    assert_eq!(run.not_before, bench.now.plus_ms(50));
    assert_eq!(run.deadline, bench.now.plus_ms(1_050));
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 THREAD_PAUSED "lunch"
            10000 ms later
          7 TOOL_CALL_RETRIED attempt=2 call=5 failed not_before=+50
            10000 ms later
          8 THREAD_RESUMED
        => running, waits for the world until +32050
    "#]]);
}

#[test]
fn deadline_of_the_thread_runs_in_a_pause() {
    let mut bench = Bench::new(&ONE_LLM.replace("name: one", "name: one\ntimeout_ms: 600"), "hello");
    pause(&mut bench);
    bench.tick_after_ms(600);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
          4 THREAD_PAUSED "lunch"
            600 ms later
          5 LLM_CALL_FAILED call=3 timeout
          6 LLM_EXECUTION_FAILED node=ask timeout
          7 NODE_FAILED node=ask attempt=1 timeout
          8 THREAD_FAILED node=ask timeout
        => error, waits for nothing
    "#]]);
}

#[test]
fn only_what_runs_can_be_paused_and_only_what_is_paused_resumed() {
    let mut bench = Bench::new(ONE_LLM, "hello");
    bench.give(Input::Resume);
    pause(&mut bench);
    pause(&mut bench);
    bench.give(Input::Resume);
    bench.says("hi");
    pause(&mut bench);
    bench.give(Input::Resume);
    cancel(&mut bench);
    bench.give(Input::Abort { reason: None });
    bench.give(Input::AddMessage(Message::text(Role::User, "late")));
    bench.give(Input::SetVariables(OrderedMap::default()));
    bench.give(Input::Checkpoint { label: "late".into() });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 LLM_EXECUTION_REQUEST node=ask
          3 LLM_CALL_REQUESTED 1
            refused: the thread is not paused
          4 THREAD_PAUSED "lunch"
            refused: the thread is paused already
          5 THREAD_RESUMED
          6 LLM_CALL_COMPLETED call=3
          7 LLM_EXECUTION_COMPLETED node=ask "hi"
          8 NODE_COMPLETED node=ask
          9 THREAD_COMPLETED node=ask
            refused: the thread has ended with status completed
            refused: the thread has ended with status completed
            refused: the thread has ended with status completed
            refused: the thread has ended with status completed
            refused: the thread has ended with status completed
            refused: the thread has ended with status completed
            refused: the thread has ended with status completed
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_thread_that_has_not_begun_takes_no_orders() {
    let workflow = Arc::new(workflow::parse(ONE_LLM.as_bytes()).unwrap());
    let mut thread = Thread::resume(State::new(ThreadId::from_bytes([7; 16])), workflow);
    let around = Env { now: bench::START, tools: &Toolbox, models: &Toolbox, permits: &NoWaits };
    for input in [
        Input::Cancel { reason: None },
        Input::Pause { reason: None },
        Input::Resume,
        Input::Abort { reason: None },
        Input::Checkpoint { label: "x".into() },
        Input::SetVariables(OrderedMap::default()),
    ] {
        assert!(matches!(thread.step(input, &around), Err(StepError::Rejected(_))));
    }
    for input in [Input::Tick, Input::Recover] {
        assert_eq!(thread.step(input, &around), Ok(Vec::new()));
    }
}
