//! Where threads with a label are found: a thread names a small blob for each of its labels, stored with its first
//! records, so that the store lists the threads that name it and a delete removes the claim.

use rethread_events::event::Event;
use rethread_events::ids::{Hash, Seq, ThreadId};
use rethread_events::labels::Labels;
use rethread_store::{LogReader, StoreError, StreamInfo, Tag};

use crate::error::ReadError;
use crate::load;
use crate::recorded::event;

/// How far each of several labels is counted, to look for the one that fewest threads have.
const COUNTED_MAX: usize = 512;

/// How many threads of a label are listed at a time.
const PAGE: usize = 512;

/// The blobs that a thread with these labels names.
pub(crate) fn blobs(labels: &Labels) -> Vec<Vec<u8>> {
    labels.iter().map(|(key, value)| format!("rethread label {key}={value}").into_bytes()).collect()
}

/// The streams after `after`, by id, only those with one of `tags` (empty: all). With labels, those of the label that
/// fewest threads have: the caller compares the labels of each, which its first event has. Blocks.
pub(crate) fn streams<'a>(
    store: &'a dyn LogReader,
    labels: &Labels,
    after: Option<ThreadId>,
    tags: &'a [Tag],
) -> Result<Box<dyn Iterator<Item = Result<StreamInfo, StoreError>> + 'a>, StoreError> {
    let mut rarest: Option<(usize, Hash)> = None;
    for blob in blobs(labels) {
        let hash = Hash::of(&blob);
        let n = store.owners(hash, after, COUNTED_MAX)?.len();
        if rarest.is_none_or(|(fewest, _)| n < fewest) {
            rarest = Some((n, hash));
        }
    }
    let Some((_, label)) = rarest else { return Ok(Box::new(store.all_streams(after, tags))) };
    let (mut after, mut page) = (after, Vec::new().into_iter());
    let next = move || {
        loop {
            let Some(thread) = page.next() else {
                let listed = match store.owners(label, after, PAGE) {
                    Ok(listed) => listed,
                    Err(error) => return Some(Err(error)),
                };
                after = Some(*listed.last()?);
                page = listed.into_iter();
                continue;
            };
            match store.stream(thread) {
                Ok(info) if tags.is_empty() || tags.contains(&info.tag) => return Some(Ok(info)),
                // It has another tag, or was deleted meanwhile.
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    };
    Ok(Box::new(std::iter::from_fn(next)))
}

/// The labels of a thread. Blocks.
///
/// # Errors
/// `NoThread` when there is none, and when the log cannot be read. Labels that cannot be read are not none.
pub fn labels_of(store: &dyn LogReader, thread: ThreadId) -> Result<Labels, ReadError> {
    load::stream(store, thread)?;
    let first = event(store, thread, Seq(0))?.map(|first| first.event);
    let Some(Event::ThreadStarted(started)) = first else {
        return Err(StoreError::Invalid(format!("thread {thread} does not begin with its start")).into());
    };
    Ok(started.labels)
}
