//! A new thread that goes on from a moment of another.

pub(crate) mod fits;

use std::sync::Arc;

use rethread_events::event::ForkChanges;
use rethread_events::ids::{Position, Seq};
use rethread_events::thread::Fork;
use rethread_events::workflow::{Fault, Faults, Workflow};
use tokio::sync::oneshot;

use crate::error::RuntimeError;
use crate::family::replacements;
use crate::inner::Inner;
use crate::thread_actor::Begin;
use crate::thread_handle::ThreadHandle;

/// What a fork is made of.
#[derive(Debug, Clone, Default)]
pub struct ForkRequest {
    /// The last seq that is inherited; the thread's last one when absent.
    pub at: Option<Seq>,
    /// What is different from there on.
    pub changes: ForkChanges,
    /// The definition to go on with; the parent's when absent.
    pub workflow: Option<Arc<Workflow>>,
}

impl ThreadHandle {
    /// The definition that it runs on, or ran on at the moment of its event `at`.
    pub async fn definition(&self, at: Option<Seq>) -> Result<Arc<Workflow>, RuntimeError> {
        let (state, id, inner) = (self.load(at).await?.state, self.id(), self.runtime().inner().clone());
        self.runtime().blocking(move || inner.definitions.of(id, &state)).await?
    }

    /// Starts a new thread that goes on from a moment of this one. Calls that were open at that moment are treated as
    /// after a crash: what may be repeated is asked again, what may not ends as indeterminate.
    pub async fn fork(&self, fork: ForkRequest) -> Result<Self, RuntimeError> {
        let runtime = self.runtime();
        let inner = runtime.inner();
        let at = match fork.at {
            Some(at) => at,
            None => self.info().await?.last_seq,
        };
        for value in fork.changes.variables.values() {
            runtime.fits("a variable", &value.0)?;
        }
        let loaded = self.load(Some(at)).await?;
        let parent = loaded.state;
        let mut changes = fork.changes;
        let workflow = match fork.workflow {
            Some(workflow) => {
                runtime.keep(&workflow).await?;
                fits::check(&parent, &workflow).map_err(RuntimeError::Workflow)?;
                changes.workflow = Some(workflow.reference());
                workflow
            }
            None => {
                let (inner, parent, id) = (inner.clone(), parent.clone(), self.id());
                runtime.blocking(move || inner.definitions.of(id, &parent)).await??
            }
        };
        for node in changes.prompts.keys() {
            if !workflow.has_node(&node.as_str().into()) {
                let fault = Fault::new(format!("prompts.{node}"), format!("the workflow has no node `{node}`"));
                return Err(RuntimeError::Workflow(Faults::one(fault)));
            }
        }
        if let Some(profile) = &changes.profile
            && !inner.models.profiles().contains(profile.as_str())
        {
            let fault = Fault::new("profile", format!("there is no profile `{profile}`"));
            return Err(RuntimeError::Workflow(Faults::one(fault)));
        }
        let branches = {
            let (inner, parent, cut) = (inner.clone(), parent.clone(), loaded.last_position);
            let moves_to = changes.workflow.is_some().then(|| workflow.clone());
            runtime
                .blocking(move || replacements(&*inner.store, &parent, Position(cut.0 + 1), moves_to.as_deref()))
                .await??
        };
        let id = Inner::new_thread_id();
        let (reply, answer) = oneshot::channel();
        let fork = Fork { changes, branch: None, branches };
        inner.begin(id, Begin::Fork { parent: Arc::new(parent), fork, workflow, trace: None, reply })?;
        answer.await.map_err(|_| RuntimeError::ActorStopped(id))??;
        Ok(runtime.thread(id))
    }
}
