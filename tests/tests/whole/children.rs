//! Threads that a `start_thread` node starts, and waits for the end of a thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use rethread::operate::{LabelLimits, Labels, Retention, Signal};
use rethread::runs::RunRequest;
use rethread::store::{MemoryStore, Store};
use rethread::{
    Event, ForkRequest, Mode, Outcome, RuntimeBuilder, StartThread, Status, ThreadFilter, ThreadHandle, ThreadId,
    Workflow,
};
use rethread_store::testing::{Fault, FaultyStore};
use serde_json::{Value, json};

use crate::passivation::all_passivated;
use crate::support::{Tally, World, block_on, check_laws, disk, until, workflow};

const REPORT: &str = "
workflows:
  report:
    nodes:
      - {id: hold, signal: {name: go, where: {topic: '{{ topic }}'}}}
      - {id: write, context_processor: {processor: extract, config: {variable: said, expression: \"topic ~ ' is ' ~ output.taste\"}}}
";

/// Starts a report on its input, and waits for it.
fn order() -> Arc<Workflow> {
    workflow(&format!(
        "nodes:\n  - {{id: begin, start_thread: {{workflow: report, inputs: {{topic: '{{{{ input }}}}'}}, into: report}}}}\n  \
         - {{id: note, context_processor: {{processor: extract, config: {{variable: noted, expression: output.thread_id}}}}}}\n  \
         - {{id: collect, wait: {{thread: '{{{{ report.thread_id }}}}'}}}}{REPORT}"
    ))
}

/// Starts a report on tea with this policy, and ends when and as its input says.
pub(crate) fn leaving(policy: &str) -> Arc<Workflow> {
    workflow(&format!(
        "nodes:\n  - {{id: begin, start_thread: {{workflow: report, inputs: {{topic: tea}}, into: report, on_parent_end: {policy}}}}}\n  \
         - {{id: hold, signal: {{name: end}}}}\n  \
         - {{id: fail, context_processor: {{processor: extract, config: {{variable: x, expression: '1 / output.by'}}}}}}{REPORT}"
    ))
}

/// Waits for the thread that its input names, and says how that ended.
pub(crate) fn collect() -> Arc<Workflow> {
    workflow(
        "nodes:\n  - {id: collect, on_error: say, wait: {thread: '{{ input }}'}}\n  \
         - {id: say, context_processor: {processor: extract, config: {variable: said, expression: '[error.kind, error.message]'}}}\n\
         edges: []\nend_points: [collect, say]",
    )
}

async fn world(store: Arc<dyn Store>) -> World {
    World::with(store, &Tally::default(), |builder| builder.limits(|limits| limits.passivate_after_ms = 0)).await
}

pub(crate) async fn until_status(thread: &ThreadHandle, wanted: Status) {
    loop {
        match thread.summary().await {
            Ok(summary) if summary.status == wanted => return,
            _ => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
        }
    }
}

async fn go(world: &World, topic: &str) {
    world.runtime.signal(Signal::new("go", json!({ "topic": topic, "taste": "good" }))).await.unwrap();
}

/// The child that a thread has started.
async fn child_of(parent: &ThreadHandle) -> ThreadHandle {
    loop {
        for recorded in parent.recorded_events(rethread::Seq(0)).await.unwrap_or_default() {
            if let Event::ChildStarted(started) = recorded.event {
                return parent.sibling(started.child);
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

fn labels(of: &[(&str, &str)]) -> Labels {
    let all: BTreeMap<_, _> = of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    all.try_into().unwrap()
}

pub(crate) async fn all_threads(world: &World) -> Vec<ThreadId> {
    let threads = world.runtime.threads(ThreadFilter::default()).await.unwrap();
    threads.into_iter().map(|summary| summary.thread_id).collect()
}

#[test]
fn parent_goes_on_and_collects_the_child_that_ends_while_both_are_passivated() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        let labels = labels(&[("user", "42")]);
        let parent = world.runtime.start(StartThread::new(order(), "tea").labels(labels.clone())).await.unwrap();
        until_status(&parent, Status::Suspended).await;
        let child = child_of(&parent).await;
        until_status(&child, Status::Suspended).await;
        all_passivated(&world).await;

        let summary = child.summary().await.unwrap();
        assert_eq!((summary.labels, summary.branch_of, summary.forked_from), (labels, None, None));
        assert_eq!(summary.workflow.unwrap().name, "scenario/report");
        let state = child.state().await.unwrap();
        assert_eq!(state.variables().get("input").unwrap().0, json!({ "topic": "tea" }).into());
        let by = state.started_by().unwrap();
        assert_eq!((by.parent, by.depth), (parent.id(), 1));
        let trace = |events: Vec<rethread::RecordedEvent>| events[0].record.trace;
        assert_eq!(
            trace(child.recorded_events(rethread::Seq(0)).await.unwrap()),
            trace(parent.recorded_events(rethread::Seq(0)).await.unwrap()),
        );

        go(&world, "tea").await;
        let outcome = parent.outcome().await.unwrap();
        assert_eq!(outcome.output.unwrap(), "tea is good");
        world.end().await;
    });
}

/// What a thread that waits for this one says.
async fn collected(world: &World, awaited: ThreadId, labels: &[(&str, &str)]) -> Value {
    let start = StartThread::new(collect(), awaited.to_string()).labels(self::labels(labels));
    world.runtime.start(start).await.unwrap().outcome().await.unwrap().output.unwrap_or_default()
}

#[test]
fn wait_ends_as_the_thread_did_that_ended_before_or_is_not_there() {
    block_on(async {
        let world = World::new().await;
        let said = workflow(
            "nodes: [{id: say, context_processor: {processor: extract, config: {variable: v, expression: input}}}]",
        );
        let labels = labels(&[("user", "42")]);
        let completed = world.runtime.start(StartThread::new(said, "so").labels(labels)).await.unwrap();
        completed.outcome().await.unwrap();
        let fails = workflow("nodes: [{id: fail, wait: {for_ms: '{{ 1 / 0 }}'}}]");
        let (failed, _) = world.run(&fails, "x").await;
        let cancelled = world.start(&workflow("nodes: [{id: hold, signal: {name: never}}]"), "x").await;
        cancelled.cancel(Some("not needed".into())).await.unwrap();
        let absent = ThreadId::new(1_790_000_000_000, [9; 10]);

        let hidden =
            |id: ThreadId| json!(["not_found", format!("there is no thread {id} that has the labels of this one")]);
        assert_eq!(collected(&world, completed.id(), &[]).await, "so");
        assert_eq!(collected(&world, completed.id(), &[("user", "42")]).await, "so");
        assert_eq!(collected(&world, completed.id(), &[("user", "43")]).await, hidden(completed.id()));
        assert_eq!(collected(&world, completed.id(), &[("user", "42"), ("team", "a")]).await, hidden(completed.id()));
        assert_eq!(collected(&world, absent, &[]).await, hidden(absent));
        assert_eq!(collected(&world, failed.id(), &[]).await[0], "expression");
        assert_eq!(collected(&world, cancelled.id(), &[]).await, json!(["cancelled", "not needed"]));
        // One that goes on and has other labels is not waited for either.
        let other = world.start(&workflow("nodes: [{id: hold, signal: {name: never}}]"), "x").await;
        assert_eq!(collected(&world, other.id(), &[("user", "42")]).await, hidden(other.id()));
        world.end().await;
    });
}

#[test]
fn several_threads_wait_for_one_that_another_thread_started() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        let parent = world.start(&leaving("leave"), "x").await;
        let child = child_of(&parent).await;
        let mut waiting = Vec::new();
        for _ in 0..20 {
            let waiter = world.start(&collect(), &child.id().to_string()).await;
            until_status(&waiter, Status::Suspended).await;
            waiting.push(waiter);
        }
        until_status(&child, Status::Suspended).await;
        go(&world, "tea").await;
        for waiter in waiting {
            assert_eq!(waiter.outcome().await.unwrap().output.unwrap(), "tea is good");
        }
        assert_eq!(parent.summary().await.unwrap().status, Status::Suspended);
        world.end().await;
    });
}

/// How the parent ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Completes,
    Fails,
    Cancelled,
}

