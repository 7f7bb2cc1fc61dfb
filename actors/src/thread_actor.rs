//! The actor of one live thread: a pump. It asks the machine, appends, does, and tells the machine.
//!
//! What may be repeated (a model call, a `safe` tool) begins while its request is still being flushed; everything
//! else, and everything that anybody is told, waits until the log has it.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use actix_rt::ArbiterHandle;
use rethread_events::event::ThreadStarted;
use rethread_events::ids::{CallId, Position, ThreadId, TraceId};
use rethread_events::json::Json;
use rethread_events::thread::{Fork, Input, State};
use rethread_events::workflow::Workflow;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

pub(crate) use self::asking::AskForTool;
pub(crate) use self::branches::{BranchReport, CheckOwnership, Pauses, ReportStatus, Settle, Standing, SyncPause};
use self::live::Mode;
use crate::error::RuntimeError;
use crate::inner::Inner;
use crate::spans::Spans;

pub(crate) use self::pending_inputs::{MemoryBudget, call_of};
pub(crate) use self::perform::Asked;

mod asking;
mod branches;
mod live;
mod machine;
mod pending_inputs;
mod perform;
mod pump;
mod question;
mod refused;
mod rest;
mod start;
mod stay;
mod step;

/// How a new thread begins.
pub(crate) enum Begin {
    /// From nothing.
    New { workflow: Arc<Workflow>, started: ThreadStarted, reply: Reply },
    /// From a moment of another thread.
    Fork {
        parent: Arc<State>,
        fork: Box<Fork>,
        /// Answers to questions that it inherits, in the same append as its beginning: all of it or nothing.
        answers: Vec<(CallId, Json)>,
        workflow: Arc<Workflow>,
        trace: Option<TraceId>,
        reply: Reply,
    },
}

impl Begin {
    /// The state that it begins from, where that is not nothing.
    fn from(&self) -> Option<&State> {
        match self {
            Self::New { .. } => None,
            Self::Fork { parent, .. } => Some(parent),
        }
    }
}

/// How an actor comes to its thread.
pub(crate) enum Start {
    /// The thread begins.
    Begin(Box<Begin>),
    /// It is folded from the log; a place among those that are folded is given back then.
    Load(Option<OwnedSemaphorePermit>),
}

/// The position of the last event an input led to, once it is durable; `None` when it changed nothing.
pub(crate) type Reply = oneshot::Sender<Result<Option<Position>, RuntimeError>>;

/// Tells the thread something.
pub(crate) struct Tell {
    input: Input,
    reply: Option<Reply>,
    /// The thread's own work that says it: what it says is void when it was called off, and nobody else has it, so
    /// that it is kept while the log has no room. Absent for whoever is outside, and told when there is no room.
    work: Option<CancellationToken>,
}

impl Message for Tell {
    type Result = ();
}

impl Tell {
    /// Another part of the runtime tells it, and waits for nothing.
    pub(crate) fn unasked(input: Input) -> Self {
        Self { input, reply: None, work: None }
    }

    /// Somebody outside tells it.
    pub(crate) fn asked(input: Input, reply: Reply) -> Self {
        Self { input, reply: Some(reply), work: None }
    }

    /// Work that the thread began tells it; `cancel` is what calls that work off.
    pub(crate) fn said(input: Input, cancel: &CancellationToken) -> Self {
        Self { input, reply: None, work: Some(cancel.clone()) }
    }
}

/// Somebody waits for the thread, who may have come after it last said where it stands.
pub(crate) struct CheckIdle;

impl Message for CheckIdle {
    type Result = ();
}

/// A call of the thread no longer waits for a permit: its deadline is known again.
struct PermitGranted;

impl Message for PermitGranted {
    type Result = ();
}

/// The thread has come back to find nothing to do, and leaves unless a message that waited for it says otherwise.
struct Passivate;

impl Message for Passivate {
    type Result = ();
}

