//! Runs that wait in a queue.

use super::*;

const ORDER: &str = "
version: '1'
name: order
timeout_ms: 60000
queue: {key: input.customer, concurrency: 1, rate: {starts: 2, per_ms: 1000}, priority: '5 if input.vip else 0', fair: input.shop}
nodes:
  - {id: hold, wait: {for_ms: 30000}}
  - {id: done, end: {}}
";

fn order() -> Bench {
    let input = serde_json::json!({ "customer": "Ada", "vip": true, "shop": 7 });
    Bench::new(ORDER, input)
}

#[test]
fn a_run_begins_when_it_is_its_turn_and_its_deadline_counts_from_then() {
    let mut bench = order();
    let place = bench.state().queue_place().unwrap().clone();
    assert_eq!((place.queued.priority, place.is_waiting()), (5, true));
    assert_eq!(serde_json::json!([place.queued.key, place.queued.group]), serde_json::json!(["Ada", 7]));
    assert_eq!(bench.state().next_deadline(), None, "a run that waits has no deadline");
    bench.tick_after_ms(600_000);
    bench.give(Input::Dequeue);
    bench.give(Input::Dequeue);
    assert_eq!(bench.state().queue_starts().len(), 1);
    bench.tick_after_ms(30_000);
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 THREAD_QUEUED workflow=order
            600000 ms later
          2 THREAD_DEQUEUED
          3 NODE_STARTED node=hold attempt=1
          4 WAIT_STARTED node=hold
            30000 ms later
          5 WAIT_COMPLETED
          6 NODE_COMPLETED node=hold
          7 NODE_STARTED node=done attempt=1
          8 NODE_COMPLETED node=done
          9 THREAD_COMPLETED node=done
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_run_that_waits_is_cancelled_and_paused_like_any_other() {
    let mut bench = order();
    bench.out.clear();
    bench.give(Input::Pause { reason: None });
    bench.give(Input::Dequeue);
    bench.note(bench.state().status());
    bench.give(Input::Resume);
    bench.note(bench.state().status());
    bench.give(Input::Cancel { reason: None });
    bench.check(expect![[r#"
          2 THREAD_PAUSED
            paused
          3 THREAD_RESUMED
            queued
          4 THREAD_CANCELLED
        => cancelled, waits for nothing
    "#]]);
}

#[test]
fn each_run_of_a_thread_waits_for_its_own_turn() {
    let mut bench = order();
    bench.give(Input::Dequeue);
    bench.tick_after_ms(30_000);
    bench.out.clear();
    let input = serde_json::json!({ "customer": "Bob", "vip": false, "shop": 7 }).into();
    bench.give(Input::Run(Box::new(RunInput { input, ..RunInput::default() })));
    let place = bench.state().queue_place().unwrap().clone();
    assert_eq!((place.queued.priority, place.queued.key), (0, Some("Bob".into())));
    assert_eq!(bench.state().queue_starts().len(), 1, "the start of the run before counts for its queue");
    bench.give(Input::Dequeue);
    assert_eq!(bench.state().queue_starts().len(), 1, "and not longer than its period");
    bench.check(expect![[r#"
         10 RUN_STARTED from=input
         11 THREAD_QUEUED workflow=order
         12 THREAD_DEQUEUED
         13 NODE_STARTED node=hold attempt=1
         14 WAIT_STARTED node=hold
        => suspended, waits for a person until +60000
    "#]]);
}

#[test]
fn a_fork_waits_for_a_turn_of_its_own_with_its_clocks_stopped() {
    let mut bench = order();
    bench.give(Input::Dequeue);
    bench.now = bench.now.plus_ms(10_000);
    let seq = bench.log.len() - 1;
    let mut fork = bench.fork(seq, ForkChanges::default());
    assert!(fork.state().queue_place().unwrap().is_waiting() && fork.state().queue_starts().is_empty());
    fork.tick_after_ms(1_000_000);
    fork.give(Input::Dequeue);
    fork.tick_after_ms(20_000);
    fork.check(expect![[r#"
          5 THREAD_FORKED
          6 THREAD_QUEUED workflow=order
            1000000 ms later
          7 THREAD_DEQUEUED
            20000 ms later
          8 WAIT_COMPLETED
          9 NODE_COMPLETED node=hold
         10 NODE_STARTED node=done attempt=1
         11 NODE_COMPLETED node=done
         12 THREAD_COMPLETED node=done
        => completed, waits for nothing
    "#]]);
}

#[test]
fn a_thread_waits_for_room_without_a_queue() {
    let workflow = Arc::new(workflow::parse(b"{version: '1', name: plain, nodes: [{id: done, end: {}}]}").unwrap());
    let around = Env { now: bench::START, tools: &Toolbox, models: &Toolbox, permits: &NoWaits };
    let given = Start { labels: "tenant=acme".parse().unwrap(), ..Start::new("x") };
    let started = Thread::started(&workflow, given, around.now).unwrap();
    let id = ThreadId::from_bytes([7; 16]);
    let (mut thread, events) = Thread::begin_queued(id, workflow, started, &around).unwrap();
    assert_eq!(events.len(), 2);
    let place = thread.state().queue_place().unwrap().clone();
    assert_eq!(place.queued.group, Some(serde_json::json!({ "tenant": "acme" }).into()));
    assert_eq!((thread.state().status(), thread.waits_for(&around)), (Status::Queued, Wait::Person { until: None }));
    thread.step(Input::Dequeue, &around).unwrap();
    assert_eq!(thread.state().status(), Status::Completed);
}

#[test]
fn a_run_whose_place_cannot_be_told_fails_before_it_begins() {
    let bench = Bench::new(
        &ORDER.replace("5 if input.vip else 0", "input.vip"),
        serde_json::json!({ "vip": "x", "customer": 1, "shop": 1 }),
    );
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 THREAD_FAILED expression
        => error, waits for nothing
    "#]]);
}

#[test]
fn a_rerun_on_a_definition_with_another_queue_reproduces() {
    let mut bench = order();
    bench.give(Input::Dequeue);
    bench.tick_after_ms(30_000);
    for other in [ORDER.replace("concurrency: 1", "concurrency: 7"), ORDER.replace("queue:", "variables: {x: 1}\n#")] {
        let again = crate::thread::rerun::Rerun {
            base: State::new(bench.state().thread()),
            recorded_on: bench.begun_on.clone(),
            workflow: Arc::new(workflow::parse(other.as_bytes()).unwrap()),
            of_runs: bench.of_runs(),
            events: bench.log.clone(),
        };
        assert_eq!(again.run().diverged, None);
    }
}

#[test]
fn a_run_that_is_given_a_definition_with_a_queue_joins_none() {
    let plain = ORDER.replace("queue:", "variables: {x: 1}\n#");
    let mut bench = Bench::new(&plain, serde_json::json!({ "customer": "Ada", "vip": true, "shop": 7 }));
    bench.out.clear();
    bench.give(Input::Migrate(Arc::new(workflow::parse(ORDER.as_bytes()).unwrap())));
    bench.tick_after_ms(30_000);
    let input = serde_json::json!({ "customer": "Ada", "vip": true, "shop": 7 }).into();
    bench.give(Input::Run(Box::new(RunInput { input, ..RunInput::default() })));
    bench.check(expect![[r#"
          3 WORKFLOW_CHANGED
            30000 ms later
          4 WAIT_COMPLETED
          5 NODE_COMPLETED node=hold
          6 NODE_STARTED node=done attempt=1
          7 NODE_COMPLETED node=done
          8 THREAD_COMPLETED node=done
          9 RUN_STARTED from=input
         10 THREAD_QUEUED workflow=order
        => queued, waits for a person
    "#]]);
}

#[test]
fn a_run_that_waits_has_no_hooks() {
    let hooked =
        ORDER.replace("nodes:", "finally: tidy\nedges: [{from: hold, to: done}]\nnodes:\n  - {id: tidy, end: {}}");
    let hooked = hooked.replace("nodes:\n  - {id: tidy", "entry: hold\nnodes:\n  - {id: tidy");
    let input = serde_json::json!({ "customer": "Ada", "vip": true, "shop": 7 });
    let mut bench = Bench::new(&hooked, input);
    bench.give(Input::Cancel { reason: None });
    bench.check(expect![[r#"
          0 THREAD_STARTED
          1 THREAD_QUEUED workflow=order
          2 THREAD_CANCELLED
        => cancelled, waits for nothing
    "#]]);
}
