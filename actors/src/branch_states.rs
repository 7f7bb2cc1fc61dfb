//! One value in memory for each branch of a thread: its state. The branch writes it, its parent reads it.
//!
//! Both do so under one lock and without messages, so that a parent never takes a branch that has begun to run again
//! for one that is at rest. If a value is absent, the parent asks the branch, or reads the log.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rethread_events::event::LimitRaised;
use rethread_events::ids::{Position, ThreadId};
use rethread_events::thread::{State, Totals};

/// The state of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BranchState {
    /// It has something to do, or one of its own branches has.
    Runs,
    /// It waits for a person, or was paused by itself; so do its own branches.
    Rests,
    /// It waits for a time; so do its own branches.
    Suspended,
    /// It was paused because its parent was, and has not recorded yet that its parent is resumed.
    PausedWithParent,
    /// It was returned to the log after an error, and does not resume by itself.
    PutBack,
}

/// The threads in memory that have branches.
#[derive(Default)]
pub(crate) struct BranchStates {
    families: Mutex<HashMap<ThreadId, Family>>,
    next_number: AtomicU64,
}

struct Family {
    /// Distinguishes the families of one thread: its machine may be dropped and loaded again.
    number: u64,
    /// The thread whose branch this one is.
    parent: Option<ThreadId>,
    is_paused: bool,
    branches: HashMap<ThreadId, Option<BranchState>>,
}

impl BranchStates {
    /// Begins to watch branches of a thread, until the result is dropped.
    pub(crate) fn watch(self: &Arc<Self>, thread: ThreadId, parent: Option<ThreadId>) -> Watch {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let family = Family { number, parent, is_paused: false, branches: HashMap::new() };
        self.families.lock().insert(thread, family);
        Watch { states: self.clone(), thread, number }
    }

    /// Writes the state of a branch. Returns whether its parent watches it and had another value: then the parent must
    /// be notified.
    ///
    /// If the branch runs, its ancestors do not count as at rest either, until each has found out what it waits for.
    pub(crate) fn set(&self, parent: ThreadId, branch: ThreadId, state: BranchState) -> bool {
        let mut families = self.families.lock();
        let is_new = set(&mut families, parent, branch, state);
        let (mut above, mut is_changed) = (parent, is_new && state == BranchState::Runs);
        while is_changed && let Some(next) = families.get(&above).and_then(|family| family.parent) {
            is_changed = set(&mut families, next, above, state);
            above = next;
        }
        is_new
    }

    /// As [`BranchStates::set`], for a state read from the log: ignored if the branch has written one since.
    pub(crate) fn set_if_unknown(&self, parent: ThreadId, branch: ThreadId, state: BranchState) -> bool {
        let mut families = self.families.lock();
        let known = families.get(&parent).and_then(|family| family.branches.get(&branch));
        known.is_some_and(Option::is_none) && set(&mut families, parent, branch, state)
    }

    /// Returns whether the parent of a branch is paused. `None` when it is not in memory, or does not watch the branch.
    pub(crate) fn is_parent_paused(&self, parent: ThreadId, branch: ThreadId) -> Option<bool> {
        let families = self.families.lock();
        families.get(&parent).filter(|family| family.branches.contains_key(&branch)).map(|family| family.is_paused)
    }
}

fn set(families: &mut HashMap<ThreadId, Family>, parent: ThreadId, branch: ThreadId, state: BranchState) -> bool {
    let known = families.get_mut(&parent).and_then(|family| family.branches.get_mut(&branch));
    known.is_some_and(|known| known.replace(state) != Some(state))
}

/// A thread's watch over its branches.
pub(crate) struct Watch {
    states: Arc<BranchStates>,
    thread: ThreadId,
    number: u64,
}

impl Watch {
    fn with<T>(&self, act: impl FnOnce(&mut Family) -> T) -> Option<T> {
        self.states.families.lock().get_mut(&self.thread).filter(|family| family.number == self.number).map(act)
    }

    /// Watches this branch. Returns whether its state must be found first: it was not watched, or was returned to the
    /// log.
    pub(crate) fn add(&self, branch: ThreadId) -> bool {
        let add = |family: &mut Family| match family.branches.insert(branch, None) {
            None | Some(Some(BranchState::PutBack)) => true,
            Some(known) => {
                family.branches.insert(branch, known);
                false
            }
        };
        self.with(add).unwrap_or(false)
    }

    /// Returns whether this branch is watched: it was begun, or is about to begin.
    pub(crate) fn has(&self, branch: ThreadId) -> bool {
        self.with(|family| family.branches.contains_key(&branch)).unwrap_or(false)
    }

    /// Stops watching all other branches.
    pub(crate) fn keep<I: Iterator<Item = ThreadId>>(&self, branches: impl Fn() -> I) {
        self.with(|family| {
            if family.branches.len() > branches().count() {
                let branches: HashSet<_> = branches().collect();
                family.branches.retain(|branch, _| branches.contains(branch));
            }
        });
    }

    /// Records that the thread is paused or resumed: no branch counts as at rest before it has recorded the pause or
    /// resume.
    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.with(|family| {
            family.is_paused = is_paused;
            family
                .branches
                .values_mut()
                .filter(|state| **state != Some(BranchState::PutBack))
                .for_each(|it| *it = None);
        });
    }

    /// Returns what these branches wait for, if there are any and none of them runs: `Rests` if one of them does,
    /// `Suspended` if all are.
    pub(crate) fn rest(&self, mut branches: impl Iterator<Item = ThreadId>) -> Option<BranchState> {
        let rest = |family: &mut Family| {
            branches.try_fold(None, |rest, branch| match family.branches.get(&branch) {
                Some(Some(BranchState::Rests)) => Some(Some(BranchState::Rests)),
                Some(Some(BranchState::Suspended)) => Some(rest.or(Some(BranchState::Suspended))),
                _ => None,
            })
        };
        self.with(rest)??
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut families = self.states.families.lock();
        if families.get(&self.thread).is_some_and(|family| family.number == self.number) {
            families.remove(&self.thread);
        }
    }
}

/// What a branch has spent and may spend, for its parent.
pub(crate) struct BranchBudget {
    pub(crate) index: u32,
    pub(crate) branch: ThreadId,
    /// What it has spent, and its last event; `None` while that is not durable.
    pub(crate) spent: Option<(Totals, Position)>,
    pub(crate) state: State,
}

/// What a branch and its parent have to learn from each other.
pub(crate) struct BudgetNews {
    /// What the branch has spent, and its last event, if the parent has not counted all of it.
    pub(crate) spent: Option<(Totals, Position)>,
    /// The limits of the branch, if they change what it may do.
    pub(crate) left: Option<LimitRaised>,
}

/// Compares the budgets of a parent and a branch; `None` if the branch is not one that runs.
pub(crate) fn news_of(parent: &State, of: &BranchBudget) -> Option<BudgetNews> {
    let run = parent.branch_run(of.index).filter(|run| run.child == of.branch)?;
    let spent = of.spent.filter(|(totals, _)| totals.is_beyond(&run.spent));
    Some(BudgetNews { spent, left: parent.left_for(run).filter(|left| of.state.would_take(left)) })
}

#[cfg(test)]
mod tests;