async fn end(world: &World, parent: &ThreadHandle, how: End) -> Outcome {
    until_status(parent, Status::Suspended).await;
    let signal = |by: u32| Signal::new("end", json!({ "by": by }));
    match how {
        End::Completes => drop(world.runtime.signal(signal(1)).await.unwrap()),
        End::Fails => drop(world.runtime.signal(signal(0)).await.unwrap()),
        End::Cancelled => parent.cancel(Some("enough".into())).await.unwrap(),
    }
    parent.outcome().await.unwrap()
}

#[test]
fn child_follows_the_end_of_its_parent_as_its_policy_says() {
    block_on(async {
        for (policy, how, reason) in [
            ("leave", End::Cancelled, None),
            ("cancel", End::Completes, Some("completed")),
            ("cancel", End::Fails, Some("failed")),
            ("cancel", End::Cancelled, Some("was cancelled")),
            ("cancel_if_cancelled", End::Completes, None),
            ("cancel_if_cancelled", End::Fails, None),
            ("cancel_if_cancelled", End::Cancelled, Some("was cancelled")),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let world = self::world(disk(folder.path())).await;
            let parent = world.start(&leaving(policy), "x").await;
            let child = child_of(&parent).await;
            until_status(&child, Status::Suspended).await;
            end(&world, &parent, how).await;
            match reason {
                Some(how) => {
                    let error = child.outcome().await.unwrap().error.unwrap();
                    assert_eq!(error.message, format!("thread {}, which started it, {how}", parent.id()));
                    assert_eq!(child.summary().await.unwrap().status, Status::Cancelled, "{policy}");
                }
                None => {
                    // A cancel would have been recorded before the shutdown ends.
                    let id = child.id();
                    world.runtime.shutdown().await.unwrap();
                    drop((world, parent, child));
                    let again = self::world(disk(folder.path())).await;
                    go(&again, "tea").await;
                    let child = again.runtime.thread(id);
                    assert_eq!(child.outcome().await.unwrap().status, Status::Completed, "{policy} {how:?}");
                    again.end().await;
                    continue;
                }
            }
            world.end().await;
        }
    });
}

