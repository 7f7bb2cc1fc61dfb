//! The actor of one live thread: a pump. It asks the machine, appends, does, and tells the machine.
//!
//! What may be repeated (a model call, a `safe` tool) begins while its request is still being flushed; everything
//! else, and everything that anybody is told, waits until the log has it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use actix_rt::ArbiterHandle;
use rethread_events::bin;
use rethread_events::event::{Event, ForkChanges, ThreadStarted};
use rethread_events::ids::{CallId, Hash, Position, Seq, ThreadId, Time};
use rethread_events::thread::{Effect, Input, STATE_VERSION, State, StepError, Surroundings, Thread, Wait};
use rethread_events::workflow::Workflow;
use rethread_store::{Append, Appended, Cause, ForkPoint, Snapshot, StoreError, Tag};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::activity::Rest;
use crate::error::RuntimeError;
use crate::inner::Inner;
use crate::interaction::{InteractionContext, InteractionRequest};
use crate::llm_executor::CallModel;
use crate::load::{self, Loaded};
use crate::recorded::new_record;
use crate::snapshots;
use crate::tool_executor::CallTool;

/// How long to wait before a thread whose append was refused for lack of room is tried again.
const RETRY_AFTER_MS: u64 = 1_000;

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

enum Mode {
    /// To be begun when the actor starts.
    Beginning(Box<Begin>),
    /// To be folded from the log when the actor starts; messages wait meanwhile.
    Loading,
    Live(Box<Live>),
    /// Stopping: whoever writes to it meanwhile writes to its successor.
    Gone,
}

struct Live {
    thread: Thread,
    /// The seq after the last durable event.
    durable: Seq,
    last_position: Position,
    last_hash: Hash,
    /// Positions of the open calls' requests, as causes of what they lead to.
    positions: HashMap<CallId, Position>,
    /// Appends under way, in order: whom to tell, and the seq after their last event.
    under_way: VecDeque<(Seq, Option<Reply>)>,
    /// What was begun; dropping an entry calls the work off.
    running: HashMap<(CallId, u32), DropGuard>,
    /// When something is next to happen by itself.
    next_due: Option<Time>,
    /// The timer for that; rings at that time or before.
    alarm: Option<(Time, SpawnHandle)>,
    /// The seq of the last snapshot.
    snapshot: Option<Seq>,
    idle: Option<SpawnHandle>,
    /// Whether its first append has not been acknowledged yet.
    fresh: bool,
    /// Whether anything happened since it came back. One that only looked whether there was something to do need not
    /// stay.
    stirred: bool,
    halting: bool,
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

// Coming to life.
impl ThreadActor {
    fn begin(&mut self, begin: Begin, ctx: &mut Context<Self>) {
        let now = Inner::now();
        let around = Surroundings { now, tools: &*self.inner, models: &*self.inner };
        let (made, fork_of, reply) = match begin {
            Begin::New { workflow, started, reply } => {
                (Thread::begin(self.id, workflow, started, &around), None, reply)
            }
            Begin::Fork { parent, changes, workflow, reply } => {
                let point = parent.last_seq().map(|seq| ForkPoint { parent: parent.thread(), seq });
                (Thread::fork(self.id, &parent, changes, workflow, &around), point, reply)
            }
        };
        let (thread, events) = match made {
            Ok(made) => made,
            Err(error) => {
                let _ = reply.send(Err(error.into()));
                return self.leave(ctx);
            }
        };
        let expected = fork_of.map_or(Seq(0), |point| point.seq.next());
        let live = Live::new(thread, expected, Position(0), Hash::ZERO, None);
        self.mode = Mode::Live(Box::new(Live { fresh: true, ..live }));
        self.append(events, now, None, fork_of, Some(reply), ctx);
        self.pump(ctx);
    }

