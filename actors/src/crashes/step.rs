//! The steps that are counted.

use rethread_events::event::{CallEvent, ToolExecutionRequest};
use rethread_events::ids::{CallId, Hash, Seq, ThreadId};
use rethread_events::thread::{Input, State};
use rethread_events::tool::Recovery;

use crate::inputs::call_of;

/// The longest text of a step, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 96;

/// The kind of work. Each kind of a thread is counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Its events are folded.
    Fold,
    /// It begins.
    Begin,
    /// A step of its machine, or a call.
    Run,
    /// Its state is written.
    Snapshot,
    /// Its events and snapshots are checked.
    Verify,
    /// It is run again with its recorded answers.
    Rerun,
    /// One of its past states is read.
    History,
    /// An export is imported. The id is that of the export.
    Import,
}

impl Class {
    pub(super) const ALL: [Self; 8] =
        [Self::Fold, Self::Begin, Self::Run, Self::Snapshot, Self::Verify, Self::Rerun, Self::History, Self::Import];

    /// Returns whether it is work that callers ask for, with possibly another step each time. Then a crash in one step
    /// does not reset the counts of others, and they are counted together.
    pub(super) const fn is_asked_for(self) -> bool {
        match self {
            Self::Fold | Self::Begin | Self::Run | Self::Snapshot => false,
            Self::Verify | Self::Rerun | Self::History | Self::Import => true,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fold => "fold",
            Self::Begin => "begin",
            Self::Run => "run",
            Self::Snapshot => "snapshot",
            Self::Verify => "verify",
            Self::Rerun => "rerun",
            Self::History => "history",
            Self::Import => "import",
        }
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Fold => 1,
            Self::Begin => 2,
            Self::Run => 3,
            Self::Snapshot => 4,
            Self::Verify => 5,
            Self::Rerun => 6,
            Self::History => 7,
            Self::Import => 8,
        }
    }
}

/// A step of a thread. Two steps with the same text are the same step, at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(super) thread: ThreadId,
    pub(super) class: Class,
    pub(super) what: String,
    /// The last seq before it.
    pub(super) seq: u64,
}

impl Step {
    pub(crate) fn new(thread: ThreadId, class: Class, mut what: String, seq: u64) -> Self {
        what.truncate(what.floor_char_boundary(TEXT_BYTES_MAX));
        Self { thread, class, what, seq }
    }

    pub(super) fn key(&self) -> (ThreadId, Class) {
        (self.thread, self.class)
    }

    /// A call of the thread that computes in this process.
    pub(crate) fn call(thread: ThreadId, call: CallId, what: String) -> Self {
        Self::new(thread, Class::Run, what, call.0.0)
    }

    /// A call that is made once at most has another id the next time.
    pub(crate) fn tool(thread: ThreadId, call: CallId, request: &ToolExecutionRequest) -> Self {
        let what = match request.recovery {
            Recovery::AtMostOnce => format!("tool `{}`", request.name),
            Recovery::Safe | Recovery::Idempotent => format!("tool `{}`, call {call}", request.name),
        };
        Self::call(thread, call, what)
    }

    /// The machine receives an input. A call that is made again has the same id.
    pub(crate) fn machine(state: &State, input: &Input) -> Self {
        let (node, input_name) = (node_of(state), name_of(input));
        let what = match call_of(input) {
            Some(call) => format!("{input_name} of call {call} at node `{node}`"),
            None => format!("{input_name} at node `{node}`"),
        };
        Self::new(state.thread(), Class::Run, what, last(state))
    }

    pub(crate) fn begin(thread: ThreadId, from: Option<&State>) -> Self {
        let node = from.map(node_of).unwrap_or_default();
        Self::new(thread, Class::Begin, format!("its beginning at node `{node}`"), from.map_or(0, last))
    }

    pub(crate) fn snapshot(thread: ThreadId, seq: Seq) -> Self {
        Self::new(thread, Class::Snapshot, "the snapshot of its state".into(), seq.0)
    }

    pub(crate) fn fold(thread: ThreadId) -> Self {
        Self::new(thread, Class::Fold, "the fold of its events".into(), 0)
    }

    pub(crate) fn verify(thread: ThreadId) -> Self {
        Self::new(thread, Class::Verify, "its verification".into(), 0)
    }

    pub(crate) fn history(thread: ThreadId, seq: Seq) -> Self {
        Self::new(thread, Class::History, format!("its state after seq {seq}"), seq.0)
    }

    /// A rerun on the definition with that hash, or its own, up to that event or the last.
    pub(crate) fn rerun(thread: ThreadId, workflow: Option<Hash>, last: Option<Seq>) -> Self {
        let on = workflow.map(|hash| format!(" on {hash:?}")).unwrap_or_default();
        let to = last.map(|last| format!(" to seq {last}")).unwrap_or_default();
        Self::new(thread, Class::Rerun, format!("its rerun{on}{to}"), 0)
    }

    /// An import. The first bytes of the export's hash are used as the thread id.
    pub(crate) fn import(export: Hash) -> Self {
        let [id @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *export.as_bytes();
        Self::new(ThreadId::from_bytes(id), Class::Import, "the import of an export".into(), 0)
    }
}

fn node_of(state: &State) -> &str {
    state.node_name().map_or("", |node| node.as_str())
}

fn last(state: &State) -> u64 {
    state.last_seq().map_or(0, |seq| seq.0)
}

const fn name_of_report(event: &CallEvent) -> &'static str {
    match event {
        CallEvent::LlmCallCompleted(_) | CallEvent::LlmCallFailed(_) => "the answer",
        CallEvent::ToolExecutionCompleted(_) | CallEvent::ToolExecutionFailed(_) => "the result",
        CallEvent::ContextProcessed(_) | CallEvent::ContextProcessingFailed(_) => "the conversation",
        CallEvent::StrategyDecided(_) | CallEvent::StrategyDecisionFailed(_) => "the decision",
        CallEvent::GuardrailCompleted(_) => "the outcome",
        CallEvent::LlmTryFailed(_)
        | CallEvent::LlmRequestChanged(_)
        | CallEvent::LlmExecutionProgress(_)
        | CallEvent::ToolExecutionProgress(_) => "the progress",
    }
}

fn name_of(input: &Input) -> &'static str {
    match input.given() {
        Input::Reported { event, .. } => name_of_report(event),
        Input::Respond { .. } | Input::CancelInteraction { .. } | Input::InteractionFailed { .. } => "the response",
        Input::ToolAsks { .. } => "the question",
        Input::BranchSpent { .. } => "what a branch has spent",
        Input::BudgetLeft(_) => "what is left of the budget",
        Input::BranchEnded { .. } => "the end of a branch",
        Input::ChildStarted { .. } => "the start of a child",
        Input::ThreadEnded { .. } => "the end of a thread",
        Input::Recover => "the recovery",
        Input::Tick | Input::Resume | Input::Raise(_) | Input::Dequeue => "the next step",
        Input::Pause { .. } => "the pause",
        Input::Cancel { .. } | Input::CancelByParent { .. } | Input::Abort { .. } | Input::Crashed { .. } => "the end",
        Input::Checkpoint { .. } => "the checkpoint",
        Input::AddMessage(_) => "the message",
        Input::Run(_) => "the run",
        Input::CancelRun { .. } => "the end of a run",
        Input::SetVariables(_) => "the variables",
        Input::Signal { .. } => "the signal",
        Input::ChangeWait { .. } => "the change of a wait",
        Input::Migrate(_) => "the change of the definition",
        Input::By { .. } => "the input",
    }
}
