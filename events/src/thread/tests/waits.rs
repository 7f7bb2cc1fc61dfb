//! Nodes that wait for a time.

use super::*;

const WAIT: &str = "
version: '1'
name: reminder
timeout_ms: 3600000
variables: {ms: 60000}
nodes:
  - {id: say, llm: {provider: mock, model: m, user_prompt: Hi}}
  - {id: hold, wait: {for_ms: '{{ ms * 2 }}'}}
  - {id: done, end: {}}
";

fn waiting() -> Bench {
    let mut bench = Bench::new(WAIT, "x");
    bench.says("Hello.");
    bench
}

fn wait_of(bench: &Bench) -> CallId {
    bench.state().timer().unwrap().id
}

#[test]
fn wait_ends_when_its_time_has_come_and_keeps_the_output() {
    let mut bench = waiting();
    bench.tick_after_ms(119_999);
    bench.tick_after_ms(1);
    let output = format!("{:?}", bench.state().output());
    bench.note(output);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=say attempt=1
          2 LLM_EXECUTION_REQUEST node=say
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=say "Hello."
          6 NODE_COMPLETED node=say
          7 NODE_STARTED node=hold attempt=1
          8 WAIT_STARTED node=hold
            119999 ms later
            1 ms later
          9 WAIT_COMPLETED
         10 NODE_COMPLETED node=hold
         11 NODE_STARTED node=done attempt=1
         12 NODE_COMPLETED node=done
         13 THREAD_COMPLETED node=done
            Some("Hello.")
        => completed, waits for nothing
    "#]]);
}

#[test]
fn wait_is_moved_and_ended_at_once() {
    let mut bench = waiting();
    let wait = wait_of(&bench);
    bench.give(Input::ChangeWait { wait, until: bench.now.plus_ms(300_000) });
    bench.tick_after_ms(120_000);
    bench.give(Input::ChangeWait { wait: CallId(Seq(1)), until: bench.now });
    bench.give(Input::ChangeWait { wait, until: bench.now.plus_ms(u64::MAX) });
    bench.give(Input::ChangeWait { wait, until: bench.now });
    bench.tick_after_ms(0);
    bench.give(Input::ChangeWait { wait, until: bench.now });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=say attempt=1
          2 LLM_EXECUTION_REQUEST node=say
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=say "Hello."
          6 NODE_COMPLETED node=say
          7 NODE_STARTED node=hold attempt=1
          8 WAIT_STARTED node=hold
          9 WAIT_CHANGED
            120000 ms later
            refused: the thread has no wait 1 that goes on
            refused: a wait ends within a hundred years from now
         10 WAIT_CHANGED
            0 ms later
         11 WAIT_COMPLETED
         12 NODE_COMPLETED node=hold
         13 NODE_STARTED node=done attempt=1
         14 NODE_COMPLETED node=done
         15 THREAD_COMPLETED node=done
            refused: the thread has ended with status completed
        => completed, waits for nothing
    "#]]);
}

