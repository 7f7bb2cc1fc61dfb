//! Forks, branches and joins.

use super::*;

pub(super) const TWO: &str = "
version: '1'
name: two
nodes:
  - id: split
    fork: {join: gather, branches: {left: a, right: b}}
  - id: a
    llm: {provider: mock, model: m, user_prompt: 'left of {{ input }}'}
  - id: b
    llm: {provider: mock, model: m, user_prompt: 'right of {{ input }}'}
  - id: gather
    join: {}
  - id: sum
    llm: {provider: mock, model: m, user_prompt: '{{ left }} and {{ right }}'}
edges:
  - {from: a, to: gather}
  - {from: b, to: gather}
  - {from: gather, to: sum}
";

/// The same with another join.
pub(super) fn two(join: &str) -> String {
    TWO.replace("join: {}", &format!("join: {join}"))
}

#[test]
fn branches_run_side_by_side_and_their_results_have_their_names() {
    let mut family = Family::new(TWO, "hello");
    family.with("1", |bench| bench.says("R"));
    family.note("the left one is still at work");
    family.with("0", |bench| bench.says("L"));
    family.with("-", |bench| {
        bench.note_request();
        bench.says("done");
    });
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=split attempt=1
        -     2 FORK_STARTED node=split n_needed=2
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=a attempt=1
        0     5 LLM_EXECUTION_REQUEST node=a
        0     6 LLM_CALL_REQUESTED 1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=b attempt=1
        1     5 LLM_EXECUTION_REQUEST node=b
        1     6 LLM_CALL_REQUESTED 1
        1     7 LLM_CALL_COMPLETED call=6
        1     8 LLM_EXECUTION_COMPLETED node=b "R"
        1     9 NODE_COMPLETED node=b
        1    10 THREAD_COMPLETED node=gather
        -     5 BRANCH_ENDED output=R index=1
            the left one is still at work
        0     7 LLM_CALL_COMPLETED call=6
        0     8 LLM_EXECUTION_COMPLETED node=a "L"
        0     9 NODE_COMPLETED node=a
        0    10 THREAD_COMPLETED node=gather
        -     6 BRANCH_ENDED output=L index=0
        -     7 JOIN_COMPLETED node=split n_completed=2 n_failed=0
        -     8 NODE_COMPLETED node=split
        -     9 NODE_STARTED node=gather attempt=1
        -    10 NODE_COMPLETED node=gather
        -    11 NODE_STARTED node=sum attempt=1
        -    12 LLM_EXECUTION_REQUEST node=sum
        -    13 LLM_CALL_REQUESTED 1
        -       model is called, tools None:
        -         user: L and R
        -    14 LLM_CALL_COMPLETED call=13
        -    15 LLM_EXECUTION_COMPLETED node=sum "done"
        -    16 NODE_COMPLETED node=sum
        -    17 THREAD_COMPLETED node=sum
        => - completed
        => 0 completed
        => 1 completed
        output "done"
    "#]]);
}

#[test]
fn a_cancelled_thread_cancels_its_branches() {
    let mut family = Family::new(TWO, "hello");
    family.with("-", |bench| bench.give(Input::Cancel { reason: None }));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=split attempt=1
        -     2 FORK_STARTED node=split n_needed=2
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=a attempt=1
        0     5 LLM_EXECUTION_REQUEST node=a
        0     6 LLM_CALL_REQUESTED 1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=b attempt=1
        1     5 LLM_EXECUTION_REQUEST node=b
        1     6 LLM_CALL_REQUESTED 1
        -     5 BRANCH_ENDED index=0 cancelled
        -     6 BRANCH_ENDED index=1 cancelled
        -     7 NODE_FAILED node=split attempt=1 cancelled
        -     8 THREAD_CANCELLED
        0     7 LLM_CALL_FAILED call=6 cancelled
        0     8 LLM_EXECUTION_FAILED node=a cancelled
        0     9 NODE_FAILED node=a attempt=1 cancelled
        0    10 THREAD_CANCELLED "not needed"
        -     9 BRANCH_SPENT index=0
        1     7 LLM_CALL_FAILED call=6 cancelled
        1     8 LLM_EXECUTION_FAILED node=b cancelled
        1     9 NODE_FAILED node=b attempt=1 cancelled
        1    10 THREAD_CANCELLED "not needed"
        -    10 BRANCH_SPENT index=1
        => - cancelled
        => 0 cancelled
        => 1 cancelled
        output 
    "#]]);
}

const NESTED: &str = "
version: '1'
name: nested
nodes:
  - id: outer
    parallel:
      branches:
        one:
          nodes:
            - id: inner
              parallel:
                for_each: '[1, 2]'
                body: {nodes: [{id: deep, llm: {provider: mock, model: m, user_prompt: '{{ item }}'}}]}
        two:
          nodes:
            - {id: flat, llm: {provider: mock, model: m, user_prompt: 'x'}}
";

