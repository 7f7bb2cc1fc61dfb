//! What a thread owes the world: a view of its state.

mod requests;

use super::calls::{
    ApplicationRun, AwaitedRun, BranchRun, CallKind, ChildRun, Interaction, ModelCall, OpenCall, ProcessorRun,
    SignalRun, TimerRun, ToolRun,
};
use super::permits::{NoWaits, Permits};
use super::state::{NodeRun, Phase, State, Work};
use crate::ids::{CallId, Time};
use crate::tool::Recovery;

/// Something that is to be done outside. What was begun already is known by call and attempt.
// A view of the state: few at a time, and not kept.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Call the model; [`State::model_request_of`] says with what.
    CallModel(ModelCall),
    /// Run the tool.
    CallTool(ToolRun),
    /// Run the context processor; [`State::processor_messages`] says over what.
    RunProcessor(ProcessorRun),
    /// Ask the application's strategy what comes next in the agent loop.
    AskStrategy(ApplicationRun),
    /// Ask the application's guardrail whether something may be used.
    CheckGuardrail(ApplicationRun),
    /// Ask the person.
    AskPerson(Interaction),
    /// Give the machine a tick when the time has come.
    AwaitTime(TimerRun),
    /// Give the machine the signal when it comes.
    AwaitSignal(SignalRun),
    /// See that the branch runs, and tell how it ends.
    RunBranch(BranchRun),
    /// Start the child, once, and report that it is in the log.
    StartChild(ChildRun),
    /// Report how the thread ended, when it has.
    AwaitThread(AwaitedRun),
}

impl Effect {
    /// The call and the attempt it is known by.
    pub fn key(&self) -> (CallId, u32) {
        match self {
            Self::CallModel(call) => (call.call, call.attempt),
            Self::CallTool(run) => (run.call, run.attempt),
            Self::RunProcessor(run) => (run.call, run.attempt),
            Self::AskStrategy(run) | Self::CheckGuardrail(run) => (run.call, run.attempt),
            Self::AskPerson(ask) => (ask.id, 1),
            Self::AwaitTime(run) => (run.id, 1),
            Self::AwaitSignal(run) => (run.id, 1),
            Self::RunBranch(run) => (run.call, 1),
            Self::StartChild(run) => (run.call, 1),
            Self::AwaitThread(run) => (run.id, 1),
        }
    }

    /// Whether it may begin while its request is still being flushed, because doing it again would change nothing.
    pub fn may_be_repeated(&self) -> bool {
        match self {
            Self::CallModel(_) | Self::RunProcessor(_) | Self::AskStrategy(_) | Self::CheckGuardrail(_) => true,
            Self::CallTool(run) => run.recovery == Recovery::Safe,
            Self::AskPerson(_)
            | Self::AwaitTime(_)
            | Self::AwaitSignal(_)
            | Self::RunBranch(_)
            | Self::StartChild(_)
            | Self::AwaitThread(_) => false,
        }
    }

    /// It may not begin before.
    pub fn not_before(&self) -> Time {
        match self {
            Self::CallModel(call) => call.requested_at,
            Self::CallTool(run) => run.not_before,
            Self::RunProcessor(run) => run.requested_at,
            Self::AskStrategy(run) | Self::CheckGuardrail(run) => run.requested_at,
            Self::AskPerson(ask) => ask.requested_at,
            Self::AwaitTime(run) => run.requested_at,
            Self::AwaitSignal(run) => run.requested_at,
            Self::RunBranch(_) => Time::default(),
            Self::StartChild(run) => run.requested_at,
            Self::AwaitThread(run) => run.requested_at,
        }
    }
}

impl From<&OpenCall> for Effect {
    fn from(open: &OpenCall) -> Self {
        match &open.kind {
            CallKind::Model(call) | CallKind::Judge(call) | CallKind::Summary(call) => Self::CallModel(*call),
            CallKind::Tool(run) => Self::CallTool((**run).clone()),
            CallKind::Processor(run) => Self::RunProcessor((**run).clone()),
            CallKind::Strategy(run) => Self::AskStrategy(*run),
            CallKind::Guardrail(run) => Self::CheckGuardrail(*run),
            CallKind::Question(ask) => Self::AskPerson((**ask).clone()),
            CallKind::Timer(run) => Self::AwaitTime(*run),
            CallKind::Signal(run) => Self::AwaitSignal((**run).clone()),
            CallKind::Branch(run) => Self::RunBranch((**run).clone()),
            CallKind::Child(run) => Self::StartChild((**run).clone()),
            CallKind::Awaited(run) => Self::AwaitThread(*run),
        }
    }
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The machine itself: give it a [`super::Input::Tick`].
    Itself,
    /// Its effects, or a moment.
    World {
        /// The moment at which it wants a tick, if any.
        until: Option<Time>,
    },
    /// A person, a time that the workflow waits for, or the end of a pause; and the time at which it wants a tick, if any.
    Person {
        /// The moment.
        until: Option<Time>,
    },
    /// Nothing: it has ended.
    Nothing,
}

impl State {
    /// What the thread owes the world. While it is paused these are still owed, but nothing of it may begin.
    pub fn effects(&self) -> Vec<Effect> {
        self.effects_but(|_| false)
    }

    /// The same without those that were begun, by call and attempt.
    pub fn effects_but(&self, is_begun: impl Fn((CallId, u32)) -> bool) -> Vec<Effect> {
        let is_new = |open: &OpenCall| open.is_wanted() && !is_begun((open.id(), open.attempt()));
        self.calls.in_order(is_new).into_iter().map(Effect::from).collect()
    }

    /// When the time of the run, or of the node that it is in, is up: no answer of a call is of use later.
    pub fn calls_end_by(&self) -> Option<Time> {
        let of_node = if let Phase::InNode(run) = &self.phase { run.deadline } else { None };
        [self.time_limit(), of_node].into_iter().flatten().min()
    }

    /// The next moment at which something happens by itself, when no call has waited for a permit.
    pub fn next_deadline(&self) -> Option<Time> {
        self.next_deadline_with(&NoWaits)
    }

    /// The next moment at which something happens by itself. A call that waits for a permit has none.
    pub fn next_deadline_with(&self, permits: &dyn Permits) -> Option<Time> {
        if self.run_has_ended() || self.is_queued() {
            return None;
        }
        let of_thread = self.time_limit();
        if self.is_paused() {
            return of_thread;
        }
        let of_node = match &self.phase {
            Phase::Entering { not_before, .. } => Some(*not_before),
            Phase::InNode(NodeRun { deadline, work: Work::Branches(fan), .. }) => {
                [*deadline, fan.plan.deadline].into_iter().flatten().min()
            }
            Phase::InNode(run) => run.deadline,
            Phase::New
            | Phase::Leaving { .. }
            | Phase::Judging(_)
            | Phase::Failing { .. }
            | Phase::BetweenHooks
            | Phase::Ended(_) => None,
        };
        [of_thread, of_node, self.calls.next_deadline(permits)].into_iter().flatten().min()
    }
}
