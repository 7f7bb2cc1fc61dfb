//! How a thread is told what must arrive.
//!
//! An actor that stops drops what lies in its mailbox, and nobody hears of it. So the one rule is: what must arrive is
//! brought, as here: whoever brings it waits until it was taken, and gives it to the successor when the actor went away
//! before. Only three kinds of messages are sent and left alone: what work of the thread says to the actor that began
//! it, which stays as long as that work is wanted; what is of no use to an actor that is not in memory, because one that
//! comes back asks for it; and those that tell an actor to look or to leave.

use std::sync::Arc;

use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Addr, Handler, Message};
use rethread_events::ids::{Position, ThreadId};
use rethread_events::thread::Input;
use tokio::sync::oneshot;

use crate::error::RuntimeError;
use crate::inner::Inner;
use crate::thread_actor::{Tell, ThreadActor};

/// How often a message is given to the successor of an actor that went away before it took the message.
const TRIES: usize = 5;

/// Brings a message to a thread, which comes back for it when it is not in memory. `message` makes it, once for each
/// try.
///
/// # Errors
/// `ShuttingDown`; `ActorStopped` when the thread goes away each time, because it cannot be read.
pub(crate) async fn bring<M>(
    inner: &Arc<Inner>,
    thread: ThreadId,
    message: impl FnMut() -> M,
) -> Result<M::Result, RuntimeError>
where
    M: Message + Send + 'static,
    M::Result: MessageResponse<ThreadActor, M> + Send,
    ThreadActor: Handler<M>,
{
    let answer = hand_over(|| inner.activate(thread), |gone| inner.forget(thread, gone), message).await?;
    answer.ok_or(RuntimeError::ActorStopped(thread))
}

/// Brings what another part of the runtime has to say, which waits for no answer. That it could not be brought is told
/// where the thread is put back, and before that nothing changed.
pub(crate) async fn bring_unasked(inner: &Arc<Inner>, thread: ThreadId, input: Input) {
    let brought = bring(inner, thread, || Tell::unasked(input.clone())).await;
    if let Err(error) = brought
        && !inner.is_shutting_down()
    {
        tracing::error!(%thread, %error, "the thread could not be told");
    }
}

/// Asks something of a thread; durable when it answers, with the position of the last event it led to.
pub(crate) async fn ask(inner: &Arc<Inner>, thread: ThreadId, input: Input) -> Result<Option<Position>, RuntimeError> {
    for _ in 0..TRIES {
        let mut answer = None;
        let tell = || {
            let (reply, receiver) = oneshot::channel();
            answer = Some(receiver);
            Tell::asked(input.clone(), reply)
        };
        bring(inner, thread, tell).await?;
        // Taken, and not answered: the actor broke down over it, or was brought to a halt.
        if let Some(answer) = answer
            && let Ok(answered) = answer.await
        {
            return answered;
        }
    }
    Err(RuntimeError::ActorStopped(thread))
}

/// Gives a message to the actor that `find` finds, and when that one went away before it took it, to the next one.
/// `None` when all of them went away.
async fn hand_over<A, M, E>(
    find: impl Fn() -> Result<Addr<A>, E>,
    forget: impl Fn(&Addr<A>),
    mut message: impl FnMut() -> M,
) -> Result<Option<M::Result>, E>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: MessageResponse<A, M> + Send,
{
    for _ in 0..TRIES {
        let actor = find()?;
        match actor.send(message()).await {
            Ok(answer) => return Ok(Some(answer)),
            Err(_) => forget(&actor),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
