//! The nodes that a thread entered: the last ones, so that a loop that goes round for days costs the same all the time.

use std::borrow::Cow;

use bincode::{Decode, Encode};
use serde::Serialize;

use crate::codec::SharedList;
use crate::ids::{NodeId, Seq};

/// How many visits are kept. The log has them all.
pub const VISITS_MAX: usize = 10_000;

/// A node that was entered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Visit {
    /// The event that says so.
    pub seq: Seq,
    /// The node.
    pub node: NodeId,
    /// The number of the try.
    pub attempt: u32,
}

/// The last visits, and how many there were before them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(super) struct Path {
    /// Up to twice as many as are kept, so that dropping the old ones costs little per visit.
    visits: SharedList<Visit>,
    n_dropped: u64,
}

impl Path {
    pub(super) fn push(&mut self, visit: Visit) {
        if self.visits.len() >= 2 * VISITS_MAX {
            let n_old = self.visits.len() - VISITS_MAX;
            self.visits.all_mut().drain(..n_old);
            self.n_dropped += n_old as u64;
        }
        self.visits.push(visit);
    }

    pub(super) fn last(&self) -> Option<&Visit> {
        self.visits.last()
    }

    pub(super) fn kept(&self) -> Cow<'_, [Visit]> {
        self.visits.range(self.n_hidden()..self.visits.len())
    }

    pub(super) fn n_kept(&self) -> usize {
        self.visits.len() - self.n_hidden()
    }

    pub(super) fn n_dropped(&self) -> u64 {
        self.n_dropped + self.n_hidden() as u64
    }

    fn n_hidden(&self) -> usize {
        self.visits.len().saturating_sub(VISITS_MAX)
    }
}