#[test]
fn cancelled_and_late_threads_close_their_wait() {
    let mut bench = waiting();
    bench.give(Input::Cancel { reason: None });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=say attempt=1
          2 LLM_EXECUTION_REQUEST node=say
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 LLM_EXECUTION_COMPLETED node=say "Hello."
          6 NODE_COMPLETED node=say
          7 NODE_STARTED node=hold attempt=1
          8 WAIT_STARTED node=hold
          9 WAIT_FAILED cancelled
         10 NODE_FAILED node=hold attempt=1 cancelled
         11 THREAD_CANCELLED
        => cancelled, waits for nothing
    "#]]);

    let mut bench = waiting();
    bench.out.clear();
    bench.give(Input::ChangeWait { wait: wait_of(&bench), until: bench.now.plus_ms(7_200_000) });
    bench.tick_after_ms(3_600_000);
    bench.check(expect![[r#"
          9 WAIT_CHANGED
            3600000 ms later
         10 WAIT_FAILED timeout
         11 NODE_FAILED node=hold attempt=1 timeout
         12 THREAD_FAILED node=hold timeout
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_pause_does_not_move_a_wait() {
    let mut bench = waiting();
    bench.out.clear();
    bench.give(Input::Pause { reason: None });
    bench.tick_after_ms(600_000);
    bench.give(Input::Resume);
    bench.tick_after_ms(0);
    bench.check(expect![[r#"
          9 THREAD_PAUSED
            600000 ms later
         10 THREAD_RESUMED
            0 ms later
         11 WAIT_COMPLETED
         12 NODE_COMPLETED node=hold
         13 NODE_STARTED node=done attempt=1
         14 NODE_COMPLETED node=done
         15 THREAD_COMPLETED node=done
        => completed, waits for nothing
    "#]]);
}

#[test]
fn timeout_of_a_node_leads_to_on_timeout() {
    let yaml = "
version: '1'
name: late
nodes:
  - id: ask
    on_timeout: reminder
    on_error: wrong
    user_interaction: {operation_type: UPDATE_VARIABLES, timeout_ms: 1000, variables: [{variable_name: v, expression: input}]}
  - {id: answered, end: {}}
  - {id: reminder, end: {}}
  - {id: wrong, end: {}}
edges: [{from: ask, to: answered}]
";
    let mut bench = Bench::new(yaml, "x");
    bench.tick_after_ms(1_000);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=ask attempt=1
          2 USER_INTERACTION_REQUESTED node=ask
            1000 ms later
          3 USER_INTERACTION_FAILED interaction=2 "timeout"
          4 NODE_FAILED node=ask attempt=1 timeout (the question timed out)
          5 ROUTE_TAKEN from=ask to=reminder condition=error timeout timeout (the question timed out)
          6 NODE_STARTED node=reminder attempt=1
          7 NODE_COMPLETED node=reminder
          8 THREAD_COMPLETED node=reminder
        => completed, waits for nothing
    "#]]);
    let mut bench = Bench::new(yaml, "x");
    bench.out.clear();
    bench.give(Input::CancelInteraction { interaction: CallId(Seq(2)) });
    bench.check(expect![[r#"
          3 USER_INTERACTION_FAILED interaction=2 "cancelled"
          4 NODE_FAILED node=ask attempt=1 cancelled
          5 ROUTE_TAKEN from=ask to=wrong condition=error cancelled cancelled
          6 NODE_STARTED node=wrong attempt=1
          7 NODE_COMPLETED node=wrong
          8 THREAD_COMPLETED node=wrong
        => completed, waits for nothing
    "#]]);
}

/// When a wait ends that begins at this moment, or why it does not begin.
fn until(wait: &str, now: &str) -> String {
    let nodes = format!("[{{id: hold, wait: {wait}}}]");
    let workflow = workflow::parse(format!("version: '1'\nname: w\nnodes: {nodes}\n").as_bytes()).unwrap();
    let bench = Bench::begun_at(workflow, Start::new("2030-06-01T10:00:00Z"), now.parse().unwrap());
    match bench.state().timer() {
        Some(run) => run.until.to_string(),
        None => bench.state().error().map_or_else(|| "no wait".into(), |error| error.message),
    }
}

#[test]
fn times_of_day_are_those_of_their_zone() {
    let ends = [
        ("{at: '09:00'}", "2026-11-25T08:59:59Z"),
        ("{at: '09:00'}", "2026-11-25T09:00:00Z"),
        ("{at: '09:00', zone: Europe/Berlin}", "2026-11-25T07:00:00Z"),
        ("{at: '00:30', zone: Asia/Kathmandu}", "2026-11-25T18:44:00Z"),
        // Clocks go from 02:00 to 03:00.
        ("{at: '02:30', zone: Europe/Berlin}", "2026-03-28T12:00:00Z"),
        // From 03:00 to 02:00: the first of the two.
        ("{at: '02:30', zone: Europe/Berlin}", "2026-10-24T12:00:00Z"),
        ("{at: '02:30', zone: America/New_York}", "2026-03-08T06:00:00Z"),
        ("{at: '01:30', zone: America/New_York}", "2026-11-01T00:00:00Z"),
        // Half an hour, from 02:00 to 02:30 and back.
        ("{at: '02:15', zone: Australia/Lord_Howe}", "2026-10-03T12:00:00Z"),
        ("{at: '01:45', zone: Australia/Lord_Howe}", "2026-04-04T12:00:00Z"),
        // A day that was left out.
        ("{at: '12:00', zone: Pacific/Apia}", "2011-12-30T08:00:00Z"),
    ]
    .map(|(wait, now)| format!("{now} {wait} {}\n", until(wait, now)));
    expect![[r#"
        2026-11-25T08:59:59Z {at: '09:00'} 2026-11-25T09:00:00.000000Z
        2026-11-25T09:00:00Z {at: '09:00'} 2026-11-26T09:00:00.000000Z
        2026-11-25T07:00:00Z {at: '09:00', zone: Europe/Berlin} 2026-11-25T08:00:00.000000Z
        2026-11-25T18:44:00Z {at: '00:30', zone: Asia/Kathmandu} 2026-11-25T18:45:00.000000Z
        2026-03-28T12:00:00Z {at: '02:30', zone: Europe/Berlin} 2026-03-29T01:30:00.000000Z
        2026-10-24T12:00:00Z {at: '02:30', zone: Europe/Berlin} 2026-10-25T00:30:00.000000Z
        2026-03-08T06:00:00Z {at: '02:30', zone: America/New_York} 2026-03-08T07:30:00.000000Z
        2026-11-01T00:00:00Z {at: '01:30', zone: America/New_York} 2026-11-01T05:30:00.000000Z
        2026-10-03T12:00:00Z {at: '02:15', zone: Australia/Lord_Howe} 2026-10-03T15:45:00.000000Z
        2026-04-04T12:00:00Z {at: '01:45', zone: Australia/Lord_Howe} 2026-04-04T14:45:00.000000Z
        2011-12-30T08:00:00Z {at: '12:00', zone: Pacific/Apia} 2011-12-30T22:00:00.000000Z
    "#]]
    .assert_eq(&ends.concat());
}

#[test]
fn moments_and_durations_are_read_strictly() {
    let ends = [
        "{for_ms: 0}",
        "{for_ms: 3153600000000}",
        "{for_ms: '{{ 3153600000001 }}'}",
        "{for_ms: '{{ 0.0015 * 1000 }}'}",
        "{for_ms: '{{ -1 }}'}",
        "{for_ms: '{{ input }}'}",
        "{until: '{{ input }}'}",
        "{until: '2027-01-01T00:00:00+02:00'}",
        "{until: '2027-01-01T00:00', zone: America/New_York}",
        "{until: '2027-01-01'}",
        "{until: '2027-01-01', zone: Europe/Berlin}",
        "{until: '1960-01-01T00:00:00Z'}",
        "{until: '2200-01-01T00:00:00Z'}",
        "{until: 'tomorrow'}",
    ]
    .map(|wait| format!("{wait} {}\n", until(wait, "2026-11-25T09:00:00Z")));
    expect![[r#"
        {for_ms: 0} 2026-11-25T09:00:00.000000Z
        {for_ms: 3153600000000} 2126-11-01T09:00:00.000000Z
        {for_ms: '{{ 3153600000001 }}'} for_ms is 3153600000001, not a number of milliseconds from 0 to 3153600000000 in `{{ 3153600000001 }}`
        {for_ms: '{{ 0.0015 * 1000 }}'} 2026-11-25T09:00:00.002000Z
        {for_ms: '{{ -1 }}'} for_ms is -1, not a number of milliseconds from 0 to 3153600000000 in `{{ -1 }}`
        {for_ms: '{{ input }}'} for_ms is "2030-06-01T10:00:00Z", not a number of milliseconds from 0 to 3153600000000 in `{{ input }}`
        {until: '{{ input }}'} 2030-06-01T10:00:00.000000Z
        {until: '2027-01-01T00:00:00+02:00'} 2026-12-31T22:00:00.000000Z
        {until: '2027-01-01T00:00', zone: America/New_York} 2027-01-01T05:00:00.000000Z
        {until: '2027-01-01'} until is `2027-01-01`, not a time: write RFC 3339 such as 2026-11-21T10:00:00Z, or 2026-11-21T10:00 with a `zone` in `2027-01-01`
        {until: '2027-01-01', zone: Europe/Berlin} 2026-12-31T23:00:00.000000Z
        {until: '1960-01-01T00:00:00Z'} 1970-01-01T00:00:00.000000Z
        {until: '2200-01-01T00:00:00Z'} until is 2200-01-01T00:00:00.000000Z, more than 3153600000000 milliseconds from now in `2200-01-01T00:00:00Z`
        {until: 'tomorrow'} until is `tomorrow`, not a time: write RFC 3339 such as 2026-11-21T10:00:00Z, or 2026-11-21T10:00 with a `zone` in `tomorrow`
    "#]].assert_eq(&ends.concat());
}

#[test]
fn wrong_waits_are_faults_with_their_place() {
    let faults = ["{}", "{for_ms: 1, at: '09:00'}", "{for_ms: -1}", "{for_ms: 1, zone: UTC}", "{at: '9 am'}", "{at: '24:00'}",
        "{at: '09:00', zone: Berlin}", "{until: '{{ }'}", "{for_ms: '{{ missing }}'}"]
    .map(|wait| {
        let yaml = format!("version: '1'\nname: w\nnodes: [{{id: hold, wait: {wait}, retry: {{max_attempts: 2}}, on_timeout: nowhere}}]\n");
        let faults = workflow::parse(yaml.as_bytes()).unwrap_err();
        format!("{wait}\n{faults}\n")
    });
    expect![[r#"
        {}
        3:26: nodes[0].wait: nothing says what to wait for (give one of `for_ms`, `until`, `at` and `thread`)
        3:68: nodes[0].on_timeout: there is no node `nowhere`
        {for_ms: 1, at: '09:00'}
        3:26: nodes[0].wait: several keys say what to wait for (give one of `for_ms`, `until`, `at` and `thread`)
        3:90: nodes[0].on_timeout: there is no node `nowhere`
        {for_ms: -1}
        3:35: nodes[0].wait.for_ms: -1 is not a whole number of milliseconds from 0 to 3153600000000 (write a number or an expression)
        3:78: nodes[0].on_timeout: there is no node `nowhere`
        {for_ms: 1, zone: UTC}
        3:44: nodes[0].wait.zone: a number of milliseconds is the same in every zone
        3:88: nodes[0].on_timeout: there is no node `nowhere`
        {at: '9 am'}
        3:31: nodes[0].wait.at: `9 am` is no time of day: write 09:00 or 09:00:30
        3:78: nodes[0].on_timeout: there is no node `nowhere`
        {at: '24:00'}
        3:31: nodes[0].wait.at: `24:00` is no time of day: write 09:00 or 09:00:30
        3:79: nodes[0].on_timeout: there is no node `nowhere`
        {at: '09:00', zone: Berlin}
        3:46: nodes[0].wait.zone: `Berlin` is no time zone: write an IANA name, such as Europe/Berlin
        3:93: nodes[0].on_timeout: there is no node `nowhere`
        {until: '{{ }'}
        3:34: nodes[0].wait.until: syntax error: unexpected `}` in `{{ }`
        3:81: nodes[0].on_timeout: there is no node `nowhere`
        {for_ms: '{{ missing }}'}
        3:35: nodes[0].wait.for_ms: variable `missing` is undefined: nothing in this workflow sets it (declare it under `variables`, or ask for it with `missing is defined`)
        3:91: nodes[0].on_timeout: there is no node `nowhere`
    "#]].assert_eq(&faults.concat());
}

/// Two years of days, each with a wait until 02:30, while the clock is set and the process ends in every append: what was
/// appended is there up to some event.
fn two_years_in(zone: &str, mut random: impl FnMut(u64) -> u64) {
    let yaml = format!(
        "version: '1'\nname: nights\nnodes: [{{id: days, loop: {{times: 730, body: {{nodes: [{{id: night, wait: {{at: '02:30', zone: {zone}}}}}]}}}}}}]\n"
    );
    let begin = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut bench = Bench::begun_at(workflow::parse(yaml.as_bytes()).unwrap(), Start::new("x"), begin);
    while !bench.state().is_ended() {
        let until = bench.state().timer().map_or(bench.now, |run| run.until);
        // From two hours too early to two hours late, so also back.
        bench.now = Time::from_unix_us(until.unix_us() - 7_200_000_000).plus_ms(random(14_400_000));
        let (before, n_before) = (bench.now, bench.log.len());
        bench.give(Input::Tick);
        let n_new = (bench.log.len() - n_before) as u64;
        if until > before {
            assert_eq!(n_new, 0, "{zone}: it ends at {until}, not at {before}");
        }
        bench.log.truncate(n_before + random(n_new + 1) as usize);
        let state = bench.fold_to(bench.log.len() - 1);
        bench.thread = Thread::resume(state, bench.begun_on.clone());
        bench.recover_but(|_| false);
    }
    assert_eq!(bench.state().status(), Status::Completed);
    let mut ends = std::collections::BTreeSet::new();
    let mut open = None;
    for (at, event) in &bench.log {
        if let Event::WaitStarted(e) = event {
            assert!(open.replace(e.until).is_none(), "{zone}: two waits at once");
            assert!(ends.insert(e.until), "{zone}: {} twice", e.until);
        }
        if let Event::WaitCompleted(_) = event {
            assert!(open.take().is_some_and(|until| *at >= until), "{zone}: {at}");
        }
        assert!(!matches!(event, Event::WaitFailed(_)), "{zone}: {event:?}");
    }
    assert_eq!(ends.len(), 730, "{zone}");
    let zone = jiff::tz::TimeZone::get(zone).unwrap();
    let times: Vec<_> = ends
        .iter()
        .map(|end| jiff::Timestamp::from_microsecond(end.unix_us() as i64).unwrap().to_zoned(zone.clone()).time())
        .collect();
    let n_others = times.iter().filter(|time| **time != jiff::civil::time(2, 30, 0, 0)).count();
    // The night that has no 02:30, in each of the years.
    assert!(n_others <= 2, "{n_others}");
}

#[test]
fn waits_of_two_years_end_in_time_across_crashes_and_set_clocks() {
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        let mut state: u64 = 17;
        two_years_in(zone, |end| {
            // Marsaglia's xorshift of 64 bits.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % end
        });
    }
}
