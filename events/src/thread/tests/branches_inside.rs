//! Branches inside loops and sub-workflows, and loops inside branches.

use super::*;

/// In a sub-workflow a loop, in the loop two branches, in one of them a loop again.
const INSIDE: &str = "
version: '1'
name: inside
nodes:
  - {id: sub, sub_workflow: {workflow: inner, outputs: {left: left, after: right}}}
workflows:
  inner:
    nodes:
      - id: round
        loop:
          times: 1
          body:
            nodes:
              - id: both
                parallel:
                  branches:
                    left:
                      nodes:
                        - id: ask
                          user_interaction:
                            operation_type: UPDATE_VARIABLES
                            variables:
                              - {variable_name: g, expression: '{{ input }}', scope: global}
                              - {variable_name: l, expression: '{{ loop.iteration }}', scope: loop}
                    right:
                      nodes:
                        - id: again
                          loop:
                            times: 1
                            body:
                              nodes:
                                - {id: say, llm: {provider: mock, model: m, user_prompt: 'round {{ loop.n }}'}}
";

#[test]
fn a_branch_sees_the_scopes_around_it_and_ends_only_what_it_began() {
    let mut family = Family::new(INSIDE, "hello");
    family.with("0", |bench| {
        bench.person_says(serde_json::json!("for all"));
        bench.note_value("[g, l]");
    });
    family.with("1", |bench| bench.says("said"));
    family.with("-", |bench| {
        bench.note_value("[left, after, g, l is defined]");
        let globals = serde_json::to_string(bench.state().globals()).unwrap();
        bench.note(globals);
    });
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=sub attempt=1
        -     2 SUB_WORKFLOW_STARTED node=sub workflow=inner
        -     3 NODE_STARTED node=round attempt=1
        -     4 LOOP_STARTED node=round
        -     5 NODE_COMPLETED node=round
        -     6 LOOP_ITERATION_STARTED node=round index=0
        -     7 NODE_STARTED node=both attempt=1
        -     8 FORK_STARTED node=both n_needed=2
        -     9 BRANCH_STARTED index=0
        -    10 BRANCH_STARTED index=1
        0     9 THREAD_FORKED
        0    10 NODE_STARTED node=ask attempt=1
        0    11 USER_INTERACTION_REQUESTED node=ask
        1     9 THREAD_FORKED
        1    10 NODE_STARTED node=again attempt=1
        1    11 LOOP_STARTED node=again
        1    12 NODE_COMPLETED node=again
        1    13 LOOP_ITERATION_STARTED node=again index=0
        1    14 NODE_STARTED node=say attempt=1
        1    15 LLM_EXECUTION_REQUEST node=say
        1    16 LLM_CALL_REQUESTED 1
        0    12 USER_INTERACTION_RESPONDED interaction=11 "for all"
        0    13 USER_INTERACTION_PROCESSED interaction=11
        0    14 NODE_COMPLETED node=ask
        0    15 THREAD_COMPLETED node=both.join
        0       [g, l] = ["for all",1]
        -    11 BRANCH_ENDED output=for all index=0
        1    17 LLM_CALL_COMPLETED call=16
        1    18 LLM_EXECUTION_COMPLETED node=say "said"
        1    19 NODE_COMPLETED node=say
        1    20 NODE_STARTED node=again.end attempt=1
        1    21 NODE_COMPLETED node=again.end
        1    22 LOOP_ENDED node=again n_iterations=1
        1    23 THREAD_COMPLETED node=both.join
        -    12 BRANCH_ENDED output=said index=1
        -    13 JOIN_COMPLETED node=both n_completed=2 n_failed=0
        -    14 NODE_COMPLETED node=both
        -    15 NODE_STARTED node=both.join attempt=1
        -    16 NODE_COMPLETED node=both.join
        -    17 NODE_STARTED node=round.end attempt=1
        -    18 NODE_COMPLETED node=round.end
        -    19 LOOP_ENDED node=round n_iterations=1
        -    20 SUB_WORKFLOW_COMPLETED node=sub output={"left":"for all","right":"said"} {"left":"for all","after":"said"}
        -    21 NODE_COMPLETED node=sub
        -    22 THREAD_COMPLETED node=sub
        -       [left, after, g, l is defined] = ["for all","said","for all",false]
        -       {"g":"for all"}
        => - completed
        => 0 completed
        => 1 completed
        output {"left":"for all","right":"said"}
    "#]]);
}

#[test]
fn error_in_the_loop_of_a_branch_ends_loop_and_branch() {
    let mut family = Family::new(INSIDE, "hello");
    family.with("1", |bench| bench.model_fails(ErrorKind::Quota));
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=sub attempt=1
        -     2 SUB_WORKFLOW_STARTED node=sub workflow=inner
        -     3 NODE_STARTED node=round attempt=1
        -     4 LOOP_STARTED node=round
        -     5 NODE_COMPLETED node=round
        -     6 LOOP_ITERATION_STARTED node=round index=0
        -     7 NODE_STARTED node=both attempt=1
        -     8 FORK_STARTED node=both n_needed=2
        -     9 BRANCH_STARTED index=0
        -    10 BRANCH_STARTED index=1
        0     9 THREAD_FORKED
        0    10 NODE_STARTED node=ask attempt=1
        0    11 USER_INTERACTION_REQUESTED node=ask
        1     9 THREAD_FORKED
        1    10 NODE_STARTED node=again attempt=1
        1    11 LOOP_STARTED node=again
        1    12 NODE_COMPLETED node=again
        1    13 LOOP_ITERATION_STARTED node=again index=0
        1    14 NODE_STARTED node=say attempt=1
        1    15 LLM_EXECUTION_REQUEST node=say
        1    16 LLM_CALL_REQUESTED 1
        1    17 LLM_CALL_FAILED call=16 quota
        1    18 LLM_EXECUTION_FAILED node=say quota
        1    19 NODE_FAILED node=say attempt=1 quota
        1    20 LOOP_ENDED node=again n_iterations=1 quota
        1    21 THREAD_FAILED node=again quota
        -    11 BRANCH_ENDED index=1 quota
        -    12 BRANCH_ENDED index=0 cancelled
        -    13 NODE_FAILED node=both attempt=1 quota
        -    14 LOOP_ENDED node=round n_iterations=1 quota
        -    15 SUB_WORKFLOW_FAILED node=sub quota
        -    16 NODE_FAILED node=sub attempt=1 quota
        -    17 THREAD_FAILED node=sub quota
        0    12 USER_INTERACTION_FAILED interaction=11 "cancelled"
        0    13 NODE_FAILED node=ask attempt=1 cancelled
        0    14 THREAD_CANCELLED "not needed"
        -    18 BRANCH_SPENT index=0
        => - error
        => 0 cancelled
        => 1 error
        output 
    "#]]);
}