#[test]
fn end_of_a_later_run_does_not_cancel_a_child_of_an_earlier_one() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        let parent = world.start(&leaving("cancel_if_cancelled"), "x").await;
        let first = child_of(&parent).await;
        until_status(&first, Status::Suspended).await;
        end(&world, &parent, End::Completes).await;
        parent.run(RunRequest::new("again")).await.unwrap();
        until_status(&parent, Status::Suspended).await;
        end(&world, &parent, End::Cancelled).await;
        let others = all_threads(&world).await;
        let second = others.into_iter().find(|id| ![parent.id(), first.id()].contains(id)).unwrap();
        assert_eq!(world.runtime.thread(second).outcome().await.unwrap().status, Status::Cancelled);
        assert_eq!(first.summary().await.unwrap().status, Status::Suspended);
        world.end().await;
    });
}

#[test]
fn fork_of_a_parent_shares_its_child_and_its_end_cancels_nothing() {
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        let parent = world.start(&leaving("cancel"), "x").await;
        let child = child_of(&parent).await;
        until_status(&parent, Status::Suspended).await;
        let at = parent.state().await.unwrap().last_seq().unwrap();
        let fork = parent.fork(ForkRequest { at: Some(at), ..ForkRequest::default() }).await.unwrap();
        let report = fork.state().await.unwrap().variables().get("report").unwrap().clone();
        assert_eq!(report, json!({ "thread_id": child.id() }).into());
        fork.cancel(None).await.unwrap();
        assert_eq!(all_threads(&world).await.len(), 3);
        until_status(&child, Status::Suspended).await;
        end(&world, &parent, End::Completes).await;
        assert_eq!(child.outcome().await.unwrap().status, Status::Cancelled);
        world.end().await;
    });
}

#[test]
fn start_without_room_waits_in_the_log_and_begins_when_there_is_room() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            builder.limits(|limits| (limits.live_threads_max, limits.passivate_after_ms) = (1, 0))
        })
        .await;
        let parent = world.start(&order(), "tea").await;
        let child = child_of(&parent).await;
        until_status(&child, Status::Suspended).await;
        go(&world, "tea").await;
        assert_eq!(parent.outcome().await.unwrap().output.unwrap(), "tea is good");
        world.end().await;
    });
}

