//! Threads that a runtime left unfinished resume in the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use rethread::store::{MemoryStore, Store};
use rethread::{ErrorKind, Event, Seq, Status, ThreadFilter, ThreadId, Workflow};
use rethread_store::testing::copy_as_killed;

use crate::handler::Says;
use crate::interaction::approval;
use crate::support::{Tally, World, block_on, disk, print_log, scripted, until};

fn uses(tool: &str) -> Arc<Workflow> {
    scripted(tool, &format!("{{tool_calls: [{{name: {tool}, arguments: {{text: x}}}}]}}, {{text: done}}"))
}

/// A runtime crashes while this tool runs, and another one opens the log.
async fn interrupted(tool: &str, store: Arc<dyn Store>, next: impl FnOnce() -> Arc<dyn Store>) -> (Tally, String) {
    let tally = Tally::default();
    let world = World::on(store, &tally).await;
    let thread = world.start(&uses(tool), "go").await;
    tally.called(tool, 1).await;
    let id = thread.id();
    // What may be repeated begins before it is in the log that it was asked for.
    let asked = async {
        let is_request = |event: &rethread::RecordedEvent| matches!(event.event, Event::ToolExecutionRequest(_));
        while !thread.recorded_events(Seq(0)).await.unwrap().iter().any(is_request) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), asked).await.unwrap();
    let next = next();
    drop(thread);
    // The test's, and that of the next runtime where it is the same log.
    world.crash(2).await;

    tally.gate().open();
    let world = World::on(next, &tally).await;
    let thread = world.runtime.thread(id);
    assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
    let log = print_log(&thread).await;
    world.end().await;
    (tally, log)
}

/// The same with a log on the disk, as a killed process leaves it.
fn killed(tool: &str) -> (Tally, String) {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    block_on(interrupted(tool, disk(folder.path()), || {
        copy_as_killed(folder.path(), copy.path()).unwrap();
        disk(copy.path())
    }))
}

#[test]
fn interrupted_safe_tool_is_repeated() {
    let (tally, log) = killed("wait_look");
    assert_eq!(tally.of("wait_look"), (1, 2));
    assert!(log.contains("TOOL_CALL_RETRIED"), "{log}");
}

#[test]
fn running_idempotent_tool_is_repeated_with_the_same_key() {
    let (tally, log) = killed("wait_put");
    assert_eq!(tally.of("wait_put"), (1, 2), "one key, two runs");
    assert!(log.contains("TOOL_CALL_RETRIED"), "{log}");
}

#[test]
fn interrupted_at_most_once_tool_is_reported_and_not_repeated() {
    let (tally, log) = killed("wait_pay");
    assert_eq!(tally.of("wait_pay"), (1, 1));
    assert!(log.contains(": indeterminate"), "{log}");
}

#[test]
fn next_runtime_can_use_a_log_in_memory() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (tally, _) = block_on(interrupted("wait_look", store.clone(), || store.clone()));
    assert_eq!(tally.of("wait_look").0, 1);
}

#[test]
fn a_question_survives_and_is_answered_in_the_next_runtime() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    block_on(async {
        let world = World::on(store.clone(), &Tally::default()).await;
        let (thread, outcome) = world.run(&approval(), "7 €").await;
        let (id, question) = (thread.id(), outcome.state.interaction().unwrap().id);
        drop(thread);
        world.crash(1).await;

        let world = World::on(store, &Tally::default()).await;
        let thread = world.runtime.thread(id);
        assert_eq!(thread.at_rest().await.unwrap().status, Status::Waiting);
        thread.respond(question, true).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        assert!(!print_log(&thread).await.contains("RECOVERED"), "nothing was cut off");
        world.end().await;
    });
}

#[test]
fn a_paused_thread_stays_paused() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    block_on(async {
        let tally = Tally::default();
        let world = World::on(store.clone(), &tally).await;
        let thread = world.start(&uses("wait_look"), "go").await;
        tally.called("wait_look", 1).await;
        thread.pause(None).await.unwrap();
        let id = thread.id();
        drop(thread);
        world.crash(1).await;
        tally.gate().open();

        let world = World::on(store, &tally).await;
        let thread = world.runtime.thread(id);
        assert_eq!(thread.at_rest().await.unwrap().status, Status::Paused);
        thread.resume().await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn on_demand_runtime_activates_no_thread_by_itself() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    block_on(async {
        let tally = Tally::default();
        let world = World::on(store.clone(), &tally).await;
        let thread = world.start(&uses("wait_look"), "go").await;
        tally.called("wait_look", 1).await;
        let id = thread.id();
        drop(thread);
        world.crash(1).await;
        tally.gate().open();

        let world = World::with(store, &tally, |builder| builder.mode(rethread::Mode::RunOnDemand)).await;
        let thread = world.runtime.thread(id);
        let before = thread.recorded_events(Seq(0)).await.unwrap();
        assert!(!before.iter().any(|event| matches!(event.event, Event::ThreadRecovered(_))));
        thread.wake().await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn tool_missing_in_the_next_runtime_fails_its_call() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    block_on(async {
        let tally = Tally::default();
        let world = World::on(store.clone(), &tally).await;
        let thread = world.start(&uses("wait_look"), "go").await;
        tally.called("wait_look", 1).await;
        let id: ThreadId = thread.id();
        drop(thread);
        world.crash(1).await;

        let none = rethread::tools::Registry::new();
        let world = World::with(store, &tally, |builder| builder.tools(none)).await;
        let thread = world.runtime.thread(id);
        let outcome = thread.outcome().await.unwrap();
        let events = thread.recorded_events(Seq(0)).await.unwrap();
        let told = |kind| {
            events.iter().any(|e| matches!(&e.event, Event::ToolExecutionFailed(failed) if failed.error.kind == kind))
        };
        assert!(told(ErrorKind::UnknownTool), "{:?}", outcome.error);
        world.end().await;
    });
}

#[test]
fn unfinished_threads_are_reloaded_after_others_that_stay() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    block_on(async {
        let world = World::on(store.clone(), &Tally::default()).await;
        let approval = approval();
        // More than are activated at a time.
        let n = 600;
        futures::future::join_all((0..n).map(|_| world.run(&approval, "7 €"))).await;
        world.crash(1).await;

        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let handler = Says(move |_, _| {
            counted.fetch_add(1, SeqCst);
            futures::future::pending().boxed()
        });
        let world = World::with(store, &Tally::default(), |builder| builder.interaction_handler(handler)).await;
        until(|| asked.load(SeqCst) == n).await;
        world.crash(1).await;
    });
}

#[test]
fn unfinished_threads_are_reloaded_one_by_one_if_one_fits() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    block_on(async {
        let tally = Tally::default();
        let world = World::on(store.clone(), &tally).await;
        for n in 1..=2 {
            world.start(&uses("wait_look"), "go").await;
            tally.called("wait_look", n).await;
        }
        world.crash(1).await;
        tally.gate().open();

        let world = World::with(store, &tally, |builder| builder.limits(|limits| limits.live_threads_max = 1)).await;
        let all_ended = async {
            while world.runtime.threads(ThreadFilter::default()).await.unwrap().iter().any(|it| !it.status.is_ended()) {
                let live = format!("{:?}", world.runtime);
                assert!(live.contains("n_live: 0,") || live.contains("n_live: 1,"), "{live}");
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), all_ended).await.unwrap();
        world.end().await;
    });
}
