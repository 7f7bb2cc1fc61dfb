//! Both backends fulfil the contract, and the durable one after any end of the process.

mod memory {
    use rethread_store::testing::contract::Backend;
    use rethread_store::{MemoryStore, Store};

    struct Memory(MemoryStore);

    impl Backend for Memory {
        fn store(&self) -> &dyn Store {
            &self.0
        }

        fn reopen(&mut self) {}
    }

    rethread_store::contract_tests!(Memory(MemoryStore::new()));
}

mod sled_closed {
    use rethread_store::testing::contract::Backend;
    use rethread_store::{Options, SledStore, Store};

    /// Ends in order each time.
    struct Closed {
        dir: tempfile::TempDir,
        store: Option<SledStore>,
    }

    impl Closed {
        fn new() -> Self {
            let mut new = Self { dir: tempfile::tempdir().unwrap(), store: None };
            new.reopen();
            new
        }
    }

    impl Backend for Closed {
        fn store(&self) -> &dyn Store {
            self.store.as_ref().unwrap()
        }

        fn reopen(&mut self) {
            drop(self.store.take());
            self.store = Some(SledStore::open(self.dir.path(), Options::default()).unwrap());
        }
    }

    rethread_store::contract_tests!(Closed::new());
}

mod sled_killed {
    use rethread_store::testing::contract::Backend;
    use rethread_store::testing::copy_as_killed;
    use rethread_store::{Options, SledStore, Store};

    /// Goes on each time with the files as a killed process leaves them.
    struct Killed {
        dirs: Vec<tempfile::TempDir>,
        store: SledStore,
    }

    impl Killed {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = SledStore::open(dir.path(), Options::default()).unwrap();
            Self { dirs: vec![dir], store }
        }
    }

    impl Backend for Killed {
        fn store(&self) -> &dyn Store {
            &self.store
        }

        fn reopen(&mut self) {
            let dir = tempfile::tempdir().unwrap();
            copy_as_killed(self.dirs.last().unwrap().path(), dir.path()).unwrap();
            self.store = SledStore::open(dir.path(), Options::default()).unwrap();
            self.dirs.push(dir);
        }
    }

    rethread_store::contract_tests!(Killed::new());
}
