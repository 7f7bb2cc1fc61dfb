//! Checks whether a thread can continue with another definition: all misfits are reported at once.

use expect_test::{Expect, expect};
use rethread::errors::ForkError;
use rethread::{ForkRequest, Status};

use crate::support::{World, block_on, workflow};

/// A person is asked in a branch of a fork, in a sub-workflow, in a loop.
const DEEP: &str = r#"
max_iterations: 20
nodes:
  - {id: rounds, loop_start: {end: again, times: 2}}
  - {id: run, sub_workflow: {workflow: inner}}
  - {id: again, loop_end: {start: rounds}}
workflows:
  inner:
    nodes:
      - {id: both, fork: {join: meet, branches: {left: ask, right: look}}}
      - {id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: "Pay?", variables: [{variable_name: paid, expression: "{{ input }}"}]}}
      - {id: look, tool: {tool_name: look, parameters: {text: a}}}
      - {id: meet, join: {}}
    edges: [{from: ask, to: meet}, {from: look, to: meet}]
"#;

/// The faults when a thread that came to rest on one definition is forked onto another.
fn check(old: &str, new: &str, said: &Expect) {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&workflow(old), "hello").await;
        assert_eq!(outcome.status, Status::Waiting);
        let request = ForkRequest { workflow: Some(workflow(new)), ..ForkRequest::default() };
        let faults = match thread.fork(request).await {
            Ok(_) => "it fits".to_owned(),
            Err(ForkError::Workflow(faults)) => {
                assert!(faults.0.iter().all(|fault| fault.hint.is_some()));
                faults.0.iter().map(|fault| format!("{}\n", fault.message)).collect()
            }
            Err(error) => panic!("{error}"),
        };
        said.assert_eq(&faults);
        world.end().await;
    });
}

#[test]
fn definition_with_all_open_parts_fits() {
    check(DEEP, &DEEP.replace("times: 2", "times: 3").replace("text: a", "text: b"), &expect!["it fits"]);
}

#[test]
fn all_missing_open_parts_are_reported_at_once() {
    check(
        DEEP,
        "nodes: [{id: other, end: {}}]",
        &expect![[r#"
        the thread is in round 1 of loop `rounds`, which this workflow does not have
        the thread runs workflow `inner` at node `run`, which this workflow does not have
        the thread is in workflow `inner`, which is not among the `workflows` of this one
    "#]],
    );
    let renamed = DEEP
        .replace("rounds", "turns")
        .replace("look, tool", "see, tool")
        .replace("right: look", "right: see")
        .replace("from: look", "from: see")
        .replace("meet", "join");
    check(
        DEEP,
        &renamed,
        &expect![[r#"
        the thread is in round 1 of loop `rounds`, which this workflow does not have
        the branches of `both` end at join `meet`, and not at `join`
        branch `right` of `both` begins at node `look`, which this workflow does not have
    "#]],
    );
}

#[test]
fn nodes_that_changed_their_kind_do_not_fit() {
    check(
        DEEP,
        r#"
nodes:
  - {id: rounds, start: {}}
  - {id: run, sub_workflow: {workflow: outer}}
  - {id: again, end: {}}
workflows:
  outer: {nodes: [{id: other, end: {}}]}
  inner:
    nodes:
      - {id: both, tool: {tool_name: look, parameters: {text: a}}}
      - {id: ask, start: {}}
      - {id: meet, end: {}}
"#,
        &expect![[r#"
            the thread is in round 1 of loop `rounds`, which is of kind `start` here
            node `run` runs workflow `outer` here, and the thread is in its run of `inner`
            the thread is at fork node `both`, which is of kind `tool` here
            the branches of `both` end at join `meet`, which is of kind `end` here
            branch `right` of `both` begins at node `look`, which this workflow does not have
        "#]],
    );
}

#[test]
fn question_whose_node_changed_does_not_fit() {
    let asks = "nodes: [{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Pay?', \
                variables: [{variable_name: paid, expression: '{{ input }}'}]}}]";
    check(asks, &asks.replace("Pay?", "Pay now?"), &expect!["it fits"]);
    check(
        asks,
        "nodes: [{id: ask, tool: {tool_name: look, parameters: {text: a}}}]",
        &expect![[r#"
        the thread is at user_interaction node `ask`, which is of kind `tool` here
    "#]],
    );
    let approved = "nodes: [{id: act, tool: {tool_name: look, parameters: {text: a}, approval: true}}]";
    check(approved, &approved.replace(", approval: true", ""), &expect!["it fits"]);
    check(
        approved,
        "nodes: [{id: act, end: {}}]",
        &expect![[r#"
        the thread is at tool node `act`, which is of kind `end` here
    "#]],
    );
}
