//! A branch for each element of a list.

use super::*;

pub(super) const EACH: &str = "
version: '1'
name: each
nodes:
  - id: all
    parallel:
      for_each: input
      as: word
      concurrency: 2
      body:
        nodes:
          - {id: ask, llm: {provider: mock, model: m, user_prompt: 'spell {{ word }}'}}
";

#[test]
fn for_each_runs_in_parallel_and_results_have_list_order() {
    let mut family = Family::new(EACH, serde_json::json!(["x", "y", "z"]));
    family.with("1", |bench| bench.says("Y"));
    family.with("2", |bench| bench.says("Z"));
    family.with("0", |bench| bench.says("X"));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=all attempt=1
        -     2 FORK_STARTED node=all n_needed=3
        -     3 BRANCH_STARTED index=0
        -     4 BRANCH_STARTED index=1
        0     3 THREAD_FORKED
        0     4 NODE_STARTED node=ask attempt=1
        0     5 LLM_EXECUTION_REQUEST node=ask
        0     6 LLM_CALL_REQUESTED 1
        1     3 THREAD_FORKED
        1     4 NODE_STARTED node=ask attempt=1
        1     5 LLM_EXECUTION_REQUEST node=ask
        1     6 LLM_CALL_REQUESTED 1
        1     7 LLM_CALL_COMPLETED call=6
        1     8 LLM_EXECUTION_COMPLETED node=ask "Y"
        1     9 NODE_COMPLETED node=ask
        1    10 THREAD_COMPLETED node=all.join
        -     5 BRANCH_ENDED output=Y index=1
        -     6 BRANCH_STARTED index=2
        2     3 THREAD_FORKED
        2     4 NODE_STARTED node=ask attempt=1
        2     5 LLM_EXECUTION_REQUEST node=ask
        2     6 LLM_CALL_REQUESTED 1
        2     7 LLM_CALL_COMPLETED call=6
        2     8 LLM_EXECUTION_COMPLETED node=ask "Z"
        2     9 NODE_COMPLETED node=ask
        2    10 THREAD_COMPLETED node=all.join
        -     7 BRANCH_ENDED output=Z index=2
        0     7 LLM_CALL_COMPLETED call=6
        0     8 LLM_EXECUTION_COMPLETED node=ask "X"
        0     9 NODE_COMPLETED node=ask
        0    10 THREAD_COMPLETED node=all.join
        -     8 BRANCH_ENDED output=X index=0
        -     9 JOIN_COMPLETED node=all n_completed=3 n_failed=0
        -    10 NODE_COMPLETED node=all
        -    11 NODE_STARTED node=all.join attempt=1
        -    12 NODE_COMPLETED node=all.join
        -    13 THREAD_COMPLETED node=all.join
        => - completed
        => 0 completed
        => 1 completed
        => 2 completed
        output ["X","Y","Z"]
    "#]]);
}

#[test]
fn an_empty_list_has_no_branches_and_what_is_no_list_fails() {
    let family = Family::new(EACH, serde_json::json!([]));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=all attempt=1
        -     2 FORK_STARTED node=all n_needed=0
        -     3 JOIN_COMPLETED node=all n_completed=0 n_failed=0
        -     4 NODE_COMPLETED node=all
        -     5 NODE_STARTED node=all.join attempt=1
        -     6 NODE_COMPLETED node=all.join
        -     7 THREAD_COMPLETED node=all.join
        => - completed
        output []
    "#]]);
    let family = Family::new(EACH, "abc");
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=all attempt=1
        -     2 NODE_FAILED node=all attempt=1 expression
        -     3 THREAD_FAILED node=all expression
        => - error
        output 
    "#]]);
}
