//! The log of rethread: append, read, subscribe, snapshots, blobs. It knows records, not their meaning.

mod contract;
mod error;
mod record;
mod subscription;

pub use contract::{Append, Appended, Filter, ForkPoint, Snapshot, Store, StreamInfo, Tag, Verification};
pub use error::{Damage, StoreError};
pub use record::{Cause, Kind, NewRecord, Record};
pub use subscription::Subscription;
