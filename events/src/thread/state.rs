//! The state of a thread: the fold of its events.

mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use bincode::{Decode, Encode};
use serde::Serialize;

use super::agent_loop::{PlanRun, StrategyState};
use super::branches::Branch;
use super::calls::{CallKind, CallStage, Interaction, KeyOf, OpenCall, OpenCalls};
use super::conversation::{Conversation, Mark};
use super::frames::{Frame, Globals};
use super::judging::Judging;
use super::labels::Labels;
use super::path::{Path, Visit};
use super::status::Status;
use crate::codec::OrderedMap;
use crate::event::{BudgetLimits, ForkChanges, NodeCompleted, OnLimit};
use crate::fault::ExecutionError;
use crate::ids::{CallId, Hash, NodeId, Seq, ThreadId, Time, ToolName};
use crate::json::Json;
use crate::message::Usage;
use crate::workflow::{Node, Workflow, WorkflowRef};

pub use work::Work;

/// The version of the stored form of [`State`] in snapshots; raised with every change of its shape.
pub const STATE_VERSION: u16 = 11;

/// The fold of a thread's events.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct State {
    pub(super) thread: ThreadId,
    pub(super) next: Seq,
    pub(super) last_at: Time,
    pub(super) run: Option<Run>,
    pub(super) control: Control,
    pub(super) phase: Phase,
    pub(super) calls: OpenCalls,
    pub(super) variables: Arc<OrderedMap<Json>>,
    pub(super) conversation: Arc<Conversation>,
    /// The loops and sub-workflows that are open, innermost last.
    pub(super) frames: Vec<Frame>,
    /// Nodes entered outside of loops and sub-workflows.
    pub(super) n_entered: u32,
    pub(super) globals: Globals,
    pub(super) path: Path,
    pub(super) checkpoints: Vec<Checkpoint>,
    pub(super) labels: Labels,
    pub(super) totals: Totals,
    pub(super) unpriced: Option<Unpriced>,
    /// The questions that were asked, and the hash of what was answered, so that the same answer twice is accepted
    /// once.
    pub(super) questions: BTreeMap<CallId, Option<Hash>>,
    /// What the forks on the way here changed.
    pub(super) changes: ForkChanges,
    pub(super) branch: Option<Branch>,
}

/// What is fixed when a thread begins.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) struct Run {
    pub(super) workflow: WorkflowRef,
    pub(super) input: Json,
    pub(super) started_at: Time,
    pub(super) deadline: Option<Time>,
    pub(super) max_iterations: u32,
    pub(super) workspace: Option<String>,
    pub(super) budget: Option<BudgetLimits>,
    pub(super) on_limit: OnLimit,
    pub(super) forked_from: Option<(ThreadId, Seq)>,
}

/// Whether anything new may begin.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) enum Control {
    Running,
    /// The clocks of calls and questions stand still; the thread's own goes on.
    Paused {
        since: Time,
        reason: Option<String>,
    },
}

/// Where the thread is in its workflow.
// There is one per state, and it is `InNode` nearly always: a box would save nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Phase {
    /// No event yet.
    New,
    /// A node is to be entered, not before a time.
    Entering {
        /// The node.
        node: NodeId,
        /// The number of the try.
        attempt: u32,
        /// When.
        not_before: Time,
        /// Where the conversation stood before the first try; a further try begins there.
        conversation_from: Option<Mark>,
        /// The call whose idempotency key a further try of a tool node uses again.
        key_of: Option<KeyOf>,
    },
    /// In a node.
    InNode(NodeRun),
    /// A node did its work; the way on is to be found.
    Leaving {
        /// The node.
        node: NodeId,
    },
    /// A model judges a condition of the way on.
    Judging(Box<Judging>),
    /// A node failed for good.
    Failing {
        /// The node.
        node: NodeId,
        /// Why.
        error: ExecutionError,
        /// The tool whose call failed with this error.
        tool: Option<ToolName>,
    },
    /// Ended.
    Ended(Ending),
}

/// How a thread ended.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Ending {
    /// It reached an end.
    Completed,
    /// It was cancelled.
    Cancelled {
        /// Why.
        reason: Option<String>,
    },
    /// It failed.
    Failed {
        /// The node it failed on.
        node: Option<NodeId>,
        /// Why.
        error: ExecutionError,
    },
}

