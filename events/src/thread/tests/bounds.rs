//! Budgets and limits at which a thread can be told to go on.

use super::*;
use crate::event::LimitRaised;

fn workflow_with(head: &str) -> Bench {
    Bench::new(
        &format!(
            "
version: '1'
name: bounded
{head}
nodes:
  - {{id: work, llm: {{provider: mock, model: m, user_prompt: go, tool_mode: auto, max_iterations: 3}}}}
  - {{id: more, llm: {{provider: mock, model: m, user_prompt: more}}}}
"
        ),
        "go",
    )
}

fn round(bench: &mut Bench) {
    bench.asks(&["read"]);
    bench.tool_says("text");
}

#[test]
fn a_thread_pauses_when_its_budget_is_spent_and_goes_on_with_a_larger_one() {
    let mut bench = workflow_with("budget: {tokens: 20}");
    round(&mut bench);
    round(&mut bench);
    assert_eq!(bench.state().status(), Status::Paused, "{}", bench.out);
    let spent = bench.state().totals().tokens();
    bench.out.clear();
    bench.give(Input::Resume);
    bench.give(Input::Raise(LimitRaised { tokens: Some(spent + 1), ..LimitRaised::default() }));
    bench.says("done");
    bench.check(expect![[r#"
         13 THREAD_RESUMED
         14 BUDGET_EXCEEDED
         15 THREAD_PAUSED "the budget is spent: 24 of 20 tokens; go on with: rethread resume 07070707-0707-0707-0707-070707070707 --budget-tokens N"
         16 LIMIT_RAISED
         17 THREAD_RESUMED
         18 LLM_CALL_REQUESTED 3
         19 LLM_CALL_COMPLETED call=18
         20 LLM_EXECUTION_COMPLETED node=work "done"
         21 NODE_COMPLETED node=work
         22 NODE_STARTED node=more attempt=1
         23 LLM_EXECUTION_REQUEST node=more
         24 BUDGET_EXCEEDED
         25 THREAD_PAUSED "the budget is spent: 36 of 25 tokens; go on with: rethread resume 07070707-0707-0707-0707-070707070707 --budget-tokens N"
        => paused, waits for somebody
    "#]]);
}

#[test]
fn a_budget_that_is_to_fail_fails_what_wanted_to_call_a_model() {
    let mut bench = workflow_with("budget: {tokens: 1, on_exceeded: fail}");
    round(&mut bench);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 NODE_STARTED node=work attempt=1
          2 LLM_EXECUTION_REQUEST node=work
          3 LLM_CALL_REQUESTED 1
          4 LLM_CALL_COMPLETED call=3
          5 TOOL_EXECUTION_REQUEST name=read
          6 TOOL_EXECUTION_COMPLETED call=5
          7 BUDGET_EXCEEDED
          8 LLM_EXECUTION_FAILED node=work limit
          9 NODE_FAILED node=work attempt=1 limit
         10 THREAD_FAILED node=work limit
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_cost_that_is_not_known_is_told_once_where_there_is_a_budget_in_money() {
    let mut bench = workflow_with("budget: {usd: '0.000000010'}");
    assert_eq!(bench.state().budget().unwrap().cost_nanousd, Some(10));
    round(&mut bench);
    round(&mut bench);
    let n = bench.log.iter().filter(|(_, event)| matches!(event, Event::Warning(_))).count();
    assert_eq!((n, bench.state().totals().n_unpriced), (1, 2), "{}", bench.out);
    laws::hold(&bench);
}

#[test]
fn an_agent_loop_at_its_limit_pauses_and_goes_on_with_more_where_the_workflow_says_so() {
    let mut bench = workflow_with("on_limit: pause");
    for _ in 0..3 {
        round(&mut bench);
    }
    assert_eq!(bench.state().status(), Status::Paused, "{}", bench.out);
    bench.out.clear();
    bench.note(bench.state().pause_reason().unwrap_or_default().to_owned());
    bench.give(Input::Raise(LimitRaised { iterations: Some(1), ..LimitRaised::default() }));
    round(&mut bench);
    bench.give(Input::Raise(LimitRaised { iterations: Some(5), ..LimitRaised::default() }));
    bench.says("at last");
    bench.check(expect![[r#"
            node `work` has called the model 3 times (max_iterations); go on with: rethread resume 07070707-0707-0707-0707-070707070707 --more N
         16 LIMIT_RAISED
         17 THREAD_RESUMED
         18 LLM_CALL_REQUESTED 4
         19 LLM_CALL_COMPLETED call=18
         20 TOOL_EXECUTION_REQUEST name=read
         21 TOOL_EXECUTION_COMPLETED call=20
         22 THREAD_PAUSED "node `work` has called the model 4 times (max_iterations); go on with: rethread resume 07070707-0707-0707-0707-070707070707 --more N"
         23 LIMIT_RAISED
         24 THREAD_RESUMED
         25 LLM_CALL_REQUESTED 5
         26 LLM_CALL_COMPLETED call=25
         27 LLM_EXECUTION_COMPLETED node=work "at last"
         28 NODE_COMPLETED node=work
         29 NODE_STARTED node=more attempt=1
         30 LLM_EXECUTION_REQUEST node=more
         31 LLM_CALL_REQUESTED 1
        => running, waits for the world until +120000
    "#]]);
}

#[test]
fn a_thread_that_may_enter_no_more_nodes_pauses_and_goes_on_with_more() {
    let mut bench = workflow_with("on_limit: pause\nmax_iterations: 1");
    bench.says("first");
    assert_eq!(bench.state().status(), Status::Paused, "{}", bench.out);
    bench.give(Input::Raise(LimitRaised { iterations: Some(1), ..LimitRaised::default() }));
    bench.says("second");
    assert_eq!(bench.state().status(), Status::Completed, "{}", bench.out);
    laws::hold(&bench);
}

#[test]
fn a_limit_that_nobody_wants_to_raise_is_an_error() {
    let mut bench = workflow_with("");
    for _ in 0..3 {
        round(&mut bench);
    }
    assert_eq!(bench.state().error().unwrap().kind, ErrorKind::Limit);
    laws::hold(&bench);
}

#[test]
fn an_amount_of_money_is_read_to_the_nanodollar() {
    let amounts = ["1", "0.25", ".5", "1.000000001", "", "-1", "1e3", "0.0000000001", "99999999999999"];
    let read = amounts.map(crate::workflow::nanousd);
    let expected = [1_000_000_000, 250_000_000, 500_000_000, 1_000_000_001].map(Some);
    assert_eq!(read[..4], expected);
    assert_eq!(read[4..], [None; 5]);
}

#[test]
fn tokens_without_end_spend_a_budget_and_break_nothing() {
    let mut bench = workflow_with("budget: {tokens: 1000}");
    let (call, attempt) = bench.open();
    let mut answer = bench::answer(call, "one", &[], FinishReason::Stop);
    answer.usage.input_tokens = Some(u64::MAX);
    bench.give(Input::ModelAnswered { call, attempt, answer });
    assert_eq!(bench.state().status(), Status::Paused, "{}", bench.out);
    assert_eq!(bench.state().totals().tokens(), u64::MAX);
    laws::hold(&bench);
}

const EACH_WITH_A_BUDGET: &str = "
version: '1'
name: each
budget: {tokens: 12}
nodes:
  - id: all
    parallel:
      for_each: input
      concurrency: 1
      body:
        nodes:
          - {id: ask, llm: {provider: mock, model: m, user_prompt: 'spell'}}
";

#[test]
fn no_branch_begins_when_the_budget_is_spent() {
    let mut family = Family::new(EACH_WITH_A_BUDGET, serde_json::json!([1, 2, 3, 4, 5, 6]));
    family.with("0", |bench| bench.says("one"));
    assert_eq!(family.root().state().status(), Status::Paused);
    assert_eq!(family.root().state().totals().tokens(), 12);
    family.with("-", |bench| bench.give(Input::Raise(LimitRaised { tokens: Some(20), ..LimitRaised::default() })));
    family.with("1", |bench| bench.says("two"));
    assert_eq!(family.root().state().status(), Status::Paused);
    for bench in family.threads.values() {
        laws::hold(bench);
    }
}

#[test]
fn branches_that_run_are_waited_for_when_the_budget_is_spent() {
    let two = EACH_WITH_A_BUDGET.replace("concurrency: 1", "concurrency: 2");
    let mut family = Family::new(&two, serde_json::json!([1, 2, 3]));
    family.with("0", |bench| bench.says("one"));
    assert_eq!(family.root().state().status(), Status::Running);
    family.with("1", |bench| bench.says("two"));
    assert_eq!(family.root().state().status(), Status::Paused);

    let fails = EACH_WITH_A_BUDGET.replace("tokens: 12", "tokens: 12, on_exceeded: fail");
    let mut family = Family::new(&fails, serde_json::json!([1, 2, 3]));
    family.with("0", |bench| bench.says("one"));
    assert_eq!(family.root().state().error().unwrap().kind, ErrorKind::Limit);
    for bench in family.threads.values() {
        laws::hold(bench);
    }
}
