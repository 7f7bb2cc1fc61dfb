//! A thread at rest, and how its actor stops.

use std::time::{Duration, Instant};

use actix::prelude::*;
use rethread_events::ids::Time;
use rethread_events::thread::{Env, Status, Wait};

use super::ThreadActor;
use super::live::{Live, Phase, Progress};
use super::messages::{NextStep, Passivate};
use crate::branch_states::BranchState;
use crate::load::Loaded;
use crate::mode::Mode;
use crate::snapshots;
use crate::stream_keys;
use crate::waiters::Rest;

/// How long the end of a thread waits at most for what its branches spent.
const SUMS_WAIT: Duration = Duration::from_secs(1);
/// What is due after more than this many milliseconds is left to the timers in the log.
const IN_LOG_FROM_MS: u64 = 5_000;

impl ThreadActor {
    /// At rest: notifies waiters, stores a snapshot, passivates the thread.
    pub(super) fn rest(&mut self, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let now = live.now();
        let around = Env { now, tools: &*self.services, models: &*self.services, permits: &live.running };
        let goes_on = self.services.mode.runs() && !self.halting;
        // It would take long to compute here what it waits for; a step computes it as well.
        let takes_step = goes_on && !live.thread.is_settled() && live.takes_long();
        let wait = if takes_step { Wait::Itself } else { live.thread.waits_for(&around) };
        if wait == Wait::Itself && goes_on {
            // A thread that runs for long always has pending appends, and its state cannot be stored with these: from
            // time to time it waits until all are durable.
            if snapshots::is_due(live.thread.next_seq(), live.snapshot) {
                if !live.under_way.is_empty() {
                    return;
                }
                live.keep_snapshot(&self.services.snapshots);
            }
            // Every acknowledged append arrives here. Only one step at a time is in the mailbox, so that a state to be
            // stored waits for one step at most, even if the log is fast.
            if !live.step_is_asked_for {
                live.step_is_asked_for = true;
                ctx.notify(NextStep);
            }
            return;
        }
        if !live.under_way.is_empty() {
            return;
        }
        let ended = wait == Wait::Nothing;
        // A question past its deadline is not waited for: its timer is about to fire.
        let settled = |until: Option<Time>| !self.services.mode.runs() || until.is_none_or(|at| at > now);
        let own = match live.thread.state().status() {
            Status::Suspended | Status::Queued => BranchState::Suspended,
            _ => BranchState::Rests,
        };
        let rest = match wait {
            Wait::Nothing => Some(own),
            Wait::Person { until } => settled(until).then_some(own),
            Wait::World { until } if settled(until) => self.branches_rest(),
            Wait::World { .. } | Wait::Itself => None,
        };
        self.tell_parent(rest);
        if ended && self.waits_for_sums(ctx) {
            return;
        }
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        // One that only waits for a time is activated by its timer.
        if rest == Some(BranchState::Rests) {
            let rest = || Rest { state: live.thread.state().clone(), last_position: live.last_position };
            self.registry.waiters.at_rest(self.id, rest, ended);
        }
        if (ended || live.running.is_empty()) && live.progress == Progress::Reloaded {
            // It was activated for a message, which is handled first.
            return ctx.notify(Passivate);
        }
        if ended || self.halting && live.running.is_empty() {
            return self.passivate(ctx);
        }
        if snapshots::is_due(live.thread.next_seq(), live.snapshot) {
            live.keep_snapshot(&self.services.snapshots);
        }
        // Any number of threads may wait in queues.
        if live.thread.state().status() == Status::Queued && self.services.mode == Mode::Run {
            return self.passivate_or_stay(ctx);
        }
        if live.running.is_empty() && live.idle.is_none() {
            let wait = Duration::from_millis(self.services.limits.passivate_after_ms);
            live.idle = Some(ctx.run_later(wait, Self::passivate_or_stay));
        }
    }

