//! The index of threads by label. A thread names a small blob for each of its labels, stored with its first records, so
//! that the store lists the threads that name it. A delete removes the reference.

use rethread_events::event::Event;
use rethread_events::ids::{Seq, ThreadId};
use rethread_events::labels::Labels;
use rethread_store::{LogReader, StoreError};

use crate::error::ReadError;
use crate::load;
use crate::recorded::event;

/// The blobs that a thread with these labels names.
pub(crate) fn blobs(labels: &Labels) -> Vec<Vec<u8>> {
    labels.iter().map(|(key, value)| format!("rethread label {key}={value}").into_bytes()).collect()
}

/// The labels of a thread. Blocks.
///
/// # Errors
/// `NoThread` if there is no such thread, and errors of the log. Unreadable labels are an error, not an empty set.
pub fn labels_of(store: &dyn LogReader, thread: ThreadId) -> Result<Labels, ReadError> {
    load::stream(store, thread)?;
    let first = event(store, thread, Seq(0))?.map(|first| first.event);
    let Some(Event::ThreadStarted(started)) = first else {
        return Err(StoreError::Invalid(format!("thread {thread} does not begin with its start")).into());
    };
    Ok(started.labels)
}
