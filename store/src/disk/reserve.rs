//! Room that is set aside while the disk has some, so that threads can be deleted once it has none: a delete is written
//! to the log before it frees anything.

use super::files::Files;

const NAME: &str = "reserve";
/// The bytes that a delete of many threads writes before the first space is free again: a part of the journal, the
/// chunks that other threads share, and segments of sled.
const BYTES: u64 = 4 << 20;
/// A disk with less room than this many times the reserve has no reserve: records need the room.
const TIMES: u64 = 64;

/// Sets the room aside, where there is plenty. That it cannot be had is no error.
pub(super) fn allocate(files: &Files) {
    let path = files.folder().join(NAME);
    let is_kept = files.bytes(&path).is_ok_and(|bytes| bytes.is_some_and(|bytes| bytes >= BYTES));
    if is_kept || files.free_bytes().is_none_or(|free| free < BYTES * TIMES) {
        return;
    }
    let allocated = files.open(&path).map_err(|error| error.to_string());
    if let Err(error) = allocated.and_then(|file| file.allocate(BYTES).map_err(|error| error.to_string())) {
        tracing::debug!(%error, "no disk space is reserved for deletes on a full disk");
    }
}

/// Frees the reserved disk space. Returns whether there was any.
pub(super) fn release(files: &Files) -> bool {
    let is_spent = files.remove(&files.folder().join(NAME)).is_ok();
    if is_spent {
        tracing::info!("using the disk space reserved for deletes on a full disk");
    }
    is_spent
}
