//! A cache of the states from which threads fork off, folded once for all branches of a fork.

use std::sync::Arc;

use parking_lot::Mutex;
use rethread_events::ids::{Seq, ThreadId, TraceId};
use rethread_events::thread::State;
use rethread_store::LogReader;

use crate::crashes::Crashes;
use crate::error::ReadError;
use crate::load;

/// How many moments are kept.
const BASES_MAX: usize = 16;

/// A cache of the states from which branches fork off, folded once for all branches of a fork.
#[derive(Default)]
pub(crate) struct ForkBaseCache {
    recent: Mutex<Vec<Arc<Base>>>,
}

/// A moment of a thread.
pub(crate) struct Base {
    key: (ThreadId, Seq),
    pub(crate) state: Arc<State>,
    pub(crate) trace: TraceId,
}

impl ForkBaseCache {
    /// Blocks when the moment is not among the recent ones.
    pub(crate) fn at(
        &self,
        store: &dyn LogReader,
        crashes: &Arc<Crashes>,
        key: (ThreadId, Seq),
    ) -> Result<Arc<Base>, ReadError> {
        if let Some(base) = self.recent.lock().iter().find(|base| base.key == key) {
            return Ok(base.clone());
        }
        let (thread, seq) = key;
        let fold = || load::as_recorded(store, load::at(store, thread, seq)?.state);
        let state = crashes.folding(thread, fold)?;
        let record = store.record(thread, seq)?;
        let trace = record.map_or_else(|| thread.into(), |record| record.trace);
        let base = Arc::new(Base { key, state: Arc::new(state), trace });
        let mut recent = self.recent.lock();
        if recent.len() >= BASES_MAX {
            recent.remove(0);
        }
        recent.push(base.clone());
        Ok(base)
    }
}
