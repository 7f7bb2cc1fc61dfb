//! The actor of one live thread. It gives inputs to the machine, appends its events, performs its effects, and gives
//! the results to the machine.
//!
//! Effects that may be repeated (a model call, a `safe` tool) begin while their request is still being flushed. All
//! others, and every reply, wait until the events are durable.

use std::sync::Arc;

use actix::prelude::*;
use actix_rt::ArbiterHandle;
use rethread_events::ids::ThreadId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::live::Phase;
use self::messages::{Begin, CheckIdle, Halt, NextStep, Passivate, Tell};
use crate::error::RuntimeError;
use crate::port::{PermitGranted, Report};
use crate::recent_ends::Deletions;
use crate::registry::ThreadRegistry;
use crate::run_durations::RunDurations;
use crate::services::Services;
use crate::spans::Spans;

mod asking;
mod branches;
mod ends;
mod live;
mod machine;
pub(crate) mod messages;
mod pending_inputs;
mod perform;
mod pump;
mod refused;
mod rest;
mod start;
mod stay;
mod step;

pub(crate) struct ThreadActor {
    id: ThreadId,
    services: Arc<Services>,
    registry: Arc<ThreadRegistry>,
    slot: usize,
    phase: Phase,
    /// Whether it begins nothing new, because the runtime stops.
    halting: bool,
    /// How many machines it has discarded: results of their appends are ignored.
    life: u64,
    spans: Spans,
    durations: RunDurations,
    /// Its permit among the threads that are folded after a start, until it is folded.
    loading: Option<OwnedSemaphorePermit>,
    /// The permits of its mailbox; a sender that has one is about to send.
    places: Arc<Semaphore>,
    /// The deletions before it started.
    since: Deletions,
}

/// What an actor is started with.
pub(crate) struct Activation {
    pub(crate) id: ThreadId,
    pub(crate) slot: usize,
    /// Absent if the thread is loaded from the log.
    pub(crate) begin: Option<Box<Begin>>,
    /// Its permit among the threads that are loaded after a start.
    pub(crate) loading: Option<OwnedSemaphorePermit>,
    /// The permits of its mailbox.
    pub(crate) places: Arc<Semaphore>,
}

impl ThreadActor {
    /// Starts the actor of a thread.
    pub(crate) fn start_on(arbiter: &ArbiterHandle, registry: Arc<ThreadRegistry>, with: Activation) -> Addr<Self> {
        let Activation { id, slot, begin, loading, places } = with;
        // Before the registration: the end that the previous actor left is outdated now.
        let since = registry.recent_ends.starts(id);
        let phase = begin.map_or_else(|| Phase::Unloaded(Box::default()), Phase::Beginning);
        Self::start_in_arbiter(arbiter, move |ctx| {
            let services = registry.services.clone();
            ctx.set_mailbox_capacity(services.limits.mailbox_max);
            // Here and not at the caller, which may have a subscriber of its own.
            let spans = Spans::begin(id, services.content_in_spans);
            let durations = RunDurations::default();
            let (halting, life) = (false, 0);
            Self { id, services, registry, slot, phase, halting, life, spans, durations, loading, places, since }
        })
    }
}

impl Actor for ThreadActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        match std::mem::replace(&mut self.phase, Phase::Stopping) {
            Phase::Beginning(begin) => self.begin(*begin, ctx),
            Phase::Unloaded(kept) => {
                self.phase = Phase::Unloaded(kept);
                self.load(ctx);
            }
            phase @ (Phase::Live(_) | Phase::Elsewhere(_) | Phase::Stopping) => self.phase = phase,
        }
    }

    fn stopped(&mut self, ctx: &mut Context<Self>) {
        self.registry.forget(self.id, &ctx.address());
        if std::thread::panicking() {
            tracing::error!(thread = %self.id, "the actor of the thread panicked");
            self.return_to_log(&RuntimeError::ActorStopped(self.id).into());
        }
    }
}

impl Handler<Tell> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: Tell, ctx: &mut Context<Self>) {
        self.take_input(message, ctx);
    }
}

impl Handler<Report> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: Report, ctx: &mut Context<Self>) {
        let Report { input, reply, cancel } = message;
        // Its call is closed, or was never in the log: then the next call may have got its id.
        if !cancel.is_cancelled() {
            self.take_input(Tell::of_work(input, reply, None), ctx);
        }
    }
}

impl Handler<CheckIdle> for ThreadActor {
    type Result = ();

    fn handle(&mut self, _message: CheckIdle, ctx: &mut Context<Self>) {
        self.sync_budget();
        self.check_branches(ctx);
    }
}

impl Handler<NextStep> for ThreadActor {
    type Result = ();

    fn handle(&mut self, _message: NextStep, ctx: &mut Context<Self>) {
        let step = |actor: &mut Self, ctx: &mut Context<Self>| {
            if let Phase::Live(live) = &mut actor.phase {
                live.step_is_asked_for = false;
            }
            actor.tick(ctx);
        };
        self.with_machine_here(step, ctx);
    }
}

impl Handler<PermitGranted> for ThreadActor {
    type Result = ();

    fn handle(&mut self, _message: PermitGranted, ctx: &mut Context<Self>) {
        self.pump(ctx);
    }
}

impl Handler<Passivate> for ThreadActor {
    type Result = ();

    fn handle(&mut self, _message: Passivate, ctx: &mut Context<Self>) {
        self.passivate_unless_expected(ctx);
    }
}

impl Handler<Halt> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: Halt, ctx: &mut Context<Self>) {
        let late = |actor: &mut Self, ctx: &mut Context<Self>| match &mut actor.phase {
            Phase::Live(live) => {
                live.running.clear();
                actor.rest(ctx);
            }
            // There is no room for what it keeps: it is lost, as in a crash.
            Phase::Unloaded(_) => actor.stop_and_hand_over(ctx),
            Phase::Beginning(_) | Phase::Elsewhere(_) | Phase::Stopping => {}
        };
        ctx.run_later(message.grace, move |actor, ctx| actor.with_machine_here(late, ctx));
        self.halting = true;
        match &self.phase {
            Phase::Live(_) => self.rest(ctx),
            Phase::Unloaded(_) => self.load(ctx),
            Phase::Beginning(_) | Phase::Elsewhere(_) | Phase::Stopping => {}
        }
    }
}
