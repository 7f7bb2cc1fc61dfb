//! States of long threads at some of their moments, kept in memory, so that going back and forth in a thread does not
//! fold it from its beginning each time.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rethread_events::ids::{Seq, ThreadId};

use crate::load::Loaded;

/// A state is kept every so many events, a multiple of what is folded at a time: the most that is folded once the others
/// are there.
const EVERY: u64 = 5_000;
/// The most states that are kept; those that were not used longest go first.
const STATES_MAX: usize = 48;
/// A state whose conversation and variables have more parts than this is not kept.
const PARTS_MAX: usize = 50_000;

/// The kept states, the last used at the end.
#[derive(Debug, Default)]
pub(crate) struct KeptStates {
    states: Mutex<VecDeque<(ThreadId, Loaded)>>,
}

impl KeptStates {
    /// Whether the state before the event `next` is worth keeping.
    pub(crate) fn is_kept_at(next: Seq) -> bool {
        next.0 > 0 && next.0.is_multiple_of(EVERY)
    }

    /// The latest state of a thread that is not behind `seq`.
    pub(crate) fn before(&self, thread: ThreadId, seq: Seq) -> Option<Loaded> {
        let mut states = self.states.lock();
        let fits =
            states.iter().enumerate().filter(|(_, (of, known))| *of == thread && known.state.next_seq() <= seq.next());
        let (place, _) = fits.max_by_key(|(_, (_, known))| known.state.next_seq())?;
        let known = states.remove(place)?;
        let loaded = known.1.clone();
        states.push_back(known);
        Some(loaded)
    }

    pub(crate) fn keep(&self, thread: ThreadId, loaded: &Loaded) {
        let state = &loaded.state;
        if state.conversation().entries.len() + state.variables().len() + state.path().len() > PARTS_MAX {
            return;
        }
        let mut states = self.states.lock();
        states.retain(|(of, known)| *of != thread || known.state.next_seq() != state.next_seq());
        if states.len() >= STATES_MAX {
            states.pop_front();
        }
        states.push_back((thread, loaded.clone()));
    }
}

#[cfg(test)]
mod tests;