/// One try of a node.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct NodeRun {
    /// The node.
    pub node: NodeId,
    /// The number of the try.
    pub attempt: u32,
    /// When it began.
    pub started_at: Time,
    /// When it must have ended.
    pub deadline: Option<Time>,
    /// Where the conversation stood before its first try.
    pub conversation_from: Mark,
    /// A tool that is not safe and that began in this try, without saying that it did nothing: such a try is not repeated.
    pub wrote: Option<ToolName>,
    /// The tool call that failed last in this try, and why.
    pub failed_tool: Option<(ToolName, ExecutionError)>,
    /// The call whose idempotency key this try of a tool node uses: that of an idempotent tool in an earlier try.
    pub key_of: Option<KeyOf>,
    /// The conversation of the thread, while the node sees another.
    pub aside: Option<Arc<Conversation>>,
    /// What it is doing.
    pub work: Work,
}

impl NodeRun {
    /// The event that it did its work.
    pub(super) fn completed(&self, now: Time) -> NodeCompleted {
        NodeCompleted { node_id: self.node.clone(), duration_ms: now.ms_since(self.started_at) }
    }
}

/// A moment with a name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Checkpoint {
    /// Its name.
    pub label: String,
    /// The seq of its event; the state at the checkpoint is the state at this seq.
    pub seq: Seq,
}

/// Sums over the whole thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize)]
pub struct Totals {
    /// Nodes entered, inside of loops and sub-workflows too.
    pub n_iterations: u32,
    /// Model calls answered.
    pub n_llm_calls: u64,
    /// Model calls answered whose cost is not known.
    pub n_unpriced: u64,
    /// Tool calls ended.
    pub n_tool_calls: u64,
    /// Tokens.
    pub usage: Usage,
    /// Cost in billionths of a US dollar, of the calls whose price is known.
    pub cost_nanousd: Option<u64>,
}

/// A model call whose cost is unknown and not accepted yet.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct Unpriced {
    /// The model, for people.
    pub(super) model: String,
    /// Whether BUDGET_EXCEEDED has named it.
    pub(super) is_recorded: bool,
}

impl Totals {
    /// Adds a cost, where it is known.
    pub(super) fn add_cost(&mut self, cost_nanousd: Option<u64>) {
        if let Some(cost) = cost_nanousd {
            self.cost_nanousd = Some(self.cost_nanousd.unwrap_or(0).saturating_add(cost));
        }
    }
}

impl State {
    /// A thread without events.
    pub fn new(thread: ThreadId) -> Self {
        Self {
            thread,
            next: Seq(0),
            last_at: Time::default(),
            run: None,
            control: Control::Running,
            phase: Phase::New,
            calls: OpenCalls::default(),
            variables: Arc::default(),
            conversation: Arc::default(),
            frames: Vec::new(),
            n_entered: 0,
            globals: Globals::default(),
            path: Path::default(),
            checkpoints: Vec::new(),
            labels: Labels::default(),
            totals: Totals::default(),
            unpriced: None,
            questions: BTreeMap::new(),
            changes: ForkChanges::default(),
            branch: None,
        }
    }

