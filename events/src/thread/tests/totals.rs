//! What branches spend is in the sums of their parents, also if they were cancelled before they reported it.

use super::*;
use crate::event::OnMessage;

/// The first of two branches to complete wins. The slow one calls the model twice, and has a branch of its own between.
const RACE: &str = "
version: '1'
name: race
nodes:
  - id: race
    parallel:
      mode: any
      branches:
        quick: {nodes: [{id: a, llm: {provider: mock, model: m, user_prompt: spell}}]}
        slow:
          nodes:
            - {id: b, llm: {provider: mock, model: m, user_prompt: spell}}
            - id: inner
              parallel:
                branches:
                  only:
                    nodes:
                      - {id: c, llm: {provider: mock, model: m, user_prompt: spell}}
                      - {id: d, llm: {provider: mock, model: m, user_prompt: spell}}
";

fn counted(family: &Family) -> (u64, u64) {
    let totals = family.root().state().totals();
    (totals.n_llm_calls, totals.tokens())
}

fn late(family: &Family) -> Vec<&Event> {
    let log = family.root().log.iter().map(|(_, event)| event);
    log.filter(|event| matches!(event, Event::BranchSpent(e) if e.is_final)).collect()
}

/// The slow branch and its own branch have called the model once each.
fn raced() -> Family {
    let mut family = Family::new(RACE, "");
    family.with("1", |bench| bench.says("spelled"));
    family.with("1.0", |bench| bench.says("spelled"));
    family
}

#[test]
fn cancelled_branch_is_counted_after_its_end() {
    let mut family = raced();
    assert_eq!(counted(&family), (0, 0), "without a budget, branches report when they end");
    family.with("0", |bench| bench.says("spelled"));
    assert_eq!(family.root().state().status(), Status::Completed);
    assert_eq!(counted(&family), (3, 36));
    assert!(family.root().state().uncounted_branches().is_empty());
    let [Event::BranchSpent(spent)] = late(&family)[..] else { panic!("{:?}", late(&family)) };
    assert_eq!((spent.index, spent.n_llm_calls), (1, 2));
    family.laws_hold();
}

#[test]
fn repeated_report_of_a_cancelled_branch_counts_nothing() {
    let mut family = raced();
    family.with("0", |bench| bench.says("spelled"));
    let (child, n_events) = (family.of("1").state().thread(), family.root().log.len());
    let outcome = family.of("1").state().branch_outcome().unwrap();
    let totals = outcome.totals;
    family.with("-", |bench| bench.give(Input::BranchEnded { index: 1, child, outcome }));
    family.with("-", |bench| bench.give(Input::BranchSpent { index: 1, child, totals }));
    assert_eq!((family.root().log.len(), counted(&family)), (n_events, (3, 36)));
}

#[test]
fn cancelled_branch_counts_before_its_own_branches_have_ended() {
    let mut family = raced();
    // Without what follows for the others.
    family.of("0").says("spelled");
    let (quick, slow) = (family.of("0").state().branch_outcome().unwrap(), family.of("1").state().thread());
    let child = family.of("0").state().thread();
    family.of("-").give(Input::BranchEnded { index: 0, child, outcome: quick });
    family.of("1").give(Input::Cancel { reason: None });
    let outcome = family.of("1").state().branch_outcome().unwrap();
    assert_eq!((outcome.is_final, outcome.totals.n_llm_calls), (false, 1));
    family.of("-").give(Input::BranchEnded { index: 1, child: slow, outcome });
    assert_eq!((counted(&family), late(&family).len()), ((2, 24), 0));
    family.settle();
    assert_eq!((counted(&family), late(&family).len()), ((3, 36), 1));
    family.laws_hold();
}

#[test]
fn late_spending_counts_for_the_run_of_the_branch() {
    let mut family = raced();
    let input = RunInput { on_message: Some(OnMessage::Queue), ..RunInput::default() };
    family.with("-", |bench| bench.give(Input::Run(Box::new(input))));
    let run = family.root().state().run_id();
    family.with("-", |bench| bench.give(Input::CancelRun { run, reason: None }));
    let state = family.root().state();
    assert_eq!((state.run_number(), state.totals().n_llm_calls, state.run_totals().n_llm_calls), (2, 2, 0));
    family.with("0", |bench| bench.says("spelled"));
    assert_eq!(family.root().state().run_totals().n_llm_calls, 1);
    family.laws_hold();
}

#[test]
fn late_spending_counts_for_the_budget() {
    let yaml = RACE.replace("nodes:\n  - id: race", "budget: {tokens: 30}\nnodes:\n  - id: race")
        + "  - {id: e, llm: {provider: mock, model: m, user_prompt: spell}}\nedges: [{from: race, to: e}]\n";
    let mut family = Family::new(&yaml, "");
    family.with("1", |bench| bench.says("spelled"));
    // This call is not reported before the race is over.
    family.of("1.0").says("spelled");
    family.with("0", |bench| bench.says("spelled"));
    assert_eq!(counted(&family), (3, 36));
    assert!(family.root().state().budget_is_spent());
    family.laws_hold();
}

#[test]
fn fork_takes_over_what_is_counted_so_far() {
    let mut family = raced();
    family.with("0", |bench| bench.says("spelled"));
    let is_late = |(_, event): &(Time, Event)| matches!(event, Event::BranchSpent(_));
    let at = family.root().log.iter().position(is_late).unwrap();
    let fork = family.root().fork(at - 1, ForkChanges::default());
    assert_eq!(fork.state().totals().n_llm_calls, 1);
    assert!(fork.state().uncounted_branches().is_empty());
}
