//! Budgets and deadlines of runs, and of the thread that they are runs of.

use super::conversations::CHAT;
use super::*;
use crate::event::{OnLimit, OnMessage, RunSource};

#[test]
fn the_budget_and_the_deadline_are_of_the_run() {
    let mut bench = Bench::new(CHAT, "one");
    for _ in 0..3 {
        bench.says("12 tokens");
        bench.run("more");
    }
    bench.says("12 tokens");
    assert_eq!(bench.state().status(), Status::Completed, "the budget is that of the whole thread");
    bench.now = bench.now.plus_ms(50_000);
    bench.run("late");
    bench.tick_after_ms(50_000);
    bench.tick_after_ms(10_000);
    assert_eq!(bench.state().status(), Status::Error);
    laws::hold(&bench);
}

/// Limits of the thread in place of the budget of a run; each answer takes 12 tokens.
fn limited(limits: &str) -> Bench {
    Bench::new(&CHAT.replace("budget: {tokens: 40}", limits), "one")
}

#[test]
fn runs_share_the_budget_of_the_thread() {
    let mut bench = limited("thread: {budget: {tokens: 30, on_exceeded: fail}}");
    let left = |bench: &Bench| bench.state().budget().unwrap().tokens;
    assert_eq!(left(&bench), Some(30));
    for left_then in [18, 6] {
        bench.says("12 tokens");
        bench.run("more");
        assert_eq!(left(&bench), Some(left_then));
    }
    bench.says("the last");
    bench.run("too much");
    assert_eq!((bench.state().status(), left(&bench)), (Status::Error, Some(0)));
    assert_eq!(bench.state().error().unwrap().kind, ErrorKind::Limit);
    laws::hold(&bench);
}

#[test]
fn a_run_has_its_own_budget_where_that_is_less() {
    let mut bench =
        limited("budget: {tokens: 20}\nthread: {budget: {tokens: 40, on_exceeded: fail, on_unpriced: allow}}");
    assert_eq!(bench.state().budget().unwrap().tokens, Some(20));
    bench.says("12 tokens");
    bench.run("more");
    bench.says("12 tokens");
    bench.run("more");
    let budget = bench.state().budget().unwrap();
    assert_eq!((budget.tokens, budget.on_exceeded), (Some(16), OnLimit::Fail));
}

#[test]
fn nothing_is_left_of_money_once_a_cost_is_not_known() {
    let mut bench = limited("thread: {budget: {usd: '1', on_exceeded: pause}}");
    bench.says("of unknown price");
    bench.run("more");
    assert_eq!(bench.state().budget().unwrap().cost_nanousd, Some(0));
    assert!(bench.state().is_paused());
    let mut bench = limited("thread: {budget: {usd: '1', on_unpriced: allow}}");
    bench.says("of unknown price");
    bench.run("more");
    assert_eq!(bench.state().budget().unwrap().cost_nanousd, Some(1_000_000_000));
}

#[test]
fn no_run_outlasts_the_deadline_of_the_thread() {
    let mut bench = limited("thread: {timeout_ms: 100000}");
    bench.says("in time");
    bench.now = bench.now.plus_ms(70_000);
    bench.run("more");
    bench.tick_after_ms(29_000);
    assert_eq!(bench.state().status(), Status::Running);
    bench.tick_after_ms(1_000);
    assert_eq!(bench.state().status(), Status::Error, "the run may take 60 s, and 30 s are left");
    bench.run("too late");
    bench.tick_after_ms(0);
    assert_eq!(bench.state().error().unwrap().kind, ErrorKind::Timeout);
    laws::hold(&bench);
}

/// A message every seven minutes for a day: some answers come late, some messages while another is answered.
#[test]
fn a_conversation_of_a_day_keeps_to_its_deadlines() {
    const MINUTE: u64 = 60_000;
    let mut bench = limited("on_message: queue\nthread: {timeout_ms: 86400000}");
    bench.says("good morning");
    let (mut n_sent, mut n_timed_out) = (1, 0);
    while bench.now < bench::START.plus_ms(24 * 60 * MINUTE) {
        bench.tick_after_ms(7 * MINUTE);
        let is_late = n_sent % 11 == 0;
        bench.run(&format!("message {n_sent}"));
        n_sent += 1;
        if bench.state().is_ended() {
            break;
        }
        match n_sent % 5 {
            0 => {
                bench.run_as(&format!("message {n_sent}"), OnMessage::Steer);
                n_sent += 1;
            }
            1 => {
                bench.run_as(&format!("message {n_sent}"), OnMessage::Interrupt);
                n_sent += 1;
            }
            _ => {}
        }
        if is_late {
            // The run may take a minute.
            bench.tick_after_ms(MINUTE - 1);
            assert_eq!(bench.state().status(), Status::Running);
            bench.tick_after_ms(1);
            assert_eq!(bench.state().run_ended().is_some(), bench.state().is_ended());
            n_timed_out += 1;
        }
        while bench.state().status() == Status::Running && bench.state().model_request().is_some() {
            bench.says("yes");
        }
        assert!(bench.state().is_ended(), "nothing is left open between two messages");
    }
    let state = bench.state();
    assert!(n_sent > 200 && n_timed_out > 10, "{n_sent} {n_timed_out}");
    assert!(state.queued_runs().is_empty());
    let said = |event: &Event| match event {
        Event::ThreadStarted(e) => Some(e.input.0.to_string()),
        Event::RunStarted(e) if e.from == RunSource::Input => Some(e.input.0.to_string()),
        Event::MessageAdded(e) => Some(e.message.joined_text()),
        _ => None,
    };
    assert_eq!(bench.log.iter().filter_map(|(_, event)| said(event)).count(), n_sent, "each is in the log once");
    laws::hold(&bench);
}
