//! Waits of calls for concurrency permits. They are no part of a call's time, and are not recorded: only the process
//! that makes a call knows them.

use crate::ids::{CallId, Time};

/// How long an attempt at a call has waited for concurrency permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermitWait {
    /// It waits now: its time does not run.
    Waiting,
    /// It does not wait.
    Waited {
        /// All of its waits, in milliseconds.
        ms: u64,
    },
}

/// Informs the machine how long calls have waited for permits.
pub trait Permits {
    /// The waits of this attempt at a call. A call that does not run here has not waited.
    fn wait(&self, call: CallId, attempt: u32) -> PermitWait;
}

/// No call waits for a permit.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWaits;

impl Permits for NoWaits {
    fn wait(&self, _call: CallId, _attempt: u32) -> PermitWait {
        PermitWait::Waited { ms: 0 }
    }
}

impl dyn Permits + '_ {
    /// A deadline of a call, moved by its waits. `None` while it waits.
    pub(super) fn moved(&self, call: CallId, attempt: u32, deadline: Time) -> Option<Time> {
        match self.wait(call, attempt) {
            PermitWait::Waiting => None,
            PermitWait::Waited { ms } => Some(deadline.plus_ms(ms)),
        }
    }
}

/// Follows the waits of one attempt at a call. Its methods are called from the task of the call and must not block.
pub trait PermitObserver: Send + Sync {
    /// The call begins to wait for a permit.
    fn wait_begins(&self);

    /// The call has its permit, or will get none.
    fn wait_ends(&self);

    /// All waits that have ended, in milliseconds.
    fn waited_ms(&self) -> u64;
}
