//! Events of runs that wait for their turn.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Hash, Time};
use crate::json::Json;

/// THREAD_QUEUED: the run that has begun waits in a queue. Nothing of it runs before THREAD_DEQUEUED.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadQueued {
    /// The workflow whose queue it is. Absent if the thread only waits until the runtime has room for it.
    pub workflow: Option<String>,
    /// The value of the queue's `key`: runs with the same value share the limits. Absent without a `key`.
    pub key: Option<Json>,
    /// The limits of the queue.
    pub limits: QueueLimits,
    /// Runs with a larger priority begin first.
    pub priority: i64,
    /// Runs of the same priority begin in turn, one of each group.
    pub group: Option<Json>,
    /// It does not begin before this time.
    pub not_before: Option<Time>,
}

impl ThreadQueued {
    /// Returns the id of the queue: the hash of its workflow's name and of its key.
    pub fn queue(&self) -> Hash {
        queue_of(self.workflow.as_deref(), self.key.as_ref())
    }

    /// Returns the id of the queue of the runs that only wait until the runtime has room.
    pub fn queue_for_room() -> Hash {
        queue_of(None, None)
    }
}

fn queue_of(workflow: Option<&str>, key: Option<&Json>) -> Hash {
    let name = serde_json::to_string(&(workflow, key)).unwrap_or_default();
    Hash::of(name.as_bytes())
}

/// The limits of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct QueueLimits {
    /// How many runs may have begun and not ended.
    pub concurrency: Option<u32>,
    /// How many runs may begin in a time.
    pub rate: Option<StartRate>,
    /// Whether of the runs that wait only the newest one begins.
    pub debounce: bool,
}

/// A number of starts in any period of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRate {
    /// How many runs may begin, 1 to 500.
    pub starts: u32,
    /// The period in milliseconds, at most a week.
    pub per_ms: u64,
}

/// THREAD_DEQUEUED: the run begins. Its deadline is later by the time that it waited.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadDequeued {
    /// How long it waited.
    pub waited_ms: u64,
}
