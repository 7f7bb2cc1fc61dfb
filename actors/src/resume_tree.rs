//! Threads that are paused go on, with their branches.

use rethread_events::event::LimitRaised;
use rethread_events::ids::ThreadId;

use crate::error::{ControlError, ReadError};
use crate::load;
use crate::services::Services;
use crate::thread_handle::ThreadHandle;

impl ThreadHandle {
    /// Ends the pauses of the thread and of the branches that run now, with these limits raised in each, where any are
    /// given. If nothing is paused, the thread itself gets the command, as [`ThreadHandle::resume`] and
    /// [`ThreadHandle::raise`] would. Costs a fold of each of them.
    ///
    /// # Errors
    /// `Rejected` when a thread has ended, or is not paused and no limits are given. Those that were told before the
    /// one that refused go on.
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

/// Which of a thread and the branches that run now are paused of themselves. Blocks.
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
            // Its branches are paused and go on with it.
            found.push(member);
        } else {
            todo.extend(state.running_branches().map(|run| run.child));
        }
    }
    Ok(found)
}
