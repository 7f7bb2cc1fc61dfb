//! Questions to people that are answered from outside.

use std::sync::Arc;

use expect_test::expect;
use rethread::errors::{ControlError, NextMove};
use rethread::{CallId, Seq, Status, Workflow};

use crate::support::{World, block_on, check, llm, print_log, workflow};

pub(crate) fn approval() -> Arc<Workflow> {
    workflow(&format!(
        "nodes: [{{id: ask, user_interaction: {{operation_type: UPDATE_VARIABLES, prompt: 'Pay {{{{ input }}}}?', \
         variables: [{{variable_name: approved, expression: '{{{{ input }}}}'}}]}}}}, {}]",
        llm("work", "", "{text: done}")
    ))
}

#[test]
fn a_thread_waits_for_a_person() {
    check(
        &approval(),
        "7 €",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED ask try 1
        2 USER_INTERACTION_REQUESTED Pay 7 €?
        waiting: null
    "#]],
    );
}

#[test]
fn repeated_answer_takes_effect_once() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&approval(), "7 €").await;
        assert_eq!(outcome.status, Status::Waiting);
        let question = outcome.state.interaction().unwrap().id;
        thread.respond(question, true).await.unwrap();
        // While it is being recorded and after it, the same answer is accepted as the same.
        thread.respond(question, true).await.unwrap();
        let outcome = thread.outcome().await.unwrap();
        thread.respond(question, true).await.unwrap();
        assert_eq!(*outcome.state.variables()["approved"].0, true);

        let error = thread.respond(question, false).await.expect_err("it was answered otherwise");
        assert!(error.next_move() == NextMove::ReadAgain, "{error}");
        expect![[r#"
            0 THREAD_STARTED
            1 NODE_STARTED ask try 1
            2 USER_INTERACTION_REQUESTED Pay 7 €?
            3 USER_INTERACTION_RESPONDED true
            4 USER_INTERACTION_PROCESSED
            5 NODE_COMPLETED ask
            6 NODE_STARTED work try 1
            7 LLM_EXECUTION_REQUEST
            8 LLM_CALL_REQUESTED iteration 1
            9 LLM_CALL_COMPLETED call 8: "done"
            10 LLM_EXECUTION_COMPLETED
            11 NODE_COMPLETED work
            12 THREAD_COMPLETED
        "#]]
        .assert_eq(&print_log(&thread).await);
        world.end().await;
    });
}

#[test]
fn a_question_that_was_never_asked_cannot_be_answered() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&approval(), "7 €").await;
        let error = thread.respond(CallId(Seq(999)), true).await.expect_err("nobody asked that");
        assert!(matches!(error, ControlError::NoInteraction(_)), "{error}");
        assert_eq!(thread.state().await.unwrap().status(), Status::Waiting);
        world.end().await;
    });
}

#[test]
fn invalid_answer_leaves_the_question_open() {
    block_on(async {
        let world = World::new().await;
        let numbers = workflow(
            "nodes: [{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'How many?', \
             variables: [{variable_name: n, expression: '{{ input.count + 1 }}'}]}}]",
        );
        let (thread, outcome) = world.run(&numbers, "go").await;
        let question = outcome.state.interaction().unwrap().id;
        let error = thread.respond(question, "many").await.expect_err("it has no count");
        assert!(matches!(error, ControlError::Rejected { .. }), "{error}");
        thread.respond(question, serde_json::json!({"count": 2})).await.unwrap();
        assert_eq!(*thread.outcome().await.unwrap().state.variables()["n"].0, 3);
        world.end().await;
    });
}

#[test]
fn question_can_be_withdrawn() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&approval(), "7 €").await;
        let question = outcome.state.interaction().unwrap().id;
        thread.cancel_interaction(question).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Error);
        let error = thread.respond(question, true).await.expect_err("it is closed");
        assert!(error.next_move() == NextMove::ReadAgain, "{error}");
        world.end().await;
    });
}

#[test]
fn question_expires_at_its_deadline() {
    let soon = workflow(
        "nodes: [{id: ask, user_interaction: {operation_type: ADD_MESSAGE, prompt: 'Quick?', timeout_ms: 1, \
         message: {role: user, content_template: '{{ input }}'}}}]",
    );
    block_on(async {
        let world = World::new().await;
        let thread = world.start(&soon, "go").await;
        assert_eq!(thread.outcome().await.unwrap().status, Status::Error);
        expect![[r#"
            0 THREAD_STARTED
            1 NODE_STARTED ask try 1
            2 USER_INTERACTION_REQUESTED Quick?
            3 USER_INTERACTION_FAILED Timeout
            4 NODE_FAILED ask try 1: timeout
            5 THREAD_FAILED timeout
        "#]]
        .assert_eq(&print_log(&thread).await);
        world.end().await;
    });
}
