//! Starts the actor of a thread: from nothing, from a moment of another thread, from the log.

use std::sync::Arc;

use actix::prelude::*;
use rethread_events::event::Event;
use rethread_events::fault::ExecutionError;
use rethread_events::ids::{CallId, Hash, Position, Seq, ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::principal::Principal;
use rethread_events::text::json_bytes;
use rethread_events::thread::{Env, Fork, Input, NoWaits, State, StepError, Thread};
use rethread_events::workflow::Workflow;
use rethread_store::ForkPoint;

use super::ThreadActor;
use super::asking;
use super::live::{Live, Phase, Progress, STEP_READS_MAX};
use super::messages::{Begin, Origin, Tell};
use super::pending_inputs::RetainedWork;
use super::step::Batch;
use crate::clock;
use crate::crashes::{Class, Entered, Step};
use crate::error::{ControlError, RuntimeError};
use crate::load::Loaded;
use crate::services::Services;

impl ThreadActor {
    pub(super) fn begin(&mut self, begin: Begin, ctx: &mut Context<Self>) {
        let Begin { workflow, origin, trace, needs_room: _, reply } = begin;
        let clock = clock::now();
        let (now, point, takes_long) = match &origin {
            Origin::Nothing { first, .. } => {
                let started = &first.started;
                let reads = || json_bytes(&started.input) + json_bytes(&started.variables);
                (clock, None, !workflow.is_cheap() || reads() > STEP_READS_MAX)
            }
            // The size of its state is unknown.
            Origin::Moment { parent, .. } => {
                self.spans.is_at(parent);
                self.durations.is_at(parent);
                let point = parent.last_seq().map(|seq| ForkPoint { parent: parent.thread(), seq });
                (parent.time_at(clock), point, true)
            }
        };
        // A call that may be repeated may crash the process before the log has the thread.
        let at_limit = |class| self.services.crashes.at_limit(self.id, class);
        let crashed = at_limit(Class::Begin).or_else(|| at_limit(Class::Run)).map(|count| count.error());
        let is_given_up = crashed.is_some();
        let (services, id) = (self.services.clone(), self.id);
        let make = move || {
            let under_way = services.crashes.enter(|| Step::begin(id, origin.state()));
            let made = made(&services, id, workflow, origin, crashed, now);
            (made, under_way.and_then(Entered::over).filter(|_| !is_given_up))
        };
        let then = move |actor: &mut Self, (made, step): (Made, Option<Step>), ctx: &mut Context<Self>| {
            let (thread, events) = match made {
                Ok(made) => made,
                Err(error) => {
                    reply.send(Err(error));
                    return actor.stop_and_hand_over(ctx);
                }
            };
            let expected = point.map_or(Seq(0), |point| point.seq.next());
            let live = Live::new(thread, expected, Position(0), Hash::ZERO, None);
            // Inherited data may be large.
            let bytes = if point.is_some() { STEP_READS_MAX } else { 0 };
            actor.phase = Phase::Live(Box::new(Live { progress: Progress::New, bytes, keys: Vec::new(), ..live }));
            let (reply, report) = (Some(reply), None);
            actor.append(Batch { events, now, cause: None, fork_of: point, trace, reply, report, step }, ctx);
            actor.pump(ctx);
        };
        if !takes_long {
            return then(self, make(), ctx);
        }
        ctx.wait(actix_rt::task::spawn_blocking(make).into_actor(self).map(move |made, actor, ctx| match made {
            Ok(made) => then(actor, made, ctx),
            // It panicked, or the runtime stops: the reply to the caller was dropped with it.
            Err(_) => actor.stop_and_hand_over(ctx),
        }));
    }

    /// Folds the thread from the log, if it is not loaded.
    pub(super) fn load(&mut self, ctx: &mut Context<Self>) {
        let Phase::Unloaded(kept) = &mut self.phase else {
            return;
        };
        if let Some(retry) = kept.retry.take() {
            ctx.cancel_future(retry);
        }
        let services = self.services.clone();
        let id = self.id;
        let loading = actix_rt::task::spawn_blocking(move || services.load(id));
        let loaded = async move { loading.await.unwrap_or(Err(RuntimeError::ActorStopped(id).into())) };
        // Messages wait in the mailbox until the thread is loaded.
        ctx.wait(loaded.into_actor(self).map(|loaded, actor, ctx| {
            match loaded {
                Ok((loaded, workflow)) => actor.on_loaded(loaded, workflow, ctx),
                Err(error) => actor.not_loaded(&error, ctx),
            }
            actor.loading = None;
        }));
    }

    fn on_loaded(&mut self, loaded: Loaded, workflow: Arc<Workflow>, ctx: &mut Context<Self>) {
        let kept = match std::mem::replace(&mut self.phase, Phase::Stopping) {
            Phase::Unloaded(kept) => *kept,
            phase => {
                self.phase = phase;
                return;
            }
        };
        self.registry.timers.clear(self.id);
        let next = loaded.state.next_seq();
        self.services.labels.loaded(&loaded.state);
        self.services.imported.loaded(self.id);
        self.spans.is_at(&loaded.state);
        self.durations.is_at(&loaded.state);
        let thread = Thread::resume(loaded.state, workflow);
        let clock = clock::now();
        let now = thread.state().time_at(clock);
        // In-flight work that is unknown here was lost. The machine decides what happens to each call.
        let goes_on = self.services.mode.runs() && !self.halting;
        // A read-only thread is not run.
        let crashed = self.services.crashes.at_limit(self.id, Class::Run);
        let crashed = crashed.filter(|_| goes_on && !thread.state().is_ended()).map(|count| count.error());
        let is_given_up = crashed.is_some();
        let known = kept.known();
        let RetainedWork { running, asking, waiting, retry: _ } = kept;
        let live = Live::new(thread, next, loaded.last_position, loaded.last_hash, loaded.snapshot);
        let Loaded { bytes, short_steps, .. } = loaded;
        let live = Live { running, asking, bytes, short_steps, ..live };
        let takes_long = live.takes_long();
        self.phase = Phase::Live(Box::new(live));
        let crashes = self.services.crashes.clone();
        let take = move |thread: &mut Thread, around: &Env<'_>| {
            let under_way = crashes.enter(|| Step::machine(thread.state(), &Input::Recover));
            let recovered = match crashed {
                Some(error) => thread.record_only(Input::Crashed { error }, around),
                None if goes_on => thread.recover_but(|key| known.contains(&key), around).map_err(StepError::from),
                None => Ok(Vec::new()),
            };
            thread.settle(around);
            (recovered, under_way.and_then(Entered::over).filter(|_| !is_given_up))
        };
        let then = move |actor: &mut Self, (recovered, step), ctx: &mut Context<Self>| {
            match recovered {
                Ok(events) if Vec::is_empty(&events) => {}
                Ok(events) => {
                    let (reply, report) = (None, None);
                    actor.append(
                        Batch { events, now, cause: None, fork_of: None, trace: None, reply, report, step },
                        ctx,
                    );
                }
                Err(StepError::Fold(error)) => return actor.fail(&error.into(), ctx),
                // The runtime gave this input, so no caller can correct it.
                Err(StepError::Rejected(_)) => return actor.fail(&RuntimeError::ActorStopped(actor.id).into(), ctx),
            }
            // Before any effect is begun: reports that have arrived need not be requested again.
            for message in waiting {
                actor.step(message, ctx);
            }
            if goes_on {
                actor.reconcile_parent(ctx);
                actor.follow_starter();
                actor.count_late_branches();
                actor.step(Tell::unasked(Input::Tick), ctx);
            }
            actor.pump(ctx);
        };
        self.with_machine(takes_long, clock, take, then, ctx);
    }
}

