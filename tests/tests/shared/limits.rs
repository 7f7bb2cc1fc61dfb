//! Limits of the threads with a label, and imports, on a log of several runtimes.

use std::io::BufReader;
use std::sync::Arc;
use std::time::Duration;

use rethread::errors::{LabelLimit, RuntimeError, StartThreadError};
use rethread::operate::{LabelLimits, Labels};
use rethread::{Limits, Runtime, StartThread, Status, ThreadHandle, Workflow, parse_workflow};
use rethread_store::SLOTS;

use super::{ASKS, Cluster, NOTES, cluster, cluster_with};

const ANSWERS: &str = r#"
version: "1"
name: answers
nodes:
  - {id: a, llm: {provider: mock, model: m, user_prompt: x, extra: {script: {answers: [{text: A}]}}}}
"#;

const WAITS: &str = r#"
version: "1"
name: waits
nodes:
  - id: wait
    wait: {for_ms: 3000}
  - id: note
    tool: {tool_name: note, parameters: {text: "{{ input }}"}}
"#;

fn limited(limits: &mut Limits) {
    limits.labels = [
        ("tenant".to_owned(), LabelLimits { live_threads_max: Some(2), ..LabelLimits::default() }),
        ("user".to_owned(), LabelLimits { starts_per_minute: Some(3), ..LabelLimits::default() }),
        ("team".to_owned(), LabelLimits { tokens_per_day: Some(1), ..LabelLimits::default() }),
    ]
    .into();
}

async fn start(runtime: &Runtime, workflow: &Arc<Workflow>, label: &str) -> Result<ThreadHandle, LabelLimit> {
    let labels: Labels = label.parse().unwrap();
    match runtime.start(StartThread::new(workflow.clone(), "x").labels(labels)).await {
        Ok(thread) => Ok(thread),
        Err(StartThreadError::Runtime(RuntimeError::LabelLimit(reached))) => {
            assert_eq!(reached.label, label);
            Err(reached.limit)
        }
        Err(error) => panic!("{error}"),
    }
}

