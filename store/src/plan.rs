//! From an append to records: the checks and the chain that every backend shares.

mod addition;

use std::collections::HashSet;

use rethread_events::ids::{Seq, ThreadId};

pub(crate) use addition::{Addition, Item, Recent, import};

use crate::contract::{Append, ForkPoint, Import};
use crate::error::StoreError;
use crate::head::Head;
use crate::keys::{KEY_BYTES_MAX, KEY_CHANGES_MAX, KEYS_MAX, KeyChange};
use crate::record::Cause;

/// The largest payload, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;
/// The largest append, in bytes of payload, and 32 for each record.
pub const APPEND_BYTES_MAX: usize = 66 << 20;
/// The largest import, in bytes of payload, and 32 for each record.
pub const IMPORT_BYTES_MAX: usize = 512 << 20;
/// The largest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// The longest name of a value, in bytes.
pub const NAME_BYTES_MAX: usize = 512;

/// How large an append is, or why nothing like it can ever be written.
pub(crate) fn measure(append: &Append) -> Result<usize, StoreError> {
    let Append { records, blobs, keys, .. } = append;
    if records.is_empty() {
        return Err(StoreError::Invalid("an append needs at least one record".into()));
    }
    let mut total: usize = blobs.iter().map(|blob| blob.len() + 128).sum();
    total += keys_size(keys.iter().map(KeyChange::key), KEY_CHANGES_MAX)?;
    for (index, record) in records.iter().enumerate() {
        payload_fits(record.payload.len())?;
        total += record.payload.len() + 32;
        if let Some(Cause::Own(_)) = record.cause
            && index > 0
        {
            return Err(StoreError::Invalid(format!(
                "record {index} of an append names its cause by seq, which only the first may"
            )));
        }
        if let Some(Cause::SameAppend(cause)) = record.cause
            && cause as usize >= index
        {
            return Err(StoreError::Invalid(format!(
                "record {index} of an append names record {cause} as its cause, which is not before it"
            )));
        }
    }
    append_fits(total)?;
    Ok(total)
}

pub(crate) fn payload_fits(bytes: usize) -> Result<(), StoreError> {
    fits("a payload", bytes, PAYLOAD_BYTES_MAX)
}

pub(crate) fn append_fits(bytes: usize) -> Result<(), StoreError> {
    fits("an append", bytes, APPEND_BYTES_MAX)
}

pub(crate) fn import_fits(bytes: usize) -> Result<(), StoreError> {
    fits("an import", bytes, IMPORT_BYTES_MAX)
}

/// The bytes of an import, when each part of it and all of it fit.
pub(crate) fn import_size(import: &Import) -> Result<usize, StoreError> {
    import.blobs.iter().try_for_each(|blob| payload_fits(blob.len()))?;
    import.values.iter().try_for_each(|(name, value)| value_fits(name, value))?;
    let values: usize = import.values.iter().map(|(name, value)| name.len() + value.len() + 128).sum();
    let blobs: usize = import.blobs.iter().map(|blob| blob.len() + 128).sum();
    let keys = keys_size(import.keys.iter().map(|key| &key[..]), KEYS_MAX)?;
    let bytes = import.records.iter().map(|record| record.payload.len() + 32).sum::<usize>() + blobs + keys + values;
    import_fits(bytes).map(|()| bytes)
}

/// The bytes of keys that are added or removed together, when each of them fits and they are not too many.
fn keys_size<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>, n_max: usize) -> Result<usize, StoreError> {
    let n = keys.len();
    if n > n_max {
        return Err(StoreError::Invalid(format!("{n} keys are added or removed together, the limit is {n_max}")));
    }
    let mut bytes = 0;
    for key in keys {
        fits("a key", key.len(), KEY_BYTES_MAX)?;
        bytes += key.len() + 32;
    }
    Ok(bytes)
}

/// The bytes of values that are set or removed, when each of them fits.
pub(crate) fn values_size(values: &[(String, Option<Vec<u8>>)]) -> Result<usize, StoreError> {
    let mut bytes = 0;
    for (name, value) in values {
        let value = value.as_deref().unwrap_or_default();
        value_fits(name, value)?;
        bytes += name.len() + value.len() + 128;
    }
    Ok(bytes)
}

pub(crate) fn value_fits(name: &str, value: &[u8]) -> Result<(), StoreError> {
    if name.is_empty() || name.contains('\0') {
        let what = "the name of a value holds at least one character and no zero byte";
        return Err(StoreError::Invalid(what.into()));
    }
    fits("the name of a value", name.len(), NAME_BYTES_MAX)?;
    fits("a value", value.len(), VALUE_BYTES_MAX)
}

fn fits(what: &'static str, bytes: usize, bytes_max: usize) -> Result<(), StoreError> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(StoreError::TooLarge { what, bytes: bytes as u64, bytes_max: bytes_max as u64 })
}

/// The expectation holds, and what is expected of a new stream was given.
pub(crate) fn check(
    thread: ThreadId,
    expected: Seq,
    fork_of: Option<ForkPoint>,
    head: Option<&Head>,
) -> Result<(), StoreError> {
    let actual = match (head, fork_of) {
        (Some(head), None) => head.last_seq.next(),
        // A stream begins once; if it exists already, that is a conflict like any other.
        (Some(head), Some(_)) => {
            return Err(StoreError::Conflict { thread, expected, actual: head.last_seq.next() });
        }
        (None, None) => Seq(0),
        (None, Some(point)) => {
            if point.parent == thread {
                return Err(StoreError::Invalid(format!("thread {thread} cannot fork itself")));
            }
            point.seq.next()
        }
    };
    if expected != actual {
        return Err(StoreError::Conflict { thread, expected, actual });
    }
    Ok(())
}

/// The fork point is in the parent.
pub(crate) fn check_fork(point: ForkPoint, parent: Option<&Head>) -> Result<(), StoreError> {
    let Some(parent) = parent else { return Err(no_thread(point.parent)) };
    if point.seq > parent.last_seq {
        return Err(StoreError::NotFound {
            what: "seq to fork from",
            name: format!("{} in thread {}, which ends at {}", point.seq, point.parent, parent.last_seq),
        });
    }
    Ok(())
}

/// How many forks the refusal of a delete names.
const FORKS: usize = 16;

/// The streams can be deleted in this order: each is there, and its forks are deleted before it. `forks` are those of a
/// stream after another one, up to a number.
pub(crate) fn check_deletes(
    threads: &[ThreadId],
    mut exists: impl FnMut(ThreadId) -> Result<(), StoreError>,
    mut forks: impl FnMut(ThreadId, Option<ThreadId>, usize) -> Result<Vec<ThreadId>, StoreError>,
) -> Result<(), StoreError> {
    let mut deleted = HashSet::new();
    for thread in threads.iter().copied() {
        exists(thread)?;
        let (mut left, mut after) = (Vec::new(), None);
        while left.len() < FORKS {
            let page = forks(thread, after, FORKS)?;
            after = page.last().copied();
            left.extend(page.into_iter().filter(|fork| !deleted.contains(fork)));
            if after.is_none() {
                break;
            }
        }
        left.truncate(FORKS);
        if !left.is_empty() {
            return Err(StoreError::InUse { thread, forks: left });
        }
        if !deleted.insert(thread) {
            return Err(no_thread(thread));
        }
    }
    Ok(())
}

pub(crate) fn no_records() -> StoreError {
    StoreError::Invalid("an import needs at least one record".into())
}

pub(crate) fn no_thread(thread: ThreadId) -> StoreError {
    StoreError::NotFound { what: "thread", name: thread.to_string() }
}
