//! Threads that wait for the end of a thread of another runtime.

use std::sync::Arc;
use std::time::Duration;

use rethread::{Status, parse_workflow};
use serde_json::json;

use crate::names::until_n;
use crate::{ASKS, cluster};

const WAITS: &str = r#"
version: "1"
name: waits
nodes:
  - {id: wait, wait: {thread: "{{ input.thread }}"}}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn wait_ends_with_a_thread_of_another_runtime() {
    let Some(cluster) = cluster().await else { return };
    let asks = Arc::new(parse_workflow(ASKS.as_bytes()).unwrap());
    let waits = Arc::new(parse_workflow(WAITS.as_bytes()).unwrap());
    let mut awaited = Vec::new();
    let mut waiting = Vec::new();
    for n in 0..9 {
        // Threads at another runtime wait for each of the first six; for the others after they have ended.
        let thread = cluster.runtimes[n % 3].start_thread(asks.clone(), "x").await.unwrap();
        thread.at_rest().await.unwrap();
        awaited.push(thread.id());
        if n < 6 {
            let at = &cluster.runtimes[(n + 1 + n / 3) % 3];
            let waiter = at.start_thread(waits.clone(), json!({"thread": thread.id()})).await.unwrap();
            waiting.push((n, at, waiter.id()));
        }
    }
    until_n(&cluster, 0, Status::Suspended, waiting.len()).await;
    // They end at about the same time.
    let answers = awaited.iter().enumerate().map(|(n, id)| {
        let thread = cluster.runtimes[n % 3].thread(*id);
        async move {
            let open = thread.inbox().await.unwrap();
            thread.respond(open[0].request.id, format!("answer {n}")).await.unwrap();
        }
    });
    futures::future::join_all(answers).await;
    for n in 6..9 {
        let at = &cluster.runtimes[(n + 1) % 3];
        let waiter = at.start_thread(waits.clone(), json!({"thread": awaited[n]})).await.unwrap();
        waiting.push((n, at, waiter.id()));
    }
    for (n, at, waiter) in waiting {
        let ended = tokio::time::timeout(Duration::from_secs(60), at.thread(waiter).outcome_as::<String>()).await;
        assert_eq!(ended.expect("its wait does not end").unwrap(), format!("answer {n}"));
    }
    cluster.shutdown().await;
}