    /// The same state as the beginning of another thread.
    pub(super) fn rename(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    /// The same state as that of a fork which inherits everything up to here: what folding the inherited events for the
    /// fork gives. `None` inside of a fork node, whose branches have ids that follow from the thread.
    pub fn inherited_by(mut self, fork: ThreadId) -> Option<Self> {
        if self.fan().is_some() {
            return None;
        }
        self.rename(fork);
        Some(self)
    }

    /// The thread.
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// The seq of the next event.
    pub fn next_seq(&self) -> Seq {
        self.next
    }

    /// The seq of the last event, if there is one.
    pub fn last_seq(&self) -> Option<Seq> {
        self.next.0.checked_sub(1).map(Seq)
    }

    /// When the last event happened.
    pub fn last_at(&self) -> Time {
        self.last_at
    }

    /// The time of what happens next, where the clock shows `clock`: never before that of the last event. A clock that
    /// was set back stands still for the thread until it has come to where it was.
    pub fn time_at(&self, clock: Time) -> Time {
        clock.max(self.last_at)
    }

    /// How far the thread is.
    pub fn status(&self) -> Status {
        match (&self.phase, &self.control) {
            (Phase::New, _) => Status::Pending,
            (Phase::Ended(Ending::Completed), _) => Status::Completed,
            (Phase::Ended(Ending::Cancelled { .. }), _) => Status::Cancelled,
            (Phase::Ended(Ending::Failed { .. }), _) => Status::Error,
            (_, Control::Paused { .. }) => Status::Paused,
            (Phase::InNode(_), _) if self.waits_for_people() => Status::Waiting,
            _ => Status::Running,
        }
    }

    /// Whether nothing will happen any more.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// How it ended, if it has.
    pub fn ending(&self) -> Option<&Ending> {
        match &self.phase {
            Phase::Ended(ending) => Some(ending),
            _ => None,
        }
    }

    /// Where it is.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The workflow it runs on.
    pub fn workflow(&self) -> Option<&WorkflowRef> {
        self.run.as_ref().map(|run| &run.workflow)
    }

    /// When it began.
    pub fn started_at(&self) -> Option<Time> {
        self.run.as_ref().map(|run| run.started_at)
    }

    /// The folder its tools work in.
    pub fn workspace(&self) -> Option<&str> {
        self.run.as_ref()?.workspace.as_deref()
    }

    /// The thread and seq it forked off from.
    pub fn forked_from(&self) -> Option<(ThreadId, Seq)> {
        self.run.as_ref()?.forked_from
    }

    /// Its variables, without those that are made from the conversation.
    pub fn variables(&self) -> &OrderedMap<Json> {
        &self.variables
    }

    /// What was said.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The nodes it entered: the last [`super::VISITS_MAX`] of them.
    pub fn path(&self) -> &[Visit] {
        self.path.kept()
    }

    /// How many nodes it entered before those of [`State::path`].
    pub fn n_visits_dropped(&self) -> u64 {
        self.path.n_dropped()
    }

    /// Its named moments.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// What the forks on the way here changed, but for variables, which are among its own.
    pub fn changes(&self) -> &ForkChanges {
        &self.changes
    }

    /// Its sums.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        matches!(self.control, Control::Paused { .. })
    }

    /// The reason of the pause, if it is paused and a reason was given.
    pub fn pause_reason(&self) -> Option<&str> {
        match &self.control {
            Control::Running => None,
            Control::Paused { reason, .. } => reason.as_deref(),
        }
    }

    /// What the clocks of calls and questions show at a moment: while the thread is paused they stand still.
    pub(super) fn clock(&self, at: Time) -> Time {
        match self.control {
            Control::Running => at,
            Control::Paused { since, .. } => since.min(at),
        }
    }

    /// The configuration of a node of the graph it runs on.
    pub fn node_of<'w>(&self, workflow: &'w Workflow, id: &NodeId) -> Option<&'w Node> {
        self.graph(workflow)?.node(id)
    }

    /// The node it is in.
    pub fn node_run(&self) -> Option<&NodeRun> {
        match &self.phase {
            Phase::InNode(run) => Some(run),
            _ => None,
        }
    }

    /// The plan that the node it is in follows.
    pub fn plan(&self) -> Option<&PlanRun> {
        match &self.node_run()?.work {
            Work::Llm(agent_loop) => match &agent_loop.course {
                StrategyState::Plan(run) => Some(run),
                StrategyState::React | StrategyState::Several | StrategyState::Custom(_) => None,
            },
            _ => None,
        }
    }

    /// Everything that was asked for and has no terminal event yet.
    pub fn open_calls(&self) -> &OpenCalls {
        &self.calls
    }

    /// The questions that wait for people, in the order in which they were asked for. A thread can have some although
    /// it is at work, or paused.
    pub fn interactions(&self) -> Vec<&Interaction> {
        self.calls.in_order().into_iter().filter(|open| open.is_wanted()).filter_map(OpenCall::question).collect()
    }

    /// The first of the questions that wait for people.
    pub fn interaction(&self) -> Option<&Interaction> {
        self.interactions().into_iter().next()
    }

    /// Whether people are asked, and nothing of the node goes on meanwhile.
    fn waits_for_people(&self) -> bool {
        let is_queued = self.node_run().is_some_and(|run| run.work.has_queued_calls());
        let is_asking = |open: &OpenCall| open.is_wanted() && matches!(open.kind, CallKind::Question(_));
        let rests = |open: &OpenCall| is_asking(open) || open.stage == CallStage::Delegated;
        !is_queued && self.calls.iter().all(rests) && self.calls.iter().any(is_asking)
    }

    /// Its final output: the variable `output`; while a sub-workflow runs, and in a branch in one, that of the
    /// sub-workflow.
    pub fn output(&self) -> Option<&Json> {
        self.output_here()
    }
}
