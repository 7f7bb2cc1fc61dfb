//! A cache in memory for states of long threads at some moments, and of conversations at their end. So historical reads
//! of a thread, or its next run, do not fold it from its beginning each time.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::ids::{Seq, ThreadId};
use rethread_events::thread::State;

use crate::load::Loaded;

/// The distance between cached states, in events. This is the most that is folded once the states before it are cached.
const EVERY: u64 = 5_000;
/// The most states in the cache; the least recently used ones are evicted.
const STATES_MAX: usize = 48;
/// A state whose conversation and variables have more parts than this is not cached.
const PARTS_MAX: usize = 50_000;
/// The most bytes that all of them may take, by estimate.
const BYTES_MAX: usize = 256 << 20;
/// The estimated size of a part, without its content.
const PART_BYTES: usize = 64;

/// The cached states, the last used at the end. They are cloned and freed outside the lock, since both are slow.
#[derive(Debug, Default)]
pub(crate) struct KeptStates {
    states: Mutex<VecDeque<(ThreadId, Arc<Loaded>)>>,
}

impl KeptStates {
    /// Returns whether the state before the event `next` is cached.
    pub(crate) fn is_kept_at(next: Seq) -> bool {
        next.0 > 0 && next.0.is_multiple_of(EVERY)
    }

    /// Returns the latest cached state of a thread that is not after `seq`.
    pub(crate) fn before(&self, thread: ThreadId, seq: Seq) -> Option<Loaded> {
        let known = {
            let mut states = self.states.lock();
            let fits = states
                .iter()
                .enumerate()
                .filter(|(_, (of, known))| *of == thread && known.state.next_seq() <= seq.next());
            let (place, _) = fits.max_by_key(|(_, (_, known))| known.state.next_seq())?;
            let (of, known) = states.remove(place)?;
            states.push_back((of, known.clone()));
            known
        };
        Some(Loaded::clone(&known))
    }

    /// Caches the last state of a thread, and replaces the last one before it.
    pub(crate) fn keep_last(&self, thread: ThreadId, loaded: &Loaded) {
        let gone = {
            let mut states = self.states.lock();
            let is_last = |known: &Loaded| !Self::is_kept_at(known.state.next_seq());
            let place = states.iter().position(|(of, known)| *of == thread && is_last(known));
            place.and_then(|place| states.remove(place))
        };
        drop(gone);
        self.keep(thread, loaded);
    }

    pub(crate) fn keep(&self, thread: ThreadId, loaded: &Loaded) {
        if n_parts(&loaded.state) > PARTS_MAX || takes(loaded) > BYTES_MAX {
            return;
        }
        let (next, new) = (loaded.state.next_seq(), Arc::new(loaded.clone()));
        let mut gone = Vec::new();
        let mut states = self.states.lock();
        if let Some(place) = states.iter().position(|(of, known)| *of == thread && known.state.next_seq() == next) {
            gone.extend(states.remove(place));
        }
        states.push_back((thread, new));
        let mut bytes: usize = states.iter().map(|(_, known)| takes(known)).sum();
        while states.len() > STATES_MAX || bytes > BYTES_MAX {
            let Some(oldest) = states.pop_front() else { break };
            bytes -= takes(&oldest.1);
            gone.push(oldest);
        }
        drop(states);
        drop(gone);
    }
}

fn n_parts(state: &State) -> usize {
    state.conversation().entries.len() + state.variables().len() + state.n_visits()
}

/// Estimates the size of a state. States of one fold share their messages, which are counted for each of them: each may
/// be the last to refer to them.
fn takes(loaded: &Loaded) -> usize {
    loaded.bytes + n_parts(&loaded.state) * PART_BYTES
}

#[cfg(test)]
mod tests;
