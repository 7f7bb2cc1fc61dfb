//! Forks: a new thread from any moment of another.

use futures::StreamExt;
use rethread::errors::{ControlError, ForkError, ReadError};
use rethread::event::ForkChanges;
use rethread::{ForkRequest, Seq, Status};

use crate::support::{World, block_on, llm, scripted, workflow};

const SCRIPT: &str = "{tool_calls: [{name: pay, arguments: {text: paid}}]}, \
                      {tool_calls: [{name: look, arguments: {text: seen}}]}, {text: done}";

#[test]
fn fork_from_any_moment_inherits_and_runs_to_the_end() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&scripted("pay, look", SCRIPT), "go").await;
        let last = outcome.state.last_seq().unwrap();
        let parent = thread.recorded_events(Seq(0)).await.unwrap();
        for at in 0..last.0 {
            let fork = thread.fork(ForkRequest { at: Some(Seq(at)), ..ForkRequest::default() }).await.unwrap();
            let forked = fork.outcome().await.unwrap();
            assert_eq!(forked.status, Status::Completed, "forked at {at}");
            assert_eq!(forked.output, outcome.output, "forked at {at}");
            assert_eq!(forked.state.forked_from(), Some((thread.id(), Seq(at))));
            let events: Vec<_> = fork.events(Seq(0)).map(Result::unwrap).collect().await;
            let n = at as usize + 1;
            assert_eq!(events[..n], parent[..n], "what is inherited is the parent's own record");
            assert!(events[n..].iter().all(|event| event.record.thread == fork.id()));
        }
        assert_eq!(thread.recorded_events(Seq(0)).await.unwrap(), parent, "a fork changes nothing in its parent");
        world.end().await;
    });
}

#[test]
fn a_fork_of_a_fork_inherits_from_both() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&scripted("pay, look", SCRIPT), "go").await;
        let fork = thread.fork(ForkRequest { at: Some(Seq(6)), ..ForkRequest::default() }).await.unwrap();
        fork.outcome().await.unwrap();
        let end = fork.state().await.unwrap().last_seq().unwrap();
        let second = fork.fork(ForkRequest { at: Some(Seq(end.0 - 1)), ..ForkRequest::default() }).await.unwrap();
        assert_eq!(second.outcome().await.unwrap().output, outcome.output);
        world.end().await;
    });
}

#[test]
fn fork_of_a_fork_has_the_keys_of_the_calling_thread() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) =
            world.run(&scripted("put", "{tool_calls: [{name: put, arguments: {text: x}}]}, {text: done}"), "go").await;
        let last = outcome.state.last_seq().unwrap();
        let first = thread.fork(ForkRequest { at: Some(Seq(last.0 - 1)), ..ForkRequest::default() }).await.unwrap();
        first.outcome().await.unwrap();
        let events = thread.recorded_events(Seq(0)).await.unwrap();
        let asked = events.iter().find(|event| event.name() == "TOOL_EXECUTION_REQUEST").unwrap().record.seq;
        let second = first.fork(ForkRequest { at: Some(asked), ..ForkRequest::default() }).await.unwrap();
        second.outcome().await.unwrap();
        assert_eq!(world.tally.of("put"), (1, 2), "one key, two runs");
        assert_eq!(second.state().await.unwrap().forked_from(), Some((thread.id(), asked)));
        world.end().await;
    });
}

#[test]
fn invalid_prompt_starts_no_fork() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&workflow(&format!("nodes: [{}]", llm("first", "", "{text: one}"))), "go").await;
        for prompt in ["{{ 1 +", &format!("{{{{ {}a }}}}", "not ".repeat(10_000))] {
            let prompts = [("first".to_owned(), prompt.to_owned())].into_iter().collect();
            let changes = ForkChanges { prompts, ..ForkChanges::default() };
            let fork = thread.fork(ForkRequest { at: Some(Seq(0)), changes, ..ForkRequest::default() }).await;
            assert!(matches!(fork, Err(ForkError::Workflow(_))), "{prompt}");
        }
        world.end().await;
    });
}

#[test]
fn fork_continues_with_changed_variables_prompt_or_definition() {
    block_on(async {
        let world = World::new().await;
        let definition = |second: &str| {
            workflow(&format!("nodes: [{}, {}]", llm("first", "", "{text: one}"), llm("second", "", second)))
        };
        let (thread, _) = world.run(&definition("{match: better, text: improved}, {text: plain}"), "go").await;

        let changes = ForkChanges {
            variables: [("input".to_owned(), "better".into())].into_iter().collect(),
            ..ForkChanges::default()
        };
        let fork = thread.fork(ForkRequest { at: Some(Seq(0)), changes, ..ForkRequest::default() }).await.unwrap();
        assert_eq!(fork.outcome().await.unwrap().output.unwrap(), "improved");

        let changes = ForkChanges {
            prompts: [("second".to_owned(), "better".into())].into_iter().collect(),
            ..ForkChanges::default()
        };
        let fork = thread.fork(ForkRequest { at: Some(Seq(1)), changes, ..ForkRequest::default() }).await.unwrap();
        assert_eq!(fork.outcome().await.unwrap().output.unwrap(), "improved");

        let newer = definition("{text: newer}");
        let request = ForkRequest { at: Some(Seq(1)), workflow: Some(newer), ..ForkRequest::default() };
        let fork = thread.fork(request).await.unwrap();
        assert_eq!(fork.outcome().await.unwrap().output.unwrap(), "newer");
        world.end().await;
    });
}

#[test]
fn invalid_fork_is_refused() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&scripted("pay, look", SCRIPT), "go").await;
        let error = thread.fork(ForkRequest { at: Some(Seq(999)), ..ForkRequest::default() }).await;
        assert!(matches!(error, Err(ForkError::Control(ControlError::Read(ReadError::NoSeq { .. })))), "{error:?}");
        let other = workflow(&format!("nodes: [{}]", llm("elsewhere", "", "{text: no}")));
        let request = ForkRequest { at: Some(Seq(4)), workflow: Some(other), ..ForkRequest::default() };
        let error = thread.fork(request).await;
        assert!(matches!(error, Err(ForkError::Workflow(_))), "{error:?}");
        world.end().await;
    });
}

#[test]
fn fork_at_the_end_is_refused_with_the_seq_to_fork() {
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&scripted("pay, look", SCRIPT), "go").await;
        let last = outcome.state.last_seq().unwrap();
        let entered = outcome.state.path().last().unwrap().seq;
        for at in [None, Some(last)] {
            let error =
                thread.fork(ForkRequest { at, ..ForkRequest::default() }).await.expect_err("it would do nothing");
            let ForkError::AtEnd { at, instead, .. } = &error else { panic!("{error}") };
            assert_eq!((*at, *instead), (last, Seq(entered.0 - 1)));
            assert!(error.to_string().contains(&format!("fork it at seq {instead}")), "{error}");
            let fork = thread.fork(ForkRequest { at: Some(*instead), ..ForkRequest::default() }).await.unwrap();
            assert_eq!(fork.outcome().await.unwrap().status, Status::Completed);
        }
        assert_eq!(world.runtime.threads(rethread::ThreadFilter::default()).await.unwrap().len(), 3);
        world.end().await;
    });
}
