//! The sub-agents of a stream. Each is a thread of its own, and what it does is told while it does it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::task::{Context, Poll};

use rethread::errors::ReadError;
use rethread::operate::LogAccess as _;
use rethread::store::StoreError;
use rethread::{CallId, Position, Seq, ThreadHandle, ThreadId, Workflow};

use super::subagent::Subagent;
use super::translate::Piece;
use crate::serve::doors::following::Folding;
use crate::serve::idempotency::blocking;
use crate::serve::problem::Problem;
use crate::serve::server::Shared;

/// The most sub-agents of a stream that are followed while they work. What others do is told when they end, or when the
/// stream does.
const FOLLOWED_MAX: usize = 64;

/// The sub-agents that have begun and not ended.
pub(super) struct Subagents {
    server: Shared,
    /// The thread of the run.
    thread: ThreadHandle,
    workflow: Arc<Workflow>,
    /// What they did up to this position was told in a stream before.
    after: Option<Position>,
    active: BTreeMap<ThreadId, Active>,
    /// The one that was told about last.
    last: ThreadId,
}

#[derive(Default)]
struct Active {
    /// `None` until it is followed.
    folding: Option<Folding<Piece>>,
    /// Whether its events cannot be read.
    has_failed: bool,
    /// How far it is told before the stream goes on.
    target: Option<Position>,
    /// Whether it was told up to its present end.
    is_told: bool,
}

impl Active {
    /// Whether it has events that can be told.
    fn following(&mut self) -> Option<&mut Folding<Piece>> {
        let has_failed = self.has_failed;
        self.folding.as_mut().filter(|folding| !has_failed && !folding.is_over())
    }

    fn fail(&mut self, thread: ThreadId, problem: &Problem) {
        tracing::info!(%problem, %thread, "a sub-agent is not emitted");
        self.has_failed = true;
    }
}

impl Subagents {
    pub(super) fn new(
        server: &Shared,
        thread: &ThreadHandle,
        workflow: &Arc<Workflow>,
        after: Option<Position>,
    ) -> Self {
        Self {
            server: server.clone(),
            thread: thread.clone(),
            workflow: workflow.clone(),
            after,
            active: BTreeMap::new(),
            last: ThreadId::from_bytes([0; 16]),
        }
    }

    /// A sub-agent has begun.
    pub(super) fn begin(&mut self, child: ThreadId) {
        let n_followed = self.active.values().filter(|active| active.folding.is_some()).count();
        let folding = (n_followed < FOLLOWED_MAX).then(|| self.follow(child));
        self.active.insert(child, Active { folding, ..Active::default() });
    }

    /// A sub-agent has ended, and nothing more is told of it.
    pub(super) fn end(&mut self, child: ThreadId) {
        let ended = self.active.remove(&child);
        if ended.is_some_and(|ended| ended.folding.is_some())
            && let Some(waiting) = self.active.iter().find(|(_, active)| active.folding.is_none()).map(|(id, _)| *id)
        {
            let folding = self.follow(waiting);
            self.active.entry(waiting).or_default().folding = Some(folding);
        }
    }

    /// Returns what a sub-agent does next. Waits for as long as none does anything. Nothing is lost if this is dropped before
    /// it is done.
    pub(super) async fn next(&mut self) -> Vec<Piece> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Vec<Piece>> {
        // Beginning after the last one, so that one that does much does not delay the others.
        let (later, first) = ((Excluded(self.last), Unbounded), ..=self.last);
        let order: Vec<_> = self.active.range(later).chain(self.active.range(first)).map(|(id, _)| *id).collect();
        for child in order {
            let Some(active) = self.active.get_mut(&child) else { continue };
            let Some(Poll::Ready(next)) = active.following().map(|folding| folding.poll_next(cx)) else { continue };
            match next {
                Ok(pieces) => {
                    self.last = child;
                    return Poll::Ready(pieces);
                }
                Err(problem) => active.fail(child, &problem),
            }
        }
        Poll::Pending
    }

    /// Returns more of what a sub-agent did until now; `None` if all of it was told.
    pub(super) async fn rest_of(&mut self, child: ThreadId) -> Option<Vec<Piece>> {
        let target = match self.active.get(&child)?.target {
            Some(target) => Some(target),
            None => self.end_of(child).await,
        };
        if self.active.get(&child)?.folding.is_none() && target.is_some() {
            let folding = self.follow(child);
            self.active.get_mut(&child)?.folding = Some(folding);
        }
        let active = self.active.get_mut(&child)?;
        active.target = target;
        let behind = active.following().filter(|folding| folding.at() < target);
        let pieces = match behind {
            None => None,
            Some(folding) => match folding.next().await {
                Ok(pieces) => Some(pieces),
                Err(problem) => {
                    active.fail(child, &problem);
                    None
                }
            },
        };
        if pieces.is_none() {
            (active.target, active.is_told) = (None, true);
        }
        pieces
    }

    /// Returns a sub-agent that was not told up to its end since the stream went on.
    pub(super) fn untold(&self) -> Option<ThreadId> {
        self.active.iter().find(|(_, active)| !active.is_told).map(|(id, _)| *id)
    }

    /// The stream goes on.
    pub(super) fn go_on(&mut self) {
        self.active.values_mut().for_each(|active| active.is_told = false);
    }

    /// Returns the name by which the client knows the tool call that a question of an active sub-agent is about; `None` if it is
    /// about none.
    pub(super) async fn asked(&mut self, child: ThreadId, question: CallId) -> Result<Option<String>, Problem> {
        let state = self.thread.sibling(child).state().await?;
        Ok(Subagent::new(self.workflow.clone(), child, Some(state)).asked(question))
    }

    /// The position of the last event of a sub-agent. One that was cancelled before it began has none.
    async fn end_of(&mut self, child: ThreadId) -> Option<Position> {
        let store = self.server.runtime.store();
        match blocking(move || store.stream(child)).await {
            Ok(Ok(info)) => Some(info.last_position),
            Ok(Err(StoreError::NotFound { .. })) | Err(_) => None,
            Ok(Err(error)) => {
                tracing::info!(%error, thread = %child, "a sub-agent is not emitted");
                None
            }
        }
    }

    fn follow(&self, child: ThreadId) -> Folding<Piece> {
        let (server, child, workflow) = (self.server.clone(), self.thread.sibling(child), self.workflow.clone());
        Folding::opened(follow(server, child, workflow, self.after))
    }
}

/// Follows a sub-agent from its begin, or from its first event after a position. Waits for its begin.
async fn follow(
    server: Shared,
    child: ThreadHandle,
    workflow: Arc<Workflow>,
    after: Option<Position>,
) -> Result<Folding<Piece>, ReadError> {
    let listener = server.hub.listen(Some(child.id()));
    let first = loop {
        match child.first_own_seq().await {
            Ok(first) => break first,
            Err(ReadError::NoThread(_)) => listener.woken().await,
            Err(error) => return Err(error),
        }
    };
    let from = match after {
        Some(after) => child.seq_behind(after).await?.max(first),
        None => first,
    };
    let before = match from.0.checked_sub(1).filter(|_| from > first) {
        Some(last) => Some(child.state_at(Seq(last)).await?),
        None => None,
    };
    let subagent = Subagent::new(workflow, child.id(), before);
    Ok(Folding::begin(&server, &child, from, subagent))
}