#[test]
fn limit_of_a_label_fails_the_node() {
    block_on(async {
        let limited = |builder: RuntimeBuilder| {
            let limits = LabelLimits { live_threads_max: Some(1), ..LabelLimits::default() };
            builder.limits(|all| all.labels = [("user".to_owned(), limits)].into())
        };
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), limited).await;
        let labels = labels(&[("user", "42")]);
        let parent = world.runtime.start(StartThread::new(order(), "tea").labels(labels)).await.unwrap();
        let error = parent.outcome().await.unwrap().error.unwrap();
        assert_eq!(error.kind, rethread::ErrorKind::Limit, "{error}");
        assert!(error.message.starts_with("the thread was not started: "), "{error}");
        assert_eq!(all_threads(&world).await.len(), 1);
        world.end().await;
    });
}

#[test]
fn runtime_on_demand_runs_the_thread_that_is_waited_for() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let first = world(disk(folder.path())).await;
        let held = workflow(
            "nodes: [{id: begin, start_thread: {workflow: slow, into: slow}}, {id: collect, wait: {thread: '{{ slow.thread_id }}'}}]\n\
             workflows: {slow: {nodes: [{id: work, tool: {tool_name: wait_look, parameters: {text: done}}}]}}",
        );
        let parent = first.start(&held, "x").await;
        first.tally.called("wait_look", 1).await;
        until_status(&parent, Status::Suspended).await;
        let id = parent.id();
        drop(parent);
        first.runtime.shutdown().await.unwrap();

        let tally = Tally::default();
        tally.gate().open();
        let second = World::with(disk(folder.path()), &tally, |builder| builder.mode(Mode::RunOnDemand)).await;
        assert_eq!(second.runtime.thread(id).outcome().await.unwrap().output.unwrap(), "done");
        second.end().await;
    });
}

/// The process dies at each append of parent and child: the child exists once, and the parent has its output.
#[test]
fn child_exists_once_across_a_death_at_each_append() {
    let of = order();
    let id = ThreadId::from_bytes([1; 16]);
    for (nth, fault) in (0..12).flat_map(|nth| [(nth, Fault::DiesBefore), (nth, Fault::DiesAfter)]) {
        let at = format!("append {nth}: {fault:?}");
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let dies = Arc::new(FaultyStore::new(inner.clone()));
        block_on(async {
            let first = world(dies.clone()).await;
            dies.plan_after(nth, fault);
            let work = async {
                let _ = first.runtime.start(StartThread::new(of.clone(), "tea").id(id)).await;
                drive(&first, id).await;
            };
            tokio::select! {
                () = work => {}
                () = dies.died() => {}
            }
        });
        drop(dies);
        block_on(async {
            until(|| Arc::strong_count(&inner) == 1).await;
            let second = world(inner.clone()).await;
            if second.runtime.thread(id).summary().await.is_err() {
                second.runtime.start(StartThread::new(of.clone(), "tea").id(id)).await.unwrap();
            }
            drive(&second, id).await;
            let outcome = second.runtime.thread(id).outcome().await.unwrap();
            assert_eq!(outcome.output.unwrap(), "tea is good", "{at}");
            assert_eq!(all_threads(&second).await.len(), 2, "{at}");
            check_laws(&second.runtime).await;
            second.crash(1).await;
        });
    }
}

