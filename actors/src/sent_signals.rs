//! Records of the signals that were sent, by day: an id is remembered for at least two days.

use std::ops::Range;

use rethread_events::ids::{Hash, ThreadId, Time};
use rethread_store::Store;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::{ReadError, SignalError};

const NAMES: &str = "signals/sent/";
const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;
/// How many days back an id is searched, today included.
const DAYS: u64 = 3;

/// The record of a signal that was sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// The threads that receive it; none yet if it is kept.
    pub(crate) threads: Vec<ThreadId>,
    pub(crate) is_kept: bool,
}

impl Sent {
    /// The record of a signal that is kept.
    pub(crate) fn kept() -> Self {
        Self { threads: Vec::new(), is_kept: true }
    }
}

fn day(now: Time) -> u64 {
    now.unix_us() / DAY_US
}

fn value_name(day: u64, name: &str, id: &str) -> String {
    format!("{NAMES}{day:08}/{}", hash_of(name, id))
}

/// Returns the record of this signal. Blocks.
pub(crate) fn find(store: &dyn Store, name: &str, id: &str) -> Result<Option<Sent>, SignalError> {
    let today = day(clock::now());
    for day in (0..DAYS).map(|back| today.saturating_sub(back)) {
        let noted = store.value(&value_name(day, name, id)).map_err(ReadError::from)?;
        if let Some(bytes) = noted {
            // An unreadable record still proves that the signal was sent.
            return Ok(Some(serde_json::from_slice(&bytes).unwrap_or(Sent { threads: Vec::new(), is_kept: false })));
        }
    }
    Ok(None)
}

/// Writes the record of this signal, in place of an earlier one. Blocks.
pub(crate) fn record(store: &dyn Store, name: &str, id: &str, sent: &Sent) -> Result<(), SignalError> {
    let bytes = serde_json::to_vec(sent).map_err(|error| SignalError::Invalid(error.to_string()))?;
    let today = day(clock::now());
    // The newest is found first, so an older one is harmless until it is removed.
    store.put_value(&value_name(today, name, id), &bytes).map_err(ReadError::from)?;
    remove(store, name, id, 1..DAYS, today)
}

/// Removes the record of a signal that was not sent. Blocks.
pub(crate) fn forget(store: &dyn Store, name: &str, id: &str) -> Result<(), SignalError> {
    remove(store, name, id, 0..DAYS, day(clock::now()))
}

fn remove(store: &dyn Store, name: &str, id: &str, back: Range<u64>, today: u64) -> Result<(), SignalError> {
    for day in back.rev().map(|back| today.saturating_sub(back)) {
        let value = value_name(day, name, id);
        if store.value(&value).map_err(ReadError::from)?.is_some() {
            store.remove_value(&value).map_err(ReadError::from)?;
        }
    }
    Ok(())
}

/// Removes records that are too old. Blocks.
pub(crate) fn sweep(store: &dyn Store, now: Time) -> Result<(), SignalError> {
    let oldest = format!("{NAMES}{:08}/", day(now).saturating_sub(DAYS - 1));
    for (name, _) in store.values(NAMES).map_err(ReadError::from)? {
        if name < oldest {
            store.remove_value(&name).map_err(ReadError::from)?;
        }
    }
    Ok(())
}

/// Returns the hash that identifies a signal in the log.
pub(crate) fn hash_of(name: &str, id: &str) -> Hash {
    Hash::of(format!("{name}\0{id}").as_bytes())
}
