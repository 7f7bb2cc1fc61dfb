//! Delivery of messages that must arrive at a thread.
//!
//! An actor that stops drops its mailbox without notice. So a message that must arrive is sent with these functions:
//! the sender waits until it was taken, and sends it to the next actor if this one stopped before. Only three kinds of
//! messages are sent without this: reports of a thread's own work, to the actor that began it and that stays while that
//! work is wanted; messages that an actor outside memory does not need, because it asks for their content when it is
//! activated; and messages that make an actor check its state or stop.

use std::sync::Arc;
use std::time::Duration;

use actix::{Context, Handler, Message};
use rethread_events::ids::{Position, Seq, ThreadId};
use rethread_events::thread::Input;
use rethread_store::StoreError;
use tokio::sync::OwnedSemaphorePermit;

use crate::blocking::blocking;
use crate::error::{ControlError, RuntimeError};
use crate::label_limits::StartPermit;
use crate::port::Reply;
use crate::registry::{Live, ThreadRegistry};
use crate::shared::ask::{ask as ask_its_runtime, retry_elsewhere};
use crate::shared::request::Request;
use crate::thread_actor::ThreadActor;
use crate::thread_actor::messages::{CheckIdle, Settle, SyncPause, Tell};

/// How often a message is sent again to a thread whose actor took it and stopped before it replied.
const TRIES: usize = 5;
/// How long to wait before a report is sent to the next actor of a thread.
const CONFLICT_RETRY: Duration = Duration::from_millis(5);
/// How long to wait before a retry if the log cannot be read or written.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// A message and its permit for the mailbox, which is released when the message is handled. If a sender gives up before
/// it got a permit, there is nothing to handle.
pub(crate) struct WithPermit<M>(M, OwnedSemaphorePermit);

impl<M: Message> Message for WithPermit<M> {
    type Result = M::Result;
}

/// A message that must arrive. A function and not a bound says that a thread handles it: a bound of `Handler` on the
/// implementation below would be recursive without end.
pub(crate) trait Deliverable: Message<Result = ()> + Send + 'static {
    fn handle_by(self, by: &mut ThreadActor, ctx: &mut Context<ThreadActor>);
}

macro_rules! deliverable {
    ($($message:ty),*) => {
        $(impl Deliverable for $message {
            fn handle_by(self, by: &mut ThreadActor, ctx: &mut Context<ThreadActor>) {
                by.handle(self, ctx);
            }
        })*
    };
}

deliverable!(Tell, CheckIdle, SyncPause, Settle);

impl<M: Deliverable> Handler<WithPermit<M>> for ThreadActor {
    type Result = ();

    fn handle(&mut self, WithPermit(message, _place): WithPermit<M>, ctx: &mut Context<Self>) {
        message.handle_by(self, ctx);
    }
}

/// Delivers a message to a thread, which is activated if it is not in memory. `message` makes it, once for each
/// attempt.
///
/// # Errors
/// `ShuttingDown`; `ActorStopped` if the actor stops each time, because the thread cannot be read.
pub(crate) async fn deliver<M: Deliverable>(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    mut message: impl FnMut() -> M,
) -> Result<(), RuntimeError> {
    let send = |live: Live, place: Option<OwnedSemaphorePermit>| {
        let message = message();
        async move {
            let place = match place {
                Some(place) => Ok(place),
                None => live.places.clone().acquire_owned().await,
            };
            if let Ok(place) = place
                && live.actor.send(WithPermit(message, place)).await.is_ok()
            {
                return Ok(());
            }
            Err(live)
        }
    };
    registry.hand_over(thread, send).await
}

/// Sends an input to a thread. When this returns, it is durable in the thread and in the branches that follow it.
/// Returns the seq of the first event that it led to in the thread.
pub(crate) async fn ask(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    input: Input,
) -> Result<Option<Seq>, ControlError> {
    ask_to_begin(registry, thread, input, None).await
}

/// As `ask`, for an input that begins a run, which has this permit.
pub(crate) async fn ask_to_begin(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    input: Input,
    permit: Option<Arc<StartPermit>>,
) -> Result<Option<Seq>, ControlError> {
    let request = || Request::give(thread, &input, None);
    ask_with(registry, thread, permit, request, |reply| Tell::asked(input.clone(), reply)).await
}

