//! What a runtime does with what a newer version has written.

use std::sync::Arc;
use std::time::Duration;

use rethread::errors::NextMove;
use rethread::event::event_type_named;
use rethread::{Seq, StartThread, ThreadFilter, parse_workflow};
use rethread_store::{Append, Kind, LogReader as _, NewRecord, Store as _};

use crate::{ASKS, cluster};

#[tokio::test(flavor = "multi_thread")]
async fn thread_of_a_newer_version_is_refused_and_the_others_go_on() {
    let Some(cluster) = cluster().await else { return };
    let workflow = Arc::new(parse_workflow(ASKS.as_bytes()).unwrap());
    let other = cluster.runtimes[0].start(StartThread::new(workflow.clone(), "go")).await.unwrap();
    other.at_rest().await.unwrap();
    let started = event_type_named("THREAD_STARTED").unwrap();
    let newer = cluster.id_at(0);
    let record = NewRecord {
        kind: Kind(started.code),
        version: started.version + 1,
        recorded_at: cluster.runtimes[0].now(),
        cause: None,
        run: None,
        payload: b"in a way that is not known here".into(),
    };
    let begins = Append {
        thread: newer,
        expected: Seq(0),
        fork_of: None,
        trace: None,
        tag: cluster.stores[0].stream(other.id()).unwrap().tag,
        records: vec![record],
        blobs: Vec::new(),
        keys: Vec::new(),
        is_awaited: true,
    };
    cluster.stores[0].append(begins).await.unwrap();

    for number in 0..3 {
        cluster.eventually("the copy has it", |cluster| cluster.stores[number].stream(newer).is_ok()).await;
        let thread = cluster.runtimes[number].thread(newer);
        let unread = thread.state().await.expect_err("nobody can read it");
        assert_eq!(unread.next_move(), NextMove::TellOperator);
        assert!(format!("{unread}: {:?}", unread).contains("THREAD_STARTED"), "{unread:?}");
        let refused = tokio::time::timeout(Duration::from_secs(60), thread.cancel(None)).await;
        let refused = refused.expect("it hangs").expect_err("nobody can change it");
        assert_eq!(refused.next_move(), NextMove::TellOperator, "{number}: {refused:?}");
        let listed = cluster.runtimes[number].threads(ThreadFilter::default()).await.unwrap();
        assert!(listed.iter().any(|thread| thread.thread_id == other.id()), "{listed:?}");
    }
    // The slot goes to another one, with both threads.
    cluster.runtimes[0].shutdown().await.unwrap();
    let thread = cluster.runtimes[1].thread(other.id());
    let question = thread.inbox().await.unwrap()[0].request.id;
    thread.respond(question, "yes").await.unwrap();
    thread.outcome().await.unwrap();
    assert!(cluster.runtimes[2].thread(newer).state().await.is_err());
    cluster.shutdown().await;
}
