//! One step: the input, the events that follow, and their append to the log.

use actix::prelude::*;
use rethread_events::event::Event;
use rethread_events::ids::{CallId, Position, Seq, Time, TraceId};
use rethread_events::thread::{Env, Input, Status, StepError, Thread, runs_of};
use rethread_store::{Append, Appended, Cause, ForkPoint, StoreError, Tag};

use super::ThreadActor;
use super::asking;
use super::branches::ForBranches;
use super::ends::Ends;
use super::live::{PendingAppend, Phase, Progress};
use super::messages::Tell;
use super::pending_inputs::WorkReport;
use crate::branch_states::BranchState;
use crate::clock;
use crate::counters::Tally;
use crate::crashes::{Entered, Step};
use crate::error::{ControlError, ReadError};
use crate::inputs::key_of;
use crate::labels;
use crate::port::Reply;
use crate::recorded::new_record;
use crate::stream_keys;

/// An append to make.
pub(super) struct Batch {
    pub(super) events: Vec<Event>,
    pub(super) now: Time,
    pub(super) cause: Option<Cause>,
    pub(super) fork_of: Option<ForkPoint>,
    pub(super) trace: Option<TraceId>,
    pub(super) reply: Option<Reply>,
    pub(super) report: Option<WorkReport>,
    /// The step that led to it, which has completed when it is durable.
    pub(super) step: Option<Step>,
}

impl ThreadActor {
    /// Gives the machine the current time.
    pub(super) fn tick(&mut self, ctx: &mut Context<Self>) {
        self.take_input(Tell::unasked(Input::Tick), ctx);
    }

    /// Gives an input to the machine, or keeps it for later.
    pub(super) fn take_input(&mut self, message: Tell, ctx: &mut Context<Self>) {
        if matches!(self.phase, Phase::Unloaded(_)) {
            return self.keep(message, ctx);
        }
        self.step(message, ctx);
        self.pump(ctx);
    }

