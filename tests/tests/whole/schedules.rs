//! Schedules: threads that are started by themselves, once for each tick.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rethread::errors::ScheduleError;
use rethread::operate::{CatchUp, Labels, Overlap, Retention, Schedule};
use rethread::store::{MemoryStore, Store, StoreError};
use rethread::{Status, ThreadFilter, ThreadId, Time};
use rethread_store::testing::{Fault, FaultyStore};

use crate::support::{Tally, World, block_on, check_laws, disk, scripted, until, workflow};

const ANY: Labels = Labels::new();

const QUICK: &str = "
variables: {scheduled_at: ''}
nodes: [{id: note, context_processor: {processor: extract, config: {variable: at, expression: '[scheduled_at, workspace]'}}}]
";

fn every_second() -> Schedule {
    Schedule { workflow: "scenario".into(), every_ms: Some(1_000), ..Schedule::default() }
}

async fn world(store: Arc<dyn Store>) -> World {
    World::on(store, &Tally::default()).await
}

async fn until_started(world: &World, name: &str, n: u64) {
    while world.runtime.schedule(name).await.unwrap().n_started < n {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The threads of a schedule and how each ended, in the order of their ticks.
async fn threads(world: &World, name: &str) -> Vec<(ThreadId, Status)> {
    let labels = format!("schedule={name}").parse().unwrap();
    let filter = ThreadFilter { labels, ..ThreadFilter::default() };
    let all = world.runtime.threads(filter).await.unwrap();
    all.iter().map(|thread| (thread.thread_id, thread.status)).collect()
}

#[test]
fn ticks_start_one_thread_each_that_knows_its_tick() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let first = world(disk(folder.path())).await;
        first.runtime.put_workflow(workflow(QUICK)).await.unwrap();
        let made = first.runtime.put_schedule("ticks", every_second(), &ANY).await.unwrap();
        until_started(&first, "ticks", 2).await;
        first.end().await;
        // What was missed meanwhile is caught up with one start.
        let second = world(disk(folder.path())).await;
        until_started(&second, "ticks", 3).await;
        second.runtime.pause_schedule("ticks", true, &ANY).await.unwrap();
        let state = second.runtime.schedule("ticks").await.unwrap();
        let all = threads(&second, "ticks").await;
        assert_eq!(all.len() as u64, state.n_started);
        for (id, _) in &all {
            let outcome = second.runtime.thread(*id).outcome().await.unwrap();
            let [tick, folder]: [String; 2] = serde_json::from_value(outcome.output.unwrap()).unwrap();
            let tick: Time = tick.parse().unwrap();
            assert_eq!(Path::new(&folder), std::env::temp_dir().canonicalize().unwrap());
            assert_eq!(made.thread_of(tick), *id);
            assert_eq!(tick.ms_since(made.created_at) % 1_000, 0);
        }
        second.runtime.delete_schedule("ticks", &ANY).await.unwrap();
        let gone = second.runtime.schedule("ticks").await;
        assert!(matches!(gone, Err(ScheduleError::NoSchedule { .. })));
        assert_eq!(threads(&second, "ticks").await.len(), all.len());
        second.end().await;
    });
}

#[test]
fn schedules_that_cannot_start_anything_are_refused() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        let missing = world.runtime.put_schedule("a", every_second(), &ANY).await.unwrap_err();
        assert_eq!(missing.to_string(), "the log has no workflow `scenario`: put its definition into the log first");
        let strict = workflow(&format!("input_schema: {{type: object, required: [order]}}{QUICK}"));
        world.runtime.put_workflow(strict).await.unwrap();
        let refused = world.runtime.put_schedule("a", every_second(), &ANY).await.unwrap_err();
        assert!(matches!(refused, ScheduleError::Start { tick: None, .. }), "{refused}");
        let never = Schedule { every_ms: None, ..every_second() };
        let refused = world.runtime.put_schedule("a", never, &ANY).await.unwrap_err();
        assert!(matches!(refused, ScheduleError::Invalid(_)), "{refused}");
        assert!(world.runtime.schedules().await.unwrap().is_empty());
        world.end().await;
    });
}

