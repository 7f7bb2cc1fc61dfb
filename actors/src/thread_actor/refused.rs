//! An append that the log refused: the machine that decided on it is discarded, and its later events are void.

use std::time::Duration;

use actix::prelude::*;
use rethread_events::ids::Seq;

use super::ThreadActor;
use super::live::{Phase, Progress};
use super::messages::Tell;
use super::pending_inputs::{RetainedWork, WorkReport};
use crate::clock;
use crate::doubtful_starts;
use crate::error::{ReadError, RuntimeError};
use rethread_events::text::with_sources;
use rethread_store::StoreError;

/// How long to wait before a log that takes no writes is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Returns whether a new decision may succeed. One that conflicts was made before a write that was in doubt had happened.
fn is_for_now(error: &ReadError) -> bool {
    let ReadError::Runtime(RuntimeError::Store(error)) = error else { return false };
    error.is_temporary() || matches!(error, StoreError::Conflict { .. })
}

impl ThreadActor {
    /// Handles the refusal of the append that ends before `end`.
    pub(super) fn refused(&mut self, end: Seq, error: ReadError, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        // Appends after a refused one are refused because of it.
        if live.refused.as_ref().is_none_or(|(first, _)| end < *first) {
            live.refused = Some((end, error));
        }
        self.settle_refusal(ctx);
    }

    /// Discards the machine, once all appends before the refused one have their results.
    pub(super) fn settle_refusal(&mut self, ctx: &mut Context<Self>) {
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let Some((_, error)) =
            live.refused.take_if(|(end, _)| live.under_way.front().is_none_or(|first| first.end >= *end))
        else {
            return;
        };
        if live.progress == Progress::New || !is_for_now(&error) {
            return self.fail(&error, ctx);
        }
        for handle in [live.alarm.take().map(|(_, alarm)| alarm), live.idle.take()].into_iter().flatten() {
            ctx.cancel_future(handle);
        }
        let mut kept =
            RetainedWork::before(live.durable, std::mem::take(&mut live.running), std::mem::take(&mut live.asking));
        let mut asking = Vec::new();
        for append in live.under_way.drain(..) {
            asking.extend(append.replies.into_iter().chain(append.later));
            if let Some(report) = append.report.filter(|report| report.is_before(live.durable)) {
                kept.keep(report, None, &self.services.room);
            }
        }
        self.life += 1;
        self.phase = Phase::Unloaded(Box::new(kept));
        self.wait_for_room(&error, ctx);
        // Last: a caller that is notified of the failure may retry at once, and must find nothing of this attempt.
        for reply in asking {
            reply.send(Err(error.clone().into()));
        }
    }

    /// Keeps inputs until the thread is reloaded. An input from outside triggers an attempt at once.
    pub(super) fn keep(&mut self, message: Tell, ctx: &mut Context<Self>) {
        let Phase::Unloaded(kept) = &mut self.phase else {
            return;
        };
        if message.is_work {
            return kept.keep(
                WorkReport { input: message.input, place: message.place },
                message.reply,
                &self.services.room,
            );
        }
        if message.reply.is_some() {
            kept.waiting.push_back(message);
            self.load(ctx);
        }
    }

    /// Handles a log that takes no writes, for example one without room: the thread is not failed, and its waiters continue
    /// to wait.
    pub(super) fn wait_for_room(&mut self, error: &ReadError, ctx: &mut Context<Self>) {
        let Phase::Unloaded(kept) = &mut self.phase else {
            return;
        };
        tracing::warn!(thread = %self.id, error = with_sources(error), "the thread waits until the log takes writes");
        let asking = kept.take_asking();
        if kept.is_empty() {
            // Nothing of it is in memory: a timer activates it.
            self.stop_actor(ctx);
            if !self.registry.is_shutting_down() {
                self.registry.timers.set(self.id, clock::now().plus_ms(RETRY_AFTER.as_millis() as u64));
            }
        } else {
            kept.retry = Some(ctx.run_later(RETRY_AFTER, Self::load));
        }
        for reply in asking {
            reply.send(Err(error.clone().into()));
        }
    }

    /// Handles a thread that could not be folded from the log.
    pub(super) fn not_loaded(&mut self, error: &ReadError, ctx: &mut Context<Self>) {
        if is_for_now(error) { self.wait_for_room(error, ctx) } else { self.fail(error, ctx) }
    }

    /// Returns the thread to the log after a permanent error, and notifies its waiters.
    pub(super) fn fail(&mut self, error: &ReadError, ctx: &mut Context<Self>) {
        tracing::warn!(thread = %self.id, error = with_sources(error), "the thread is reset to its state in the log");
        self.spans.leave("put_back");
        let (fresh, asking) = match &mut self.phase {
            Phase::Live(live) => (
                live.progress == Progress::New,
                live.under_way.drain(..).flat_map(|append| append.replies.into_iter().chain(append.later)).collect(),
            ),
            Phase::Unloaded(kept) => (false, kept.take_asking()),
            Phase::Beginning(_) | Phase::Elsewhere(_) | Phase::Stopping => (false, Vec::new()),
        };
        self.stop_actor(ctx);
        if fresh {
            // It never began. Callers that waited for the thread of that id read the log.
            self.registry.waiters.left(self.id, true);
            if matches!(error, ReadError::Runtime(RuntimeError::Store(StoreError::InDoubt { .. }))) {
                actix_rt::spawn(doubtful_starts::follow(self.registry.clone(), self.id));
            }
        } else {
            self.return_to_log(error);
        }
        // Last: a caller that is notified of the failure may retry at once, and must find nothing of this attempt.
        for reply in asking {
            reply.send(Err(error.clone().into()));
        }
    }
}
