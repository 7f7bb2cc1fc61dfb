//! Hooks of a workflow on whole runtimes: they run once, also after a crash at any append.

use std::error::Error;
use std::sync::Arc;

use expect_test::expect;
use rethread::errors::NextMove;
use rethread::event::Hook;
use rethread::store::{MemoryStore, Store};
use rethread::{ErrorKind, Event, Outcome, RecordedEvent, Seq, StartThread, Status, ThreadId, Workflow};
use rethread_store::testing::{Fault, FaultyStore};

use crate::support::{Tally, World, block_on, check, workflow};

/// A workflow whose hooks make one call each that must not be repeated.
fn order(last: &str) -> Arc<Workflow> {
    workflow(&format!(
        "on_failed: refund\non_cancel: refund\nfinally: release\nnodes:\n\
         - {{id: reserve, tool: {{tool_name: look, parameters: {{text: a}}}}}}\n- {last}\n\
         - {{id: refund, tool: {{tool_name: pay, parameters: {{text: '{{{{ ending.status }}}}'}}}}}}\n\
         - {{id: release, tool: {{tool_name: pay, parameters: {{text: released}}}}}}\n"
    ))
}

const FAILS: &str = "{id: ship, tool: {tool_name: fail, parameters: {text: 'no parcel'}}}";
const COMPLETES: &str = "{id: ship, tool: {tool_name: look, parameters: {text: b}}}";
const ASKS: &str = "{id: ship, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Ship?', \
                    variables: [{variable_name: answer, expression: input}]}}";

/// Runs the thread to its end, and cancels it when it asks a person.
async fn drive(world: &World, id: ThreadId, workflow: &Arc<Workflow>) -> Result<Outcome, Box<dyn Error>> {
    match world.runtime.start(StartThread::new(workflow.clone(), "").id(id)).await {
        Err(error) if error.next_move() != NextMove::ReadAgain => return Err(error.into()),
        // It has begun already, in an earlier life.
        Ok(_) | Err(_) => {}
    }
    let thread = world.runtime.thread(id);
    let outcome = thread.at_rest().await?;
    if outcome.status != Status::Waiting {
        return Ok(outcome);
    }
    thread.cancel(Some("enough".into())).await?;
    Ok(thread.at_rest().await?)
}

async fn events_of(store: &Arc<dyn Store>, id: ThreadId) -> Vec<Event> {
    let records = store.read_stream(id, Seq(0)..Seq(u64::MAX), usize::MAX).unwrap();
    records.into_iter().map(|record| RecordedEvent::decode(record).unwrap().event).collect()
}

/// The hooks that began, in their order.
fn begun(events: &[Event]) -> Vec<Hook> {
    let hook = |event: &Event| if let Event::HookStarted(e) = event { Some(e.hook) } else { None };
    events.iter().filter_map(hook).collect()
}

/// One life on a log that dies at append `nth`; whether it did.
async fn live_until(
    store: &Arc<dyn Store>,
    tally: &Tally,
    id: ThreadId,
    workflow: &Arc<Workflow>,
    (nth, fault): (u64, Fault),
) -> bool {
    let faulty = Arc::new(FaultyStore::new(store.clone()).with(nth, fault));
    let world = World::on(faulty.clone(), tally).await;
    tokio::select! {
        driven = drive(&world, id, workflow) => driven.is_err(),
        () = faulty.died() => true,
    }
}

