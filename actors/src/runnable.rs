//! Which definitions can run here, so that a start does not check its definition each time.

use std::collections::HashSet;

use parking_lot::Mutex;
use rethread_events::ids::Hash;

/// The definitions that can run with the present tools: what else a definition needs does not change while a runtime runs.
#[derive(Debug, Default)]
pub(crate) struct Runnable(Mutex<(u64, HashSet<Hash>)>);

/// The most definitions that are remembered as runnable.
const RUNNABLE_MAX: usize = 1_000;

impl Runnable {
    pub(crate) fn has(&self, tools_version: u64, workflow: Hash) -> bool {
        let known = self.0.lock();
        known.0 == tools_version && known.1.contains(&workflow)
    }

    pub(crate) fn add(&self, tools_version: u64, workflow: Hash) {
        let mut known = self.0.lock();
        if known.0 != tools_version || known.1.len() >= RUNNABLE_MAX {
            *known = (tools_version, HashSet::new());
        }
        known.1.insert(workflow);
    }
}
