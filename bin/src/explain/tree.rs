//! A thread and its branches, each with what it did.

use std::collections::{BTreeMap, VecDeque};

use futures::future::BoxFuture;
use rethread::errors::ReadError;
use rethread::runs::RunId;
use rethread::steps::Steps;
use rethread::steps::{Call, CallKind, NodeResult};
use rethread::{Runtime, ThreadId};

use crate::views::BranchSteps;

/// How many branches are read. The rest is counted.
const BRANCHES_MAX: usize = 1_000;
/// How deep branches inside of branches are read.
const DEPTH_MAX: usize = 32;

/// The steps of a thread and its branches.
pub(crate) struct ExplainedThread {
    pub(crate) thread: ThreadId,
    /// The run that the steps are of, if not all of the thread's.
    pub(crate) run: Option<RunId>,
    pub(crate) steps: Steps,
    /// Its branches, by thread.
    pub(crate) branches: BTreeMap<ThreadId, ExplainedThread>,
    /// Branches that were not read, of it and of its branches.
    pub(crate) n_left_out: usize,
}

/// Returns the steps of a thread, and reads the branches that these steps name, as they are now. Keeps a bounded part
/// of each.
pub(crate) async fn of(runtime: &Runtime, thread: ThreadId, steps: Steps) -> Result<ExplainedThread, ReadError> {
    let mut n_left = BRANCHES_MAX;
    below(runtime, thread, steps, &mut n_left, DEPTH_MAX).await
}

fn below<'a>(
    runtime: &'a Runtime,
    thread: ThreadId,
    steps: Steps,
    n_left: &'a mut usize,
    depth_left: usize,
) -> BoxFuture<'a, Result<ExplainedThread, ReadError>> {
    Box::pin(async move {
        let children: Vec<_> = steps.results().flat_map(NodeResult::calls).filter_map(|call| call.thread).collect();
        let mut explained = ExplainedThread { thread, run: None, steps, branches: BTreeMap::new(), n_left_out: 0 };
        for child in children {
            if *n_left == 0 || depth_left == 0 {
                explained.n_left_out += 1;
                continue;
            }
            *n_left -= 1;
            match runtime.thread(child).steps().await {
                Ok(steps) => {
                    let branch = below(runtime, child, steps, n_left, depth_left - 1).await?;
                    explained.n_left_out += branch.n_left_out;
                    explained.branches.insert(child, branch);
                }
                // It never began, or was deleted.
                Err(ReadError::NoThread(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(explained)
    })
}

impl ExplainedThread {
    /// The thread that a call runs in, where it is a branch that was read.
    pub(crate) fn branch(&self, call: &Call) -> Option<&Self> {
        self.branches.get(&call.thread?).filter(|_| call.kind == CallKind::Branch)
    }

    /// It and all below it, itself first.
    pub(crate) fn family(&self) -> Vec<&Self> {
        let mut family = vec![self];
        let mut next = 0;
        while let Some(explained) = family.get(next).copied() {
            family.extend(explained.branches.values());
            next += 1;
        }
        family
    }

    /// Returns its steps, and those of its branches and their branches.
    pub(crate) fn into_steps(self) -> (Steps, Vec<BranchSteps>) {
        let (mut todo, mut branches) = (VecDeque::from_iter(self.branches.into_values()), Vec::new());
        while let Some(explained) = todo.pop_front() {
            branches.push(BranchSteps { thread_id: explained.thread, steps: explained.steps });
            todo.extend(explained.branches.into_values());
        }
        (self.steps, branches)
    }
}
