//! What happens to a child when the run that started it ends: the policy `on_parent_end`.
//!
//! A child that may be cancelled has a key in the log while its first run goes on, with its parent and the run of that. When
//! the end of a run is durable, its children are found by these keys. A start checks all keys of the log, because the
//! process may have ended between an end and the cancel.

use std::sync::Arc;

use rethread_events::event::{Event, OnParentEnd};
use rethread_events::ids::{RunId, Seq, ThreadId};
use rethread_events::text::with_sources;
use rethread_events::thread::Input;
use rethread_store::LogReader;

use crate::blocking::blocking;
use crate::deliver;
use crate::each_key::{STORE_RETRY, each_key};
use crate::error::{ControlError, ReadError, RuntimeError};
use crate::load;
use crate::recorded::event;
use crate::registry::ThreadRegistry;
use crate::stream_keys::{self, ChildKey};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunEnd {
    Completed,
    Failed,
    Cancelled,
}

impl RunEnd {
    /// Why the child is cancelled, if it is.
    fn reason(self, child: &ChildKey) -> Option<String> {
        let follows = match child.policy {
            OnParentEnd::Leave => false,
            OnParentEnd::CancelIfCancelled => self == Self::Cancelled,
            OnParentEnd::Cancel => true,
        };
        let how = match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "was cancelled",
        };
        follows.then(|| format!("thread {}, which started it, {how}", child.parent))
    }
}

/// Returns how a run of a thread ended; `None` while it goes on, and if it is not in the log. Blocks.
fn end_of(registry: &ThreadRegistry, thread: ThreadId, run: RunId) -> Result<Option<RunEnd>, ReadError> {
    let services = &registry.services;
    let store = &*services.store;
    let fold = || load::present_from(store, thread, &services.kept_states);
    let state = match services.crashes.folding(thread, fold) {
        Ok(loaded) => loaded.state,
        // It was deleted, or the child is a copy from another log.
        Err(ReadError::NoThread(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    if state.run_id() == run {
        return state.run_ended().map(|seq| kind_of_end(store, thread, seq)).transpose();
    }
    let mut past = state.previous_run();
    while let Some(before) = past {
        if before.run_id == run {
            return kind_of_end(store, thread, before.ended).map(Some);
        }
        let began = event(store, thread, before.started)?.map(|recorded| recorded.event);
        past = if let Some(Event::RunStarted(began)) = began { Some(began.previous) } else { None };
    }
    // It was the run of another thread of that id, which was deleted.
    Ok(None)
}

fn kind_of_end(store: &dyn LogReader, thread: ThreadId, seq: Seq) -> Result<RunEnd, ReadError> {
    let ended = event(store, thread, seq)?.map(|recorded| recorded.event);
    Ok(if matches!(ended, Some(Event::ThreadCompleted(_))) {
        RunEnd::Completed
    } else if matches!(ended, Some(Event::ThreadCancelled(_))) {
        RunEnd::Cancelled
    } else {
        RunEnd::Failed
    })
}

/// A run of a thread, and how it ended, if it has.
type KnownRun = ((ThreadId, RunId), Option<RunEnd>);

/// Cancels a child if the run that started it has ended and the policy says so.
pub(crate) async fn follow(registry: &Arc<ThreadRegistry>, child: ChildKey) {
    follow_with(registry, child, &mut None).await;
}

/// As `follow`. `known` is the run that was read last: a parent is read once for all its children.
async fn follow_with(registry: &Arc<ThreadRegistry>, child: ChildKey, known: &mut Option<KnownRun>) {
    let run = (child.parent, child.run);
    while !registry.is_shutting_down() {
        let of = registry.clone();
        let ended = match known.filter(|(known, _)| *known == run) {
            Some((_, ended)) => Ok(ended),
            None => blocking(move || end_of(&of, child.parent, child.run)).await.map_err(ReadError::from).flatten(),
        };
        if let Ok(ended) = ended {
            *known = Some((run, ended));
        }
        let told = match ended.map(|ended| ended.and_then(|ended| ended.reason(&child))) {
            Ok(None) => return,
            Ok(reason) => deliver::ask(registry, child.child, Input::CancelByParent { reason }).await,
            Err(error) => Err(error.into()),
        };
        match told {
            // It has ended by itself.
            Ok(_) | Err(ControlError::Rejected { .. } | ControlError::Read(ReadError::NoThread(_))) => return,
            Err(error) if is_temporary(&error) => tokio::time::sleep(STORE_RETRY).await,
            Err(error) => {
                if !registry.is_shutting_down() {
                    let error = with_sources(&error);
                    tracing::error!(thread = %child.parent, child = %child.child, error, "the child is cancelled with the next start");
                }
                return;
            }
        }
    }
}

fn is_temporary(error: &ControlError) -> bool {
    matches!(error.runtime(), Some(RuntimeError::Store(error)) if error.is_temporary())
}

/// Called when the end of a run of this thread is durable.
pub(crate) async fn parent_ended(registry: Arc<ThreadRegistry>, parent: ThreadId) {
    follow_all(&registry, Some(parent)).await;
}

/// Runs after a start: cancels children whose parent ended just before the last process ended.
pub(crate) async fn tidy(registry: Arc<ThreadRegistry>) {
    follow_all(&registry, None).await;
}

/// Cancels the children of this thread, or of all, that are to be cancelled.
async fn follow_all(registry: &Arc<ThreadRegistry>, parent: Option<ThreadId>) {
    // The keys are sorted by parent and run. A run that ends after it was read finds its children itself.
    let mut known = None;
    let children = move |store: &dyn LogReader, after, n| stream_keys::children(store, parent, after, n);
    each_key(registry, "the children of threads", children, async |child: ChildKey| {
        if !registry.services.imported.has(child.child) {
            follow_with(registry, child, &mut known).await;
        }
    })
    .await;
}
