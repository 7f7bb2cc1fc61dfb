//! The state of a thread: the fold of its events.

mod agent_loop;
mod branches;
mod child_runs;
mod children;
mod custom;
mod family;
mod frames;
mod guarding;
mod hook_run;
mod hooks;
mod judging;
mod node_run;
mod panel;
mod plan;
mod queue;
mod queue_place;
mod run;
mod runs;
mod scopes;
mod summarizing;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bincode::{Decode, Encode};
use serde::Serialize;

use super::calls::{CallKind, CallStage, Interaction, KeyOf, OpenCall, OpenCalls, ProcessorRun, SignalRun, TimerRun};
use super::checkpoint_names::CheckpointNames;
use super::conversation::{Conversation, Mark};
use super::path::{Path, Visit};
use super::status::Status;
use crate::codec::OrderedMap;
use crate::event::{BudgetLimits, ForkChanges, NodeContext, OnLimit};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Hash, NodeId, Seq, ThreadId, Time, ToolName};
use crate::json::Json;
use crate::labels::Labels;
use crate::message::Message;
use crate::workflow::{Node, Workflow, WorkflowRef};

pub use self::agent_loop::{AgentLoop, CallConstraints, Slot, Stage, StrategyState, Wants};
pub use self::branches::{Branch, BranchOutcome, ForkState, Uncounted};
pub(super) use self::branches::{NOT_NEEDED, Verdict};
pub(super) use self::child_runs::Children;
pub use self::child_runs::{CHILDREN_DEPTH_MAX, CHILDREN_MAX};
pub use self::custom::{CustomRun, CustomStage};
pub(super) use self::frames::Globals;
pub use self::frames::{Frame, LoopFrame, SUB_WORKFLOWS_DEPTH_MAX, SubFrame};
pub(super) use self::guarding::StoppedBy;
pub use self::guarding::{Check, CheckStage, GuardedCall, Guarding};
pub use self::hook_run::{FailedHook, HookRun};
pub(super) use self::judging::ATTEMPTS_MAX;
pub use self::judging::{Judging, JudgingStage};
pub(super) use self::node_run::Aside;
pub use self::node_run::{NodeRun, Work};
pub use self::panel::{Candidate, Choice, Panel};
pub use self::plan::{PlanRun, PlanStage};
pub(super) use self::queue_place::Queueing;
pub use self::queue_place::{QueuePlace, QueueStart};
pub use self::run::{QueuedRun, RUN_KEY_BYTES_MAX, RUN_KEYS_MAX, RUNS_QUEUED_MAX};
pub(super) use self::run::{Runs, Steering};
pub use self::summarizing::{Asked, Summarizing, Written};
pub use super::totals::Totals;
pub(super) use super::totals::{UNPRICED, Unpriced};

/// The version of the stored form of [`State`] in snapshots; raised with every change of its shape.
pub const STATE_VERSION: u16 = 1;

/// The fold of a thread's events.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct State {
    pub(super) thread: ThreadId,
    pub(super) next: Seq,
    pub(super) last_at: Time,
    pub(super) run: Option<Run>,
    pub(super) runs: Runs,
    pub(super) queueing: Queueing,
    pub(super) control: Control,
    pub(super) phase: Phase,
    /// The hooks of the run, if it is ending.
    pub(super) hooks: Option<Arc<HookRun>>,
    pub(super) calls: OpenCalls,
    pub(super) variables: Arc<OrderedMap<Json>>,
    pub(super) conversation: Arc<Conversation>,
    /// The conversations that nodes and sub-workflows have by name.
    pub(super) named: BTreeMap<String, Arc<Conversation>>,
    /// The loops and sub-workflows that are open, innermost last.
    pub(super) frames: Vec<Frame>,
    /// Nodes entered outside of loops and sub-workflows.
    pub(super) n_entered: u32,
    pub(super) globals: Globals,
    pub(super) path: Path,
    pub(super) checkpoints: Vec<Checkpoint>,
    pub(super) checkpoint_names: CheckpointNames,
    pub(super) totals: Totals,
    pub(super) unpriced: Option<Unpriced>,
    /// Whether the last event was BUDGET_EXCEEDED.
    pub(super) budget_exceeded: bool,
    /// The questions that were asked, and the hash of what was answered, so that the same answer twice is accepted
    /// once.
    pub(super) questions: BTreeMap<CallId, Option<Hash>>,
    /// The ids of the signals that were received last, so that each is received once.
    pub(super) signals: VecDeque<String>,
    /// What the forks on the way here changed.
    pub(super) changes: ForkChanges,
    pub(super) branch: Option<Branch>,
    /// Branches that have ended and whose sums are not final, by their threads.
    pub(super) uncounted: BTreeMap<ThreadId, Uncounted>,
    pub(super) children: Children,
}

