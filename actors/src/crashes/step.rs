//! What is under way.

use rethread_events::ids::{CallId, Seq, ThreadId};
use rethread_events::thread::{Input, State, ToolRun};
use rethread_events::tool::Recovery;

use crate::thread_actor::call_of;

/// The longest text of a step, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 96;

/// What kind of work it is. Each kind of a thread is counted by itself.
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
}

impl Class {
    pub(super) const ALL: [Self; 4] = [Self::Fold, Self::Begin, Self::Run, Self::Snapshot];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fold => "fold",
            Self::Begin => "begin",
            Self::Run => "run",
            Self::Snapshot => "snapshot",
        }
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Fold => 1,
            Self::Begin => 2,
            Self::Run => 3,
            Self::Snapshot => 4,
        }
    }
}

/// A step of a thread. Two with the same text are the same step, whenever they are taken.
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
    pub(crate) fn tool(thread: ThreadId, run: &ToolRun) -> Self {
        let what = match run.recovery {
            Recovery::AtMostOnce => format!("tool `{}`", run.name),
            Recovery::Safe | Recovery::Idempotent => format!("tool `{}`, call {}", run.name, run.call),
        };
        Self::call(thread, run.call, what)
    }

    /// The machine is told something. Calls keep their ids when they are made again.
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
}

fn node_of(state: &State) -> &str {
    state.node_name().map_or("", |node| node.as_str())
}

fn last(state: &State) -> u64 {
    state.last_seq().map_or(0, |seq| seq.0)
}

fn name_of(input: &Input) -> &'static str {
    match input.given() {
        Input::ModelAnswered { .. } | Input::ModelFailed { .. } => "the answer",
        Input::ToolAnswered { .. } | Input::ToolFailed { .. } => "the result",
        Input::ContextProcessed { .. } | Input::ContextProcessingFailed { .. } => "the conversation",
        Input::StrategyDecided { .. } | Input::StrategyFailed { .. } => "the decision",
        Input::Respond { .. } | Input::CancelInteraction { .. } | Input::InteractionFailed { .. } => "the response",
        Input::ModelTryFailed { .. } | Input::ModelProgress { .. } | Input::ToolProgress { .. } => "the progress",
        Input::ToolAsks { .. } => "the question",
        Input::BranchEnded { .. } => "the end of a branch",
        Input::Recover => "the recovery",
        Input::Tick | Input::Resume | Input::Raise(_) => "the next step",
        Input::Pause { .. } => "the pause",
        Input::Cancel { .. } | Input::Abort { .. } | Input::Crashed { .. } => "the end",
        Input::Checkpoint { .. } => "the checkpoint",
        Input::AddMessage(_) => "the message",
        Input::SetVariables(_) => "the variables",
        Input::By { .. } => "the input",
    }
}
