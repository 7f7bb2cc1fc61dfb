//! What the end of a thread means for other threads: those that wait for it, and its children.

use rethread_events::event::Event;
use rethread_events::thread::State;

use super::ThreadActor;
use super::live::Phase;
use crate::mode::Mode;
use crate::stream_keys::ChildKey;
use crate::{awaited_threads, children};

/// What an append means for other threads, once it is durable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    /// The thread has ended.
    thread: bool,
    /// A run has ended that may have started children which are cancelled with it.
    run_with_children: bool,
}

impl Ends {
    /// Of these events, which led to this state.
    pub(super) fn of(events: &[Event], state: &State) -> Self {
        let is_end = |event: &Event| {
            matches!(event, Event::ThreadCompleted(_) | Event::ThreadFailed(_) | Event::ThreadCancelled(_))
        };
        let run = events.iter().any(is_end);
        // Also by RUN_CANCELLED: no run goes on or waits any more.
        let thread = !events.is_empty() && state.is_ended();
        Self { thread, run_with_children: run && state.has_children_to_cancel() }
    }
}

impl ThreadActor {
    pub(super) fn ends_are_durable(&self, ends: Ends) {
        let registry = &self.registry;
        if ends.thread {
            awaited_threads::ended(registry, self.id);
        }
        if ends.run_with_children {
            let cancels = children::parent_ended(registry.clone(), self.id);
            actix_rt::spawn(registry.telling.track_future(cancels));
        }
    }

    /// Applies the end of the run that started this thread, as a child, to it. A runtime that runs all threads does this
    /// for all of them after its start.
    pub(super) fn follow_starter(&self) {
        if let Phase::Live(live) = &self.phase
            && self.services.mode == Mode::RunOnDemand
            && let Some(child) = ChildKey::of(live.thread.state())
        {
            let registry = self.registry.clone();
            actix_rt::spawn(async move { children::follow(&registry, child).await });
        }
    }
}
