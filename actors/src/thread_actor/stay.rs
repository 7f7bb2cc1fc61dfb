//! Threads that have nothing to do and stay in memory, because a caller waits for a report that only reaches live
//! threads.

use std::time::Duration;

use actix::prelude::*;

use super::ThreadActor;
use super::live::Phase;
use crate::branches;
use crate::error::ReadError;

/// The least interval at which a thread that stays checks whether it still must.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(100);

impl ThreadActor {
    /// Passivates the thread, unless it must stay.
    pub(super) fn passivate_or_stay(&mut self, ctx: &mut Context<Self>) {
        if self.must_stay() { self.passivate_later(ctx) } else { self.passivate(ctx) }
    }

    /// As `passivate_or_stay`, for a thread that was activated for a message: it stays until the sender has sent it, or has
    /// given up. On a busy machine the thread could otherwise leave before each attempt of the sender.
    pub(super) fn passivate_unless_expected(&mut self, ctx: &mut Context<Self>) {
        let is_expected = self.places.available_permits() < self.services.limits.mailbox_max;
        match &mut self.phase {
            Phase::Live(live) if is_expected && !self.halting => {
                if let Some(idle) = live.idle.take() {
                    ctx.cancel_future(idle);
                }
                live.idle = Some(ctx.run_later(CHECK_INTERVAL_MIN, Self::passivate_unless_expected));
            }
            _ => self.passivate_or_stay(ctx),
        }
    }

    pub(super) fn passivate_later(&mut self, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        if let Some(idle) = live.idle.take() {
            ctx.cancel_future(idle);
        }
        let wait = Duration::from_millis(self.services.limits.passivate_after_ms).max(CHECK_INTERVAL_MIN);
        live.idle = Some(ctx.run_later(wait, Self::passivate_or_stay));
    }

    /// Returns whether the thread must stay. Branches report that they rest only to a parent that is in memory. So if a
    /// caller waits for the rest of a thread, the thread stays while there are free places, and so do those of its
    /// branches that have branches of their own, at all depths.
    fn must_stay(&self) -> bool {
        let Phase::Live(live) = &self.phase else {
            return false;
        };
        let state = live.thread.state();
        if state.is_ended() || self.halting {
            return false;
        }
        let waits_for_branches = !state.is_paused() && state.running_branches().next().is_some();
        let parent = state.branch().and_then(|branch| branch.owner).map(|(parent, _)| parent);
        waits_for_branches && parent.is_some_and(|parent| self.registry.is_live(parent))
            || self.registry.waiters.is_waited_for(self.id) && !self.registry.is_crowded()
    }

    /// Returns the thread to the log: its waiters and those of its ancestors are notified of the error.
    pub(super) fn return_to_log(&self, error: &ReadError) {
        self.registry.waiters.failed(self.id, error);
        actix_rt::spawn(branches::put_back(self.registry.clone(), self.id, error.clone()));
    }
}