/// The thread takes its next step without an input. At most one is in the mailbox.
struct NextStep;

impl Message for NextStep {
    type Result = ();
}

/// Brings the thread to a halt: nothing new begins; what runs may end within the grace time; what is appended
/// becomes durable.
pub(crate) struct Halt {
    pub(crate) grace: Duration,
}

impl Message for Halt {
    type Result = ();
}

pub(crate) struct ThreadActor {
    id: ThreadId,
    inner: Arc<Inner>,
    slot: usize,
    mode: Mode,
    /// How many machines it has thrown away: what becomes of their appends is of no interest any more.
    life: u64,
    spans: Spans,
    /// Its place among the threads that are folded after a start, until it is.
    loading: Option<OwnedSemaphorePermit>,
}

impl ThreadActor {
    pub(crate) fn start_on(
        arbiter: &ArbiterHandle,
        inner: Arc<Inner>,
        id: ThreadId,
        slot: usize,
        start: Start,
    ) -> Addr<Self> {
        let (mode, loading) = match start {
            Start::Begin(begin) => (Mode::Beginning(begin), None),
            Start::Load(place) => (Mode::Away(Box::default()), place),
        };
        Self::start_in_arbiter(arbiter, move |ctx| {
            ctx.set_mailbox_capacity(inner.limits.mailbox_max);
            // Here and not where it was asked for: who asked may have a subscriber of its own.
            let spans = Spans::begin(id, inner.content_in_spans);
            Self { id, inner, slot, mode, life: 0, spans, loading }
        })
    }
}

impl Actor for ThreadActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        match std::mem::replace(&mut self.mode, Mode::Gone) {
            Mode::Beginning(begin) => self.begin(*begin, ctx),
            Mode::Away(kept) => {
                self.mode = Mode::Away(kept);
                self.load(ctx);
            }
            mode @ (Mode::Live(_) | Mode::Elsewhere(_) | Mode::Gone) => self.mode = mode,
        }
    }

    fn stopped(&mut self, ctx: &mut Context<Self>) {
        self.inner.forget(self.id, &ctx.address());
        if std::thread::panicking() {
            tracing::error!(thread = %self.id, "the actor of the thread panicked");
            self.give_back(&RuntimeError::ActorStopped(self.id));
        }
    }
}

impl Handler<Tell> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: Tell, ctx: &mut Context<Self>) {
        self.tell(message, ctx);
    }
}

impl Handler<CheckIdle> for ThreadActor {
    type Result = ();

    fn handle(&mut self, _message: CheckIdle, ctx: &mut Context<Self>) {
        self.look(ctx);
    }
}

impl Handler<NextStep> for ThreadActor {
    type Result = ();

    fn handle(&mut self, _message: NextStep, ctx: &mut Context<Self>) {
        if let Mode::Live(live) = &mut self.mode {
            live.step_is_asked_for = false;
        }
        self.tell(Tell::unasked(Input::Tick), ctx);
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
        self.put_away_or_stay(ctx);
    }
}

impl Handler<Halt> for ThreadActor {
    type Result = ();

    fn handle(&mut self, message: Halt, ctx: &mut Context<Self>) {
        ctx.run_later(message.grace, |actor, ctx| match &mut actor.mode {
            Mode::Live(live) => {
                live.running.clear();
                actor.rest(ctx);
            }
            // There is no room for what it keeps: it is lost, as in a crash.
            Mode::Away(_) => actor.leave(ctx),
            Mode::Beginning(_) | Mode::Elsewhere(_) | Mode::Gone => {}
        });
        match &mut self.mode {
            Mode::Live(live) => {
                live.halting = true;
                self.rest(ctx);
            }
            Mode::Away(kept) => {
                kept.halting = true;
                self.load(ctx);
            }
            Mode::Beginning(_) | Mode::Elsewhere(_) | Mode::Gone => {}
        }
    }
}
