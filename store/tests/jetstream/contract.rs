//! The contract, with the replica that was there and with one that is filled again each time.

use std::sync::{LazyLock, Mutex};

use rethread_store::testing::contract::Backend;
use rethread_store::testing::nats::Servers;
use rethread_store::{JetStreamOptions, JetStreamStore, MemoryStore, Store};

use super::{ONE, SYNCED, THREE, options};

/// Opened again with the same folder, or with an empty one.
struct Stream {
    dir: tempfile::TempDir,
    /// `None` if the server cannot be installed: then the store is one in memory, which fulfils the contract as well.
    options: Option<JetStreamOptions>,
    keeps_folder: bool,
    store: Option<JetStreamStore>,
    substitute: MemoryStore,
}

impl Stream {
    fn new(servers: &LazyLock<Option<Mutex<Servers>>>, keeps_folder: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (options, substitute) = (options(servers), MemoryStore::new());
        let mut new = Self { dir, options, keeps_folder, store: None, substitute };
        new.reopen();
        new
    }
}

impl Backend for Stream {
    fn store(&self) -> &dyn Store {
        match &self.store {
            Some(store) => store,
            None => &self.substitute,
        }
    }

    fn reopen(&mut self) {
        drop(self.store.take());
        if !self.keeps_folder {
            self.dir = tempfile::tempdir().unwrap();
        }
        let options = self.options.clone();
        self.store = options.map(|options| JetStreamStore::open(self.dir.path(), options).unwrap());
    }
}

mod one_server {
    use super::{ONE, Stream};
    rethread_store::contract_tests!(Stream::new(&ONE, true));
}

mod three_servers {
    use super::{Stream, THREE};
    rethread_store::contract_tests!(Stream::new(&THREE, true));
}

mod synced {
    use super::{SYNCED, Stream};
    rethread_store::contract_tests!(Stream::new(&SYNCED, true));
}

mod filled_again {
    use super::{ONE, Stream};

    // Snapshots are in the replica alone.
    rethread_store::contract_tests!(Stream::new(&ONE, false); without snapshots);
}
