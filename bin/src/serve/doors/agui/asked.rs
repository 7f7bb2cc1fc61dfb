//! A request that is about a thread, and the run that it leads to.

use std::sync::Arc;

use rethread::runs::RunId;
use rethread::{Position, Seq, State, ThreadHandle, Workflow};
use rethread_events::trace_context::TraceParent;

use super::input::Input;
use crate::serve::doors::following::{Inside, Run};
use crate::serve::problem::{Kind, Problem};
use crate::serve::server::Shared;

/// A run that was begun.
pub(super) struct Begun {
    pub(super) run: Run,
    /// The state before its first event; `None` if that is the first of the thread.
    pub(super) before: Option<State>,
    /// What sub-agents did up to this position was told in a stream before.
    pub(super) after: Option<Position>,
    pub(super) warnings: Vec<String>,
}

/// A request, and the thread that it is about.
pub(super) struct Asked {
    pub(super) server: Shared,
    pub(super) workflow: Arc<Workflow>,
    pub(super) thread: ThreadHandle,
    pub(super) input: Input,
    /// The span of the client.
    pub(super) caller: Option<TraceParent>,
}

impl Asked {
    /// Follows a run from its first event on.
    pub(super) async fn follow(self, id: RunId, from: Seq) -> Result<Begun, Problem> {
        let before = match from.0.checked_sub(1) {
            Some(last) => Some(self.thread.state_at(Seq(last)).await?),
            None => None,
        };
        self.follow_from(id, from, before, None).await
    }

    /// Follows a run from an event on. `before` is the state before it, and what sub-agents did up to `after` was told.
    pub(super) async fn follow_from(
        self,
        id: RunId,
        from: Seq,
        before: Option<State>,
        after: Option<Position>,
    ) -> Result<Begun, Problem> {
        let Self { server, mut workflow, thread, input, caller: _ } = self;
        // A run in progress keeps to its own definition.
        if let Some(on) = before.as_ref().filter(|before| before.run_id() == id && !before.is_ended())
            && let Some(on) = on.workflow()
            && on.hash != workflow.hash()
        {
            let found = server.runtime.workflow(on.hash).await?;
            workflow = found.ok_or_else(|| Problem::new(Kind::NoWorkflow, "the log has no definition of this run"))?;
        }
        let run = Run { thread, id, from, inside: Inside::default(), workflow };
        Ok(Begun { run, before, after, warnings: input.warnings })
    }
}
