//! What one runtime does for all of them: queues, schedules and signals that are kept, each by the runtime to which its name
//! belongs, and by another one when that one has gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rethread::operate::{Labels, Overlap, Schedule, Signal};
use rethread::{Runtime, Status, ThreadFilter, ThreadId, parse_workflow};
use serde_json::{Value, json};

use super::{ASKS, Cluster, NOTES, cluster};

const WAITS: &str = r#"
version: "1"
name: waits
nodes:
  - id: hold
    signal: {name: go}
"#;

/// The threads with this status, as a runtime lists them.
async fn with_status(runtime: &Runtime, status: Status) -> Vec<ThreadId> {
    let filter = ThreadFilter { status: vec![status], ..ThreadFilter::default() };
    runtime.threads(filter).await.unwrap().into_iter().map(|thread| thread.thread_id).collect()
}

/// Waits until a runtime lists so many threads with this status, and never more.
pub(crate) async fn until_n(cluster: &Cluster, number: usize, status: Status, n: usize) -> Vec<ThreadId> {
    for _ in 0..12_000 {
        let found = with_status(&cluster.runtimes[number], status).await;
        assert!(found.len() <= n, "{} threads are {status:?}", found.len());
        if found.len() == n {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within a minute: {n} threads are {status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_has_one_limit_for_all_runtimes() {
    let Some(cluster) = cluster().await else { return };
    let text = ASKS.replace("nodes:", "queue: {concurrency: 2}\nnodes:");
    let workflow = Arc::new(parse_workflow(text.as_bytes()).unwrap());
    for n in 0..12 {
        cluster.runtimes[n % 3].start_thread(workflow.clone(), n.to_string()).await.unwrap();
    }
    for n_ended in 0..12 {
        // The first two of them end on all, then on two runtimes, then on one.
        let gone = n_ended / 4;
        let here = 2;
        if n_ended % 4 == 0 && gone > 0 {
            cluster.runtimes[gone - 1].shutdown().await.unwrap();
        }
        let n_running = 2.min(12 - n_ended);
        let running = until_n(&cluster, here, Status::Waiting, n_running).await;
        assert_eq!(with_status(&cluster.runtimes[here], Status::Queued).await.len(), 12 - n_ended - n_running);
        let thread = cluster.runtimes[here].thread(running[0]);
        let open = thread.inbox().await.unwrap();
        thread.respond(open[0].request.id, "yes").await.unwrap();
        thread.outcome().await.unwrap();
    }
    assert_eq!(with_status(&cluster.runtimes[2], Status::Completed).await.len(), 12);
    cluster.runtimes[2].shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_signal_reaches_its_thread_whichever_is_first() {
    const N: usize = 30;
    let Some(cluster) = cluster().await else { return };
    let text = WAITS.replace("{name: go}", "{name: go, where: {id: '{{ input }}'}}");
    let workflow = Arc::new(parse_workflow(text.as_bytes()).unwrap());
    let started = (0..N).map(|n| {
        let (runtime, workflow) = (cluster.runtimes[n % 3].clone(), workflow.clone());
        tokio::spawn(async move { runtime.start_thread(workflow, n).await.unwrap().id() })
    });
    let started: Vec<_> = started.collect();
    let sent = (0..N).map(|n| {
        let runtime = cluster.runtimes[(n + 1) % 3].clone();
        let signal =
            Signal { keep_for_ms: Some(600_000), id: Some(n.to_string()), ..Signal::new("go", json!({"id": n})) };
        tokio::spawn(async move { runtime.signal(signal).await.unwrap() })
    });
    for sent in sent.collect::<Vec<_>>() {
        sent.await.unwrap();
    }
    for (n, started) in started.into_iter().enumerate() {
        // Whether the signal or the thread was first.
        let thread = cluster.runtimes[(n + 2) % 3].thread(started.await.unwrap());
        let ended = tokio::time::timeout(Duration::from_secs(60), thread.outcome_as::<Value>()).await;
        assert_eq!(ended.expect("no signal for it").unwrap(), json!({"id": n}));
    }
    // The same signal again is the same signal, wherever it is sent.
    let again = Signal { id: Some("0".into()), keep_for_ms: Some(600_000), ..Signal::new("go", json!({"id": 0})) };
    for runtime in &cluster.runtimes {
        assert!(runtime.signal(again.clone()).await.unwrap().is_known);
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kept_signal_is_received_once_after_its_runtime_has_gone() {
    const N: usize = 20;
    let Some(cluster) = cluster().await else { return };
    for n in 0..N {
        let signal = Signal { keep_for_ms: Some(600_000), ..Signal::new("go", json!(n)) };
        assert!(cluster.runtimes[n % 3].signal(signal).await.unwrap().is_kept);
    }
    let workflow = Arc::new(parse_workflow(WAITS.as_bytes()).unwrap());
    let mut received = BTreeSet::new();
    for n in 0..N {
        if n == 7 || n == 14 {
            cluster.runtimes[n / 7 - 1].shutdown().await.unwrap();
        }
        let thread = cluster.runtimes[2].start_thread(workflow.clone(), "x").await.unwrap();
        let output: usize = thread.outcome_as().await.unwrap();
        assert!(received.insert(output), "{output} was received twice");
    }
    assert_eq!(received.len(), N);
    cluster.runtimes[2].shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_goes_on_where_the_others_are() {
    let Some(cluster) = cluster().await else { return };
    cluster.runtimes[0].put_workflow(parse_workflow(NOTES.as_bytes()).unwrap()).await.unwrap();
    let schedule = Schedule {
        workflow: "notes".into(),
        input: json!("tick").into(),
        every_ms: Some(1_000),
        overlap: Overlap::Allow,
        catch_up: rethread::operate::CatchUp::All,
        ..Schedule::default()
    };
    let none = Labels::default();
    let made = cluster.runtimes[1].put_schedule("often", schedule.clone(), &none).await.unwrap();
    // Whoever is asked knows it.
    cluster.runtimes[1].schedule("often").await.unwrap();
    for (gone, n) in [(0, 2), (1, 4)] {
        while cluster.runtimes[2].schedule("often").await.map_or(0, |state| state.n_started) < n {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        cluster.runtimes[gone].shutdown().await.unwrap();
    }
    let here = &cluster.runtimes[2];
    while here.schedule("often").await.unwrap().n_started < 6 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let state = here.pause_schedule("often", true, &none).await.unwrap();
    let n_ticks = state.done_until.ms_since(made.created_at) / 1_000;
    assert_eq!((state.n_started, state.n_failed, state.n_skipped), (n_ticks, 0, 0), "{state:?}");
    let mut threads = here.threads(ThreadFilter::default()).await.unwrap();
    assert_eq!(threads.len() as u64, n_ticks);
    for thread in threads.drain(..) {
        assert_eq!(here.thread(thread.thread_id).outcome_as::<String>().await.unwrap(), "tick");
    }
    here.delete_schedule("often", &none).await.unwrap();
    assert!(here.schedule("often").await.is_err());
    here.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_schedules_are_made_from_everywhere() {
    let Some(cluster) = cluster().await else { return };
    cluster.runtimes[0].put_workflow(parse_workflow(NOTES.as_bytes()).unwrap()).await.unwrap();
    let yearly = Schedule { workflow: "notes".into(), cron: Some("@yearly".into()), ..Schedule::default() };
    let none = Labels::default();
    for (n, runtime) in cluster.runtimes.iter().enumerate() {
        runtime.put_schedule(&format!("s{n}"), yearly.clone(), &none).await.unwrap();
        let unknown = Schedule { workflow: "no".into(), ..yearly.clone() };
        let refused = runtime.put_schedule("x", unknown, &none).await.unwrap_err();
        assert!(matches!(refused, rethread::errors::ScheduleError::NoWorkflow { .. }), "{refused:?}");
        let refused = runtime.put_schedule("x", Schedule { cron: Some("?".into()), ..yearly.clone() }, &none).await;
        assert!(matches!(refused, Err(rethread::errors::ScheduleError::Invalid(_))), "{refused:?}");
        let refused = runtime.pause_schedule("x", true, &none).await.unwrap_err();
        assert!(matches!(refused, rethread::errors::ScheduleError::NoSchedule { .. }), "{refused:?}");
    }
    for (n, runtime) in cluster.runtimes.iter().enumerate() {
        let name = format!("s{}", (n + 1) % 3);
        assert!(runtime.pause_schedule(&name, true, &none).await.unwrap().is_paused);
        assert!(runtime.schedule(&name).await.unwrap().is_paused);
        runtime.delete_schedule(&name, &none).await.unwrap();
        assert!(runtime.schedule(&name).await.is_err());
    }
    cluster.shutdown().await;
}
