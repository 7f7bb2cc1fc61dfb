//! Idempotency keys of requests that begin threads, as values of the log. A key is open from before the start of its thread
//! until it is marked as used. A key whose thread is in the log counts as used. So the deletion of a thread marks its open
//! keys first, and a request that comes again never takes a thread that was deleted for one that never began.

use rethread_events::ids::ThreadId;
use rethread_store::{Store, StoreError};
use serde::Deserialize;

/// The prefix of the values for all keys.
pub const REQUEST_KEYS: &str = "idempotency/";
/// The prefix of the values for open keys. There are few: the requests in progress, and those that a crash interrupted.
pub const OPEN_KEYS: &str = "idempotency/open/";
/// The prefix of the values for keys whose request was done. They outlive its thread.
pub const USED_KEYS: &str = "idempotency/used/";

/// What the value of a key says here.
#[derive(Deserialize)]
struct OfThread {
    thread: ThreadId,
}

/// Deletes threads as [`Store::delete_all`] does, once their open keys are marked as used.
pub(crate) fn delete_threads(store: &dyn Store, threads: &[ThreadId]) -> Result<(), StoreError> {
    let mut changes = Vec::new();
    for (name, value) in store.values(OPEN_KEYS)? {
        let of = serde_json::from_slice::<OfThread>(&value).ok();
        if let (Some(key), Some(OfThread { thread })) = (name.strip_prefix(OPEN_KEYS), of)
            && threads.contains(&thread)
        {
            changes.push((format!("{USED_KEYS}{key}"), Some(value)));
            changes.push((name, None));
        }
    }
    store.release_blobs(&[], &changes)?;
    store.delete_all(threads)
}
