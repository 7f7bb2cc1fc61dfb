//! The actor of one live thread: a pump. It asks the machine, appends, does, and tells the machine.
//!
//! What may be repeated (a model call, a `safe` tool) begins while its request is still being flushed; everything
//! else, and everything that anybody is told, waits until the log has it.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use actix_rt::ArbiterHandle;
use rethread_events::event::{ForkChanges, ThreadStarted};
use rethread_events::ids::{Position, ThreadId};
use rethread_events::thread::{Input, State};
use rethread_events::workflow::Workflow;
use tokio::sync::oneshot;

use self::live::Mode;
use crate::error::RuntimeError;
use crate::inner::Inner;

mod live;
mod pump;
mod question;
mod rest;
mod start;
mod step;

/// How a new thread begins.
pub(crate) enum Begin {
    /// From nothing.
    New { workflow: Arc<Workflow>, started: ThreadStarted, reply: Reply },
    /// From a moment of another thread.
    Fork { parent: Box<State>, changes: ForkChanges, workflow: Arc<Workflow>, reply: Reply },
}

/// The position of the last event an input led to, once it is durable; `None` when it changed nothing.
pub(crate) type Reply = oneshot::Sender<Result<Option<Position>, RuntimeError>>;

/// Tells the thread something.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Tell {
    pub(crate) input: Input,
    pub(crate) reply: Option<Reply>,
}

/// Somebody waits for the thread, who may have come after it last said where it stands.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Look;

/// The thread has come back to find nothing to do, and leaves unless a message that waited for it says otherwise.
#[derive(Message)]
#[rtype(result = "()")]
struct PutAway;

/// Brings the thread to a halt: nothing new begins; what runs may end within the grace time; what is appended
/// becomes durable.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Halt {
    pub(crate) grace: Duration,
}

pub(crate) struct ThreadActor {
    id: ThreadId,
    inner: Arc<Inner>,
    slot: usize,
    mode: Mode,
}

impl ThreadActor {
    pub(crate) fn start_on(
        arbiter: &ArbiterHandle,
        inner: Arc<Inner>,
        id: ThreadId,
        slot: usize,
        begin: Option<Begin>,
    ) -> Addr<Self> {
        let mode = begin.map_or(Mode::Loading, |begin| Mode::Beginning(Box::new(begin)));
        Self::start_in_arbiter(arbiter, move |ctx| {
            ctx.set_mailbox_capacity(inner.limits.mailbox_max);
            Self { id, inner, slot, mode }
        })
    }
}

impl Actor for ThreadActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        match std::mem::replace(&mut self.mode, Mode::Gone) {
            Mode::Beginning(begin) => self.begin(*begin, ctx),
            Mode::Loading => {
                self.mode = Mode::Loading;
                self.load(ctx);
            }
            mode @ (Mode::Live(_) | Mode::Gone) => self.mode = mode,
        }
    }

    fn stopped(&mut self, ctx: &mut Context<Self>) {
        self.inner.forget(self.id, &ctx.address());
        if std::thread::panicking() {
            tracing::error!(thread = %self.id, "the actor of the thread panicked");
            self.inner.activity.failed(self.id, &RuntimeError::ActorStopped(self.id));
        }
    }
}

impl Handler<Tell> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: Tell, ctx: &mut Context<Self>) {
        self.tell(message.input, message.reply, ctx);
    }
}

impl Handler<Look> for ThreadActor {
    type Result = ();

    fn handle(&mut self, _message: Look, ctx: &mut Context<Self>) {
        self.rest(ctx);
    }
}

impl Handler<PutAway> for ThreadActor {
    type Result = ();

    fn handle(&mut self, _message: PutAway, ctx: &mut Context<Self>) {
        self.put_away(ctx);
    }
}

impl Handler<Halt> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: Halt, ctx: &mut Context<Self>) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        live.halting = true;
        ctx.run_later(message.grace, |actor, ctx| {
            if let Mode::Live(live) = &mut actor.mode {
                live.running.clear();
                actor.rest(ctx);
            }
        });
        self.rest(ctx);
    }
}
