//! One step: what the thread is told, the events that follow, and their way into the log.

use actix::prelude::*;
use rethread_events::event::Event;
use rethread_events::ids::{CallId, Position, Seq, Time};
use rethread_events::thread::{Input, StepError, Surroundings};
use rethread_store::{Append, Appended, Cause, ForkPoint, StoreError, Tag};

use super::live::Mode;
use super::{Reply, ThreadActor};
use crate::error::RuntimeError;
use crate::inner::Inner;
use crate::recorded::new_record;

impl ThreadActor {
    pub(super) fn tell(&mut self, input: Input, reply: Option<Reply>, ctx: &mut Context<Self>) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        let now = Inner::now();
        let cause = cause_of(&input).map(|call| match live.positions.get(&call) {
            Some(position) => Cause::At(*position),
            // Its request is still under way, and has no position that is known here.
            None => Cause::Own(call.0),
        });
        let around = Surroundings { now, tools: &*self.inner, models: &*self.inner };
        let stepped =
            if self.inner.observing { live.thread.note(input, &around) } else { live.thread.step(input, &around) };
        match stepped {
            Ok(events) if events.is_empty() => {
                if let Some(reply) = reply {
                    // What it found unchanged must be durable before anybody relies on it.
                    match live.under_way.back_mut() {
                        Some((_, last @ None)) => *last = Some(reply),
                        _ => drop(reply.send(Ok(None))),
                    }
                }
                self.pump(ctx);
            }
            Ok(events) => {
                self.append(events, now, cause, None, reply, ctx);
                self.pump(ctx);
            }
            Err(StepError::Rejected(rejected)) => {
                if let Some(reply) = reply {
                    let _ = reply.send(Err(RuntimeError::rejected(self.id, rejected)));
                }
                self.pump(ctx);
            }
            Err(StepError::Fold(error)) => {
                let error = RuntimeError::Fold(error);
                if let Some(reply) = reply {
                    let _ = reply.send(Err(error.clone()));
                }
                self.fail(&error, ctx);
            }
        }
    }

    pub(super) fn append(
        &mut self,
        events: Vec<Event>,
        now: Time,
        cause: Option<Cause>,
        fork_of: Option<ForkPoint>,
        reply: Option<Reply>,
        ctx: &mut Context<Self>,
    ) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        live.stirred = true;
        let end = live.thread.next_seq();
        let expected = Seq(end.0 - events.len() as u64);
        let mut records = Vec::with_capacity(events.len());
        for (i, event) in events.iter().enumerate() {
            // Within one decision each event follows from the one before it; several of one kind in a row, such as
            // the tool calls of one answer, follow from the same one.
            let kind = event.event_type().code;
            let before = events[..i].iter().rposition(|other| other.event_type().code != kind);
            let cause = match before {
                Some(before) if i > 0 => Some(Cause::SameAppend(before as u32)),
                _ if i == 0 => cause,
                _ => None,
            };
            match new_record(event, now, cause) {
                Ok(record) => records.push(record),
                Err(error) => {
                    let error = RuntimeError::Store(StoreError::Invalid(error.to_string()));
                    if let Some(reply) = reply {
                        let _ = reply.send(Err(error.clone()));
                    }
                    return self.fail(&error, ctx);
                }
            }
        }
        let opened: Vec<_> =
            (0..).zip(&events).filter(|(_, event)| opens_a_call(event)).map(|(i, _)| expected.0 + i).collect();
        let tag = Tag(live.thread.state().status().code());
        let append = Append { thread: self.id, expected, fork_of, trace: None, tag, records };
        live.under_way.push_back((end, reply));
        let answer = self.inner.store.append(append);
        ctx.spawn(answer.into_actor(self).map(move |answer, actor, ctx| match answer {
            Ok(appended) => actor.appended(end, &appended, expected, &opened, ctx),
            Err(error) => actor.fail(&error.into(), ctx),
        }));
    }

    fn appended(&mut self, end: Seq, appended: &Appended, first: Seq, opened: &[u64], ctx: &mut Context<Self>) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        live.fresh = false;
        live.durable = live.durable.max(end);
        live.last_position = live.last_position.max(appended.last_position);
        if live.durable == end {
            live.last_hash = appended.hash;
        }
        for seq in opened {
            live.positions.insert(CallId(Seq(*seq)), Position(appended.first_position.0 + seq - first.0));
        }
        // The store answers in order, but several answers may arrive before this actor is polled again.
        while let Some((seq, _)) = live.under_way.front()
            && *seq <= end
        {
            if let Some((_, Some(reply))) = live.under_way.pop_front() {
                let _ = reply.send(Ok(Some(appended.last_position)));
            }
        }
        self.pump(ctx);
    }
}

fn opens_a_call(event: &Event) -> bool {
    matches!(event, Event::LlmCallRequested(_) | Event::ToolExecutionRequest(_) | Event::UserInteractionRequested(_))
}

/// The call that an input answers: its request is the cause of what follows.
fn cause_of(input: &Input) -> Option<CallId> {
    match input {
        Input::ModelAnswered { call, .. }
        | Input::ModelFailed { call, .. }
        | Input::ModelTryFailed { call, .. }
        | Input::ModelProgress { call, .. }
        | Input::ToolAnswered { call, .. }
        | Input::ToolFailed { call, .. }
        | Input::ToolProgress { call, .. } => Some(*call),
        Input::Respond { interaction, .. }
        | Input::CancelInteraction { interaction }
        | Input::InteractionFailed { interaction, .. } => Some(*interaction),
        Input::Tick
        | Input::Recover
        | Input::Pause { .. }
        | Input::Resume
        | Input::Cancel { .. }
        | Input::Abort { .. }
        | Input::Checkpoint { .. }
        | Input::AddMessage(_)
        | Input::SetVariables(_) => None,
    }
}
