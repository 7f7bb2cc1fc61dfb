//! Pause, resume, cancel, abort, checkpoints, messages and variables from outside.

use expect_test::expect;
use rethread::errors::{ControlError, NextMove, ReadError, RuntimeError};
use rethread::{Message, Role, Seq, Status};

use crate::support::{World, block_on, print_log, scripted};

fn waits(tool: &str) -> std::sync::Arc<rethread::Workflow> {
    scripted(
        &format!("{tool}, look"),
        &format!(
            "{{tool_calls: [{{name: {tool}, arguments: {{text: paid}}}}]}}, {{match: hurry, text: faster}}, {{text: done}}"
        ),
    )
}

#[test]
fn paused_thread_begins_nothing_and_continues_on_resume() {
    block_on(async {
        let world = World::new().await;
        let thread = world.start(&waits("wait_pay"), "go").await;
        world.tally.called("wait_pay", 1).await;
        thread.pause(Some("lunch".into())).await.unwrap();
        let error = thread.pause(None).await.expect_err("it is paused already");
        assert!(matches!(error, ControlError::Rejected { .. }), "{error}");
        // What runs ends, and nothing follows from it yet.
        world.tally.gate().open();
        assert_eq!(thread.at_rest().await.unwrap().status, Status::Paused);
        thread.resume().await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        let error = thread.resume().await.expect_err("it has ended");
        assert!(error.next_move() == NextMove::ReadAgain, "{error}");
        assert_eq!(world.tally.of("wait_pay"), (1, 1));
        world.end().await;
    });
}

#[test]
fn cancelled_thread_cancels_and_closes_every_call() {
    block_on(async {
        let world = World::new().await;
        let thread = world.start(&waits("wait_look"), "go").await;
        world.tally.called("wait_look", 1).await;
        thread.cancel(Some("no longer needed".into())).await.unwrap();
        let outcome = thread.outcome().await.unwrap();
        assert_eq!(outcome.status, Status::Cancelled);
        expect![[r#"
            0 THREAD_STARTED
            1 NODE_STARTED work try 1
            2 LLM_EXECUTION_REQUEST
            3 LLM_CALL_REQUESTED iteration 1
            4 LLM_CALL_COMPLETED call 3: "" wait_look
            5 TOOL_EXECUTION_REQUEST wait_look {"text":"paid"}
            6 TOOL_EXECUTION_FAILED call 5: cancelled
            7 LLM_EXECUTION_FAILED
            8 NODE_FAILED work try 1: cancelled
            9 THREAD_CANCELLED
        "#]]
        .assert_eq(&print_log(&thread).await);
        let error = thread.cancel(None).await.expect_err("it has ended");
        assert!(error.next_move() == NextMove::ReadAgain, "{error}");
        world.end().await;
    });
}

#[test]
fn an_aborted_thread_has_failed() {
    block_on(async {
        let world = World::new().await;
        let thread = world.start(&waits("wait_pay"), "go").await;
        world.tally.called("wait_pay", 1).await;
        thread.abort(None).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Error);
        world.end().await;
    });
}

#[test]
fn checkpoint_name_is_unique() {
    block_on(async {
        let world = World::new().await;
        let thread = world.start(&waits("wait_pay"), "go").await;
        world.tally.called("wait_pay", 1).await;
        thread.checkpoint("before").await.unwrap();
        let error = thread.checkpoint("before").await.expect_err("the name is taken");
        assert!(error.next_move() == NextMove::ReadAgain, "{error}");
        world.tally.gate().open();
        thread.outcome().await.unwrap();
        let seq = thread.checkpoint_seq("before").await.unwrap().expect("it is there");
        assert_eq!(thread.state_at(seq).await.unwrap().status(), Status::Running);
        assert_eq!(thread.checkpoint_seq("after").await.unwrap(), None);
        world.end().await;
    });
}

#[test]
fn message_and_variable_from_outside_reach_the_next_call() {
    block_on(async {
        let world = World::new().await;
        let thread = world.start(&waits("wait_look"), "go").await;
        world.tally.called("wait_look", 1).await;
        thread.add_message(Message::text(Role::User, "please hurry")).await.unwrap();
        thread.set_variables([("limit".to_owned(), 7.into())].into_iter().collect()).await.unwrap();
        world.tally.gate().open();
        let outcome = thread.outcome().await.unwrap();
        assert_eq!(outcome.output.unwrap(), "faster");
        assert_eq!(*outcome.state.variables()["limit"].0, 7);
        world.end().await;
    });
}

#[test]
fn thread_is_listed_summarised_and_read_at_any_moment() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&waits("look"), "go").await;
        let summary = thread.summary().await.unwrap();
        assert_eq!((summary.status, summary.last_seq), (Status::Completed, outcome.state.last_seq().unwrap()));
        assert_eq!(summary.last_position, outcome.last_position);
        assert_eq!(summary.workflow.unwrap().name, "scenario");
        assert_eq!(thread.state_at(Seq(0)).await.unwrap().status(), Status::Running);
        let error = thread.state_at(Seq(9_999)).await.expect_err("it is not that long");
        assert!(matches!(error, ReadError::NoSeq { .. }), "{error}");
        world.end().await;
    });
}

#[test]
fn only_ended_thread_can_be_deleted() {
    block_on(async {
        let world = World::new().await;
        let running = world.start(&waits("wait_pay"), "go").await;
        let error = running.delete().await.expect_err("it runs");
        assert!(matches!(error, ControlError::Rejected { .. }), "{error}");
        let (ended, _) = world.run(&waits("look"), "go").await;
        let at = Some(Seq(1));
        let fork = ended.fork(rethread::ForkRequest { at, ..rethread::ForkRequest::default() }).await.unwrap();
        let error = ended.delete().await.expect_err("a fork inherits from it");
        assert!(matches!(error.runtime(), Some(RuntimeError::Store(_))), "{error}");
        fork.outcome().await.unwrap();
        fork.delete().await.unwrap();
        ended.delete().await.unwrap();
        let error = ended.state().await.expect_err("it is gone");
        assert!(matches!(error, ReadError::NoThread(_)), "{error}");
        world.tally.gate().open();
        running.outcome().await.unwrap();
        world.end().await;
    });
}

#[test]
fn outcome_is_the_same_from_memory_and_from_the_log() {
    block_on(async {
        let world = World::new().await;
        let thread = world.start(&waits("look"), "go").await;
        let other = thread.runtime().thread(thread.id());
        let ended = other.outcome().await.unwrap();
        // The first is what the start's handle was left, the second is read from the log.
        assert_eq!(thread.outcome().await.unwrap(), ended);
        assert_eq!(thread.outcome().await.unwrap(), ended);
        world.end().await;
    });
}

#[test]
fn outcome_of_a_deleted_thread_is_not_read_from_memory() {
    block_on(async {
        let world = World::new().await;
        let thread = world.start(&waits("look"), "go").await;
        let other = thread.runtime().thread(thread.id());
        other.outcome().await.unwrap();
        other.delete().await.unwrap();
        let error = thread.outcome().await.expect_err("it is gone");
        assert!(matches!(error, ReadError::NoThread(_)), "{error}");
        world.end().await;
    });
}
