//! Coming to life: from nothing, from a moment of another thread, from the log.

use std::sync::Arc;

use actix::prelude::*;
use rethread_events::event::Event;
use rethread_events::ids::{CallId, Hash, Position, Seq};
use rethread_events::json::Json;
use rethread_events::principal::Principal;
use rethread_events::thread::{Fork, Input, NoWaits, StepError, Surroundings, Thread};
use rethread_events::workflow::Workflow;
use rethread_store::ForkPoint;

use super::asking;
use super::kept::{Kept, Waiting};
use super::live::{Live, Mode};
use super::step::Batch;
use super::{Begin, ThreadActor};
use crate::crashes::{Class, Entered, Step};
use crate::error::RuntimeError;
use crate::inner::Inner;
use crate::load::{self, Loaded};

impl ThreadActor {
    pub(super) fn begin(&mut self, begin: Begin, ctx: &mut Context<Self>) {
        let clock = Inner::now();
        let now = match &begin {
            Begin::New { .. } => clock,
            Begin::Fork { parent, .. } => parent.time_at(clock),
        };
        let around = Surroundings { now, tools: &*self.inner, models: &*self.inner, permits: &NoWaits };
        // A call that may be repeated may end the process before the log has the thread.
        let at_limit = |class| self.inner.crashes.at_limit(self.id, class);
        let crashed = at_limit(Class::Begin).or_else(|| at_limit(Class::Run)).map(|count| count.error());
        let is_given_up = crashed.is_some();
        let under_way = self.inner.crashes.enter(|| Step::begin(self.id, begin.from()));
        let (made, fork_of, trace, reply) = match begin {
            Begin::New { workflow, started, reply } => {
                let made = match crashed {
                    Some(error) => Thread::begin_crashed(self.id, workflow, started, error, &around),
                    None => Thread::begin(self.id, workflow, started, &around),
                };
                let made = made.map_err(RuntimeError::from);
                (made, None, None, reply)
            }
            Begin::Fork { parent, fork, answers, workflow, trace, reply } => {
                self.spans.is_at(&parent);
                let point = parent.last_seq().map(|seq| ForkPoint { parent: parent.thread(), seq });
                let answers = if crashed.is_some() { Vec::new() } else { answers };
                let fork = Box::new(Fork { crashed, ..*fork });
                let by = fork.by.clone();
                let made = Thread::fork(self.id, &parent, *fork, workflow, &around).map_err(RuntimeError::from);
                let made = made.and_then(|(thread, events)| {
                    let goes_on = !self.inner.observing;
                    answered((thread, events), answers, by.as_ref(), goes_on, &around)
                        .map_err(|error| RuntimeError::of_step(parent.thread(), error))
                });
                (made, point, trace, reply)
            }
        };
        let step = under_way.and_then(Entered::over).filter(|_| !is_given_up);
        let (thread, events) = match made {
            Ok(made) => made,
            Err(error) => {
                let _ = reply.send(Err(error));
                return self.leave(ctx);
            }
        };
        let expected = fork_of.map_or(Seq(0), |point| point.seq.next());
        let live = Live::new(thread, expected, Position(0), Hash::ZERO, None);
        self.mode = Mode::Live(Box::new(Live { fresh: true, ..live }));
        self.append(Batch { events, now, cause: None, fork_of, trace, reply: Some(reply), said: None, step }, ctx);
        self.pump(ctx);
    }

    /// Folds the thread from the log, if it is not there.
    pub(super) fn load(&mut self, ctx: &mut Context<Self>) {
        let Mode::Away(kept) = &mut self.mode else {
            return;
        };
        if let Some(retry) = kept.retry.take() {
            ctx.cancel_future(retry);
        }
        let inner = self.inner.clone();
        let id = self.id;
        let loading = actix_rt::task::spawn_blocking(move || {
            let loaded = inner.crashes.folding(id, || load::present(&*inner.store, id))?;
            let workflow = inner.definitions.of(id, &loaded.state)?;
            Ok((loaded, workflow))
        });
        let loaded = async move { loading.await.unwrap_or(Err(RuntimeError::ActorStopped(id))) };
        // Messages wait in the mailbox until the thread is there.
        ctx.wait(loaded.into_actor(self).map(|loaded, actor, ctx| {
            match loaded {
                Ok((loaded, workflow)) => actor.come_back(loaded, workflow, ctx),
                Err(error) => actor.not_loaded(&error, ctx),
            }
            actor.loading = None;
        }));
    }

    fn come_back(&mut self, loaded: Loaded, workflow: Arc<Workflow>, ctx: &mut Context<Self>) {
        let kept = match std::mem::replace(&mut self.mode, Mode::Gone) {
            Mode::Away(kept) => *kept,
            mode => {
                self.mode = mode;
                return;
            }
        };
        self.inner.timers.clear(self.id);
        let next = loaded.state.next_seq();
        self.spans.is_at(&loaded.state);
        let mut thread = Thread::resume(loaded.state, workflow);
        let clock = Inner::now();
        let now = thread.state().time_at(clock);
        let around = Surroundings { now: clock, tools: &*self.inner, models: &*self.inner, permits: &kept.running };
        // What was in flight and is not known of here is so no more. The machine says what becomes of each call.
        let goes_on = !self.inner.observing && !kept.halting;
        // A thread that only looks is not run.
        let crashed = self.inner.crashes.at_limit(self.id, Class::Run);
        let crashed = crashed.filter(|_| goes_on && !thread.state().is_ended()).map(|count| count.error());
        let is_given_up = crashed.is_some();
        let under_way = self.inner.crashes.enter(|| Step::machine(thread.state(), &Input::Recover));
        let recovered = match crashed {
            Some(error) => thread.note(Input::Crashed { error }, &around),
            None if goes_on => thread.recover_but(|key| kept.knows(key), &around).map_err(StepError::from),
            None => Ok(Vec::new()),
        };
        let step = under_way.and_then(Entered::over).filter(|_| !is_given_up);
        let Kept { running, asking, waiting, retry: _, halting } = kept;
        let live = Live::new(thread, next, loaded.last_position, loaded.last_hash, loaded.snapshot);
        self.mode = Mode::Live(Box::new(Live { running, asking, halting, ..live }));
        match recovered {
            Ok(events) if events.is_empty() => {}
            Ok(events) => {
                let (reply, said) = (None, None);
                self.append(Batch { events, now, cause: None, fork_of: None, trace: None, reply, said, step }, ctx);
            }
            Err(error) => return self.fail(&RuntimeError::of_step(self.id, error), ctx),
        }
        // Before anything is begun: what is at hand need not be asked for again.
        for told in waiting {
            let is_work = told.place.is_some();
            self.step(told, is_work, ctx);
        }
        if goes_on {
            self.ask_owner();
            self.step(Waiting { input: Input::Tick, reply: None, place: None, cause: None }, false, ctx);
        }
        self.pump(ctx);
    }
}

/// A fork that was begun, with the answers to questions that it inherits.
fn answered(
    (mut thread, mut events): (Thread, Vec<Event>),
    answers: Vec<(CallId, Json)>,
    by: Option<&Principal>,
    goes_on: bool,
    around: &Surroundings<'_>,
) -> Result<(Thread, Vec<Event>), StepError> {
    for (interaction, data) in answers {
        // What ran at that moment does not run in the fork, so no tool would hear the answer.
        if let Some(rejected) = asking::left(thread.state(), interaction) {
            return Err(rejected.into());
        }
        let told = Input::Respond { interaction, data }.by(by.cloned());
        events.extend(if goes_on { thread.step(told, around)? } else { thread.note(told, around)? });
    }
    Ok((thread, events))
}
