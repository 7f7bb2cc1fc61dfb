//! Threads that wait for a time.

use std::io::BufReader;
use std::sync::Arc;

use rethread::store::MemoryStore;
use rethread::{Status, Workflow};

use crate::passivation::all_passivated;
use crate::support::{Tally, World, block_on, disk, workflow};

fn waits(for_ms: u64) -> Arc<Workflow> {
    workflow(&format!("variables: {{n: 1}}\nnodes: [{{id: hold, wait: {{for_ms: {for_ms}}}}}, {}]", note("done")))
}

fn note(id: &str) -> String {
    format!(
        "{{id: {id}, context_processor: {{processor_name: extract, processor_config: {{variable: v, expression: \"'{id}'\"}}}}}}"
    )
}

const HOUR_MS: u64 = 3_600_000;

async fn world(store: Arc<dyn rethread::store::Store>) -> World {
    World::with(store, &Tally::default(), |builder| builder.limits(|limits| limits.passivate_after_ms = 0)).await
}

async fn suspended(world: &World, workflow: &Arc<Workflow>) -> rethread::ThreadHandle {
    let thread = world.runtime.start_thread(workflow.clone(), "x").await.unwrap();
    while thread.summary().await.unwrap().status != Status::Suspended {
        tokio::task::yield_now().await;
    }
    all_passivated(world).await;
    thread
}

#[test]
fn suspended_thread_resumes_on_time_without_being_in_memory() {
    block_on(async {
        // Longer than what is left to the timers in memory.
        let world = world(Arc::new(MemoryStore::new())).await;
        let thread = suspended(&world, &waits(HOUR_MS)).await;
        let state = thread.state().await.unwrap();
        let at = world.runtime.now().plus_ms(6_000);
        thread.change_wait(state.timer().unwrap().id, at).await.unwrap();
        all_passivated(&world).await;
        // A caller that waits for it would keep it in memory: this only reads.
        while thread.summary().await.unwrap().status != Status::Completed {
            assert!(world.runtime.now() < at.plus_ms(60_000));
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(world.runtime.now() >= at);
        world.end().await;
    });
}

#[test]
fn suspended_thread_resumes_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let first = world(disk(folder.path())).await;
        let late = suspended(&first, &waits(HOUR_MS)).await.id();
        let soon = suspended(&first, &waits(300)).await.id();
        first.end().await;

        let second = world(disk(folder.path())).await;
        assert_eq!(second.runtime.thread(soon).outcome().await.unwrap().output.unwrap(), "done");
        // Only its time activates the other one.
        all_passivated(&second).await;
        let late = second.runtime.thread(late);
        assert_eq!(late.summary().await.unwrap().status, Status::Suspended);
        let wait = late.state().await.unwrap().timer().unwrap().id;
        late.change_wait(wait, second.runtime.now()).await.unwrap();
        assert_eq!(late.outcome().await.unwrap().output.unwrap(), "done");
        let error = late.change_wait(wait, second.runtime.now()).await.unwrap_err();
        assert!(rethread::errors::with_sources(&error).contains("ended"), "{error}");
        second.end().await;
    });
}

#[test]
fn first_of_a_timer_and_a_person_wins() {
    let first_of = workflow(&format!(
        "nodes: [{{id: first, parallel: {{mode: any, branches: {{\
         late: {{nodes: [{{id: hold, wait: {{for_ms: {HOUR_MS}}}}}, {}]}}, \
         answer: {{nodes: [{{id: ask, user_interaction: {{operation_type: UPDATE_VARIABLES, prompt: 'Well?', \
         variables: [{{variable_name: v, expression: input}}]}}}}, {}]}}}}}}}}]",
        note("too_late"),
        note("answered"),
    ));
    block_on(async {
        for person_is_first in [true, false] {
            let world = world(Arc::new(MemoryStore::new())).await;
            let thread = world.runtime.start_thread(first_of.clone(), "x").await.unwrap();
            let outcome = thread.at_rest().await.unwrap();
            assert_eq!(outcome.status, Status::Waiting);
            for member in thread.family_at(outcome.state.last_seq().unwrap()).await.unwrap() {
                let branch = world.runtime.thread(member.thread);
                let state = branch.state().await.unwrap();
                if let Some(ask) = state.interaction().filter(|_| person_is_first) {
                    branch.respond(ask.id, "yes").await.unwrap();
                }
                if let Some(wait) = state.timer().filter(|_| !person_is_first) {
                    branch.change_wait(wait.id, world.runtime.now()).await.unwrap();
                }
            }
            let outcome = thread.outcome().await.unwrap();
            assert_eq!(outcome.status, Status::Completed);
            let (answer, late) =
                (&outcome.output.as_ref().unwrap()["answer"], &outcome.output.as_ref().unwrap()["late"]);
            assert_eq!((answer.is_null(), late.is_null()), (!person_is_first, person_is_first));
            world.end().await;
        }
    });
}

#[test]
fn branches_that_only_wait_for_a_time_are_not_at_rest() {
    let both = workflow(&format!(
        "nodes: [{{id: both, parallel: {{branches: {{\
         a: {{nodes: [{{id: hold_a, wait: {{for_ms: 50}}}}, {}]}}, b: {{nodes: [{{id: hold_b, wait: {{for_ms: 80}}}}, {}]}}}}}}}}]",
        note("first"),
        note("second"),
    ));
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        let thread = world.runtime.start_thread(both, "x").await.unwrap();
        assert_eq!(thread.at_rest().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn imported_waiting_thread_does_not_resume_by_itself() {
    block_on(async {
        let first = world(Arc::new(MemoryStore::new())).await;
        let thread = suspended(&first, &waits(200)).await.id();
        let file = tempfile::NamedTempFile::new().unwrap();
        first.runtime.export(thread, file.reopen().unwrap()).await.unwrap();
        first.end().await;
        let second = world(Arc::new(MemoryStore::new())).await;
        second.runtime.import(BufReader::new(file.reopen().unwrap())).await.unwrap();
        let thread = second.runtime.thread(thread);
        let soon = second.runtime.start_thread(waits(400), "x").await.unwrap();
        soon.outcome().await.unwrap();
        assert_ne!(thread.summary().await.unwrap().status, Status::Completed);
        thread.wake().await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().output.unwrap(), "done");
        second.end().await;
    });
}
