//! The id of a task, which names the thread and the run.

use std::fmt;

use rethread::runs::RunId;
use rethread::{Seq, ThreadId};

use crate::serve::problem::{Kind, Problem};
use crate::serve::request;

/// Names a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskKey {
    pub(super) thread: ThreadId,
    pub(super) run: RunId,
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.thread, self.run)
    }
}

impl TaskKey {
    /// Reads the id of a task.
    pub(super) fn read(id: &str) -> Result<Self, Problem> {
        let read = || {
            let (thread, run) = id.rsplit_once('-')?;
            Some(Self { thread: thread.parse().ok()?, run: RunId(Seq(run.parse().ok()?)) })
        };
        read().filter(|key| key.to_string() == id).ok_or_else(|| no_task(id))
    }
}

/// The error for a task that is not there, or not for the caller.
pub(super) fn no_task(id: &str) -> Problem {
    Problem::new(
        Kind::NoThread,
        format!("there is no task `{}`: ListTasks lists those that there are", request::cut(id)),
    )
}

#[cfg(test)]
mod tests;
