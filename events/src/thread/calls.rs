//! The table of open calls: every request without a terminal event. Effects, deadlines, pauses, recovery, late answers
//! and the end of a node are loops over it. Phases and loops contain ids of its calls.

mod application;
mod awaited;
mod branch;
mod child;
mod model;
mod processor;
mod question;
mod signal;
mod tool;
mod wait;

use bincode::{Decode, Encode};

use super::permits::Permits;
use super::transition::{NO_CALL, NOT_NEXT, OPEN_CALL, TransitionError};
use crate::event::ToolCallRetried;
use crate::ids::{CallId, Time};
use crate::json::Json;

pub use application::ApplicationRun;
pub use awaited::AwaitedRun;
pub(super) use branch::AgentCall;
pub use branch::BranchRun;
pub use child::ChildRun;
pub use model::{FailedTry, ModelCall};
pub use processor::ProcessorRun;
pub use question::Interaction;
pub(super) use question::{answer_hash, approval_prompt};
pub use signal::SignalRun;
pub use tool::{KeyOf, ToolRun};
pub use wait::TimerRun;

/// A call that has no terminal event yet.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct OpenCall {
    /// The kind of the call.
    pub kind: CallKind,
    /// The call that it belongs to: the tool call that asks a question, the model call that a person answers, the
    /// processor that has a summary written.
    pub parent: Option<CallId>,
    /// Its index among the calls that one event requested, from 0.
    pub place: u32,
    /// Who causes the next event of the call.
    pub stage: CallStage,
}

/// The kind of a call.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum CallKind {
    /// A model, by an agent loop.
    Model(ModelCall),
    /// A model that judges a condition.
    Judge(ModelCall),
    /// A model that writes a summary.
    Summary(ModelCall),
    /// A tool.
    Tool(Box<ToolRun>),
    /// A context processor.
    Processor(Box<ProcessorRun>),
    /// A strategy of the application.
    Strategy(ApplicationRun),
    /// A guardrail of the application.
    Guardrail(ApplicationRun),
    /// A person.
    Question(Box<Interaction>),
    /// A wait for a time.
    Timer(TimerRun),
    /// A wait for a signal.
    Signal(Box<SignalRun>),
    /// A thread that is a branch of this one.
    Branch(Box<BranchRun>),
    /// The start of a thread of its own.
    Child(Box<ChildRun>),
    /// A wait for the end of a thread.
    Awaited(AwaitedRun),
}

/// Who causes the next event of the call.
// In the order in which calls are closed with their node.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum CallStage {
    /// The outside: the call is an effect.
    Wanted,
    /// The machine: a person has answered, and the answer is to take effect.
    Responded {
        /// The raw answer.
        input: Json,
    },
    /// The machine: the answer of a person is to become that of the call it was asked for.
    Processed {
        /// The raw answer.
        input: Json,
    },
    /// The machine: the call does not run, and its failure is to be recorded.
    Refused,
    /// The machine, or another call for this one: a built-in processor runs, or a person answers for the model.
    Delegated,
}

impl OpenCall {
    pub(super) fn new(kind: CallKind, stage: CallStage) -> Self {
        Self { kind, parent: None, place: 0, stage }
    }

    /// Its id.
    pub fn id(&self) -> CallId {
        match &self.kind {
            CallKind::Model(call) | CallKind::Judge(call) | CallKind::Summary(call) => call.call,
            CallKind::Tool(run) => run.call,
            CallKind::Processor(run) => run.call,
            CallKind::Strategy(run) | CallKind::Guardrail(run) => run.call,
            CallKind::Question(ask) => ask.id,
            CallKind::Timer(run) => run.id,
            CallKind::Signal(run) => run.id,
            CallKind::Branch(run) => run.call,
            CallKind::Child(run) => run.call,
            CallKind::Awaited(run) => run.id,
        }
    }

    /// The number of its attempt.
    pub fn attempt(&self) -> u32 {
        match &self.kind {
            CallKind::Model(call) | CallKind::Judge(call) | CallKind::Summary(call) => call.attempt,
            CallKind::Tool(run) => run.attempt,
            CallKind::Processor(run) => run.attempt,
            CallKind::Strategy(run) | CallKind::Guardrail(run) => run.attempt,
            CallKind::Question(_)
            | CallKind::Timer(_)
            | CallKind::Signal(_)
            | CallKind::Branch(_)
            | CallKind::Child(_)
            | CallKind::Awaited(_) => 1,
        }
    }

    /// Returns whether an executor or a person causes the next event.
    pub fn is_wanted(&self) -> bool {
        self.stage == CallStage::Wanted
    }