    /// Returns whether the end of the thread is reported later, so that its sums have what the branches spent that were
    /// cancelled with it: these report it as soon as they have recorded that.
    fn waits_for_sums(&mut self, ctx: &mut Context<Self>) -> bool {
        let Phase::Live(live) = &mut self.phase else {
            return false;
        };
        let is_new = live.progress == Progress::Continues;
        if self.halting || !is_new || live.thread.state().uncounted_branches().is_empty() {
            return false;
        }
        let until = *live.sums_until.get_or_insert_with(|| Instant::now() + SUMS_WAIT);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let again = |actor: &mut Self, ctx: &mut Context<Self>| {
            if let Phase::Live(live) = &mut actor.phase {
                live.idle = None;
                actor.rest(ctx);
            }
        };
        if live.idle.is_none() {
            live.idle = Some(ctx.run_later(left, again));
        }
        true
    }

    /// Passivates the thread: the next input activates it.
    pub(super) fn passivate(&mut self, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        if !live.under_way.is_empty() || !live.running.is_empty() {
            return;
        }
        // A later actor would not know that the branches have not recorded it yet.
        if live.branches_are_to_record() && !live.thread.state().is_ended() && !self.halting {
            return self.passivate_later(ctx);
        }
        let (next_due, ended) = (live.next_due, live.thread.state().is_ended());
        // Something that is due soon could be missed by the search of the timers in the log.
        let is_far = next_due.is_none_or(|at| at > live.now().plus_ms(IN_LOG_FROM_MS));
        let has_all = stream_keys::is_activated_by_keys(live.thread.state())
            && (next_due.is_none() || stream_keys::has_timer(&live.keys));
        let is_in_log = is_far && has_all && self.services.mode == Mode::Run;
        // An imported thread is active only on request: from now on it resumes by itself.
        if is_in_log && self.services.imported.goes_on(self.id, &self.services.store) {
            self.registry.queues.all_changed();
        }
        // A thread that had a second run may have a third.
        if ended && live.thread.state().run_number() == 1 {
            live.remove_snapshots(&self.services.snapshots);
        } else if snapshots::is_due_when_passivated(live.thread.next_seq(), live.snapshot) {
            live.keep_snapshot(&self.services.snapshots);
        }
        self.stop_and_hand_over(ctx);
        // After the removal: a timer that finds this actor would activate nothing.
        if let Some(at) = next_due.filter(|_| !ended && !is_in_log && !self.registry.is_shutting_down()) {
            self.registry.timers.set(self.id, at);
        }
    }

    pub(super) fn stop_and_hand_over(&mut self, ctx: &mut Context<Self>) {
        let ended = matches!(&self.phase, Phase::Live(live) if live.thread.state().is_ended());
        if ended {
            self.services.thread_ended(self.id);
        }
        self.services.outputs.forget(self.id);
        // While the registry has the actor: the next one finds this end, and removes it.
        if let Some(live) = self.release_machine().filter(|live| ended && live.progress == Progress::Continues) {
            let Live { thread, last_position, last_hash, snapshot, bytes, short_steps, .. } = *live;
            let mut state = thread.into_state();
            // A thread that had a second run may have a third.
            if state.run_number() > 1 {
                let snapshot = Some(snapshot);
                let loaded = Loaded { state, last_position, last_hash, snapshot, bytes, short_steps };
                self.services.kept_states.keep_last(self.id, &loaded);
                state = loaded.state;
            }
            self.registry.recent_ends.keep(self.id, bytes, self.since, Rest { state, last_position });
        }
        self.stop_actor(ctx);
        // After the removal: later callers find no actor and read the log.
        self.registry.waiters.left(self.id, ended);
    }

    /// Ends the spans of a live thread, and returns its data. The actor handles nothing after that.
    fn release_machine(&mut self) -> Option<Box<Live>> {
        match std::mem::replace(&mut self.phase, Phase::Stopping) {
            Phase::Live(live) => {
                self.spans.leave(live.thread.state().status().name());
                Some(live)
            }
            Phase::Beginning(_) | Phase::Unloaded(_) | Phase::Elsewhere(_) | Phase::Stopping => None,
        }
    }

    pub(super) fn stop_actor(&mut self, ctx: &mut Context<Self>) {
        drop(self.release_machine());
        self.registry.forget(self.id, &ctx.address());
        ctx.stop();
    }
}