/// Waits until no runtime starts a thread with the label, and returns those that were started until then: a runtime counts
/// what another one starts a moment later. Nothing is counted of what is refused.
async fn until_refused(
    cluster: &Cluster,
    workflow: &Arc<Workflow>,
    label: &str,
    limit: LabelLimit,
    n_max: usize,
) -> Vec<ThreadHandle> {
    let mut started = Vec::new();
    for runtime in &cluster.runtimes {
        loop {
            match start(runtime, workflow, label).await {
                Ok(thread) => started.push(thread),
                Err(reached) => {
                    assert_eq!(reached, limit);
                    break;
                }
            }
            assert!(started.len() <= n_max, "{label}: {} started", started.len());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    started
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_have_one_limit_for_all_runtimes() {
    let Some(cluster) = cluster_with(limited).await else { return };
    let [asks, notes, answers] = [ASKS, NOTES, ANSWERS].map(|text| Arc::new(parse_workflow(text.as_bytes()).unwrap()));

    // Threads that have not ended: one of each of two runtimes, and then none of the third one until one of them ends.
    let first = start(&cluster.runtimes[0], &asks, "tenant=acme").await.unwrap();
    start(&cluster.runtimes[1], &asks, "tenant=acme").await.unwrap();
    for beyond in until_refused(&cluster, &asks, "tenant=acme", LabelLimit::LiveThreadsMax, 2).await {
        beyond.cancel(None).await.unwrap();
    }
    start(&cluster.runtimes[2], &asks, "tenant=other").await.unwrap();
    first.cancel(None).await.unwrap();
    let begins = async {
        while start(&cluster.runtimes[2], &asks, "tenant=acme").await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), begins).await.expect("there is room for one more");

    // Starts in a minute.
    for runtime in &cluster.runtimes {
        start(runtime, &notes, "user=ada").await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    until_refused(&cluster, &notes, "user=ada", LabelLimit::StartsPerMinute, 3).await;

    // Tokens in a day.
    let thread = start(&cluster.runtimes[1], &answers, "team=red").await.unwrap();
    thread.outcome().await.unwrap();
    until_refused(&cluster, &answers, "team=red", LabelLimit::TokensPerDay, 30).await;

    // One that has the log from now on counts what is in it.
    cluster.runtimes[0].shutdown().await.unwrap();
    for (runtime, label, limit) in [
        (1, "tenant=acme", LabelLimit::LiveThreadsMax),
        (2, "tenant=acme", LabelLimit::LiveThreadsMax),
        (1, "team=red", LabelLimit::TokensPerDay),
        (2, "team=red", LabelLimit::TokensPerDay),
    ] {
        assert_eq!(start(&cluster.runtimes[runtime], &notes, label).await.err(), Some(limit), "{label}");
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_are_imported_by_any_runtime_and_go_on_when_asked() {
    let (Some(from), Some(to)) = (cluster().await, cluster().await) else { return };
    let [waits, notes] = [WAITS, NOTES].map(|text| Arc::new(parse_workflow(text.as_bytes()).unwrap()));
    let (mut threads, mut files) = (Vec::new(), Vec::new());
    for n in 0..12 {
        // Two of them have ended.
        let workflow = if n < 2 { notes.clone() } else { waits.clone() };
        let thread = from.runtimes[n % 3].start_thread(workflow, "x").await.unwrap();
        if n < 2 {
            thread.outcome().await.unwrap();
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        from.runtimes[n % 3].export(thread.id(), file.reopen().unwrap()).await.unwrap();
        threads.push(thread.id());
        files.push(file);
    }
    for (n, (thread, file)) in threads.iter().zip(&files).enumerate() {
        let read = || BufReader::new(file.reopen().unwrap());
        let imported = to.runtimes[n % 3].import(read()).await.unwrap();
        assert_eq!(imported.threads, [*thread]);
        let again = to.runtimes[n % 3].import(read()).await.unwrap();
        assert_eq!((again.threads.len(), again.known), (0, vec![*thread]));
    }
    // The slots of a runtime that goes are taken over, and what is in them goes on; copies do not, when their time comes.
    to.runtimes[1].shutdown().await.unwrap();
    to.eventually("the slots are divided", |cluster| cluster.n_slots(0) + cluster.n_slots(2) == SLOTS).await;
    let original = from.runtimes[2].thread(threads[11]);
    assert_eq!(original.outcome().await.unwrap().status, Status::Completed);
    tokio::time::sleep(Duration::from_millis(500)).await;
    for (n, id) in threads.iter().enumerate() {
        assert_eq!(to.runs(*id), [] as [usize; 0], "{n}");
        let thread = to.runtimes[2 * (n % 2)].thread(*id);
        let outcome = tokio::time::timeout(Duration::from_secs(60), thread.outcome()).await;
        assert_eq!(outcome.expect("it goes on when it is waited for").unwrap().status, Status::Completed);
        assert_eq!(to.runs(*id).len(), usize::from(n >= 2), "{n}");
    }
    to.runtimes[0].shutdown().await.unwrap();
    to.runtimes[2].shutdown().await.unwrap();
    from.shutdown().await;
}

/// An input that no message of NATS has room for reaches its thread.
#[tokio::test(flavor = "multi_thread")]
async fn large_inputs_reach_threads_of_other_runtimes() {
    let Some(cluster) = cluster().await else { return };
    let [asks, notes] = [ASKS, NOTES].map(|text| Arc::new(parse_workflow(text.as_bytes()).unwrap()));
    let large = "a large answer ".repeat(200_000);
    let thread = cluster.runtimes[0].start_thread(asks, "x").await.unwrap();
    thread.at_rest().await.unwrap();
    let elsewhere = cluster.runtimes[1].thread(thread.id());
    elsewhere.summary().await.unwrap();
    let open = thread.inbox().await.unwrap();
    elsewhere.respond(open[0].request.id, large.as_str()).await.unwrap();
    let outcome = elsewhere.outcome().await.unwrap();
    assert_eq!(outcome.status, Status::Completed);
    assert!(elsewhere.state().await.unwrap().variables().values().any(|value| *value.0 == large.as_str()));
    let start = StartThread::new(notes, large.as_str()).id(cluster.id_at(2));
    assert_eq!(cluster.runtimes[1].start(start).await.unwrap().outcome().await.unwrap().status, Status::Completed);
    cluster.shutdown().await;
}
