//! The streams that a filter selects: by their labels, by search attributes, or all.

use std::collections::BTreeSet;

use rethread_events::ids::{Hash, ThreadId};
use rethread_events::labels::Labels;
use rethread_events::workflow::Search;
use rethread_store::{KeyRange, LogReader, StoreError, StreamInfo, Tag};

use crate::labels;
use crate::stream_keys::search_key;

/// How many threads are counted for each condition, to find the most selective one.
const COUNTED_MAX: usize = 512;

/// How many threads of a condition are listed at a time.
const PAGE: usize = 512;

/// A condition that the log has a list of threads for.
enum Condition {
    /// Threads that name this blob.
    Label(Hash),
    /// Threads that have one of these keys.
    Search(Vec<Vec<u8>>),
}

impl Condition {
    /// Returns the threads after `after` that fulfil it, by id, at most `limit`.
    fn threads(
        &self,
        store: &dyn LogReader,
        after: Option<ThreadId>,
        limit: usize,
    ) -> Result<Vec<ThreadId>, StoreError> {
        match self {
            Self::Label(blob) => store.owners(*blob, after, limit),
            Self::Search(keys) => {
                let mut found = BTreeSet::new();
                for key in keys {
                    let after = after.map(|after| (&key[..], after));
                    found.extend(store.keys(&KeyRange::one(key), after, limit)?.into_iter().map(|(_, thread)| thread));
                }
                Ok(found.into_iter().take(limit).collect())
            }
        }
    }

    /// Returns whether the thread fulfils it.
    fn holds(&self, store: &dyn LogReader, thread: ThreadId) -> Result<bool, StoreError> {
        Ok(self.threads(store, before(thread), 1)? == [thread])
    }
}

/// Returns the id right before another, so that a list after it begins with the other. `None` for the first possible
/// id.
pub(crate) fn before(id: ThreadId) -> Option<ThreadId> {
    u128::from_be_bytes(*id.as_bytes()).checked_sub(1).map(|before| ThreadId::from_bytes(before.to_be_bytes()))
}

/// Returns the streams after `after`, by id, with these search attributes, only those with one of `tags` (empty: all).
/// With labels, a stream may lack some of them: the caller compares those in its first event. Costs as many reads as
/// the most selective condition has threads, and for each of them a look-up in each other search attribute. Blocks.
pub(crate) fn streams<'a>(
    store: &'a dyn LogReader,
    labels: &Labels,
    search: &Search,
    after: Option<ThreadId>,
    tags: &'a [Tag],
) -> Result<Box<dyn Iterator<Item = Result<StreamInfo, StoreError>> + 'a>, StoreError> {
    let of_labels = labels::blobs(labels).into_iter().map(|blob| Condition::Label(Hash::of(&blob)));
    let of_search =
        search.conditions().map(|entries| Condition::Search(entries.iter().map(|entry| search_key(*entry)).collect()));
    let mut conditions: Vec<_> = of_labels.chain(of_search).collect();
    let mut rarest: Option<(usize, usize)> = None;
    for (i, condition) in conditions.iter().enumerate() {
        let n = condition.threads(store, after, COUNTED_MAX)?.len();
        if rarest.is_none_or(|(fewest, _)| n < fewest) {
            rarest = Some((n, i));
        }
    }
    let Some((_, rarest)) = rarest else { return Ok(Box::new(store.all_streams(after, tags))) };
    let rarest = conditions.swap_remove(rarest);
    conditions.retain(|other| matches!(other, Condition::Search(_)));
    let (mut after, mut page) = (after, Vec::new().into_iter());
    let next = move || {
        loop {
            let Some(thread) = page.next() else {
                let listed = match rarest.threads(store, after, PAGE) {
                    Ok(listed) => listed,
                    Err(error) => return Some(Err(error)),
                };
                after = Some(*listed.last()?);
                page = listed.into_iter();
                continue;
            };
            match info_of(store, thread, &conditions) {
                Ok(Some(info)) if tags.is_empty() || tags.contains(&info.tag) => return Some(Ok(info)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    };
    Ok(Box::new(std::iter::from_fn(next)))
}

/// Returns the stream, if it fulfils these conditions and was not deleted meanwhile.
fn info_of(
    store: &dyn LogReader,
    thread: ThreadId,
    conditions: &[Condition],
) -> Result<Option<StreamInfo>, StoreError> {
    for condition in conditions {
        if !condition.holds(store, thread)? {
            return Ok(None);
        }
    }
    match store.stream(thread) {
        Ok(info) => Ok(Some(info)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
