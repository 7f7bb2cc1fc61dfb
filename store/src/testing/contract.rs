//! The contract of [`Store`], as checks that every backend must pass. Each is given a backend with an empty log, and
//! reopens it now and then.

mod append;
mod fork;
mod import;
mod keep;
mod keys;
mod name;
mod read;
mod subscribe;

use rethread_events::ids::Position;

pub use append::*;
pub use fork::*;
pub use import::*;
pub use keep::*;
pub use keys::*;
pub use name::*;
pub use read::*;
pub use subscribe::*;

use crate::{LogReader, Record, Store};

/// A backend under test.
pub trait Backend {
    /// The store.
    fn store(&self) -> &dyn Store;

    /// Ends the process, in order or not, and reopens the same log. `None` for one in memory.
    fn reopen(&mut self);
}

/// Makes one test of each check: `contract_tests!(MyBackend::new())`, or `contract_tests!(MyBackend::new(); without snapshots)`
/// for a backend that loses them when it is reopened, as it may.
#[macro_export]
macro_rules! contract_tests {
    ($make:expr) => {
        $crate::contract_tests!($make; without snapshots);
        $crate::contract_tests!($make;
            several_snapshots_are_stored_per_stream
            snapshots_are_thinned_out
        );
    };
    ($make:expr; without snapshots) => {
        $crate::contract_tests!($make;
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
    };
    ($make:expr; $($name:ident)*) => {
        $(#[test]
        fn $name() {
            $crate::testing::contract::$name(&mut $make);
        })*
    };
}

fn all(store: &dyn LogReader) -> Vec<Record> {
    store.read_all(Position(0), usize::MAX).unwrap()
}
