//! Resumes paused threads with their branches.

use rethread_events::event::LimitRaised;
use rethread_events::ids::ThreadId;

use crate::error::{ControlError, ReadError};
use crate::load;
use crate::services::Services;
use crate::thread_handle::ThreadHandle;

impl ThreadHandle {
    /// Resumes the thread and the branches that run now, and raises these limits in each, if any are given. If nothing
    /// is paused, the thread itself receives the command, as [`ThreadHandle::resume`] and [`ThreadHandle::raise`] would
    /// send it. Costs a fold of each of them.
    ///
    /// # Errors
    /// `Rejected` if a thread has ended, or is not paused and no limits are given. Threads that received the command
    /// before that one are resumed.
    pub async fn resume_tree(&self, raised: LimitRaised) -> Result<(), ControlError> {
        let (services, id) = (self.runtime().services().clone(), self.id());
        let mut told = self.runtime().blocking(move || paused(&services, id)).await??;
        if told.is_empty() {
            told.push(id);
        }
        for member in told {
            let member = self.sibling(member);
            if raised == LimitRaised::default() {
                member.resume().await?;
            } else {
                member.raise(raised.clone()).await?;
            }
        }
        Ok(())
    }
}

/// Returns which of a thread and its running branches were paused by a command of their own. Blocks.
fn paused(services: &Services, thread: ThreadId) -> Result<Vec<ThreadId>, ReadError> {
    let (mut found, mut todo) = (Vec::new(), vec![thread]);
    while let Some(member) = todo.pop() {
        let state = match services.crashes.folding(member, || load::present(&*services.store, member)) {
            Ok(loaded) => loaded.state,
            // A branch that has not begun.
            Err(ReadError::NoThread(_)) if member != thread => continue,
            Err(error) => return Err(error),
        };
        if state.is_paused() {
            // Its branches are paused and resume with it.
            found.push(member);
        } else {
            todo.extend(state.running_branches().map(|run| run.child));
        }
    }
    Ok(found)
}