#[test]
fn removal_of_definitions_keeps_those_that_schedules_start() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        world.runtime.put_workflow(workflow(QUICK)).await.unwrap();
        let daily = Schedule { every_ms: None, cron: Some("@yearly".into()), ..every_second() };
        world.runtime.put_schedule("yearly", daily, &ANY).await.unwrap();
        let all = Retention { definitions: true, ..Retention::default() };
        assert!(world.runtime.gc(all.clone()).await.unwrap().definitions.is_empty());
        world.runtime.delete_schedule("yearly", &ANY).await.unwrap();
        assert_eq!(world.runtime.gc(all).await.unwrap().definitions.len(), 1);
        world.end().await;
    });
}

/// Threads of this workflow run until the gate opens.
async fn slow(overlap: Overlap) -> World {
    let world = world(Arc::new(MemoryStore::new())).await;
    let slow = scripted("wait_look", "{tool_calls: [{name: wait_look, arguments: {text: x}}]}, {text: done}");
    world.runtime.put_workflow(slow).await.unwrap();
    let schedule = Schedule { overlap, catch_up: CatchUp::All, ..every_second() };
    world.runtime.put_schedule("slow", schedule, &ANY).await.unwrap();
    until_started(&world, "slow", 1).await;
    world
}

#[test]
fn tick_is_skipped_while_the_previous_thread_runs() {
    block_on(async {
        let world = slow(Overlap::Skip).await;
        while world.runtime.schedule("slow").await.unwrap().n_skipped < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(threads(&world, "slow").await.len(), 1);
        world.tally.gate().open();
        until_started(&world, "slow", 2).await;
        world.runtime.pause_schedule("slow", true, &ANY).await.unwrap();
        world.runtime.shutdown().await.unwrap();
    });
}

#[test]
fn ticks_wait_in_order_for_the_previous_thread() {
    block_on(async {
        let world = slow(Overlap::Queue).await;
        while world.runtime.schedule("slow").await.unwrap().waiting.len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(threads(&world, "slow").await.len(), 1);
        let waiting = world.runtime.schedule("slow").await.unwrap();
        world.tally.gate().open();
        until_started(&world, "slow", 3).await;
        let all = threads(&world, "slow").await;
        assert_eq!(all[1].0, waiting.thread_of(waiting.waiting[0]));
        assert_eq!(all[2].0, waiting.thread_of(waiting.waiting[1]));
        world.runtime.pause_schedule("slow", true, &ANY).await.unwrap();
        world.runtime.shutdown().await.unwrap();
    });
}