    /// Gives an input to the machine, and appends the events. Begins no effects. A long step is done after this
    /// returns, and its effects are begun then.
    pub(super) fn step(&mut self, message: Tell, ctx: &mut Context<Self>) {
        if let Phase::Elsewhere(elsewhere) = &mut self.phase {
            return elsewhere.next.push_back(message);
        }
        let rejected_answer = self.rejected_answer(&message.input);
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let Tell { input, reply, cause, is_work, place } = message;
        if let Some(rejected) = rejected_answer {
            if let Some(reply) = reply {
                reply.send(Err(ControlError::rejected(self.id, rejected)));
            }
            return;
        }
        let clock = clock::now();
        let now = live.thread.state().time_at(clock);
        let call = key_of(&input).filter(|_| cause.is_none());
        let cause = call.map_or(cause.map(Cause::At), |(call, _)| {
            Some(match live.positions.get(&call) {
                Some(position) => Cause::At(*position),
                // Its request is still pending, or from before the thread was loaded: its position is unknown here.
                None => Cause::Own(call.0),
            })
        });
        let report = is_work.then(|| WorkReport { input: input.clone(), place });
        // What is requested while the runtime stops would not be begun, and the next runtime could not know that.
        let goes_on = self.services.mode.runs() && !self.halting;
        let takes_long = live.takes_long_with(&input);
        // A tool that asks gets its reply at once: further events come with the next step.
        let is_asked = takes_long && matches!(input.given(), Input::ToolAsks { .. });
        let crashes = self.services.crashes.clone();
        let take = move |thread: &mut Thread, around: &Env<'_>| {
            let under_way = crashes.enter_machine(|| Step::machine(thread.state(), &input));
            let stepped =
                if goes_on && !is_asked { thread.step(input, around) } else { thread.record_only(input, around) };
            if !goes_on {
                thread.settle(around);
            }
            (stepped, under_way.and_then(Entered::over))
        };
        let then = move |actor: &mut Self, (stepped, step), ctx: &mut Context<Self>| {
            let batch = Batch { events: Vec::new(), now, cause, fork_of: None, trace: None, reply, report, step };
            actor.stepped(stepped, batch, is_work, ctx);
        };
        self.with_machine(takes_long && !is_asked, clock, take, then, ctx);
    }

    fn stepped(
        &mut self,
        stepped: Result<Vec<Event>, StepError>,
        batch: Batch,
        is_work: bool,
        ctx: &mut Context<Self>,
    ) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        match stepped {
            Ok(events) if events.is_empty() => {
                if let Some(reply) = batch.reply {
                    // What it relies on must be durable before the caller is notified.
                    live.reply_when_durable(reply);
                    self.services.store.hurry();
                }
            }
            Ok(events) => {
                // Work only needs to know if its report was rejected.
                let reply = batch.reply.filter(|_| !is_work);
                self.append(Batch { events, reply, ..batch }, ctx);
            }
            Err(StepError::Rejected(rejected)) => {
                if let Some(reply) = batch.reply {
                    reply.send(Err(ControlError::rejected(self.id, rejected)));
                }
            }
            Err(StepError::Fold(error)) => {
                let error = ReadError::from(error);
                if let Some(reply) = batch.reply {
                    reply.send(Err(error.clone().into()));
                }
                self.fail(&error, ctx);
            }
        }
    }

    pub(super) fn append(&mut self, batch: Batch, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let Batch { events, now, cause, fork_of, trace, reply, report, step } = batch;
        if live.progress == Progress::Reloaded {
            live.progress = Progress::Continues;
        }
        self.services.imported.goes_on(self.id, &self.services.store);
        self.spans.follow(&events);
        let ended = self.durations.follow(&events, now);
        if events.iter().any(|event| matches!(event, Event::RunStarted(_))) {
            // The end of the run before is outdated.
            drop(self.registry.recent_ends.take(self.id));
        }
        let end = live.thread.next_seq();
        let expected = Seq(end.0 - events.len() as u64);
        let mut records = Vec::with_capacity(events.len());
        let runs = runs_of(&events, live.thread.state().run_id());
        for (i, (event, run)) in events.iter().zip(runs).enumerate() {
            // Within one decision each event follows from the one before it; several of one kind in a row, such as
            // the tool calls of one answer, follow from the same one.
            let kind = event.event_type().code;
            let before = events[..i].iter().rposition(|other| other.event_type().code != kind);
            let cause = match before {
                Some(before) if i > 0 => Some(Cause::SameAppend(before as u32)),
                _ if i == 0 => cause,
                _ => None,
            };
            match new_record(event, now, cause, Some(run)) {
                Ok(record) => records.push(record),
                Err(error) => {
                    let error = ReadError::from(StoreError::Invalid(error.to_string()));
                    if let Some(reply) = reply {
                        reply.send(Err(error.clone().into()));
                    }
                    return self.fail(&error, ctx);
                }
            }
        }
        live.bytes += records.iter().map(|record| record.payload.len()).sum::<usize>();
        let opened: Vec<_> =
            (0..).zip(&events).filter(|(_, event)| opens_a_call(event)).map(|(i, _)| expected.0 + i).collect();
        let is_spent = live.thread.state().has_branches() && live.thread.state().budget_is_spent();
        let was_spent = std::mem::replace(&mut live.budget_is_spent, is_spent);
        let follows = ForBranches::of(&events, was_spent, is_spent, live.branches.as_ref());
        let (answers, tally) = (asking::answers_to_tools(&events), Tally::of(&events, ended));
        let spending = live.thread.state().spending_for_parent();
        let tag = Tag(live.thread.state().status().code());
        let change = self.services.labels.appends(live.thread.state(), &events);
        // A thread is listed by its labels from its first records on.
        let is_first = fork_of.is_some() || expected == Seq(0);
        let blobs = if is_first { labels::blobs(live.thread.state().labels()) } else { Vec::new() };
        let after = stream_keys::keys_of(live.thread.state(), &live.thread.workflow().spec().search);
        let keys = stream_keys::changes(&live.keys, &after);
        live.keys = after;
        let suspended_until = live.thread.state().next_deadline().filter(|_| stream_keys::has_timer(&live.keys));
        let changed = keys.clone();
        if stream_keys::has_thread_wait(&live.keys) {
            self.registry.thread_waits.begins();
        }
        let ends = Ends::of(&events, live.thread.state());
        // What was called has its result appended behind this. Until then only a call that must not run ahead of the disk
        // waits for it, see `pump`.
        let is_awaited = reply.is_some() || opened.is_empty() || live.thread.state().status() != Status::Running;
        let append = Append { thread: self.id, expected, fork_of, trace, tag, records, blobs, keys, is_awaited };
        let replies = reply.into_iter().collect();
        live.under_way.push_back(PendingAppend { first: expected, end, replies, later: Vec::new(), report });
        let (answer, life) = (self.services.store.append(append), self.life);
        ctx.spawn(answer.into_actor(self).map(move |answer, actor, ctx| {
            if answer.is_ok() {
                actor.registry.queues.keys_changed(&changed);
                actor.ends_are_durable(ends);
            } else {
                actor.services.labels.refused(actor.id);
            }
            let answered = move |actor: &mut Self, ctx: &mut Context<Self>| match answer {
                Ok(_) if actor.life != life => {
                    actor.services.counters.appended(&tally);
                    actor.services.labels.appended(actor.id, change, false);
                }
                Err(_) if actor.life != life => {}
                Ok(appended) => {
                    actor.services.crashes.completed(step);
                    if let Some(at) = suspended_until {
                        actor.registry.next_in_log.added(at);
                    }
                    actor.services.counters.appended(&tally);
                    let is_last = matches!(&actor.phase, Phase::Live(live) if live.durable <= end);
                    actor.services.labels.appended(actor.id, change, is_last);
                    // First: a thread that has ended is removed by what follows.
                    actor.branches_follow(follows);
                    actor.answer_tools(answers);
                    actor.report_spending(spending, appended.last_position);
                    actor.appended(end, &appended, expected, &opened, ctx);
                }
                Err(error) => actor.refused(end, error.into(), ctx),
            };
            actor.with_machine_here(answered, ctx);
        }));
        self.notify_parent(BranchState::Runs);
    }

    fn appended(&mut self, end: Seq, appended: &Appended, first: Seq, opened: &[u64], ctx: &mut Context<Self>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        live.progress = Progress::Continues;
        live.durable = live.durable.max(end);
        live.last_position = live.last_position.max(appended.last_position);
        if live.durable == end {
            live.last_hash = appended.hash;
        }
        for seq in opened {
            live.positions.insert(CallId(Seq(*seq)), Position(appended.first_position.0 + seq - first.0));
        }
        // The store answers in order, but several answers may arrive before this actor is polled again.
        while let Some(append) = live.under_way.pop_front_if(|append| append.end <= end) {
            live.reply(append.replies, Some(append.first));
            live.reply(append.later, None);
        }
        self.settle_refusal(ctx);
        self.pump(ctx);
    }
}

fn opens_a_call(event: &Event) -> bool {
    matches!(
        event,
        Event::LlmCallRequested(_)
            | Event::ToolExecutionRequest(_)
            | Event::UserInteractionRequested(_)
            | Event::ConditionEvaluationRequested(_)
            | Event::ContextSummaryRequested(_)
            | Event::ContextProcessingRequested(_)
            | Event::StrategyDecisionRequested(_)
            | Event::GuardrailRequested(_)
    )
}
