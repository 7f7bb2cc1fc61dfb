//! The result of a node that was entered.

use std::collections::BTreeMap;

use serde::Serialize;

use super::call::{Call, FailedTry};
use super::outcome::StepOutcome;
use crate::event::Hook;
use crate::fault::ExecutionError;
use crate::ids::{NodeId, Seq, Time};
use crate::json::Json;
use crate::message::{Usage, sum_of};

/// What a node does, as far as its events say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeDoes {
    /// It runs the agent loop.
    Llm,
    /// It runs a tool.
    Tool,
    /// It asks a person.
    UserInteraction,
    /// It waits for a time, a signal or the end of a thread.
    Wait,
    /// It changes the conversation.
    ContextProcessor,
    /// It starts branches.
    Fork,
    /// It goes round; the nodes inside are `within` it.
    Loop,
    /// It runs a workflow; the nodes inside are `within` it.
    SubWorkflow,
    /// It starts a thread.
    StartThread,
}

/// What came of a node: of one time it was entered, all tries together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeResult {
    /// Its number in the thread, from 0, in the order of beginning.
    pub number: u64,
    /// The node.
    pub node: NodeId,
    /// What it does; absent for one that only marks a place, and for one that has not begun to do anything.
    pub does: Option<NodeDoes>,
    /// The number of the loop or sub-workflow that it ran in.
    pub within: Option<u64>,
    /// Which time round, from 0, where that is a loop.
    pub iteration: Option<u64>,
    /// How many loops and sub-workflows it is in.
    pub depth: u32,
    /// The hook of the run that it is a node of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<Hook>,
    /// The event with which it began.
    pub first_seq: Seq,
    /// Its last event: the one that ended it, when it has ended.
    pub last_seq: Seq,
    /// When it began.
    pub began: Time,
    /// When it ended.
    pub ended: Option<Time>,
    /// How it ended.
    pub outcome: StepOutcome,
    /// Whether it did its work; absent while it has not ended.
    pub success: Option<bool>,
    /// What it gave. The branches of a fork by name, or in the order of its list.
    pub output: Option<Json>,
    /// Whether the output is left out here because it is larger than [`OUTPUT_BYTES_MAX`](super::OUTPUT_BYTES_MAX); the
    /// state at `last_seq` has it.
    pub output_left_out: bool,
    /// Why it failed.
    pub error: Option<ExecutionError>,
    /// From its beginning to its end, all tries and waits between them included; absent while it has not ended.
    pub execution_time_ms: Option<u64>,
    /// Its sums; without those of nodes `within` it.
    pub metadata: NodeMetadata,
    /// The beginning of the prompt of a model node.
    pub prompt: Option<String>,
    /// How many tries it took.
    pub attempts: u32,
    /// When the last try began.
    #[serde(skip)]
    pub tried_at: Time,
    /// The tries that failed and were followed by another, the last 20 of them.
    pub failed_tries: Vec<FailedTry>,
    /// The calls inside it, in the order in which they were asked for.
    #[serde(serialize_with = "values")]
    pub(super) calls: BTreeMap<crate::ids::CallId, Call>,
    /// How many more calls there were than are held.
    pub n_calls_dropped: u64,
    /// The edge by which it was left, where there were several.
    pub route: Option<Route>,
    /// How often a loop went round, up to now.
    pub n_iterations: u64,
    #[serde(skip)]
    pub(super) held_bytes: usize,
}

impl NodeResult {
    /// The calls inside it, in the order in which they were asked for: at most
    /// [`CALLS_OF_NODE_MAX`](super::CALLS_OF_NODE_MAX) that completed, and as many that did not.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.calls.values()
    }

    /// The outcome at a time. `around` is the outcome of the fork node at that time if this is a node of its branch, and
    /// `Open` otherwise. A node that is open when its fork ends is cancelled, although the branch records it later.
    pub fn outcome_at(&self, at: Time, around: StepOutcome) -> StepOutcome {
        match (self.ended, around) {
            (Some(ended), _) if ended <= at => self.outcome,
            (_, StepOutcome::Open) => StepOutcome::Open,
            (_, StepOutcome::Completed | StepOutcome::Failed | StepOutcome::Cancelled) => StepOutcome::Cancelled,
        }
    }
}

/// The sums of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct NodeMetadata {
    /// Model calls that were answered; those for summaries, conditions and branches too.
    pub llm_calls: u64,
    /// Tool calls that ended; those of branches too.
    pub tool_calls: u64,
    /// Tokens.
    pub token_usage: Usage,
    /// Cost in billionths of a US dollar, of the calls whose price is known.
    pub cost_nanousd: Option<u64>,
    /// Model calls whose cost is not known, and not part of the sum.
    pub n_unpriced: u64,
    /// Whether the sum misses a cost.
    pub cost_is_partial: bool,
}

impl NodeMetadata {
    pub(super) fn add(
        &mut self,
        llm_calls: u64,
        tool_calls: u64,
        usage: &Usage,
        cost_nanousd: Option<u64>,
        n_unpriced: u64,
    ) {
        self.n_unpriced = self.n_unpriced.saturating_add(n_unpriced);
        self.cost_is_partial = self.n_unpriced > 0;
        self.llm_calls = self.llm_calls.saturating_add(llm_calls);
        self.tool_calls = self.tool_calls.saturating_add(tool_calls);
        self.token_usage.add(usage);
        self.cost_nanousd = sum_of(self.cost_nanousd, cost_nanousd, u64::saturating_add);
    }
}

/// The way on from a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The event.
    pub seq: Seq,
    /// The node that comes next.
    pub to: NodeId,
    /// The condition that held, or the error that led this way; absent for the default edge.
    pub condition: Option<String>,
}

/// A time in which nothing of the thread went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// Why.
    pub kind: WaitKind,
    /// The event after which it began.
    pub seq: Seq,
    /// When it began.
    pub began: Time,
    /// When it ended; absent while it lasts.
    pub ended: Option<Time>,
    /// More of it, for people.
    pub reason: Option<String>,
}

/// Why nothing went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// It waited in a queue for its turn.
    Queued,
    /// It was paused by request or at a limit.
    Paused,
    /// A node was to be tried again later.
    Retry,
    /// No runtime ran it while calls were open. Begins with the last event that was recorded.
    Down,
}

pub(super) fn values<K, V: Serialize, S: serde::Serializer>(
    map: &BTreeMap<K, V>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(map.values())
}