/// What is fixed when a run begins, and of the thread when that does.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) struct Run {
    pub(super) workflow: WorkflowRef,
    pub(super) input: Json,
    /// When the thread began.
    pub(super) started_at: Time,
    pub(super) deadline: Option<Time>,
    pub(super) max_iterations: u32,
    pub(super) workspace: Option<String>,
    pub(super) budget: Option<BudgetLimits>,
    pub(super) on_limit: OnLimit,
    pub(super) labels: Labels,
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
        /// Whether it is the consequence of a spent budget.
        for_budget: bool,
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
        /// The node that it hands the conversation over to.
        handoff: Option<NodeId>,
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
    /// A hook is over: the next one begins, or the run ends.
    BetweenHooks,
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
        /// Which hooks failed or were cut off, and why.
        cause: Option<String>,
    },
    /// It failed.
    Failed {
        /// The node it failed on.
        node: Option<NodeId>,
        /// Why.
        error: ExecutionError,
    },
}

/// A moment with a name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Checkpoint {
    /// Its name.
    pub label: String,
    /// The seq of its event; the state at the checkpoint is the state at this seq.
    pub seq: Seq,
}

impl State {
    /// A thread without events.
    pub fn new(thread: ThreadId) -> Self {
        Self {
            thread,
            next: Seq(0),
            last_at: Time::default(),
            run: None,
            runs: Runs::default(),
            queueing: Queueing::default(),
            control: Control::Running,
            phase: Phase::New,
            hooks: None,
            calls: OpenCalls::default(),
            variables: Arc::default(),
            conversation: Arc::default(),
            named: BTreeMap::new(),
            frames: Vec::new(),
            n_entered: 0,
            globals: Globals::default(),
            path: Path::default(),
            checkpoints: Vec::new(),
            checkpoint_names: CheckpointNames::default(),
            totals: Totals::default(),
            budget_exceeded: false,
            unpriced: None,
            questions: BTreeMap::new(),
            signals: VecDeque::new(),
            changes: ForkChanges::default(),
            branch: None,
            uncounted: BTreeMap::new(),
            children: Children::default(),
        }
    }

