//! Which streams there are.

use std::collections::{BTreeMap, BTreeSet};

use rethread_events::ids::ThreadId;

use super::Reader;
use crate::contract::{StreamInfo, Tag};
use crate::disk::tail::Known;
use crate::error::StoreError;
use crate::head::Head;

impl Reader {
    /// As [`crate::LogReader::streams`].
    pub(crate) fn streams(
        &self,
        after: Option<ThreadId>,
        tags: &[Tag],
        limit: usize,
    ) -> Result<Vec<StreamInfo>, StoreError> {
        let wanted = |head: &Head| tags.is_empty() || tags.contains(&head.tag);
        let recent = self.recent_heads(after);
        let mut found = BTreeMap::new();
        for (thread, head) in &recent {
            if let Some(head) = head.filter(|head| wanted(head)) {
                found.insert(*thread, head);
            }
        }
        let mut after = after;
        loop {
            let listed = self.index.listed(after, tags, limit.saturating_add(1));
            let (ids, complete_to) = match listed {
                Err(StoreError::Damaged(_)) if self.is_salvage => break,
                listed => listed?,
            };
            for thread in ids {
                if recent.contains_key(&thread) {
                    continue;
                }
                // Read one by one: the answer is short, and the list of a tag holds only ids.
                if let Some(head) = self.index.head(thread)?.filter(|head| wanted(head)) {
                    found.insert(thread, head);
                }
            }
            let Some(complete_to) = complete_to else { break };
            if found.range(..=complete_to).count() >= limit {
                break;
            }
            after = Some(complete_to);
        }
        Ok(found.into_iter().take(limit).map(|(thread, head)| head.info(thread)).collect())
    }

    /// The streams of which the tail knows that they inherit from this one.
    fn recent_forks(&self, thread: ThreadId, after: Option<ThreadId>) -> BTreeSet<ThreadId> {
        let state = self.tail.state.read();
        let is_fork = |child: ThreadId| match state.known(child) {
            Known::Is(head) => head.fork_of.is_some_and(|point| point.parent == thread),
            Known::Deleted | Known::No => false,
        };
        let recent = state.segments().flat_map(|segment| segment.streams.keys().copied());
        recent.filter(|child| after.is_none_or(|after| *child > after) && is_fork(*child)).collect()
    }

    fn recent_heads(&self, after: Option<ThreadId>) -> BTreeMap<ThreadId, Option<Head>> {
        let state = self.tail.state.read();
        let mut heads = BTreeMap::new();
        for segment in state.segments() {
            for (thread, part) in &segment.streams {
                if after.is_none_or(|after| *thread > after) {
                    heads.insert(*thread, part.head);
                }
            }
        }
        heads
    }

    /// The streams that inherit from this one, by id, from those after `after` on.
    pub(crate) fn forks(
        &self,
        thread: ThreadId,
        after: Option<ThreadId>,
        limit: usize,
    ) -> Result<Vec<ThreadId>, StoreError> {
        loop {
            let lives = self.tail.state.read().lives();
            let mut forks = self.recent_forks(thread, after);
            // The tail's entry of a child is newer: it may have been deleted and begun again. Many may have been, so
            // those of one page do not represent the rest.
            let (mut sealed, mut after) = (Vec::new(), after);
            while sealed.len() < limit {
                let page = self.index.forks(thread, after, limit)?;
                let Some(last) = page.last() else { break };
                after = Some(*last);
                sealed.extend(page.into_iter().filter(|child| matches!(self.tail.known(*child), Known::No)));
            }
            // A segment that went into sled meanwhile took along what it knew.
            if self.tail.state.read().lives() == lives {
                forks.extend(sealed);
                return Ok(forks.into_iter().take(limit).collect());
            }
        }
    }
}