/// Sends the signal that the report waits for until the thread has ended.
async fn drive(world: &World, id: ThreadId) {
    while !world.runtime.thread(id).summary().await.is_ok_and(|summary| summary.status.is_ended()) {
        let _ = world.runtime.signal(Signal::new("go", json!({ "topic": "tea", "taste": "good" }))).await;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// The process dies at each append after the cancel of the parent: the child is cancelled all the same.
#[test]
fn child_is_cancelled_across_a_death_at_each_append() {
    for (nth, fault) in (0..4).flat_map(|nth| [(nth, Fault::DiesBefore), (nth, Fault::DiesAfter)]) {
        let at = format!("append {nth}: {fault:?}");
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let dies = Arc::new(FaultyStore::new(inner.clone()));
        let (parent, child) = block_on(async {
            let first = world(dies.clone()).await;
            let parent = first.start(&leaving("cancel_if_cancelled"), "x").await;
            let child = child_of(&parent).await;
            until_status(&child, Status::Suspended).await;
            until_status(&parent, Status::Suspended).await;
            dies.plan_after(nth, fault);
            let work = async {
                let _ = parent.cancel(None).await;
                until_status(&child, Status::Cancelled).await;
            };
            tokio::select! {
                () = work => {}
                () = dies.died() => {}
            }
            (parent.id(), child.id())
        });
        drop(dies);
        block_on(async {
            until(|| Arc::strong_count(&inner) == 1).await;
            let second = world(inner.clone()).await;
            let parent = second.runtime.thread(parent);
            if parent.summary().await.unwrap().status != Status::Cancelled {
                parent.cancel(None).await.unwrap();
            }
            let outcome = second.runtime.thread(child).outcome().await.unwrap();
            assert_eq!(outcome.status, Status::Cancelled, "{at}");
            assert!(outcome.error.unwrap().message.contains(&parent.id().to_string()), "{at}");
            drop(parent);
            check_laws(&second.runtime).await;
            second.crash(1).await;
        });
    }
}

#[test]
fn cancel_in_a_runtime_that_runs_no_threads_reaches_the_child() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let first = world(disk(folder.path())).await;
        let (parent, child) = {
            let parent = first.start(&leaving("cancel"), "x").await;
            let child = child_of(&parent).await;
            until_status(&child, Status::Suspended).await;
            until_status(&parent, Status::Suspended).await;
            (parent.id(), child.id())
        };
        first.end().await;
        for is_cancelled in [false, true] {
            let observes = |builder: RuntimeBuilder| builder.mode(Mode::Observe);
            let world = World::with(disk(folder.path()), &Tally::default(), observes).await;
            let status = world.runtime.thread(child).summary().await.unwrap().status;
            assert_eq!(status == Status::Cancelled, is_cancelled);
            if !is_cancelled {
                world.runtime.thread(parent).cancel(None).await.unwrap();
            }
            // The shutdown waits until the child has recorded it.
            world.end().await;
        }
    });
}

/// A child of a branch ends with the branch, and a child of a child with that.
#[test]
fn branches_and_children_are_parents_as_well() {
    let of = workflow(
        "nodes:\n  - id: both\n    parallel:\n      branches:\n        \
         one: {nodes: [{id: begin, start_thread: {workflow: chain, inputs: {n: 1}, on_parent_end: cancel}}, {id: hold, signal: {name: end}}]}\n        \
         two: {nodes: [{id: other, signal: {name: never}}]}\n\
         workflows:\n  chain:\n    nodes: [{id: more, start_thread: {workflow: leaf, on_parent_end: cancel}}, {id: rest, signal: {name: never}}]\n  \
         leaf:\n    nodes: [{id: rest_too, signal: {name: never}}]",
    );
    block_on(async {
        let world = world(Arc::new(MemoryStore::new())).await;
        let root = world.start(&of, "x").await;
        while all_threads(&world).await.len() < 5 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let threads = world.runtime.threads(ThreadFilter::default()).await.unwrap();
        let named = |name: &str| {
            let found = threads.iter().find(|thread| thread.workflow.as_ref().is_some_and(|it| it.name == name));
            root.sibling(found.unwrap().thread_id)
        };
        let (chain, leaf) = (named("scenario/chain"), named("scenario/leaf"));
        for thread in [&chain, &leaf] {
            until_status(thread, Status::Suspended).await;
        }
        assert_eq!(leaf.state().await.unwrap().started_by().unwrap().depth, 2);
        while world.runtime.signal(Signal::new("end", json!({}))).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        for thread in [&chain, &leaf] {
            assert_eq!(thread.outcome().await.unwrap().status, Status::Cancelled);
        }
        assert!(!root.summary().await.unwrap().status.is_ended());
        root.cancel(None).await.unwrap();
        world.end().await;
    });
}