    /// The call of a model.
    pub(super) fn model(&self) -> Option<&ModelCall> {
        match &self.kind {
            CallKind::Model(call) | CallKind::Judge(call) | CallKind::Summary(call) => Some(call),
            CallKind::Tool(_)
            | CallKind::Processor(_)
            | CallKind::Strategy(_)
            | CallKind::Guardrail(_)
            | CallKind::Question(_)
            | CallKind::Timer(_)
            | CallKind::Signal(_)
            | CallKind::Branch(_)
            | CallKind::Child(_)
            | CallKind::Awaited(_) => None,
        }
    }

    pub(super) fn tool(&self) -> Option<&ToolRun> {
        if let CallKind::Tool(run) = &self.kind { Some(run) } else { None }
    }

    pub(super) fn processor(&self) -> Option<&ProcessorRun> {
        if let CallKind::Processor(run) = &self.kind { Some(run) } else { None }
    }

    pub(super) fn strategy(&self) -> Option<&ApplicationRun> {
        if let CallKind::Strategy(run) = &self.kind { Some(run) } else { None }
    }

    pub(super) fn guardrail(&self) -> Option<&ApplicationRun> {
        if let CallKind::Guardrail(run) = &self.kind { Some(run) } else { None }
    }

    /// The question.
    pub fn question(&self) -> Option<&Interaction> {
        if let CallKind::Question(ask) = &self.kind { Some(ask) } else { None }
    }

    /// The wait.
    pub fn timer(&self) -> Option<&TimerRun> {
        if let CallKind::Timer(run) = &self.kind { Some(run) } else { None }
    }

    /// The wait for a signal.
    pub fn signal(&self) -> Option<&SignalRun> {
        if let CallKind::Signal(run) = &self.kind { Some(run) } else { None }
    }

    /// The branch.
    pub fn branch(&self) -> Option<&BranchRun> {
        if let CallKind::Branch(run) = &self.kind { Some(run) } else { None }
    }

    /// The start of a child.
    pub fn child(&self) -> Option<&ChildRun> {
        if let CallKind::Child(run) = &self.kind { Some(run) } else { None }
    }

    /// The wait for the end of a thread.
    pub fn thread_wait(&self) -> Option<&AwaitedRun> {
        if let CallKind::Awaited(run) = &self.kind { Some(run) } else { None }
    }

    /// When its time is up, if it never waits for a permit.
    fn deadline(&self) -> Option<Time> {
        match &self.kind {
            CallKind::Model(call) | CallKind::Judge(call) | CallKind::Summary(call) => call.deadline,
            CallKind::Tool(run) => Some(run.overdue_at()),
            CallKind::Processor(run) => Some(run.deadline),
            CallKind::Strategy(run) | CallKind::Guardrail(run) => Some(run.deadline),
            CallKind::Question(ask) => ask.deadline,
            CallKind::Timer(run) => Some(run.until),
            CallKind::Signal(run) => run.deadline,
            CallKind::Branch(_) | CallKind::Child(_) | CallKind::Awaited(_) => None,
        }
    }

    /// Whether it is the question of a tool that runs: it ends with the tool.
    pub(super) fn is_of_tool(&self) -> bool {
        self.question().is_some_and(|ask| ask.tool_run.is_some())
    }

    /// When its time is up, moved by its waits for permits. `None` while it waits.
    pub(super) fn due(&self, permits: &dyn Permits) -> Option<Time> {
        permits.moved(self.id(), self.attempt(), self.deadline()?)
    }

    /// Ends a pause: the remaining times continue.
    fn shift(&mut self, ms: u64) {
        let later = |time: &mut Time| *time = time.plus_ms(ms);
        match &mut self.kind {
            CallKind::Model(call) | CallKind::Judge(call) | CallKind::Summary(call) => {
                call.deadline.iter_mut().for_each(later);
            }
            CallKind::Tool(run) => [&mut run.not_before, &mut run.deadline].into_iter().for_each(later),
            CallKind::Processor(run) => later(&mut run.deadline),
            CallKind::Strategy(run) | CallKind::Guardrail(run) => later(&mut run.deadline),
            CallKind::Question(ask) => ask.deadline.iter_mut().for_each(later),
            CallKind::Signal(run) => run.deadline.iter_mut().for_each(later),
            CallKind::Timer(_) | CallKind::Branch(_) | CallKind::Child(_) | CallKind::Awaited(_) => {}
        }
    }

    /// The order in which calls are closed.
    pub(super) fn close_order(&self) -> u8 {
        match self.stage {
            CallStage::Wanted => 0,
            CallStage::Responded { .. } => 1,
            CallStage::Processed { .. } => 2,
            CallStage::Refused => 3,
            CallStage::Delegated => 4,
        }
    }
}

/// The calls that have no terminal event yet.
// In the order of their ids, which rise: a call is nearly always added at the end, and a thread has one call open or
// none.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
#[expect(clippy::vec_box, reason = "the end of one among thousands of branches moves only pointers")]
pub struct OpenCalls(Vec<Box<OpenCall>>);

