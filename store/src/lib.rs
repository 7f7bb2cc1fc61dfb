//! The log of rethread: append, read, subscribe, snapshots, blobs. It knows records, not their meaning.
//!
//! [`Store`] is the contract, and [`LogReader`] its reading half. [`SledStore`] implements it on disk, [`MemoryStore`] in memory, and `JetStreamStore`
//! (feature `jetstream`) in a stream of NATS JetStream; `testing::contract`, with
//! the feature `testing`, is the suite that a backend has to pass.

mod contract;
mod disk;
mod error;
mod fence;
mod follower;
mod head;
#[cfg(feature = "jetstream")]
mod jetstream;
mod keys;
mod memory;
mod pages;
mod plan;
mod recent;
mod record;
mod slots;
mod stream_metrics;
mod streams;
mod subscription;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wire;

pub use contract::{
    Append, Appended, Compacted, Filter, ForkPoint, Import, LogReader, Snapshot, Store, StreamInfo, Tag, Verification,
};
pub use disk::{Backup, BackupFile, Copied, Options, SledStore, TAG_LOST, Watcher};
pub use error::{Damage, StoreError};
pub use follower::{Batch, Mapped, Records, follow_thread, own_page, read_log, read_thread};
#[cfg(feature = "jetstream")]
pub use jetstream::{
    Access, ConnectError, Credentials, EventMessage, EventStream, EventStreamOptions, JetStreamOptions, JetStreamStore,
    NatsServers, StreamNode, StreamServer, StreamStatus,
};
pub use keys::{KEY_BYTES_MAX, KEY_CHANGES_MAX, KEYS_MAX, KeyChange, KeyRange};
pub use memory::MemoryStore;
pub use pages::{Cursor, RecordIter, RecordIterBack};
pub use plan::{APPEND_BYTES_MAX, IMPORT_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, VALUE_BYTES_MAX};
pub use recent::{Listener, Recent};
pub use record::{Cause, Kind, NewRecord, Record};
pub use slots::{Answering, Asked, SLOTS, Share, SharedLog, Slot, Slots};
pub use stream_metrics::{DURATION_BOUNDS_US, Durations, StreamMetrics};
pub use streams::StreamIter;
pub use subscription::Subscription;
