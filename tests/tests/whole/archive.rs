//! Threads that are carried from log to log.

use std::io::BufReader;
use std::sync::Arc;

use rethread::errors::{ExportError, ReadError};
use rethread::store::MemoryStore;
use rethread::{ForkRequest, Status};

use crate::interaction::approval;
use crate::support::{Tally, World, block_on, scripted, until};

#[test]
fn imported_thread_resumes_only_on_request() {
    let waits = || scripted("wait_pay", "{tool_calls: [{name: wait_pay}]}, {text: done}");
    block_on(async {
        let (here, there) = (World::new().await, World::new().await);
        let copied = here.start(&waits(), "go").await;
        here.tally.called("wait_pay", 1).await;
        let file = tempfile::NamedTempFile::new().unwrap();
        here.runtime.export(copied.id(), file.reopen().unwrap()).await.unwrap();
        there.runtime.import(BufReader::new(file.reopen().unwrap())).await.unwrap();
        let own = there.start(&waits(), "go").await;
        there.tally.called("wait_pay", 1).await;
        let store = there.store.clone();
        let its_own = own.id();
        // A handle holds its runtime.
        drop(own);
        there.crash(1).await;

        // Threads are reloaded in the order of their ids: when the next one has ended, its turn is over.
        let after = World::on(store, &Tally::default()).await;
        assert_eq!(after.runtime.thread(its_own).outcome().await.unwrap().status, Status::Completed);
        let copy = after.runtime.thread(copied.id());
        assert_eq!(copy.summary().await.unwrap().last_seq, copied.summary().await.unwrap().last_seq);

        assert_eq!(copy.outcome().await.unwrap().status, Status::Completed, "a caller waits for it");
        let store = after.store.clone();
        until(|| store.values("imported/").unwrap().is_empty()).await;
        after.end().await;
        here.tally.gate().open();
        copied.outcome().await.unwrap();
        here.end().await;
    });
}

#[test]
fn export_contains_the_log_as_of_its_start() {
    block_on(async {
        let (here, there) = (World::new().await, World::new().await);
        let (asks, outcome) = here.run(&approval(), "7").await;
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut exporter = here.runtime.exporter(file.reopen().unwrap());
        let before = asks.summary().await.unwrap().last_seq;
        asks.respond(outcome.state.interaction().unwrap().id, true).await.unwrap();
        asks.outcome().await.unwrap();
        let at = asks.summary().await.unwrap().last_seq.0 - 1;
        let fork = asks.fork(ForkRequest { at: Some(rethread::Seq(at)), ..ForkRequest::default() }).await.unwrap();
        exporter.thread(asks.id()).await.unwrap();
        let late = exporter.thread(fork.id()).await;
        assert!(matches!(late, Err(ExportError::Read(ReadError::NoThread(id))) if id == fork.id()), "{late:?}");
        exporter.finish().await.unwrap();
        there.runtime.import(BufReader::new(file.reopen().unwrap())).await.unwrap();
        let copy = there.runtime.thread(asks.id()).summary().await.unwrap();
        assert_eq!((copy.last_seq, copy.status), (before, Status::Waiting));
        fork.outcome().await.unwrap();
        here.end().await;
        there.end().await;
    });
}

#[test]
fn concurrently_stored_definitions_are_all_listed() {
    block_on(async {
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| builder).await;
        let version = |n: usize| scripted("", &format!("{{text: '{n}'}}"));
        let put = (0..40).map(|n| {
            let runtime = world.runtime.clone();
            tokio::spawn(async move { runtime.put_workflow(version(n)).await })
        });
        for put in futures::future::join_all(put).await {
            put.unwrap().unwrap();
        }
        let versions = world.runtime.workflow_versions("scenario").await.unwrap().unwrap();
        assert_eq!(versions.hashes.len(), 40);
        world.end().await;
    });
}

#[test]
fn failed_start_of_a_runtime_releases_the_log() {
    struct Silent;
    impl rethread::Monitor for Silent {}
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let builder = || rethread::Runtime::builder().data_dir(folder.path()).arbiters(1).monitor(Silent);
        let taken = rethread::Tool::from_fn("start_process", "takes a name", |_: crate::support::Nothing, _| async {
            Ok("never")
        });
        let processes = builder().processes(Default::default(), Default::default()).tool(taken);
        assert!(processes.start().await.is_err());
        // Its thread is cancelled, and takes a moment to end.
        let mut started = builder().start().await;
        for _ in 0..12_000 {
            if started.is_ok() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            started = builder().start().await;
        }
        started.unwrap().shutdown().await.unwrap();
    });
}