    /// The same state as the beginning of another thread.
    pub(super) fn rename(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    /// The same state as that of a fork which inherits everything up to here: what folding the inherited events for the
    /// fork gives. `None` while branches run, whose ids follow from the thread.
    pub fn inherited_by(mut self, fork: ThreadId) -> Option<Self> {
        if self.has_branches() {
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

    /// The time of the next event, if the clock shows `clock`: never before that of the last event. After a clock
    /// was set back, the time of the thread stops until the clock has passed the last event.
    pub fn time_at(&self, clock: Time) -> Time {
        clock.max(self.last_at)
    }

    /// How far the thread is.
    pub fn status(&self) -> Status {
        match (&self.phase, &self.control) {
            (Phase::New, _) => Status::Pending,
            (Phase::Ended(_), _) if self.has_next_run() => Status::Running,
            (Phase::Ended(Ending::Completed), _) => Status::Completed,
            (Phase::Ended(Ending::Cancelled { .. }), _) => Status::Cancelled,
            (Phase::Ended(Ending::Failed { .. }), _) => Status::Error,
            (_, Control::Paused { .. }) => Status::Paused,
            _ if self.is_queued() => Status::Queued,
            (Phase::InNode(_), _) => self.waiting_status().unwrap_or(Status::Running),
            _ => Status::Running,
        }
    }

    /// Whether its last run has ended and no other one waits: nothing happens until it is given one.
    pub fn is_ended(&self) -> bool {
        self.run_has_ended() && !self.has_next_run()
    }

    /// How its last run ended, if it has.
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

    /// The labels of the thread; those of a fork or a branch are those of the thread that it inherits from.
    pub fn labels(&self) -> &Labels {
        static NONE: Labels = Labels::new();
        self.run.as_ref().map_or(&NONE, |run| &run.labels)
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

    /// The conversations that nodes and sub-workflows have by name, as they were when the last of them completed.
    pub fn named_conversations(&self) -> &BTreeMap<String, Arc<Conversation>> {
        &self.named
    }

    /// The conversation that a node with this context begins with; `None` where it is that of the thread.
    pub(super) fn seen_with(&self, context: &NodeContext) -> Option<Conversation> {
        match context.name() {
            Some(name) => Some(self.conversation.continued_in(self.named.get(name).map(|kept| &**kept))),
            None => self.conversation.seen_by(context),
        }
    }

    /// Whether the conversation of a node with this context has instructions in force.
    pub(super) fn has_instructions_for(&self, context: &NodeContext) -> bool {
        match self.seen_with(context) {
            Some(seen) => seen.system_prompt().is_some(),
            None => self.conversation.system_prompt().is_some(),
        }
    }

    /// Whether a node or a sub-workflow that runs has the conversation with this name.
    pub(super) fn is_in_conversation(&self, name: &str) -> bool {
        let of_node = self.node_run().and_then(|run| run.aside.as_ref());
        // The node that runs a sub-workflow has a conversation of its own if it is that of a model, which called an agent.
        let of_frames = self.frames.iter().flat_map(|frame| match frame {
            Frame::Sub(open) => [open.aside.as_ref(), open.run.aside.as_ref()],
            Frame::Loop(_) => [None, None],
        });
        of_frames.flatten().chain(of_node).any(|aside| aside.name.as_deref() == Some(name))
    }

    /// The nodes it entered: the last [`super::VISITS_MAX`] of them.
    pub fn path(&self) -> Cow<'_, [Visit]> {
        self.path.kept()
    }

    /// How many nodes [`State::path`] has.
    pub fn n_visits(&self) -> usize {
        self.path.n_kept()
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

    /// What the clocks of calls and questions show at a moment: while the thread is paused, or waits in a queue, they stand
    /// still.
    pub(super) fn clock(&self, at: Time) -> Time {
        let queued = self.queue_place().filter(|place| place.is_waiting()).map(|place| place.since);
        let paused = match self.control {
            Control::Running => None,
            Control::Paused { since, .. } => Some(since),
        };
        queued.into_iter().chain(paused).fold(at, Time::min)
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
        self.calls.in_order(OpenCall::is_wanted).into_iter().filter_map(OpenCall::question).collect()
    }

    /// The first of the questions that wait for people.
    pub fn interaction(&self) -> Option<&Interaction> {
        self.interactions().into_iter().next()
    }

    /// What the node waits for, where nothing of it goes on meanwhile: people who are asked, or a time, a signal or
    /// the end of a thread.
    fn waiting_status(&self) -> Option<Status> {
        if self.node_run().is_some_and(|run| run.work.has_queued_calls()) {
            return None;
        }
        let mut rests = None;
        for open in self.calls.iter().filter(|open| open.stage != CallStage::Delegated) {
            match open.kind {
                CallKind::Question(_) if open.is_wanted() => rests = Some(Status::Waiting),
                CallKind::Timer(_) | CallKind::Signal(_) | CallKind::Awaited(_) if open.is_wanted() => {
                    rests = rests.or(Some(Status::Suspended));
                }
                _ => return None,
            }
        }
        rests
    }

    /// The signal that the node it is in waits for.
    pub fn awaited_signal(&self) -> Option<&SignalRun> {
        self.calls.iter().find_map(OpenCall::signal)
    }

    /// The wait of the node that it is in.
    pub fn timer(&self) -> Option<&TimerRun> {
        self.calls.iter().find_map(OpenCall::timer)
    }

    /// Its final output: the variable `output`; while a sub-workflow runs, and in a branch in one, that of the
    /// sub-workflow.
    pub fn output(&self) -> Option<&Json> {
        self.output_here()
    }

    /// The conversation that is being summarised, for an agent loop or on demand.
    pub fn summarizing(&self) -> Option<&Summarizing> {
        match &self.node_run()?.work {
            Work::Llm(agent_loop) => match &agent_loop.stage {
                Stage::Summarizing(open) => Some(open),
                _ => None,
            },
            Work::Processing { summarizing, .. } => summarizing.as_deref(),
            _ => None,
        }
    }

    /// The condition that a model judges.
    pub fn judging(&self) -> Option<&Judging> {
        match &self.phase {
            Phase::Judging(judging) => Some(judging),
            _ => None,
        }
    }

    /// The condition that a model judges for a guardrail.
    pub(super) fn guardrail_judging(&self) -> Option<&Judging> {
        match &self.node_run()?.work {
            Work::Llm(agent_loop) => agent_loop.guarding.judging(),
            _ => None,
        }
    }

    /// The context processor that runs.
    pub fn processor_run(&self) -> Option<&ProcessorRun> {
        match &self.node_run()?.work {
            Work::Processing { call, .. } => self.calls.get(*call)?.processor(),
            _ => None,
        }
    }

    /// The messages that the context processor that runs is shown: those that were there when it was asked for. The
    /// same for every attempt.
    pub fn processor_messages(&self) -> Vec<Arc<Message>> {
        let shown = self.processor_run().map(|run| self.conversation.before(run.call));
        shown.unwrap_or_default().iter().map(|entry| entry.message.clone()).collect()
    }

    /// What the thread may spend.
    pub fn budget(&self) -> Option<&BudgetLimits> {
        self.run.as_ref()?.budget.as_ref()
    }

    /// The seq of the last event as the id of the call that it asked for.
    pub(super) fn last_call(&self) -> Option<CallId> {
        self.last_seq().map(CallId)
    }

    /// The error it ended in; for a cancelled thread, that it was cancelled.
    pub fn error(&self) -> Option<ExecutionError> {
        match self.ending()? {
            Ending::Completed => None,
            Ending::Cancelled { reason, cause } => Some(ExecutionError {
                cause: cause.clone(),
                ..ExecutionError::new(
                    ErrorKind::Cancelled,
                    reason.clone().unwrap_or_else(|| "the thread was cancelled".into()),
                )
            }),
            Ending::Failed { error, .. } => Some(error.clone()),
        }
    }

    /// The node it is in, enters or ended on.
    pub fn node_name(&self) -> Option<&NodeId> {
        match self.phase() {
            Phase::New => None,
            Phase::Entering { node, .. } | Phase::Leaving { node, .. } | Phase::Failing { node, .. } => Some(node),
            Phase::InNode(run) => Some(&run.node),
            Phase::Judging(judging) => Some(&judging.node),
            Phase::Ended(Ending::Failed { node, .. }) => node.as_ref(),
            Phase::BetweenHooks | Phase::Ended(_) => self.path.last().map(|visit| &visit.node),
        }
    }
}
