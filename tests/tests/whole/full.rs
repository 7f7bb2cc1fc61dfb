//! A disk that is full for a while.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use rethread::store::{Options, SledStore, Store, StoreError, Watcher};
use rethread::{RuntimeError, Status};

use crate::support::{Tally, World, block_on, scripted};

/// A disk that can be full.
#[derive(Default)]
struct Disk {
    full: AtomicBool,
    n_refused: AtomicUsize,
    refused: tokio::sync::Notify,
}

impl Watcher for Disk {
    fn write(&self, _path: &Path, _offset: u64, _bytes: &[u8]) -> std::io::Result<()> {
        if !self.full.load(SeqCst) {
            return Ok(());
        }
        self.n_refused.fetch_add(1, SeqCst);
        self.refused.notify_waiters();
        Err(std::io::ErrorKind::StorageFull.into())
    }
}

impl Disk {
    async fn refuses(&self, n: usize) {
        loop {
            let refused = self.refused.notified();
            if self.n_refused.load(SeqCst) >= n {
                return;
            }
            refused.await;
        }
    }
}

#[test]
fn threads_carry_on_when_there_is_room_again() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let options = Options { watcher: Some(disk.clone()), ..Options::default() };
    let store: Arc<dyn Store> = Arc::new(SledStore::open(folder.path(), options).unwrap());
    block_on(async {
        let world = World::on(store, &Tally::default()).await;
        let uses = |tool: &str| {
            scripted(tool, &format!("{{tool_calls: [{{name: {tool}, arguments: {{text: x}}}}]}}, {{text: done}}"))
        };
        let looks = world.start(&uses("wait_look"), "go").await;
        let pays = world.start(&uses("wait_pay"), "go").await;
        world.tally.called("wait_look", 1).await;
        world.tally.called("wait_pay", 1).await;

        disk.full.store(true, SeqCst);
        world.tally.gate().open();
        disk.refuses(2).await;
        let error = world.runtime.start_thread(uses("look"), "go").await.expect_err("there is no room");
        assert!(matches!(error, RuntimeError::Store(StoreError::Full { .. })), "{error}");
        disk.full.store(false, SeqCst);

        for thread in [looks, pays] {
            let outcome = thread.outcome().await.unwrap();
            assert_eq!((outcome.status, outcome.output.unwrap()), (Status::Completed, "done".into()));
        }
        assert_eq!(world.tally.most_runs_of_a_call("wait_pay"), 1);
        let (_, outcome) = world.run(&uses("look"), "go").await;
        assert_eq!(outcome.status, Status::Completed);
        world.end().await;
    });
}