#[test]
fn the_time_of_a_fork_ends_the_node_and_then_the_loop_around_it() {
    let yaml = "
version: '1'
name: inside
nodes:
  - id: round
    on_error: last
    loop:
      times: 2
      body:
        nodes:
          - id: both
            parallel:
              timeout_ms: 500
              branches:
                left: {nodes: [{id: say, llm: {provider: mock, model: m, user_prompt: hello}}]}
  - {id: last, end: {}}
";
    let mut family = Family::new(yaml, "hello");
    family.tick_after_ms("-", 500);
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=round attempt=1
        -     2 LOOP_STARTED node=round
        -     3 NODE_COMPLETED node=round
        -     4 LOOP_ITERATION_STARTED node=round index=0
        -     5 NODE_STARTED node=both attempt=1
        -     6 FORK_STARTED node=both n_needed=1
        -     7 BRANCH_STARTED index=0
        0     7 THREAD_FORKED
        0     8 NODE_STARTED node=say attempt=1
        0     9 LLM_EXECUTION_REQUEST node=say
        0    10 LLM_CALL_REQUESTED 1
            500 ms later
        -     8 BRANCH_ENDED index=0 timeout
        -     9 NODE_FAILED node=both attempt=1 timeout
        -    10 LOOP_ENDED node=round n_iterations=1 timeout
        -    11 ROUTE_TAKEN from=round to=last condition=error timeout timeout
        -    12 NODE_STARTED node=last attempt=1
        -    13 NODE_COMPLETED node=last
        -    14 THREAD_COMPLETED node=last
        0    11 LLM_CALL_FAILED call=10 cancelled
        0    12 LLM_EXECUTION_FAILED node=say cancelled
        0    13 NODE_FAILED node=say attempt=1 cancelled
        0    14 THREAD_CANCELLED "not needed"
        -    15 BRANCH_SPENT index=0
        => - completed
        => 0 cancelled
        output 
    "#]]);
}

#[test]
fn the_element_of_a_branch_hides_the_one_of_the_loop_around_it() {
    let yaml = "
version: '1'
name: inside
nodes:
  - id: round
    loop:
      for_each: '[[1, 2]]'
      body:
        nodes:
          - id: each
            parallel:
              for_each: item
              body: {nodes: [{id: say, llm: {provider: mock, model: m, user_prompt: 'item {{ item }}'}}]}
";
    let mut family = Family::new(yaml, "hello");
    for name in ["0", "1"] {
        family.with(name, |bench| {
            bench.note_request();
            bench.says(name);
        });
    }
    family.check(expect![[r#"
        -     0 THREAD_STARTED
        -     1 NODE_STARTED node=round attempt=1
        -     2 LOOP_STARTED node=round
        -     3 NODE_COMPLETED node=round
        -     4 LOOP_ITERATION_STARTED node=round index=0
        -     5 NODE_STARTED node=each attempt=1
        -     6 FORK_STARTED node=each n_needed=2
        -     7 BRANCH_STARTED index=0
        -     8 BRANCH_STARTED index=1
        0     7 THREAD_FORKED
        0     8 NODE_STARTED node=say attempt=1
        0     9 LLM_EXECUTION_REQUEST node=say
        0    10 LLM_CALL_REQUESTED 1
        1     7 THREAD_FORKED
        1     8 NODE_STARTED node=say attempt=1
        1     9 LLM_EXECUTION_REQUEST node=say
        1    10 LLM_CALL_REQUESTED 1
        0       model is called, tools None:
        0         user: item 1
        0    11 LLM_CALL_COMPLETED call=10
        0    12 LLM_EXECUTION_COMPLETED node=say "0"
        0    13 NODE_COMPLETED node=say
        0    14 THREAD_COMPLETED node=each.join
        -     9 BRANCH_ENDED output=0 index=0
        1       model is called, tools None:
        1         user: item 2
        1    11 LLM_CALL_COMPLETED call=10
        1    12 LLM_EXECUTION_COMPLETED node=say "1"
        1    13 NODE_COMPLETED node=say
        1    14 THREAD_COMPLETED node=each.join
        -    10 BRANCH_ENDED output=1 index=1
        -    11 JOIN_COMPLETED node=each n_completed=2 n_failed=0
        -    12 NODE_COMPLETED node=each
        -    13 NODE_STARTED node=each.join attempt=1
        -    14 NODE_COMPLETED node=each.join
        -    15 NODE_STARTED node=round.end attempt=1
        -    16 NODE_COMPLETED node=round.end
        -    17 LOOP_ENDED node=round n_iterations=1
        -    18 THREAD_COMPLETED node=round.end
        => - completed
        => 0 completed
        => 1 completed
        output ["0","1"]
    "#]]);
}
