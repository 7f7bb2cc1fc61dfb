//! Begins the effects that the state wants, cancels work that it no longer wants, and sets the alarm.

use std::sync::Arc;

use actix::prelude::*;
use rethread_events::ids::Time;
use rethread_events::thread::{Effect, Input};
use tokio_util::sync::CancellationToken;

use super::live::Phase;
use super::messages::Tell;
use super::{ThreadActor, perform};
use crate::permit_waits::{PermitWaits, RunningCall, WaitPlace};
use crate::port::Mailbox;
use crate::{snapshots, timers};

impl ThreadActor {
    /// Begins wanted effects, cancels unwanted work, and sets the alarm.
    pub(super) fn pump(&mut self, ctx: &mut Context<Self>) {
        let goes_on = self.goes_on();
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        if let Some(idle) = live.idle.take() {
            ctx.cancel_future(idle);
        }
        let now = live.now();
        let state = live.thread.state();
        let wanted = |call| state.open_calls().get(call).filter(|open| open.is_wanted());
        live.running.retain(|(call, attempt), _| wanted(*call).is_some_and(|open| open.attempt() == *attempt));
        live.positions.retain(|call, _| wanted(*call).is_some());
        let new = state.effects_but(|key| live.running.contains_key(&key));
        let mut next = live.thread.state().next_deadline_with(&live.running);
        // Nothing runs ahead of the disk while a snapshot is due, which can be written only when all is durable.
        let runs_ahead = !snapshots::is_due(live.thread.next_seq(), live.snapshot);
        let is_model_call = |effect: &Effect| matches!(effect, Effect::CallModel(_));
        // The usage of earlier calls is counted when it is durable, so a call must not run ahead of the disk.
        let is_limited = self.services.labels.limits_tokens_of(live.thread.state().labels());
        let reached = (goes_on && new.iter().any(is_model_call))
            .then(|| self.services.labels.tokens_reached(live.thread.state().labels()))
            .flatten();
        // It has paused, or is no longer at the limit.
        live.pause_is_asked_for &= reached.is_some();
        if let Some(reached) = reached.as_ref().filter(|_| !live.pause_is_asked_for) {
            live.pause_is_asked_for = true;
            let reason = format!("{reached}: go on tomorrow (UTC) with: rethread resume {}", self.id);
            ctx.notify(Tell::unasked(Input::Pause { reason: Some(reason) }));
        }
        let mut mailbox: Option<Arc<dyn Mailbox>> = None;
        if goes_on {
            for effect in new {
                let key = effect.key();
                let waits_for_count = is_limited && is_model_call(&effect);
                // Branches are begun below.
                if reached.is_some() && is_model_call(&effect) || matches!(effect, Effect::RunBranch(_)) {
                    continue;
                }
                if effect.not_before() > now {
                    next = Some(next.map_or(effect.not_before(), |next| next.min(effect.not_before())));
                } else if runs_ahead && effect.may_be_repeated() && !waits_for_count || live.has_in_log(key.0) {
                    let token = CancellationToken::new();
                    let place = WaitPlace {
                        among: self.services.counters.waiting.clone(),
                        attempt: (self.id, key.0, key.1),
                        is_tool: matches!(effect, Effect::CallTool(_)),
                    };
                    let thread = mailbox.get_or_insert_with(|| Arc::new(ctx.address())).clone();
                    let waits = PermitWaits::new(place, thread.clone());
                    let begins =
                        perform::Begins { registry: &self.registry, id: self.id, slot: self.slot, spans: &self.spans };
                    if begins.perform(live, effect, token.clone(), waits.clone(), thread) {
                        live.running.insert(key, RunningCall { _cancel: token.drop_guard(), waits });
                    }
                } else {
                    self.services.store.hurry();
                }
            }
        }
        if goes_on {
            self.run_branches();
        }
        self.set_alarm(next.filter(|_| self.services.mode.runs()), ctx);
        self.rest(ctx);
    }

    /// Returns whether effects may be begun.
    pub(super) fn goes_on(&self) -> bool {
        let Phase::Live(live) = &self.phase else {
            return false;
        };
        !self.halting && self.services.mode.runs() && !live.thread.state().is_paused()
    }

    /// Sets the alarm. Deadlines move with every step, mostly to later: an alarm that is too early is left to fire and
    /// then set again, which costs less than a timer for each step. A long one fires in between, to check the clock.
    fn set_alarm(&mut self, next: Option<Time>, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        live.next_due = next;
        let Some(next) = next else {
            return;
        };
        if live.alarm.as_ref().is_some_and(|(at, _)| *at <= next) {
            return;
        }
        if let Some((_, alarm)) = live.alarm.take() {
            ctx.cancel_future(alarm);
        }
        let wait = timers::until(next, live.now());
        live.alarm = Some((next, ctx.run_later(wait, |actor, ctx| actor.with_machine_here(Self::alarm_fired, ctx))));
    }

    fn alarm_fired(&mut self, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        live.alarm = None;
        match live.next_due {
            Some(at) if at <= live.now() => self.tick(ctx),
            next => self.set_alarm(next, ctx),
        }
    }
}
