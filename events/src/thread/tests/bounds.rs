//! Budgets and limits beyond which a thread can be resumed.

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
fn thread_pauses_at_its_budget_and_continues_with_a_larger_one() {
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
        => paused, waits for a person
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
fn unknown_cost_is_reported_once_with_a_budget_in_money() {
    let mut bench = workflow_with("budget: {usd: '0.000000010', on_unpriced: allow}");
    assert_eq!(bench.state().budget().unwrap().cost_nanousd, Some(10));
    round(&mut bench);
    round(&mut bench);
    let n = bench.log.iter().filter(|(_, event)| matches!(event, Event::Warning(_))).count();
    assert_eq!((n, bench.state().totals().n_unpriced), (1, 2), "{}", bench.out);
    assert_eq!(bench.state().status(), Status::Running, "{}", bench.out);
    laws::hold(&bench);
}

/// The model `large` answers with a tool call, which costs this, and the tool answers.
fn round_for(bench: &mut Bench, cost_nanousd: Option<u64>) {
    model_asks_for(bench, cost_nanousd);
    bench.tool_says("text");
}

fn model_asks_for(bench: &mut Bench, cost_nanousd: Option<u64>) {
    let (call, attempt) = bench.open();
    let answer = bench::answer(call, "", &["read"], FinishReason::ToolCalls);
    let answer = LlmCallCompleted { cost_nanousd, model: Some("large".into()), ..answer };
    bench.give(Input::reported(attempt, answer));
}

#[test]
fn unpriced_call_pauses_until_a_person_resumes() {
    let mut bench = workflow_with("budget: {cost_nanousd: 100}");
    round_for(&mut bench, None);
    assert!(bench.state().is_paused_at_limit(), "{}", bench.out);
    bench.out.clear();
    bench.note(bench.state().pause_reason().unwrap_or_default().to_owned());
    bench.give(Input::Resume);
    round_for(&mut bench, Some(7));
    bench.says("done");
    assert!(bench.state().is_paused_at_limit(), "the next call without a price: {}", bench.out);
    bench.give(Input::Raise(LimitRaised { allow_unpriced: true, ..LimitRaised::default() }));
    bench.says("end");
    bench.check(expect![[r#"
            what model `large` cost is not known and cannot be counted against the budget in money: give its profile `prices` in rethread.toml; go on with: rethread resume 07070707-0707-0707-0707-070707070707; to go on without counting it: rethread resume 07070707-0707-0707-0707-070707070707 --allow-unpriced
         10 THREAD_RESUMED
         11 LLM_CALL_REQUESTED 2
         12 LLM_CALL_COMPLETED call=11
         13 TOOL_EXECUTION_REQUEST name=read
         14 TOOL_EXECUTION_COMPLETED call=13
         15 LLM_CALL_REQUESTED 3
         16 LLM_CALL_COMPLETED call=15
         17 LLM_EXECUTION_COMPLETED node=work "done"
         18 NODE_COMPLETED node=work
         19 NODE_STARTED node=more attempt=1
         20 LLM_EXECUTION_REQUEST node=more
         21 BUDGET_EXCEEDED
         22 THREAD_PAUSED "what the model cost is not known and cannot be counted against the budget in money: give its profile `prices` in rethread.toml; go on with: rethread resume 07070707-0707-0707-0707-070707070707; to go on without counting it: rethread resume 07070707-0707-0707-0707-070707070707 --allow-unpriced"
         23 LIMIT_RAISED
         24 THREAD_RESUMED
         25 LLM_CALL_REQUESTED 1
         26 LLM_CALL_COMPLETED call=25
         27 LLM_EXECUTION_COMPLETED node=more "end"
         28 NODE_COMPLETED node=more
         29 THREAD_COMPLETED node=more
        => completed, waits for nothing
    "#]]);
}

#[test]
fn resume_of_a_pause_by_a_person_accepts_no_unpriced_call() {
    let mut bench = workflow_with("budget: {cost_nanousd: 100}");
    bench.give(Input::Pause { reason: None });
    model_asks_for(&mut bench, None);
    bench.give(Input::Resume);
    bench.tool_says("text");
    assert!(bench.state().is_paused_at_limit(), "{}", bench.out);
    laws::hold(&bench);
}

#[test]
fn budget_added_later_counts_earlier_unpriced_calls() {
    let mut bench = workflow_with("");
    round_for(&mut bench, None);
    bench.give(Input::Raise(LimitRaised { cost_nanousd: Some(100), ..LimitRaised::default() }));
    round_for(&mut bench, Some(1));
    assert!(bench.state().is_paused_at_limit(), "{}", bench.out);
    laws::hold(&bench);
}

#[test]
fn unpriced_call_fails_the_node_where_the_budget_is_to_fail() {
    let mut bench = workflow_with("budget: {cost_nanousd: 100, on_exceeded: fail}");
    round_for(&mut bench, None);
    let error = bench.state().error().unwrap();
    assert_eq!(error.kind, ErrorKind::Limit);
    assert!(error.message.contains("what model `large` cost is not known"), "{error}");
    assert!(error.message.ends_with("or say `budget.on_unpriced: allow`"), "{error}");
    laws::hold(&bench);
}

#[test]
fn unpriced_call_of_a_branch_pauses_its_parent() {
    let yaml = EACH_WITH_A_BUDGET.replace("tokens: 12", "cost_nanousd: 100");
    let mut family = Family::new(&yaml, serde_json::json!([1, 2]));
    family.with("0", |bench| bench.says("one"));
    assert!(family.root().state().is_paused_at_limit());
    let reason = family.root().state().pause_reason().unwrap_or_default().to_owned();
    assert!(reason.contains("what a model that branch `0` called cost is not known"), "{reason}");
    family.with("-", |bench| bench.give(Input::Resume));
    family.with("1", |bench| bench.says("two"));
    assert_eq!(family.root().state().status(), Status::Completed);
    family.laws_hold();
}

#[test]
fn agent_loop_pauses_at_its_limit_if_the_workflow_says_so() {
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
fn thread_pauses_at_its_node_limit_and_continues_with_more() {
    let mut bench = workflow_with("on_limit: pause\nmax_iterations: 1");
    bench.says("first");
    assert_eq!(bench.state().status(), Status::Paused, "{}", bench.out);
    bench.give(Input::Raise(LimitRaised { iterations: Some(1), ..LimitRaised::default() }));
    bench.says("second");
    assert_eq!(bench.state().status(), Status::Completed, "{}", bench.out);
    laws::hold(&bench);
}

#[test]
fn limit_that_is_not_raised_is_an_error() {
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
    bench.give(Input::reported(attempt, answer));
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
    family.laws_hold();
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
    family.laws_hold();
}

/// Two branches that call a model five times each.
fn two_that_spend(budget: &str) -> Family {
    let asks: String = (0..5)
        .map(|i| format!("          - {{id: ask_{i}, llm: {{provider: mock, model: m, user_prompt: 'spell'}}}}\n"))
        .collect();
    let head = EACH_WITH_A_BUDGET.replace("concurrency: 1", "concurrency: 2").replace("{tokens: 12}", budget);
    let (head, _) = head.split_once("          - {id: ask").unwrap();
    Family::new(&format!("{head}{asks}"), serde_json::json!([1, 2]))
}

#[test]
fn what_branches_spend_counts_while_they_run() {
    let mut family = two_that_spend("{tokens: 40}");
    for branch in ["0", "1", "0", "1"] {
        family.with(branch, |bench| bench.says("spelled"));
    }
    // Each had begun its third call before it was told.
    assert_eq!(family.root().state().totals().tokens(), 48);
    for branch in ["0", "1"] {
        family.with(branch, |bench| bench.says("spelled"));
        let state = family.of(branch).state();
        let reason = state.pause_reason().unwrap_or_default();
        assert!(reason.starts_with("what the run has left of its budget for this branch is spent"), "{reason}");
    }
    assert_eq!(family.root().state().status(), Status::Running);
    assert_eq!(family.root().state().totals().tokens(), 72);

    // Not enough, and then enough.
    let raise = |tokens| Input::Raise(LimitRaised { tokens: Some(tokens), ..LimitRaised::default() });
    family.with("-", |bench| bench.give(raise(72)));
    assert!(["0", "1"].iter().all(|branch| family.of(branch).state().is_paused()));
    family.with("-", |bench| bench.give(raise(200)));
    for branch in ["0", "1", "0", "1"] {
        family.with(branch, |bench| bench.says("spelled"));
    }
    assert_eq!(family.root().state().status(), Status::Completed);
    assert_eq!(family.root().state().totals().tokens(), 120);
    family.laws_hold();
}

#[test]
fn a_branch_begins_with_what_is_left_of_a_raised_budget() {
    let mut family = Family::new(EACH_WITH_A_BUDGET, serde_json::json!([1, 2, 3]));
    family.with("0", |bench| bench.says("one"));
    family.with("-", |bench| bench.give(Input::Raise(LimitRaised { tokens: Some(30), ..LimitRaised::default() })));
    // It forks off before the raise, where 12 tokens were left.
    assert_eq!(family.of("1").state().budget().unwrap().tokens, Some(18));
    laws::hold(family.of("1"));
}

#[test]
fn a_larger_budget_leaves_a_branch_paused_that_a_person_paused() {
    let mut family = two_that_spend("{tokens: 20}");
    family.with("0", |bench| bench.give(Input::Pause { reason: Some("look at it".into()) }));
    for _ in 0..2 {
        family.with("1", |bench| bench.says("spelled"));
    }
    assert!(family.of("1").state().is_paused());
    family.with("-", |bench| {
        bench.give(Input::Raise(LimitRaised { tokens: Some(500), ..LimitRaised::default() }));
    });
    assert!(!family.of("1").state().is_paused());
    assert_eq!(family.of("0").state().pause_reason(), Some("look at it"));
}

#[test]
fn branches_fail_together_at_a_budget_that_is_to_fail() {
    let mut family = two_that_spend("{tokens: 40, on_exceeded: fail}");
    for branch in ["0", "1", "0", "1", "0"] {
        family.with(branch, |bench| bench.says("spelled"));
    }
    let root = family.root().state();
    assert_eq!(root.error().unwrap().kind, ErrorKind::Limit);
    // What is known of the branch that was cancelled counts.
    assert_eq!(root.totals().tokens(), 60);
    let cancelled = |event: &Event| matches!(event, Event::BranchEnded(e) if e.index == 1 && e.n_llm_calls == 2);
    assert!(family.root().log.iter().any(|(_, event)| cancelled(event)));
    family.laws_hold();
}

#[test]
fn an_old_report_of_a_branch_counts_nothing() {
    let mut family = two_that_spend("{tokens: 400}");
    family.with("0", |bench| bench.says("spelled"));
    let (_, index, first) = family.of("0").state().spending_for_parent().unwrap();
    family.with("0", |bench| bench.says("spelled"));
    let child = family.of("0").state().thread();
    let n_events = family.root().log.len();
    family.with("-", |bench| bench.give(Input::BranchSpent { index, child, totals: first }));
    family.with("-", |bench| bench.give(Input::BranchSpent { index: 7, child, totals: first }));
    assert_eq!(family.root().log.len(), n_events);
    assert_eq!(family.root().state().totals().tokens(), 24);
}

#[test]
fn a_branch_of_a_later_run_has_what_that_run_has_left() {
    let mut family = two_that_spend("{tokens: 130}");
    for _ in 0..5 {
        for branch in ["0", "1"] {
            family.with(branch, |bench| bench.says("spelled"));
        }
    }
    assert_eq!(family.root().state().status(), Status::Completed);
    family.threads.retain(|name, _| name == "-");
    family.with("-", |bench| {
        bench.give(Input::Run(Box::new(RunInput { input: serde_json::json!([1]).into(), ..RunInput::default() })))
    });
    assert_eq!(family.of("0").state().budget().unwrap().tokens, Some(130));
}