#[test]
fn tick_cancels_the_previous_thread() {
    block_on(async {
        let world = slow(Overlap::CancelOld).await;
        until_started(&world, "slow", 2).await;
        world.runtime.pause_schedule("slow", true, &ANY).await.unwrap();
        let all = threads(&world, "slow").await;
        assert_eq!(all[0].1, Status::Cancelled);
        world.tally.gate().open();
        let last = world.runtime.schedule("slow").await.unwrap().last_thread.unwrap();
        assert_eq!(world.runtime.thread(last).outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn ticks_of_the_past_are_started_once_when_they_are_asked_for() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        world.runtime.put_workflow(workflow(QUICK)).await.unwrap();
        let cron = Schedule { every_ms: None, cron: Some("0 3 * * *".into()), ..every_second() };
        world.runtime.put_schedule("nightly", cron, &ANY).await.unwrap();
        let [after, to]: [Time; 2] = ["2026-03-01T00:00:00Z", "2026-03-04T12:00:00Z"].map(|at| at.parse().unwrap());
        let started = world.runtime.backfill_schedule("nightly", after, to).await.unwrap();
        assert_eq!(started.len(), 4);
        assert!(world.runtime.backfill_schedule("nightly", after, to).await.unwrap().is_empty());
        let far: Time = "2010-01-01T00:00:00Z".parse().unwrap();
        let refused = world.runtime.backfill_schedule("nightly", far, to).await.unwrap_err();
        assert!(refused.to_string().contains("more than 1000 ticks"), "{refused}");
        let refused = world.runtime.backfill_schedule("nightly", after, "2999-01-01T00:00:00Z".parse().unwrap()).await;
        assert!(refused.unwrap_err().to_string().contains("is in the future"));
        assert_eq!(world.runtime.schedule("nightly").await.unwrap().n_started, 0);
        for thread in started {
            assert_eq!(world.runtime.thread(thread).outcome().await.unwrap().status, Status::Completed);
        }
        world.end().await;
    });
}

/// The process dies at each append of the first ticks: no tick is started twice, and none is left out.
#[test]
fn every_tick_is_started_once_across_a_death_at_each_append() {
    let mut deaths = 0;
    for (nth, fault) in (0..4).flat_map(|nth| [(nth, Fault::DiesBefore), (nth, Fault::DiesAfter)]) {
        let at = format!("append {nth}: {fault:?}");
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let dies = Arc::new(FaultyStore::new(inner.clone()));
        let made = block_on(async {
            let first = world(dies.clone()).await;
            first.runtime.put_workflow(workflow(QUICK)).await.unwrap();
            dies.plan_after(nth, fault);
            let schedule = Schedule { catch_up: CatchUp::All, overlap: Overlap::Queue, ..every_second() };
            let made = first.runtime.put_schedule("ticks", schedule, &ANY).await.unwrap();
            dies.died().await;
            made
        });
        deaths += 1;
        drop(dies);
        block_on(async {
            until(|| Arc::strong_count(&inner) == 1).await;
            let second = world(inner.clone()).await;
            let before = second.runtime.schedule("ticks").await.unwrap().n_started;
            until_started(&second, "ticks", before + 2).await;
            let state = second.runtime.pause_schedule("ticks", true, &ANY).await.unwrap();
            let times = made.schedule.times(made.created_at).unwrap();
            let ticks = times.after(made.created_at).take_while(|tick| *tick <= state.done_until);
            let mut expected: Vec<_> = ticks.filter(|tick| !state.waiting.contains(tick)).collect();
            expected.sort();
            let expected: Vec<_> = expected.into_iter().map(|tick| made.thread_of(tick)).collect();
            let all: Vec<_> = threads(&second, "ticks").await.into_iter().map(|(id, _)| id).collect();
            assert_eq!(all, expected, "{at}");
            assert_eq!(state.n_started, all.len() as u64, "{at}");
            for id in all {
                assert_eq!(second.runtime.thread(id).outcome().await.unwrap().status, Status::Completed, "{at}");
            }
            check_laws(&second.runtime).await;
            second.crash(1).await;
        });
    }
    assert_eq!(deaths, 8);
}

#[test]
fn tick_refused_by_a_full_log_is_started_later() {
    block_on(async {
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
        let world = world(store.clone()).await;
        world.runtime.put_workflow(workflow(QUICK)).await.unwrap();
        store.plan(Fault::Fails(StoreError::Busy { bytes: 2, bytes_max: 1 }));
        let made = world
            .runtime
            .put_schedule("ticks", Schedule { catch_up: CatchUp::All, ..every_second() }, &ANY)
            .await
            .unwrap();
        until_started(&world, "ticks", 2).await;
        let state = world.runtime.pause_schedule("ticks", true, &ANY).await.unwrap();
        assert_eq!((state.n_failed, state.n_skipped), (0, 0));
        let first = made.schedule.times(made.created_at).unwrap().next(made.created_at).unwrap();
        assert_eq!(threads(&world, "ticks").await[0].0, made.thread_of(first));
        world.end().await;
    });
}
