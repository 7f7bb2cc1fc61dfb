//! Delivery of messages that must arrive at a thread.
//!
//! An actor that stops drops its mailbox without notice. So the one rule is: a message that must arrive is
//! delivered, as here: the sender waits until it was taken, and gives it to the next actor if this one stopped
//! before. Only three kinds of messages are sent without this: reports of work of the thread to the actor that began
//! it, which stays as long as that work is wanted; what is of no use to an actor that is not in memory, because one that
//! is activated asks for it; and those that make an actor check its state or stop.

use std::sync::Arc;

use actix::{Context, Handler, Message};
use rethread_events::ids::{Seq, ThreadId};
use rethread_events::thread::Input;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::{ControlError, RuntimeError};
use crate::label_limits::StartPermit;
use crate::port::Reply;
use crate::registry::{Live, ThreadRegistry};
use crate::thread_actor::ThreadActor;
use crate::thread_actor::messages::{CheckIdle, Settle, SyncPause, Tell};
use rethread_events::text::with_sources;

/// How often a thread is asked whose actor took the question and stopped before it replied.
const TRIES: usize = 5;

/// A message and its place in the mailbox, which is free again when the message is handled. A sender that gives up
/// before it got a place leaves nothing to handle.
pub(crate) struct Placed<M>(M, OwnedSemaphorePermit);

impl<M: Message> Message for Placed<M> {
    type Result = M::Result;
}

/// What must arrive. That a thread handles it is said by a function and not by a bound: a bound of `Handler` on the
/// implementation below would ask for itself without end.
pub(crate) trait Brought: Message<Result = ()> + Send + 'static {
    fn taken(self, by: &mut ThreadActor, ctx: &mut Context<ThreadActor>);
}

macro_rules! brought {
    ($($message:ty),*) => {
        $(impl Brought for $message {
            fn taken(self, by: &mut ThreadActor, ctx: &mut Context<ThreadActor>) {
                by.handle(self, ctx);
            }
        })*
    };
}

brought!(Tell, CheckIdle, SyncPause, Settle);

impl<M: Brought> Handler<Placed<M>> for ThreadActor {
    type Result = ();

    fn handle(&mut self, Placed(message, _place): Placed<M>, ctx: &mut Context<Self>) {
        message.taken(self, ctx);
    }
}

/// Delivers a message to a thread, which is activated if it is not in memory. `message` makes it, once for each
/// attempt.
///
/// # Errors
/// `ShuttingDown`; `ActorStopped` when the thread goes away each time, because it cannot be read.
pub(crate) async fn deliver<M: Brought>(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    mut message: impl FnMut() -> M,
) -> Result<(), RuntimeError> {
    let give = |live: Live| {
        let message = message();
        async move {
            if let Ok(place) = live.places.clone().acquire_owned().await
                && live.actor.send(Placed(message, place)).await.is_ok()
            {
                return Ok(());
            }
            Err(live)
        }
    };
    registry.hand_over(thread, give).await
}

/// Delivers a message of another part of the runtime, without waiting for an answer. A failure is reported
/// if the thread is returned to the log, and before that nothing changed.
pub(crate) async fn deliver_unasked(registry: &Arc<ThreadRegistry>, thread: ThreadId, input: Input) {
    let brought = deliver(registry, thread, || Tell::unasked(input.clone())).await;
    if let Err(error) = brought
        && !registry.is_shutting_down()
    {
        tracing::error!(%thread, error = with_sources(&error), "the thread could not be told");
    }
}

/// Asks something of a thread; durable when it answers, in the thread and in the branches that follow it, with the
/// seq of the first event it led to in the thread.
pub(crate) async fn ask(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    input: Input,
) -> Result<Option<Seq>, ControlError> {
    ask_to_begin(registry, thread, input, None).await
}

/// The same of an input that begins a run, which has this permit.
pub(crate) async fn ask_to_begin(
    registry: &Arc<ThreadRegistry>,
    thread: ThreadId,
    input: Input,
    permit: Option<Arc<StartPermit>>,
) -> Result<Option<Seq>, ControlError> {
    ask_with(registry, thread, permit, |reply| Tell::asked(input.clone(), reply)).await
}

/// Waits until everything that the thread decided so far is durable, in it and in the branches that follow it.
pub(crate) async fn settle(registry: &Arc<ThreadRegistry>, thread: ThreadId) -> Result<(), ControlError> {
    ask_with(registry, thread, None, Settle).await.map(drop)
}

async fn ask_with<M: Brought>(
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
        deliver(registry, thread, make).await?;
        // Taken, and not answered: the actor broke down over it, or was brought to a halt.
        if let Some(answer) = answer
            && let Ok(answered) = answer.await
        {
            return answered;
        }
    }
    Err(RuntimeError::ActorStopped(thread).into())
}