impl Origin {
    /// Returns the state that a thread begins from, unless it begins from nothing.
    fn state(&self) -> Option<&State> {
        match self {
            Self::Nothing { .. } => None,
            Self::Moment { parent, .. } => Some(parent),
        }
    }
}

/// The machine of a new thread, and its first events.
type Made = Result<(Thread, Vec<Event>), ControlError>;

fn made(
    services: &Services,
    id: ThreadId,
    workflow: Arc<Workflow>,
    origin: Origin,
    crashed: Option<ExecutionError>,
    now: Time,
) -> Made {
    let around = Env { now, tools: services, models: services, permits: &NoWaits };
    match origin {
        Origin::Nothing { first, waits } => Ok(match crashed {
            Some(error) => Thread::begin_crashed(id, workflow, *first, error, &around)?,
            None if waits => Thread::begin_queued(id, workflow, *first, &around)?,
            None => Thread::begin(id, workflow, *first, &around)?,
        }),
        Origin::Moment { parent, fork, answers } => {
            let answers = if crashed.is_some() { Vec::new() } else { answers };
            let fork = Fork { crashed, ..*fork };
            let by = fork.by.clone();
            let forked = Thread::fork(id, &parent, fork, workflow, &around)?;
            answered(forked, answers, by.as_ref(), services.mode.runs(), &around)
                .map_err(|error| ControlError::of_step(parent.thread(), error))
        }
    }
}

/// Returns a fork that was begun, with the answers to questions that it inherits.
fn answered(
    (mut thread, mut events): (Thread, Vec<Event>),
    answers: Vec<(CallId, Json)>,
    by: Option<&Principal>,
    goes_on: bool,
    around: &Env<'_>,
) -> Result<(Thread, Vec<Event>), StepError> {
    for (interaction, data) in answers {
        // What ran at that moment does not run in the fork, so no tool would receive the answer.
        if let Some(rejected) = asking::tool_is_gone(thread.state(), interaction) {
            return Err(rejected.into());
        }
        let response = Input::Respond { interaction, data }.by(by.cloned());
        events.extend(if goes_on { thread.step(response, around)? } else { thread.record_only(response, around)? });
    }
    Ok((thread, events))
}