/// Crashes at every append, before it is durable and after it.
fn check_crashes(workflow: &Arc<Workflow>, end: Status, hooks: &[Hook]) {
    block_on(async {
        let id = ThreadId::new(1_790_000_000_000, [1; 10]);
        let n_calls = hooks.len();
        for fault in [Fault::DiesBefore, Fault::DiesAfter] {
            for nth in 0_u64.. {
                let at = format!("{fault:?} append {nth}");
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
                let tally = Tally::default();
                let died = live_until(&store, &tally, id, workflow, (nth, fault.clone())).await;
                let world = World::on(store.clone(), &tally).await;
                let outcome = drive(&world, id, workflow).await.unwrap_or_else(|error| panic!("{at}: {error}"));
                let events = events_of(&store, id).await;
                world.end().await;
                let lost = |event: &&Event| matches!(event, Event::ToolExecutionFailed(e) if e.error.kind == ErrorKind::Indeterminate);
                let n_lost = events.iter().filter(lost).count();
                // A completed run whose hook may or may not have done its work has failed.
                let expected = if end == Status::Completed && n_lost > 0 { Status::Error } else { end };
                assert_eq!((outcome.status, begun(&events)), (expected, hooks.to_vec()), "{at}");
                let n_run = tally.of("pay").0;
                assert!(tally.most_runs_of_a_call("pay") <= 1, "{at}: the tool of a hook ran twice");
                assert!(n_run <= n_calls && n_run + n_lost >= n_calls, "{at}: {n_run} of {n_calls}, {n_lost} lost");
                if !died {
                    assert!(nth >= 3 && n_lost == 0, "there was something to disturb");
                    break;
                }
            }
        }
    });
}

#[test]
fn hooks_of_a_failed_run_survive_a_crash_at_every_append() {
    check_crashes(&order(FAILS), Status::Error, &[Hook::OnFailed, Hook::Finally]);
}

#[test]
fn hooks_of_a_cancelled_run_survive_a_crash_at_every_append() {
    check_crashes(&order(ASKS), Status::Cancelled, &[Hook::OnCancel, Hook::Finally]);
}

#[test]
fn hooks_of_a_completed_run_survive_a_crash_at_every_append() {
    check_crashes(&order(COMPLETES), Status::Completed, &[Hook::Finally]);
}

#[test]
fn failed_run_is_compensated_before_it_ends() {
    check(
        &order(FAILS),
        "",
        &expect![[r#"
        0 THREAD_STARTED
        1 NODE_STARTED reserve try 1
        2 TOOL_EXECUTION_REQUEST look {"text":"a"}
        3 TOOL_EXECUTION_COMPLETED call 2: "a"
        4 NODE_COMPLETED reserve
        5 NODE_STARTED ship try 1
        6 TOOL_EXECUTION_REQUEST fail {"text":"no parcel"}
        7 TOOL_EXECUTION_FAILED call 6: failed
        8 NODE_FAILED ship try 1: failed
        9 HOOK_STARTED
        10 NODE_STARTED refund try 1
        11 TOOL_EXECUTION_REQUEST pay {"text":"failed"}
        12 TOOL_EXECUTION_COMPLETED call 11: "failed"
        13 NODE_COMPLETED refund
        14 HOOK_ENDED
        15 HOOK_STARTED
        16 NODE_STARTED release try 1
        17 TOOL_EXECUTION_REQUEST pay {"text":"released"}
        18 TOOL_EXECUTION_COMPLETED call 17: "released"
        19 NODE_COMPLETED release
        20 HOOK_ENDED
        21 THREAD_FAILED failed
        error: no parcel (failed)
    "#]],
    );
}

#[test]
fn cancelled_branches_end_while_the_hooks_of_their_parent_run() {
    let work = workflow(&format!(
        "on_cancel: undo\nnodes:\n- id: both\n  parallel:\n    branches:\n      left: {{nodes: [{ASKS}]}}\n      right: \
         {{nodes: [{}]}}\n- {{id: undo, tool: {{tool_name: wait_pay, parameters: {{text: undone}}}}}}\n",
        ASKS.replace("ship", "pack")
    ));
    block_on(async {
        let world = World::new().await;
        let (thread, outcome) = world.run(&work, "").await;
        assert_eq!(outcome.status, Status::Waiting);
        thread.cancel(None).await.unwrap();
        let family = thread.family_at(thread.state().await.unwrap().last_seq().unwrap()).await.unwrap();
        for member in family.iter().filter(|member| member.thread != thread.id()) {
            let branch = world.runtime.thread(member.thread).at_rest().await.unwrap();
            assert_eq!(branch.status, Status::Cancelled);
        }
        world.tally.called("wait_pay", 1).await;
        assert_eq!(thread.state().await.unwrap().status(), Status::Running);
        world.tally.gate().open();
        assert_eq!(thread.at_rest().await.unwrap().status, Status::Cancelled);
        world.end().await;
    });
}
