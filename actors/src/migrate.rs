//! Migration of threads to another definition in place.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use rethread_events::ids::{Seq, ThreadId};
use rethread_events::thread::{Input, Rejected, State, Status};
use rethread_events::workflow::{Workflow, WorkflowRef};

use crate::clock;
use crate::definitions;
use crate::error::{ControlError, MigrateError, ReadError};
use crate::runtime::Runtime;
use crate::thread_handle::ThreadHandle;
use crate::thread_list::ThreadFilter;

/// How many threads are migrated at a time: their appends share a flush.
const AT_ONCE: usize = 64;

/// The fewest digits that identify a hash.
const DIGITS_MIN: usize = 8;

/// The migration of threads that have not ended to a definition.
#[derive(Debug, Clone)]
pub struct Migration {
    /// The definition to continue with.
    pub workflow: Arc<Workflow>,
    /// Only threads that run on a workflow of this name, or on the definition whose hash begins with these digits, at least
    /// 8. All threads when absent.
    pub from: Option<String>,
    /// Only check, and change nothing.
    pub dry_run: bool,
}

impl From<Arc<Workflow>> for Migration {
    fn from(workflow: Arc<Workflow>) -> Self {
        Self { workflow, from: None, dry_run: false }
    }
}

impl From<Workflow> for Migration {
    fn from(workflow: Workflow) -> Self {
        Arc::new(workflow).into()
    }
}

impl Migration {
    fn is_from(&self, present: &WorkflowRef) -> bool {
        self.from.as_ref().is_none_or(|from| {
            present.name == *from || (from.len() >= DIGITS_MIN && present.hash.to_string().starts_with(from.as_str()))
        })
    }
}

/// The result of the migration of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrated {
    /// The thread runs on the definition since this event, which is durable.
    Moved(Seq),
    /// It can be migrated; nothing was changed in a dry run.
    Fits,
    /// It runs on the definition already.
    Same,
    /// It runs on another definition than [`Migration::from`] names.
    Other,
}

impl Migrated {
    /// Its name, as it appears in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Moved(_) => "moved",
            Self::Fits => "fits",
            Self::Same => "same",
            Self::Other => "other",
        }
    }
}

/// A thread of [`Runtime::migrate`].
#[derive(Debug, Clone)]
pub struct MigratedThread {
    /// The thread.
    pub thread_id: ThreadId,
    /// The result for it.
    pub result: Result<Migrated, MigrateError>,
}

impl ThreadHandle {
    /// Migrates the thread and its running branches to another definition in place, recorded in each as WORKFLOW_CHANGED.
    /// What is open (a question, a wait, a retry) continues with its recorded request; what begins later follows the new
    /// definition. All members of the family are checked before one is changed, and a branch that continues meanwhile is
    /// moved by the next migration. The same definition again changes nothing. To undo it, fork the thread at the event
    /// before. Costs a fold of each member.
    ///
    /// # Errors
    /// `Workflow` if the definition needs something that this runtime lacks. `Rejected` if the thread has ended, if part of
    /// it or of a branch is running, if it is a branch itself, or if one of them cannot continue with the definition from
    /// its current node.
    pub async fn migrate(&self, migration: impl Into<Migration>) -> Result<Migrated, MigrateError> {
        let migration = migration.into();
        self.runtime().runnable(&migration.workflow).map_err(MigrateError::Workflow)?;
        self.migrate_to(&migration).await
    }

