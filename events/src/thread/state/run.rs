//! The runs of a thread: the one that is going on, or was the last, and those that wait.

use std::sync::Arc;

use bincode::{Decode, Encode};

use crate::codec::OrderedMap;
use crate::event::{PastRun, RunQueued};
use crate::ids::{Hash, RunId, Seq, Time};
use crate::json::Json;
use crate::message::Message;
use crate::principal::Principal;
use crate::thread::totals::Totals;

/// The most runs that wait in a thread.
pub const RUNS_QUEUED_MAX: usize = 100;

/// How many idempotency keys of runs a thread remembers: those of the last requests.
pub const RUN_KEYS_MAX: usize = 256;

/// The longest idempotency key of a run, in bytes.
pub const RUN_KEY_BYTES_MAX: usize = 255;

/// The runs of a thread.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
pub(in crate::thread) struct Runs {
    /// The number of the present one, from 1; 0 before the first.
    pub(in crate::thread) number: u64,
    pub(in crate::thread) id: RunId,
    /// The event with which it began.
    pub(in crate::thread) started: Seq,
    pub(in crate::thread) started_at: Time,
    /// The event with which it ended, if it has.
    pub(in crate::thread) ended: Option<Seq>,
    pub(in crate::thread) previous: Option<PastRun>,
    /// The sums of the thread when it began.
    pub(in crate::thread) totals_before: Totals,
    pub(in crate::thread) queue: Vec<QueuedRun>,
    /// Messages that were to steer the present run, and that no model has read.
    pub(in crate::thread) steering: Vec<Steering>,
    /// The last idempotency keys, oldest first.
    pub(in crate::thread) keys: Vec<UsedKey>,
}

/// A message that steers a run.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(in crate::thread) struct Steering {
    /// The run that it begins where no model reads it.
    pub(in crate::thread) id: RunId,
    pub(in crate::thread) message: Arc<Message>,
}

/// An idempotency key, and what it was used for.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(in crate::thread) struct UsedKey {
    key: String,
    /// The hash of the input.
    input: Hash,
    /// The event that recorded the request.
    pub(in crate::thread) seq: Seq,
}

/// A run that waits for the end of those before it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct QueuedRun {
    /// The run.
    pub id: RunId,
    /// Its input.
    pub input: Json,
    /// Variables that are set as it begins.
    pub variables: OrderedMap<Json>,
    /// Who requested it.
    pub by: Option<Principal>,
}

impl From<&RunQueued> for QueuedRun {
    fn from(e: &RunQueued) -> Self {
        Self { id: e.run_id, input: e.input.clone(), variables: e.variables.clone(), by: e.by.clone() }
    }
}

impl Runs {
    /// Returns the request that used the key, if it is remembered.
    pub(in crate::thread) fn used(&self, key: &str) -> Option<&UsedKey> {
        self.keys.iter().find(|used| used.key == key)
    }

    pub(in crate::thread) fn use_key(&mut self, key: Option<&String>, input: &Json, seq: Seq) {
        let Some(key) = key else { return };
        if self.keys.len() >= RUN_KEYS_MAX {
            self.keys.remove(0);
        }
        self.keys.push(UsedKey { key: key.clone(), input: hash_of(input), seq });
    }
}

impl UsedKey {
    pub(in crate::thread) fn is_for(&self, input: &Json) -> bool {
        self.input == hash_of(input)
    }
}

fn hash_of(input: &Json) -> Hash {
    Hash::of(input.0.to_string().as_bytes())
}