    fn load(&mut self, ctx: &mut Context<Self>) {
        let inner = self.inner.clone();
        let id = self.id;
        let loading = actix_rt::task::spawn_blocking(move || {
            let loaded = load::present(&*inner.store, id)?;
            let workflow = inner.definitions.of(id, &loaded.state)?;
            Ok((loaded, workflow))
        });
        let loaded = async move { loading.await.unwrap_or(Err(RuntimeError::ActorStopped(id))) };
        // Messages wait in the mailbox until the thread is there.
        ctx.wait(loaded.into_actor(self).map(|loaded, actor, ctx| match loaded {
            Ok((loaded, workflow)) => actor.come_back(loaded, workflow, ctx),
            Err(error) => actor.fail(&error, ctx),
        }));
    }

    fn come_back(&mut self, loaded: Loaded, workflow: Arc<Workflow>, ctx: &mut Context<Self>) {
        self.inner.timers.clear(self.id);
        let next = loaded.state.next_seq();
        let thread = Thread::resume(loaded.state, workflow);
        let live = Live::new(thread, next, loaded.last_position, loaded.last_hash, loaded.snapshot);
        self.mode = Mode::Live(Box::new(live));
        if self.inner.observing {
            return self.pump(ctx);
        }
        // Nothing that was in flight is any more. The machine says what becomes of each call.
        self.tell(Input::Recover, None, ctx);
        self.tell(Input::Tick, None, ctx);
    }
}

// The pump.
impl ThreadActor {
    fn tell(&mut self, input: Input, reply: Option<Reply>, ctx: &mut Context<Self>) {
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

    fn append(
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

    /// Begins what is owed, calls off what no longer is, and sees what is to be waited for.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        if let Some(idle) = live.idle.take() {
            ctx.cancel_future(idle);
        }
        let now = Inner::now();
        let effects = live.thread.effects();
        live.running.retain(|key, _| effects.iter().any(|effect| effect.key() == *key));
        live.positions.retain(|call, _| effects.iter().any(|effect| effect.key().0 == *call));
        let mut next = live.thread.state().next_deadline();
        if !live.halting && !self.inner.observing && !live.thread.state().is_paused() {
            for effect in effects {
                let key = effect.key();
                if live.running.contains_key(&key) {
                    continue;
                }
                if effect.not_before() > now {
                    next = Some(next.map_or(effect.not_before(), |next| next.min(effect.not_before())));
                } else if effect.may_be_repeated() || key.0.0 < live.durable {
                    let token = CancellationToken::new();
                    if Self::perform(&self.inner, self.id, self.slot, live, effect, token.clone(), ctx) {
                        live.running.insert(key, token.drop_guard());
                    }
                }
            }
        }
        self.set_alarm(next.filter(|_| !self.inner.observing), ctx);
        self.rest(ctx);
    }

    /// Begins an effect. False when there is nobody to do it now.
    fn perform(
        inner: &Arc<Inner>,
        id: ThreadId,
        slot: usize,
        live: &Live,
        effect: Effect,
        cancel: CancellationToken,
        ctx: &Context<Self>,
    ) -> bool {
        let Some(slot) = inner.slot(slot) else {
            return false;
        };
        let thread = ctx.address();
        match effect {
            Effect::CallModel(call) => {
                let Some(request) = live.thread.state().model_request() else {
                    return false;
                };
                slot.llm.do_send(CallModel { thread, id, call, request, cancel });
            }
            Effect::CallTool(run) => {
                let workspace = live.thread.state().workspace().map(str::to_owned);
                slot.tools.do_send(CallTool { thread, id, run, workspace, cancel });
            }
            Effect::AskPerson(ask) => {
                let Some(handler) = &inner.handler else {
                    return false;
                };
                let Some(run) = live.thread.state().node_run() else {
                    return false;
                };
                let interaction = ask.id;
                let request = InteractionRequest {
                    id: ask.id,
                    operation_type: ask.operation_type,
                    prompt: ask.prompt,
                    deadline: ask.deadline,
                    metadata: ask.metadata,
                };
                let state = live.thread.state().clone();
                let cx = InteractionContext { thread: id, node: run.node.clone(), state, cancel: cancel.clone() };
                let handler = handler.clone();
                // A panic of the handler itself is contained as one of its future is.
                let answer = async move { handler.handle(request, cx).await };
                actix_rt::spawn(async move {
                    let answer = tokio::select! {
                        biased;
                        () = cancel.cancelled() => return,
                        answer = crate::tool_executor::contained(answer) => answer,
                    };
                    let input = match answer.unwrap_or_else(|panic| Err(panic.message)) {
                        Ok(data) => Input::Respond { interaction, data },
                        Err(detail) => Input::InteractionFailed { interaction, detail },
                    };
                    let (reply, rejected) = oneshot::channel();
                    thread.do_send(Tell { input, reply: Some(reply) });
                    // An answer that cannot be used must not leave the question to a handler that thinks it is done.
                    if let Ok(Err(RuntimeError::Rejected { source, .. })) = rejected.await {
                        let detail = source.to_string();
                        thread.do_send(Tell { input: Input::InteractionFailed { interaction, detail }, reply: None });
                    }
                });
            }
        }
        true
    }

