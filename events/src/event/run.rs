//! Events of the runs of a thread after its first one.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::thread::{BudgetLimits, OnLimit, WorkflowRef};
use crate::codec::OrderedMap;
use crate::ids::{NodeId, RunId, Seq, Time};
use crate::json::Json;
use crate::principal::Principal;
use crate::trace_context::TraceParent;

/// RUN_STARTED: the next run of a thread whose last run has ended. The conversation and the variables of the thread stay,
/// but for `input`, which is that of this run, and `output` and `error`, which a run begins without.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run.
    pub run_id: RunId,
    /// Its number in the thread; the first run has 1.
    pub number: u64,
    /// The run before it.
    pub previous: PastRun,
    /// The workflow and the hash of the definition that the run will finish on.
    pub workflow: WorkflowRef,
    /// The input of the caller; the variable `input`.
    pub input: Json,
    /// Variables that are set as it begins: those that the caller gave, and those of the definition that the thread does
    /// not have.
    pub variables: OrderedMap<Json>,
    /// The first node.
    pub entry: NodeId,
    /// The deadline of the run.
    pub deadline: Option<Time>,
    /// How many nodes the run may enter outside of loops and sub-workflows.
    pub max_iterations: u32,
    /// The budget of the run; no limit when absent.
    pub budget: Option<BudgetLimits>,
    /// The policy when a node or the run has no iteration left.
    pub on_limit: OnLimit,
    /// Its source, if it waited for the end of the run before.
    pub from: RunSource,
    /// The idempotency key of the request.
    pub key: Option<String>,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
    /// The span of the caller, as its `traceparent` names it.
    pub traceparent: Option<TraceParent>,
}

/// A run that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct PastRun {
    /// The run.
    pub run_id: RunId,
    /// The event with which it began.
    pub started: Seq,
    /// The event with which it ended.
    pub ended: Seq,
}

/// The source of the input of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunSource {
    /// It was given for the run.
    #[default]
    Input,
    /// It was queued while another run was going on.
    Queue,
    /// Messages that were to steer the run before, and that no model had read when that ended. They leave the conversation
    /// and are the input.
    Unread,
}

/// RUN_QUEUED: the input of a run that begins when the runs before it have ended.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct RunQueued {
    /// The run.
    pub run_id: RunId,
    /// The input.
    pub input: Json,
    /// Variables that are set as it begins.
    pub variables: OrderedMap<Json>,
    /// The idempotency key of the request.
    pub key: Option<String>,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
    /// The span of the caller, as its `traceparent` names it.
    pub traceparent: Option<TraceParent>,
}

/// RUN_CANCELLED: a run that waited is cancelled and will not begin; or messages that were to steer a run, and that no
/// model has read, will not begin one.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct RunCancelled {
    /// The run that was queued, or the message.
    pub run_id: RunId,
    /// The reason, for people.
    pub reason: Option<String>,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
}

/// How a message for a running thread is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMessage {
    /// It is the input of a run of its own, which begins when the runs before it have ended.
    #[default]
    Queue,
    /// The next model call of the run in progress includes it. If none follows, it is the input of a run of its own.
    Steer,
    /// As `steer`, and the open model call is cancelled. So are tool calls that may be repeated; those that may not are
    /// waited for. Then the model is called with the message.
    Interrupt,
    /// It is refused.
    Reject,
}