#[test]
fn branches_have_branches() {
    let mut family = Family::new(NESTED, "hello");
    family.with("0.1", |bench| bench.says("B"));
    family.with("1", |bench| bench.says("F"));
    family.with("0.0", |bench| bench.says("A"));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=outer attempt=1
        -     2 FORK_STARTED node=outer n_needed=2
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=inner attempt=1
        0     5 FORK_STARTED node=inner n_needed=2
        0     6 BRANCH_STARTED index=0
        0     7 BRANCH_STARTED index=1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=flat attempt=1
        1     5 LLM_EXECUTION_REQUEST node=flat
        1     6 LLM_CALL_REQUESTED 1
        0.0   6 THREAD_FORKED
        0.0   7 NODE_STARTED node=deep attempt=1
        0.0   8 LLM_EXECUTION_REQUEST node=deep
        0.0   9 LLM_CALL_REQUESTED 1
        0.1   6 THREAD_FORKED
        0.1   7 NODE_STARTED node=deep attempt=1
        0.1   8 LLM_EXECUTION_REQUEST node=deep
        0.1   9 LLM_CALL_REQUESTED 1
        0.1  10 LLM_CALL_COMPLETED call=9
        0.1  11 LLM_EXECUTION_COMPLETED node=deep "B"
        0.1  12 NODE_COMPLETED node=deep
        0.1  13 THREAD_COMPLETED node=inner.join
        0     8 BRANCH_ENDED output=B index=1
        1     7 LLM_CALL_COMPLETED call=6
        1     8 LLM_EXECUTION_COMPLETED node=flat "F"
        1     9 NODE_COMPLETED node=flat
        1    10 THREAD_COMPLETED node=outer.join
        -     5 BRANCH_ENDED output=F index=1
        0.0  10 LLM_CALL_COMPLETED call=9
        0.0  11 LLM_EXECUTION_COMPLETED node=deep "A"
        0.0  12 NODE_COMPLETED node=deep
        0.0  13 THREAD_COMPLETED node=inner.join
        0     9 BRANCH_ENDED output=A index=0
        0    10 JOIN_COMPLETED node=inner n_completed=2 n_failed=0
        0    11 NODE_COMPLETED node=inner
        0    12 NODE_STARTED node=inner.join attempt=1
        0    13 NODE_COMPLETED node=inner.join
        0    14 THREAD_COMPLETED node=outer.join
        -     6 BRANCH_ENDED index=0
        -     7 JOIN_COMPLETED node=outer n_completed=2 n_failed=0
        -     8 NODE_COMPLETED node=outer
        -     9 NODE_STARTED node=outer.join attempt=1
        -    10 NODE_COMPLETED node=outer.join
        -    11 THREAD_COMPLETED node=outer.join
        => - completed
        => 0 completed
        => 0.0 completed
        => 0.1 completed
        => 1 completed
        output {"one":["A","B"],"two":"F"}
    "#]]);
}

#[test]
fn the_usage_of_branches_counts() {
    let mut family = Family::new(NESTED, "hello");
    for name in ["0.1", "1", "0.0"] {
        family.with(name, |bench| bench.says("x"));
    }
    let totals = *family.root().state().totals();
    assert_eq!((totals.n_llm_calls, totals.usage.input_tokens), (3, Some(30)));
}

#[test]
fn a_fork_in_the_middle_has_branches_of_its_own() {
    let mut family = Family::new(TWO, "hello");
    let seq = family.root().log.len() - 1;
    let left = family.threads["0"].log.len() as u64 - 1;
    let fork = family.fork_root(seq, |name| (name == "0").then_some(left));
    family.with("0", |bench| bench.says("L"));
    let mut other = family.without_root(fork);
    other.settle();
    other.with("0", |bench| bench.says("L2"));
    other.with("1", |bench| bench.says("R2"));
    other.check(expect![[r#"
        -     5 THREAD_FORKED
        0     7 THREAD_FORKED
        0     8 THREAD_RECOVERED calls=[6]
        0     9 LLM_CALL_RETRIED attempt=2 call=6
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=b attempt=1
        1     5 LLM_EXECUTION_REQUEST node=b
        1     6 LLM_CALL_REQUESTED 1
        0    10 LLM_CALL_COMPLETED call=6
        0    11 LLM_EXECUTION_COMPLETED node=a "L2"
        0    12 NODE_COMPLETED node=a
        0    13 THREAD_COMPLETED node=gather
        -     6 BRANCH_ENDED output=L2 index=0
        1     7 LLM_CALL_COMPLETED call=6
        1     8 LLM_EXECUTION_COMPLETED node=b "R2"
        1     9 NODE_COMPLETED node=b
        1    10 THREAD_COMPLETED node=gather
        -     7 BRANCH_ENDED output=R2 index=1
        -     8 JOIN_COMPLETED node=split n_completed=2 n_failed=0
        -     9 NODE_COMPLETED node=split
        -    10 NODE_STARTED node=gather attempt=1
        -    11 NODE_COMPLETED node=gather
        -    12 NODE_STARTED node=sum attempt=1
        -    13 LLM_EXECUTION_REQUEST node=sum
        -    14 LLM_CALL_REQUESTED 1
        => - running
        => 0 completed
        => 1 completed
        => old0 completed
        => old1 running
        output {"left":"L2","right":"R2"}
    "#]]);
}
