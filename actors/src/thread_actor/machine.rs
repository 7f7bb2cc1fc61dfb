//! Where the machine computes: on the event loop when a step will most likely be short, and otherwise on a blocking thread,
//! so that no other actor of the event loop waits for it.

use std::collections::VecDeque;
use std::time::Instant;

use actix::prelude::*;
use rethread_events::ids::Time;
use rethread_events::thread::{Env, State, Thread};

use super::ThreadActor;
use super::live::{Elsewhere, Phase};
use crate::error::RuntimeError;

impl ThreadActor {
    /// Runs `take` on the machine, then `then` on the actor. If `is_long`, this returns earlier: the actor handles no
    /// message until `then` has run and the inputs that arrived at [`ThreadActor::step`] meanwhile are taken.
    pub(super) fn with_machine<T: Send + 'static>(
        &mut self,
        is_long: bool,
        clock: Time,
        take: impl FnOnce(&mut Thread, &Env<'_>) -> T + Send + 'static,
        then: impl FnOnce(&mut Self, T, &mut Context<Self>) + 'static,
        ctx: &mut Context<Self>,
    ) {
        let mut live = match std::mem::replace(&mut self.phase, Phase::Stopping) {
            Phase::Live(live) => live,
            phase => {
                self.phase = phase;
                return;
            }
        };
        let services = self.services.clone();
        if !is_long {
            let around = Env { now: clock, tools: &*services, models: &*services, permits: &live.running };
            let begun = Instant::now();
            let taken = take(&mut live.thread, &around);
            live.short_steps.took(begun.elapsed());
            self.phase = Phase::Live(live);
            return then(self, taken, ctx);
        }
        let without_state = Thread::resume(State::new(self.id), live.thread.workflow().clone());
        let mut thread = std::mem::replace(&mut live.thread, without_state);
        let running = std::mem::take(&mut live.running);
        self.phase = Phase::Elsewhere(Box::new(Elsewhere { live, next: VecDeque::new(), postponed: Vec::new() }));
        let work = move || {
            let around = Env { now: clock, tools: &*services, models: &*services, permits: &running };
            let begun = Instant::now();
            let taken = take(&mut thread, &around);
            (thread, running, taken, begun.elapsed())
        };
        let done = actix_rt::task::spawn_blocking(work);
        ctx.wait(done.into_actor(self).map(move |done, actor, ctx| {
            let Elsewhere { mut live, next, postponed } = match std::mem::replace(&mut actor.phase, Phase::Stopping) {
                Phase::Elsewhere(elsewhere) => *elsewhere,
                phase => {
                    actor.phase = phase;
                    return;
                }
            };
            let Ok((thread, running, taken, time)) = done else {
                // It panicked, or the runtime stops: the machine is lost, and the log has what it decided before.
                actor.phase = Phase::Live(live);
                return actor.fail(&RuntimeError::ActorStopped(actor.id).into(), ctx);
            };
            (live.thread, live.running) = (thread, running);
            live.short_steps.took(time);
            actor.phase = Phase::Live(live);
            then(actor, taken, ctx);
            for told in next {
                actor.step(told, ctx);
            }
            for run in postponed {
                actor.with_machine_here(run, ctx);
            }
            actor.pump(ctx);
        }));
    }

    /// Runs `run` now, or when the machine is back from the blocking thread. For the actor's own futures, timers and
    /// notifications: actix polls them once after a message whose handler begins to wait, when there is no machine.
    pub(super) fn with_machine_here(
        &mut self,
        run: impl FnOnce(&mut Self, &mut Context<Self>) + Send + 'static,
        ctx: &mut Context<Self>,
    ) {
        match &mut self.phase {
            Phase::Elsewhere(elsewhere) => elsewhere.postponed.push(Box::new(run)),
            Phase::Beginning(_) | Phase::Unloaded(_) | Phase::Live(_) | Phase::Stopping => run(self, ctx),
        }
    }
}