    /// Deadlines move with every step, mostly away: an alarm that is set too early is left to ring, and then set anew,
    /// which costs less than a timer for each step.
    fn set_alarm(&mut self, next: Option<Time>, ctx: &mut Context<Self>) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        live.next_due = next;
        let Some(next) = next else {
            return;
        };
        if live.alarm.as_ref().is_some_and(|(at, _)| *at <= next) {
            return;
        }
        if let Some((_, alarm)) = live.alarm.take() {
            ctx.cancel_future(alarm);
        }
        let wait = Duration::from_micros(next.unix_us().saturating_sub(Inner::now().unix_us()));
        live.alarm = Some((next, ctx.run_later(wait, Self::rings)));
    }

    fn rings(&mut self, ctx: &mut Context<Self>) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        live.alarm = None;
        match live.next_due {
            Some(at) if at <= Inner::now() => self.tell(Input::Tick, None, ctx),
            next => self.set_alarm(next, ctx),
        }
    }

    /// What the thread has come to: tells whoever waits, keeps a snapshot, puts itself away.
    fn rest(&mut self, ctx: &mut Context<Self>) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        let now = Inner::now();
        let wait = live.thread.waits_for(&Surroundings { now, tools: &*self.inner, models: &*self.inner });
        if wait == Wait::Itself && !live.halting && !self.inner.observing {
            return ctx.notify(Tell { input: Input::Tick, reply: None });
        }
        if !live.under_way.is_empty() {
            return;
        }
        let ended = wait == Wait::Nothing;
        // Whose time is up waits for nobody any more: its alarm is about to say so.
        let settled = |until: Option<Time>| self.inner.observing || until.is_none_or(|at| at > now);
        if ended || matches!(wait, Wait::Somebody { until } if settled(until)) {
            let rest = || Rest { state: live.thread.state().clone(), last_position: live.last_position };
            self.inner.activity.at_rest(self.id, rest, ended);
        }
        if (ended || live.running.is_empty()) && !live.stirred {
            // It was brought back for somebody, whose message is handled first.
            return ctx.notify(PutAway);
        }
        if ended || live.halting && live.running.is_empty() {
            return self.put_away(ctx);
        }
        if snapshots::is_due(live.thread.next_seq(), live.snapshot) {
            live.snapshot = live.thread.state().last_seq();
            keep_snapshot(&self.inner, live);
        }
        if live.running.is_empty() && live.idle.is_none() {
            let wait = Duration::from_millis(self.inner.limits.passivate_after_ms);
            live.idle = Some(ctx.run_later(wait, |actor, ctx| actor.put_away(ctx)));
        }
    }

    /// Leaves the thread to the log: the next input brings it back.
    fn put_away(&mut self, ctx: &mut Context<Self>) {
        let Mode::Live(live) = &mut self.mode else {
            return;
        };
        if !live.under_way.is_empty() || !live.running.is_empty() {
            return;
        }
        let (next_due, ended) = (live.next_due, live.thread.state().is_ended());
        if ended {
            give_snapshot_back(&self.inner, live);
        } else if snapshots::is_due_when_put_away(live.thread.next_seq(), live.snapshot) {
            keep_snapshot(&self.inner, live);
        }
        self.leave(ctx);
        // After it has left: a timer that finds this actor still there would wake nobody.
        if let Some(at) = next_due.filter(|_| !ended && !self.inner.is_shutting_down()) {
            self.inner.timers.set(self.id, at);
        }
    }

    fn leave(&mut self, ctx: &mut Context<Self>) {
        let ended = matches!(&self.mode, Mode::Live(live) if live.thread.state().is_ended());
        self.go(ctx);
        // Behind the going: who asks later finds nobody here and looks into the log.
        self.inner.activity.left(self.id, ended);
    }

    fn go(&mut self, ctx: &mut Context<Self>) {
        self.mode = Mode::Gone;
        self.inner.forget(self.id, &ctx.address());
        ctx.stop();
    }

    /// What was not acknowledged is void: the machine is thrown away, and the thread comes back from the log.
    fn fail(&mut self, error: &RuntimeError, ctx: &mut Context<Self>) {
        tracing::warn!(thread = %self.id, %error, "the thread is put back to what the log has");
        let (fresh, under_way) = match &mut self.mode {
            Mode::Live(live) => (live.fresh, std::mem::take(&mut live.under_way)),
            Mode::Beginning(_) | Mode::Loading | Mode::Gone => (false, VecDeque::new()),
        };
        self.go(ctx);
        match error {
            // It never began. Whoever took it for the thread of that id looks into the log.
            _ if fresh => self.inner.activity.left(self.id, true),
            // There will be room again: the thread is not given up, and whoever waits for it waits on.
            RuntimeError::Store(StoreError::Full { .. } | StoreError::Busy { .. }) => {
                self.inner.timers.set(self.id, Inner::now().plus_ms(RETRY_AFTER_MS));
            }
            _ => self.inner.activity.failed(self.id, error),
        }
        // Last: who is told that it failed may ask again at once, and finds nothing of this attempt.
        for reply in under_way.into_iter().filter_map(|(_, reply)| reply) {
            let _ = reply.send(Err(error.clone()));
        }
    }
}

