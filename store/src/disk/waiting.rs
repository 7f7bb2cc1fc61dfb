//! Changes to a stream's snapshots that are not in sled yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rethread_events::ids::Seq;

use crate::contract::Snapshot;

/// Changes to the snapshots that sled has of a stream. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting {
    /// Of those in sled only these stay; all of them where there is no such list.
    only: Option<BTreeSet<Seq>>,
    /// Snapshots to write after that.
    put: BTreeMap<Seq, Arc<Snapshot>>,
}

impl Waiting {
    /// One more, in place of one at the same seq.
    pub(crate) fn put(&mut self, snapshot: Snapshot) {
        self.put.insert(snapshot.seq, Arc::new(snapshot));
    }

    /// Only these stay.
    pub(crate) fn retain(&mut self, seqs: &BTreeSet<Seq>) {
        self.put.retain(|seq, _| seqs.contains(seq));
        self.only = Some(match &self.only {
            Some(only) => only & seqs,
            None => seqs.clone(),
        });
    }

    /// These changes, and then others.
    pub(crate) fn merge(&mut self, later: Self) {
        if let Some(only) = &later.only {
            self.retain(only);
        }
        self.put.extend(later.put);
    }

    /// Whether the one that sled has at that seq stays.
    pub(crate) fn retains(&self, seq: Seq) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&seq))
    }

    /// Whether any that sled has may have to go.
    pub(crate) fn thins_out(&self) -> bool {
        self.only.is_some()
    }

    /// The one that waits at that seq.
    pub(crate) fn find(&self, seq: Seq) -> Option<&Arc<Snapshot>> {
        self.put.get(&seq)
    }

    /// The seqs of those that wait.
    pub(crate) fn seqs(&self) -> impl Iterator<Item = Seq> + '_ {
        self.put.keys().copied()
    }

    /// Returns those that wait, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Snapshot> {
        self.put.values().map(|snapshot| &**snapshot)
    }

    /// About what it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        64 + self.put.values().map(|snapshot| snapshot.state.len() + 64).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
