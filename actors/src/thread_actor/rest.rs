//! What the thread has come to, and how its actor leaves.

use std::collections::VecDeque;
use std::time::Duration;

use actix::prelude::*;
use rethread_events::ids::Time;
use rethread_events::thread::{Input, Surroundings, Wait};
use rethread_store::StoreError;

use super::live::Mode;
use super::{PutAway, Tell, ThreadActor};
use crate::activity::Rest;
use crate::error::RuntimeError;
use crate::inner::Inner;
use crate::snapshots;

/// How long to wait before a thread whose append was refused for lack of room is tried again.
const RETRY_AFTER_MS: u64 = 1_000;

impl ThreadActor {
    /// What the thread has come to: tells whoever waits, keeps a snapshot, puts itself away.
    pub(super) fn rest(&mut self, ctx: &mut Context<Self>) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        let now = Inner::now();
        let wait = live.thread.waits_for(&Surroundings { now, tools: &*self.inner, models: &*self.inner });
        if wait == Wait::Itself && !live.halting && !self.inner.observing {
            return ctx.notify(Tell { input: Input::Tick, reply: None });
        }
        if !live.under_way.is_empty() {
            return;
        }
        let ended = wait == Wait::Nothing;
        // Whose time is up waits for nobody any more: its alarm is about to say so.
        let settled = |until: Option<Time>| self.inner.observing || until.is_none_or(|at| at > now);
        if ended || matches!(wait, Wait::Somebody { until } if settled(until)) {
            let rest = || Rest { state: live.thread.state().clone(), last_position: live.last_position };
            self.inner.activity.at_rest(self.id, rest, ended);
        }
        if (ended || live.running.is_empty()) && !live.stirred {
            // It was brought back for somebody, whose message is handled first.
            return ctx.notify(PutAway);
        }
        if ended || live.halting && live.running.is_empty() {
            return self.put_away(ctx);
        }
        if snapshots::is_due(live.thread.next_seq(), live.snapshot) {
            live.snapshot = live.thread.state().last_seq();
            live.keep_snapshot(&self.inner);
        }
        if live.running.is_empty() && live.idle.is_none() {
            let wait = Duration::from_millis(self.inner.limits.passivate_after_ms);
            live.idle = Some(ctx.run_later(wait, |actor, ctx| actor.put_away(ctx)));
        }
    }

    /// Leaves the thread to the log: the next input brings it back.
    pub(super) fn put_away(&mut self, ctx: &mut Context<Self>) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        if !live.under_way.is_empty() || !live.running.is_empty() {
            return;
        }
        let (next_due, ended) = (live.next_due, live.thread.state().is_ended());
        if ended {
            live.give_snapshot_back(&self.inner);
        } else if snapshots::is_due_when_put_away(live.thread.next_seq(), live.snapshot) {
            live.keep_snapshot(&self.inner);
        }
        self.leave(ctx);
        // After it has left: a timer that finds this actor still there would wake nobody.
        if let Some(at) = next_due.filter(|_| !ended && !self.inner.is_shutting_down()) {
            self.inner.timers.set(self.id, at);
        }
    }

    pub(super) fn leave(&mut self, ctx: &mut Context<Self>) {
        let ended = matches!(&self.mode, Mode::Live(live) if live.thread.state().is_ended());
        self.go(ctx);
        // Behind the going: who asks later finds nobody here and looks into the log.
        self.inner.activity.left(self.id, ended);
    }

    fn go(&mut self, ctx: &mut Context<Self>) {
        self.mode = Mode::Gone;
        self.inner.forget(self.id, &ctx.address());
        ctx.stop();
    }

    /// What was not acknowledged is void: the machine is thrown away, and the thread comes back from the log.
    pub(super) fn fail(&mut self, error: &RuntimeError, ctx: &mut Context<Self>) {
        tracing::warn!(thread = %self.id, %error, "the thread is put back to what the log has");
        let (fresh, under_way) = match &mut self.mode {
            Mode::Live(live) => (live.fresh, std::mem::take(&mut live.under_way)),
            Mode::Beginning(_) | Mode::Loading | Mode::Gone => (false, VecDeque::new()),
        };
        self.go(ctx);
        match error {
            // It never began. Whoever took it for the thread of that id looks into the log.
            _ if fresh => self.inner.activity.left(self.id, true),
            // There will be room again: the thread is not given up, and whoever waits for it waits on.
            RuntimeError::Store(StoreError::Full { .. } | StoreError::Busy { .. }) => {
                self.inner.timers.set(self.id, Inner::now().plus_ms(RETRY_AFTER_MS));
            }
            _ => self.inner.activity.failed(self.id, error),
        }
        // Last: who is told that it failed may ask again at once, and finds nothing of this attempt.
        for reply in under_way.into_iter().filter_map(|(_, reply)| reply) {
            let _ = reply.send(Err(error.clone()));
        }
    }
}