impl Live {
    fn new(thread: Thread, durable: Seq, last_position: Position, last_hash: Hash, snapshot: Option<Seq>) -> Self {
        Self {
            thread,
            durable,
            last_position,
            last_hash,
            positions: HashMap::new(),
            under_way: VecDeque::new(),
            running: HashMap::new(),
            next_due: None,
            alarm: None,
            snapshot,
            idle: None,
            fresh: false,
            stirred: false,
            halting: false,
        }
    }
}

/// Writes the state beside the log. A cache: when it fails, the next start folds a little more.
fn keep_snapshot(inner: &Arc<Inner>, live: &Live) {
    let state = live.thread.state();
    let Some(seq) = state.last_seq().filter(|_| live.durable == state.next_seq()) else {
        return;
    };
    let (inner, thread, hash) = (inner.clone(), state.thread(), live.last_hash);
    match bin::encode(state) {
        Ok(state) => drop(actix_rt::task::spawn_blocking(move || {
            let snapshot = Snapshot { seq, hash, version: STATE_VERSION, state };
            if let Err(error) = inner.store.put_snapshot(thread, snapshot) {
                tracing::warn!(%thread, %error, "no snapshot was kept");
            }
        })),
        Err(error) => tracing::warn!(%thread, %error, "no snapshot was kept"),
    }
}

/// Nobody waits for an answer of a thread that has ended: its snapshot, which may be as large as all it said, makes
/// room. An empty one of no version takes its place.
fn give_snapshot_back(inner: &Arc<Inner>, live: &Live) {
    let Some(seq) = live.snapshot else {
        return;
    };
    let (inner, thread) = (inner.clone(), live.thread.state().thread());
    drop(actix_rt::task::spawn_blocking(move || {
        let none = Snapshot { seq, hash: Hash::ZERO, version: 0, state: Vec::new() };
        if let Err(error) = inner.store.put_snapshot(thread, none) {
            tracing::debug!(%thread, %error, "the snapshot of an ended thread stays");
        }
    }));
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
