//! Resumes paused threads with their branches.

use rethread_events::event::LimitRaised;
use rethread_events::ids::ThreadId;

use crate::error::{ControlError, ReadError};
use crate::load;
use crate::services::Services;
use crate::thread_handle::ThreadHandle;

impl ThreadHandle {
    /// Resumes the thread and the branches that run now, and raises these limits, if any are given. A budget is of a run
    /// with all its branches: it is raised where the run is, also if this thread is a branch of it, and branches that have
    /// paused because it was spent go on. More iterations are for each thread that is paused. If nothing is paused and
    /// no budget is raised, the thread itself receives the command, as [`ThreadHandle::resume`] and [`ThreadHandle::raise`]
    /// would send it. Costs a fold of each of them.
    ///
    /// # Errors
    /// `Rejected` if a thread has ended, or is not paused and no limits are given. Threads that received the command
    /// before that one are resumed.
    pub async fn resume_tree(&self, raised: LimitRaised) -> Result<(), ControlError> {
        let LimitRaised { iterations, .. } = raised;
        let budget = LimitRaised { iterations: None, ..raised.clone() };
        let (services, id) = (self.runtime().services().clone(), self.id());
        let mut told = self.runtime().blocking(move || paused(&services, id)).await??;
        if told.is_empty() {
            told.push(id);
        }
        if budget != LimitRaised::default() {
            let services = self.runtime().services().clone();
            let of_run = self.runtime().blocking(move || with_budget(&services, id)).await??;
            let iterations = iterations.filter(|_| told.contains(&of_run));
            self.sibling(of_run).raise(LimitRaised { iterations, ..budget }).await?;
            // Branches that paused for the budget have resumed with it, and those that a person paused have not.
            told.retain(|member| raised.iterations.is_some() && *member != of_run);
        }
        for member in told {
            let member = self.sibling(member);
            match iterations {
                None => member.resume().await?,
                Some(_) => member.raise(LimitRaised { iterations, ..LimitRaised::default() }).await?,
            }
        }
        Ok(())
    }
}

/// Returns the thread whose run has the budget that a thread spends: itself, or the one whose branch it is. Blocks.
fn with_budget(services: &Services, thread: ThreadId) -> Result<ThreadId, ReadError> {
    let state = |thread| services.crashes.folding(thread, || load::present(&*services.store, thread));
    let mut member = thread;
    while let Some((owner, _)) = state(member)?.state.branch().and_then(|branch| branch.owner) {
        if state(owner)?.state.budget().is_none() {
            break;
        }
        member = owner;
    }
    Ok(member)
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