    /// As `migrate`, with a definition that was checked.
    async fn migrate_to(&self, migration: &Migration) -> Result<Migrated, MigrateError> {
        let workflow = &migration.workflow;
        let state = self.state().await?;
        if let Some((owner, _)) = state.branch().and_then(|branch| branch.owner) {
            return Err(ControlError::rejected(self.id(), Rejected::Branch { owner }).into());
        }
        let present = state.workflow().ok_or(ReadError::NoThread(self.id()))?;
        let is_same = present.hash == workflow.hash();
        if !is_same && !migration.is_from(present) {
            return Ok(Migrated::Other);
        }
        // Each thread checks it again. This check changes none if one does not fit, and activates none for that.
        let check = |state: &State| {
            let checked = state.can_migrate(workflow, clock::now());
            checked.map_err(|rejected| ControlError::rejected(state.thread(), rejected))
        };
        if !is_same {
            check(&state)?;
        }
        let branches = self.branches_on_others(state, workflow).await?;
        branches.iter().try_for_each(check)?;
        if migration.dry_run {
            return Ok(if is_same && branches.is_empty() { Migrated::Same } else { Migrated::Fits });
        }
        let seq = self.move_to(workflow).await?;
        // A fork of the thread before its event has all of the family on the old definition: branches follow it.
        for branch in self.branches_on_others(self.state().await?, workflow).await? {
            self.sibling(branch.thread()).move_to(workflow).await?;
        }
        Ok(seq.map_or(Migrated::Same, Migrated::Moved))
    }

    /// Returns the running branches of a thread, and theirs, that are on another definition.
    async fn branches_on_others(&self, of: State, workflow: &Workflow) -> Result<Vec<State>, ReadError> {
        let (mut todo, mut found) = (vec![of], Vec::new());
        while let Some(member) = todo.pop() {
            for run in member.running_branches() {
                match self.sibling(run.child).state().await {
                    Ok(state) if !state.is_ended() => todo.push(state),
                    // Its end is on its way to its parent.
                    Ok(_) => {}
                    // It begins on the definition of its parent.
                    Err(ReadError::NoThread(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            let is_other = |reference: &WorkflowRef| reference.hash != workflow.hash();
            if member.thread() != self.id() && member.workflow().is_some_and(is_other) {
                found.push(member);
            }
        }
        Ok(found)
    }

    /// Changes the definition of this thread alone. Returns the event; `None` if it has the definition already.
    async fn move_to(&self, workflow: &Arc<Workflow>) -> Result<Option<Seq>, MigrateError> {
        let runtime = self.runtime();
        let held = runtime.keep(workflow).await?;
        let (store, (name, value)) = (runtime.store().clone(), definitions::of_run(workflow.hash(), self.id()));
        runtime.blocking(move || store.put_value(&name, &value)).await??;
        let result = self.send_input(Input::Migrate(workflow.clone())).await;
        drop(held);
        Ok(result?)
    }
}

impl Runtime {
    /// Migrates the threads of a filter, as [`ThreadHandle::migrate`] does, and passes each of them to `each`, in no
    /// particular order. Without a status in the filter these are all that have not ended. Branches move with their
    /// parents; threads that end meanwhile are left out. Threads that were migrated before a crash or an error stay migrated: call this
    /// again, and they are `Same`. Costs a fold of each thread.
    ///
    /// # Errors
    /// `Workflow` if the definition needs something that this runtime lacks; the errors of the list of threads. An
    /// error of one thread is in its result.
    pub async fn migrate(
        &self,
        mut filter: ThreadFilter,
        migration: Migration,
        mut each: impl FnMut(MigratedThread),
    ) -> Result<(), MigrateError> {
        self.runnable(&migration.workflow).map_err(MigrateError::Workflow)?;
        if filter.status.is_empty() {
            filter.status = Status::ALL.into_iter().filter(|status| !status.is_ended()).collect();
        }
        let threads = self.threads(filter).await?;
        let wanted = threads.into_iter().filter(|thread| thread.branch_of.is_none());
        let migration = &migration;
        let all = stream::iter(wanted.map(|thread| async move {
            let thread = self.thread(thread.thread_id);
            MigratedThread { thread_id: thread.id(), result: thread.migrate_to(migration).await }
        }));
        let mut all = std::pin::pin!(all.buffer_unordered(AT_ONCE));
        while let Some(thread) = all.next().await {
            if !has_ended(&thread) {
                each(thread);
            }
        }
        Ok(())
    }
}

fn has_ended(thread: &MigratedThread) -> bool {
    let rejected = thread.result.as_ref().err().and_then(MigrateError::rejected);
    matches!(rejected, Some(Rejected::Ended { .. }))
}
