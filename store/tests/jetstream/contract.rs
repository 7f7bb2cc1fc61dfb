//! The contract, with the replica that was there and with one that is filled again each time.

use std::sync::{LazyLock, Mutex};

use rethread_store::testing::contract::Backend;
use rethread_store::testing::nats::Servers;
use rethread_store::{JetStreamOptions, JetStreamStore, MemoryStore, Store};

use super::{ONE, THREE, options};

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

mod filled_again {
    use super::{ONE, Stream};

    // All but those of snapshots, which are in the replica alone.
    rethread_store::contract_tests!(Stream::new(&ONE, false);
        records_are_read_as_written
        a_wrong_expectation_is_a_conflict_and_writes_nothing
        append_is_queued_before_the_previous_is_acknowledged
        append_queued_after_a_failed_one_fails
        a_cause_may_be_named_before_it_has_a_position
        invalid_append_is_refused
        too_large_write_is_refused
        a_stream_is_read_in_ranges
        the_whole_log_is_read_by_position
        large_payloads_are_read_unchanged
        many_records_are_read_in_order
        streams_are_listed_by_id_and_tag
        a_trace_stays_with_its_stream
        a_fork_inherits_without_copying
        a_fork_of_a_fork_reads_through
        fork_is_accepted_before_its_parent_is_acknowledged
        fork_of_a_missing_record_is_refused
        a_deleted_stream_is_gone
        a_stream_with_forks_is_not_deleted
        one_fork_of_many_is_enough
        deleted_stream_can_be_created_again
        blobs_live_as_long_as_an_owner
        streams_that_name_a_blob_are_listed
        a_released_blob_is_gone_unless_a_thread_names_it
        keys_are_listed_in_order
        keys_change_atomically_with_the_records
        a_failed_append_changes_no_keys
        a_fork_does_not_inherit_keys
        keys_of_a_deleted_stream_are_gone
        keys_have_limits
        import_includes_its_keys
        values_are_kept_by_name
        an_exported_stream_is_imported_with_its_hashes
        an_exported_fork_is_imported
        changed_import_is_refused
        import_includes_its_blobs_and_values
        an_import_may_be_larger_than_an_append
        a_subscription_catches_up_and_follows
        a_subscription_reads_ahead_and_misses_nothing
        a_subscription_to_one_stream_sees_only_that
        a_subscription_filters_by_kind
        a_subscription_ends_with_the_store
        intact_log_verifies_without_faults
        closed_store_refuses_every_call
    );
}
