//! The keys of streams in the writer's memory: of streams with a change of keys in the journal, durable or not. The
//! result of a change must be known before it is in the tail, because the number of keys of a stream is limited.

use std::sync::Arc;

use rethread_events::ids::ThreadId;

use super::{Group, Writer};
use crate::error::StoreError;
use crate::head::Head;
use crate::keys::{KeyChange, KeySet};

/// The keys of a stream.
#[derive(Debug, Clone)]
pub(super) struct KnownKeys {
    keys: Arc<KeySet>,
    /// The life of the journal in which they were last changed: until that is in sled, they must be remembered.
    pub(super) epoch: u64,
    /// The group that last changed them.
    group: u64,
}

impl Writer {
    /// The keys of the stream after these changes, and those of the changes that make a difference.
    pub(super) fn keys_after(
        &self,
        thread: ThreadId,
        head: Option<&Head>,
        changes: Vec<KeyChange>,
    ) -> Result<Option<(KeySet, Vec<KeyChange>)>, StoreError> {
        if changes.is_empty() {
            return Ok(None);
        }
        match (self.keys.get(&thread), head) {
            (Some(known), _) => known.keys.after(thread, changes),
            (None, None) => KeySet::default().after(thread, changes),
            (None, Some(_)) => KeySet::from_iter(self.reader.keys_of(thread)?).after(thread, changes),
        }
        .map(Some)
    }

    /// The group makes these the keys of the stream.
    pub(super) fn remember_keys(&mut self, thread: ThreadId, keys: KeySet, group: &mut Group) {
        let (epoch, number) = (group.stamp.epoch, group.stamp.group);
        let known = KnownKeys { keys: Arc::new(keys), epoch, group: number };
        let before = self.keys.insert(thread, known);
        if before.as_ref().is_none_or(|before| before.group != number) {
            group.undo_keys.push((thread, before));
        }
    }

    /// The group failed.
    pub(super) fn restore_keys(&mut self, group: &Group) {
        for (thread, before) in &group.undo_keys {
            match before {
                Some(before) => self.keys.insert(*thread, before.clone()),
                None => self.keys.remove(thread),
            };
        }
    }
}