/// Reports to a thread what happened outside of it, until the report is durable. `cause` is the event of another thread
/// that the report follows from. A report that changes nothing is accepted. Returns the seq of the first event that it led
/// to.
pub(crate) async fn report(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    input: Input,
    cause: Option<Position>,
) -> Result<Option<Seq>, ControlError> {
    loop {
        let request = || Request::give(thread, &input, Some(cause));
        let message = |reply| Tell::reported(input.clone(), cause, reply);
        let reported = ask_with(registry, thread, None, request, message).await;
        let error = match reported {
            Ok(first) => return Ok(first),
            Err(error) => error,
        };
        let wait = match error.runtime() {
            _ if is_of_outdated_actor(&error) => CONFLICT_RETRY,
            Some(RuntimeError::Store(error)) if error.is_temporary() => STORE_RETRY,
            _ => return Err(error),
        };
        if registry.is_shutting_down() {
            return Err(error);
        }
        registry.sleep(wait).await;
    }
}

/// As `ask`, for an input whose rejection must be that of the thread in the log. An actor of a repeated start rejects what the
/// thread has received, until its first append conflicts: so the input is given again once what it relied on is settled.
pub(crate) async fn ask_again(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    input: Input,
) -> Result<Option<Seq>, ControlError> {
    let mut is_rejected = false;
    for _ in 1..TRIES {
        match ask(registry, thread, input.clone()).await {
            Err(error) if is_of_outdated_actor(&error) => registry.sleep(CONFLICT_RETRY).await,
            Err(ControlError::Rejected { .. }) if !std::mem::replace(&mut is_rejected, true) => {
                // Its error is that of an actor that the next attempt does not reach.
                drop(settle(registry, thread).await);
            }
            asked => return asked,
        }
    }
    ask(registry, thread, input).await
}

/// Whether the actor that took the input was one of a repeated start, or is folded anew. This says nothing of what the thread
/// in the log has received.
pub(crate) fn is_of_outdated_actor(error: &ControlError) -> bool {
    let conflicts = |error: &RuntimeError| {
        matches!(error, RuntimeError::Store(StoreError::Conflict { .. } | StoreError::Fenced { .. }))
    };
    error.runtime().is_some_and(conflicts)
}

/// Waits until everything that the thread decided so far is durable, in it and in the branches that follow it.
pub(crate) async fn settle(registry: &Arc<ThreadRegistry>, thread: ThreadId) -> Result<(), ControlError> {
    ask_with(registry, thread, None, || Request::Settle { thread }, Settle).await.map(drop)
}

/// Sends a message to a thread, or the request that stands for it to the runtime that has the thread.
async fn ask_with<M: Deliverable>(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    permit: Option<Arc<StartPermit>>,
    request: impl Fn() -> Request,
    message: impl Fn(Reply) -> M,
) -> Result<Option<Seq>, ControlError> {
    let attempt = || async {
        match registry.has_slot(thread) {
            true => ask_here(registry, thread, permit.clone(), &message).await,
            false => ask_its_runtime(registry, thread, &request()).await,
        }
    };
    retry_elsewhere(registry, attempt).await
}

async fn ask_here<M: Deliverable>(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    permit: Option<Arc<StartPermit>>,
    message: impl Fn(Reply) -> M,
) -> Result<Option<Seq>, ControlError> {
    for _ in 0..TRIES {
        let mut answer = None;
        let make = || {
            let (reply, receiver) = Reply::channel(permit.clone());
            answer = Some(receiver);
            message(reply)
        };
        match deliver(registry, thread, make).await {
            Err(RuntimeError::ActorStopped(_)) => break,
            delivered => delivered?,
        }
        // Taken, and not answered: the actor panicked, or was stopped.
        if let Some(answer) = answer
            && let Ok(answered) = answer.await
        {
            return answered;
        }
    }
    // It may be one that cannot be loaded, now or ever: its actor stops, and what is in its mailbox is dropped.
    let services = registry.services.clone();
    match blocking(move || services.load(thread)).await? {
        Err(error) => Err(error.into()),
        Ok(_) => Err(RuntimeError::ActorStopped(thread).into()),
    }
}
