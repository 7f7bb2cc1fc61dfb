//! Threads that wait for the end of a thread of another runtime.

use std::sync::Arc;
use std::time::Duration;

use rethread::{Status, parse_workflow};
use serde_json::json;

use crate::names::until_n;
use crate::{ASKS, NOTES, cluster};

const WAITS: &str = r#"
version: "1"
name: waits
nodes:
  - {id: wait, wait: {thread: "{{ input.thread }}"}}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn wait_ends_with_a_thread_of_another_runtime() {
    let Some(cluster) = cluster().await else { return };
    let [notes, asks, waits] = [NOTES, ASKS, WAITS].map(|text| Arc::new(parse_workflow(text.as_bytes()).unwrap()));
    let mut awaited = Vec::new();
    for n in 0..8 {
        let runtime = &cluster.runtimes[1 + n % 2];
        // That nothing waits when this one ends says nothing about later.
        runtime.start_thread(notes.clone(), "x").await.unwrap().outcome().await.unwrap();
        let thread = runtime.start_thread(asks.clone(), "x").await.unwrap();
        thread.at_rest().await.unwrap();
        awaited.push(thread);
    }
    // All wait at the first runtime: six begin before the threads end, and the last two after that.
    let wait_for = |n: usize| cluster.runtimes[0].start_thread(waits.clone(), json!({"thread": awaited[n].id()}));
    let mut waiting = Vec::new();
    for n in 0..6 {
        waiting.push(wait_for(n).await.unwrap());
    }
    until_n(&cluster, 0, Status::Suspended, waiting.len()).await;
    // They end at about the same time.
    let answers = awaited.iter().enumerate().map(async |(n, thread)| {
        let open = thread.inbox().await.unwrap();
        thread.respond(open[0].request.id, format!("answer {n}")).await.unwrap();
        thread.outcome().await.unwrap();
    });
    futures::future::join_all(answers).await;
    for n in 6..8 {
        waiting.push(wait_for(n).await.unwrap());
    }
    for (n, waiter) in waiting.iter().enumerate() {
        let ended = tokio::time::timeout(Duration::from_secs(60), waiter.outcome_as::<String>()).await;
        assert_eq!(ended.expect("its wait does not end").unwrap(), format!("answer {n}"));
    }
    cluster.shutdown().await;
}

const PAUSES: &str = r#"
version: "1"
name: pauses
nodes:
  - {id: rest, wait: {for_ms: 4000}}
  - id: say
    context_processor: {processor_name: extract, processor_config: {variable: answer, expression: "input"}}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn caller_at_another_runtime_waits_for_a_suspended_thread() {
    let Some(cluster) = cluster().await else { return };
    let pauses = Arc::new(parse_workflow(PAUSES.as_bytes()).unwrap());
    let thread = cluster.runtimes[1].start_thread(pauses, "x").await.unwrap();
    until_n(&cluster, 0, Status::Suspended, 1).await;
    let elsewhere = cluster.runtimes[0].thread(thread.id());
    assert_eq!(elsewhere.present().await.unwrap().status, Status::Suspended);
    let rested = tokio::time::timeout(Duration::from_secs(60), elsewhere.at_rest()).await;
    assert_eq!(rested.expect("it does not end").unwrap().status, Status::Completed);
    cluster.shutdown().await;
}
