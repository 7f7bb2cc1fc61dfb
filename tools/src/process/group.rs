//! A process group, killed whole.

use std::time::Duration;

use rethread_events::fault::{ErrorKind, ExecutionError};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::Child;

use super::guard;
use crate::command::Sandbox;

/// How often to check whether the leader has ended.
const POLL_FIRST: Duration = Duration::from_micros(500);
const POLL_MAX: Duration = Duration::from_millis(20);
const POLL_LONG: Duration = Duration::from_millis(100);

/// How long the processes of a sandbox that was killed are waited for.
const GONE_MAX: Duration = Duration::from_secs(2);

/// The process group of a child that leads it, with its sandbox where it has one. Dropping it kills the group, unless
/// that has been done.
///
/// A process number is only safe to signal as long as the process has not been waited for, since the system may give
/// it to another. So code that waits for the child must call [`Group::kill`] first.
pub(crate) struct Group {
    leader: Pid,
    is_killed: bool,
    /// Whether it is registered to be ended if this process is killed.
    is_guarded: bool,
    sandbox: Option<Sandbox>,
}

impl Group {
    pub(crate) fn of(child: &Child) -> Result<Self, ExecutionError> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        match id {
            Some(leader) => Ok(Self { leader, is_killed: false, is_guarded: false, sandbox: None }),
            None => Err(ExecutionError::new(ErrorKind::Internal, "the command has no process number")),
        }
    }

    /// As above, for a group that does not end by itself with this process: it is ended also if this process is killed.
    pub(crate) fn guarded(child: &Child) -> Result<Self, ExecutionError> {
        let mut group = Self::of(child)?;
        group.is_guarded = true;
        guard::add(group.leader);
        Ok(group)
    }

    /// As above, for a leader that runs a sandbox, which ends with it.
    #[cfg(all(feature = "sandbox", target_os = "linux"))]
    pub(crate) fn with(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }

    /// Returns once the leader has ended, and leaves it to be waited for.
    pub(crate) async fn leader_ended(&self) {
        ended(self.leader, POLL_MAX).await;
    }

    /// As above, for a task that waits for long: the end is noticed within a tenth of a second.
    pub(crate) fn leader_ends(&self) -> impl Future<Output = ()> + Send + use<> {
        ended(self.leader, POLL_LONG)
    }

    /// Asks every process of the group to end.
    pub(crate) fn terminate(&self) {
        if let Some(sandbox) = &self.sandbox {
            // The leader would end at once, and take the others with it.
            return sandbox.terminate();
        }
        // An error means that the group has ended.
        let _ = kill_process_group(self.leader, Signal::TERM);
    }

    /// Ends every process of the group. Does nothing the second time.
    pub(crate) fn kill(&mut self) {
        if !std::mem::replace(&mut self.is_killed, true) {
            let _ = kill_process_group(self.leader, Signal::KILL);
            if self.is_guarded {
                guard::remove(self.leader);
            }
            self.sandbox.iter().for_each(Sandbox::kill);
        }
    }

    /// Returns once no process is left of the sandbox that was killed, where there is one.
    pub(crate) async fn wait_until_gone(&self) {
        if let Some(sandbox) = &self.sandbox {
            let gone = async {
                let mut pause = POLL_FIRST;
                while !sandbox.is_gone() {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(POLL_MAX);
                }
            };
            if tokio::time::timeout(GONE_MAX, gone).await.is_err() {
                tracing::warn!("a process of a sandbox was killed and has not ended");
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn ended(leader: Pid, pause_max: Duration) {
    let mut pause = POLL_FIRST;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    // An error means that there is no such child any more.
    while let Ok(None) = waitid(WaitId::Pid(leader), options) {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(pause_max);
    }
}

/// Kills the group of a process that is no child of this one. Says whether there was one.
pub(super) fn kill_by_number(pid: u32) -> bool {
    let leader = i32::try_from(pid).ok().and_then(Pid::from_raw);
    leader.is_some_and(|leader| kill_process_group(leader, Signal::KILL).is_ok())
}