/// Copies a thread from log to log.
async fn copy(of: &ThreadHandle, from: &World, to: &World) -> ThreadHandle {
    let file = tempfile::NamedTempFile::new().unwrap();
    from.runtime.export(of.id(), file.reopen().unwrap()).await.unwrap();
    to.runtime.import(std::io::BufReader::new(file.reopen().unwrap())).await.unwrap();
    to.runtime.thread(of.id())
}

/// Runs an imported thread until it waits again.
async fn resume(copy: &ThreadHandle, at: &World) {
    tokio::select! {
        outcome = copy.outcome() => panic!("it has ended: {:?}", outcome.map(|outcome| outcome.status)),
        () = until(|| at.store.values("imported/").unwrap().is_empty()) => {}
    }
    until_status(copy, Status::Suspended).await;
    all_passivated(at).await;
}

#[test]
fn wait_imported_into_a_running_runtime_ends_with_its_thread() {
    block_on(async {
        let (here, there) = (world(Arc::new(MemoryStore::new())).await, world(Arc::new(MemoryStore::new())).await);
        let id = ThreadId::from_bytes([5; 16]);
        let hold = workflow("nodes: [{id: hold, signal: {name: go}}]");
        for world in [&here, &there] {
            world.runtime.start(StartThread::new(hold.clone(), "x").id(id)).await.unwrap();
        }
        let waits = here.start(&collect(), &id.to_string()).await;
        until_status(&waits, Status::Suspended).await;
        // The end of a thread finds that no thread of the log waits.
        let other = there.start(&hold, "x").await;
        other.cancel(None).await.unwrap();
        other.outcome().await.unwrap();
        all_passivated(&there).await;

        let waits = copy(&waits, &here, &there).await;
        resume(&waits, &there).await;
        there.runtime.thread(id).cancel(Some("enough".into())).await.unwrap();
        until_status(&waits, Status::Completed).await;
        assert_eq!(waits.outcome().await.unwrap().output.unwrap(), json!(["cancelled", "enough"]));
        here.end().await;
        there.end().await;
    });
}

#[test]
fn child_imported_without_its_parent_continues() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (world(Arc::new(MemoryStore::new())).await, world(disk(folder.path())).await);
        let parent = here.start(&leaving("cancel"), "x").await;
        let child = child_of(&parent).await;
        until_status(&child, Status::Suspended).await;
        let copied = copy(&child, &here, &there).await;
        resume(&copied, &there).await;
        let id = copied.id();
        drop(copied);
        there.runtime.shutdown().await.unwrap();
        drop(there);

        let again = world(disk(folder.path())).await;
        let copied = again.runtime.thread(id);
        // A cancel by the start would be recorded before the shutdown ends.
        until_status(&copied, Status::Suspended).await;
        drop(copied);
        again.runtime.shutdown().await.unwrap();
        drop(again);
        let last = world(disk(folder.path())).await;
        assert_eq!(last.runtime.thread(id).summary().await.unwrap().status, Status::Suspended);
        last.end().await;
        here.end().await;
    });
}

#[test]
fn gc_keeps_a_thread_until_its_end_is_received() {
    block_on(async {
        let (here, there) = (world(Arc::new(MemoryStore::new())).await, world(Arc::new(MemoryStore::new())).await);
        let id = ThreadId::from_bytes([5; 16]);
        let hold = workflow("nodes: [{id: hold, signal: {name: go}}]");
        for world in [&here, &there] {
            world.runtime.start(StartThread::new(hold.clone(), "x").id(id)).await.unwrap();
        }
        let waits = here.start(&collect(), &id.to_string()).await;
        until_status(&waits, Status::Suspended).await;
        there.runtime.thread(id).cancel(Some("enough".into())).await.unwrap();
        let waits = copy(&waits, &here, &there).await;
        assert_eq!(there.runtime.gc(Retention::default()).await.unwrap().threads.len(), 0);
        assert_eq!(waits.outcome().await.unwrap().output.unwrap(), json!(["cancelled", "enough"]));
        assert_eq!(there.runtime.gc(Retention::default()).await.unwrap().threads.len(), 2);
        here.end().await;
        there.end().await;
    });
}