impl OpenCalls {
    /// Returns whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the calls, in the order of their requests.
    pub fn iter(&self) -> impl Iterator<Item = &OpenCall> {
        self.0.iter().map(|open| &**open)
    }

    /// The call with this id.
    pub fn get(&self, id: CallId) -> Option<&OpenCall> {
        self.place(id).ok().map(|at| &*self.0[at])
    }

    /// The calls for which `which` holds, in the order of their places, each before the questions that it asks.
    pub(super) fn in_order(&self, which: impl Fn(&OpenCall) -> bool) -> Vec<&OpenCall> {
        let mut calls: Vec<_> = self.iter().filter(|open| which(open)).collect();
        calls.sort_by_key(|open| (open.place, open.parent.is_some()));
        calls
    }

    /// Returns the open calls that a call has made.
    pub(super) fn children(&self, id: CallId) -> impl Iterator<Item = &OpenCall> {
        let later = self.0.partition_point(|open| open.id() <= id);
        self.0[later..].iter().map(|open| &**open).filter(move |open| open.parent == Some(id))
    }

    /// The earliest moment at which the time of a call is up. What delegates is waited for as what it delegates to. The
    /// question of a tool that runs does not count: it ends with the tool.
    pub(super) fn next_deadline(&self, permits: &dyn Permits) -> Option<Time> {
        let counts = |open: &&OpenCall| match open.stage {
            CallStage::Wanted => !open.is_of_tool(),
            CallStage::Delegated => self.children(open.id()).next().is_none(),
            CallStage::Responded { .. } | CallStage::Processed { .. } | CallStage::Refused => false,
        };
        self.iter().filter(counts).filter_map(|open| open.due(permits)).min()
    }

    pub(super) fn insert(&mut self, open: OpenCall) {
        match self.place(open.id()) {
            Ok(at) => *self.0[at] = open,
            Err(at) => self.0.insert(at, Box::new(open)),
        }
    }

    pub(super) fn get_mut(&mut self, id: CallId) -> Option<&mut OpenCall> {
        self.place(id).ok().map(|at| &mut *self.0[at])
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OpenCall> {
        self.0.iter_mut().map(|open| &mut **open)
    }

    /// Ends a call. One that has something open itself cannot end.
    pub(super) fn close(&mut self, id: CallId) -> Result<OpenCall, TransitionError> {
        let at = self.place(id).map_err(|_| NO_CALL)?;
        // A fork may have very many branches, and a branch asks nothing here.
        if self.0[at].branch().is_none() && self.children(id).next().is_some() {
            return Err(OPEN_CALL);
        }
        Ok(*self.0.remove(at))
    }

    /// Where the call with this id is, or where it would be.
    fn place(&self, id: CallId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |open| open.id())
    }

    /// A pause is over.
    pub(super) fn shift(&mut self, ms: u64) {
        self.iter_mut().for_each(|open| open.shift(ms));
    }

    /// The next attempt of a call that was lost. `clock` is what the clocks of calls show, `timeout_ms` what a model has.
    pub(super) fn retry(
        &mut self,
        id: CallId,
        attempt: u32,
        (at, clock): (Time, Time),
        timeout_ms: Option<u64>,
    ) -> Result<(), TransitionError> {
        match &mut self.next_attempt(id, attempt)?.kind {
            CallKind::Model(call) | CallKind::Judge(call) | CallKind::Summary(call) => {
                call.retry(at, clock, timeout_ms);
            }
            CallKind::Processor(run) => run.retry(at, clock),
            CallKind::Strategy(run) | CallKind::Guardrail(run) => run.retry(at, clock),
            CallKind::Tool(_)
            | CallKind::Question(_)
            | CallKind::Timer(_)
            | CallKind::Signal(_)
            | CallKind::Branch(_)
            | CallKind::Child(_)
            | CallKind::Awaited(_) => {
                return Err(NO_CALL);
            }
        }
        Ok(())
    }

    /// The next attempt of a tool call.
    pub(super) fn retry_tool(&mut self, retried: &ToolCallRetried) -> Result<(), TransitionError> {
        if self.children(retried.call_id).next().is_some() {
            return Err(TransitionError("a question of the tool is still open"));
        }
        match &mut self.next_attempt(retried.call_id, retried.attempt)?.kind {
            CallKind::Tool(run) => {
                run.retry(retried);
                Ok(())
            }
            _ => Err(NO_CALL),
        }
    }

    fn next_attempt(&mut self, id: CallId, attempt: u32) -> Result<&mut OpenCall, TransitionError> {
        let open = self.get_mut(id).filter(|open| open.is_wanted() || open.processor().is_some()).ok_or(NO_CALL)?;
        if attempt == open.attempt() + 1 { Ok(open) } else { Err(NOT_NEXT) }
    }
}
