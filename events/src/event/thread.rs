//! Events of a thread as a whole.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::codec::OrderedMap;
use crate::fault::ExecutionError;
use crate::ids::{CallId, Hash, NodeId, ProfileId, Seq, ThreadId, Time};
use crate::json::Json;
use crate::labels::Labels;
use crate::message::Message;
use crate::principal::Principal;
use crate::trace_context::TraceParent;
use std::sync::Arc;

/// THREAD_STARTED: a run begins.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadStarted {
    /// The workflow and the hash of the definition that the thread will finish on.
    pub workflow: WorkflowRef,
    /// The input of the caller; the variable `input`.
    pub input: Json,
    /// Variables that are there from the beginning, in the order of the definition.
    pub variables: OrderedMap<Json>,
    /// The first node.
    pub entry: NodeId,
    /// The deadline of the whole run.
    pub deadline: Option<Time>,
    /// How many nodes it may enter outside of loops and sub-workflows; each iteration of a loop may enter as many by
    /// itself.
    pub max_iterations: u32,
    /// The folder the tools work in.
    pub workspace: Option<String>,
    /// The budget; no limit when absent.
    pub budget: Option<BudgetLimits>,
    /// The policy when a node or the thread has no iteration left.
    pub on_limit: OnLimit,
    /// The labels of the thread, which its forks and branches have, too.
    pub labels: Labels,
    /// What was said before: the conversation that the first run goes on with.
    pub messages: Vec<Arc<Message>>,
    /// The span of the caller, as its `traceparent` names it.
    pub traceparent: Option<TraceParent>,
}

/// What a thread may spend on models, its branches included.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct BudgetLimits {
    /// Tokens of prompts and answers.
    pub tokens: Option<u64>,
    /// Cost in billionths of a US dollar.
    pub cost_nanousd: Option<u64>,
    /// The policy when the budget is spent.
    pub on_exceeded: OnLimit,
    /// What becomes of a thread with a budget in money when the cost of a call is not known.
    pub on_unpriced: OnUnpriced,
}

/// What becomes of a thread with a budget in money when the price of a model is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnpriced {
    /// It does not start; when a call of it turns out to have no price, that counts as a spent budget.
    #[default]
    Refuse,
    /// It starts and goes on; what has no price is not counted, and every sum says so.
    Allow,
}

/// What happens at a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// What reached it fails.
    #[default]
    Fail,
    /// The thread pauses, until the limit is raised.
    Pause,
}

/// LIMIT_RAISED: limits of the thread from here on. A person raised them, so that the thread can continue. Or the thread is a
/// branch, and this is what its parent has left for it; that may be less than before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct LimitRaised {
    /// The budget in tokens from here on.
    pub tokens: Option<u64>,
    /// The budget in billionths of a US dollar from here on.
    pub cost_nanousd: Option<u64>,
    /// The number of additional iterations: model calls of the running agent loop, or nodes to enter if none runs.
    pub iterations: Option<u32>,
    /// From here on calls without a known price are allowed, and not counted against the budget in money.
    pub allow_unpriced: bool,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
}

/// THREAD_FORKED: a new thread goes on from a moment of another one. All its clocks go on from where they stood then,
/// and open tool calls keep the key under which the parent made them.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadForked {
    /// The thread that was forked.
    pub parent: ThreadId,
    /// The last seq that is inherited.
    pub seq: Seq,
    /// What is different from here on.
    pub changes: ForkChanges,
    /// The branch that this thread is, when a fork node started it or it takes the place of one.
    pub branch: Option<BranchOf>,
    /// The threads that take the places of the branches that were running.
    pub branches: Vec<ReplacedBranch>,
    /// Variables of scope `global` that are set in a branch that begins: those that branches which ended before it set.
    pub globals: OrderedMap<Json>,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
}

/// The branch that a thread is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct BranchOf {
    /// The thread whose branch it is.
    pub owner: ThreadId,
    /// The index of the branch, from 0, in the order of the fork.
    pub index: u32,
}

/// A thread in the place of a branch, or of a branch of that. It forks off from that branch where it stood at the moment
/// at which its owner does.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ReplacedBranch {
    /// The number of the branch; before it those of the branches whose branch it is.
    pub path: Vec<u32>,
    /// The thread that takes its place.
    pub child: ThreadId,
    /// How far the branch was at that moment; absent when it had not begun.
    pub seq: Option<Seq>,
}

/// What a fork changes.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct ForkChanges {
    /// Variables set anew.
    #[serde(default)]
    pub variables: OrderedMap<Json>,
    /// Every model call from here on uses this profile.
    #[serde(default)]
    pub profile: Option<ProfileId>,
    /// Whether a person answers for the model of that profile. The machine fills it in.
    #[serde(default)]
    pub relay: bool,
    /// User prompts of nodes that are entered from here on.
    #[serde(default)]
    pub prompts: OrderedMap<String>,
    /// The definition to go on with.
    #[serde(default)]
    pub workflow: Option<WorkflowRef>,
}

/// THREAD_PAUSED: nothing new is begun until THREAD_RESUMED; answers of calls that run are still taken. The clocks of
/// nodes, calls and questions stand still; the one of the whole run goes on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadPaused {
    /// The reason, for people.
    pub reason: Option<String>,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
}

/// THREAD_RESUMED: the end of a pause.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadResumed {
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
}

/// THREAD_RECOVERED: the runtime came back to a thread whose calls had been cut off; the events after it say what
/// became of each. Changes nothing by itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadRecovered {
    /// The calls that were in flight.
    pub calls: Vec<CallId>,
}

/// THREAD_CANCELLED: the run was cancelled, and with it those that waited then. The thread can be given another run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadCancelled {
    /// The reason, for people.
    pub reason: Option<String>,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
    /// Whether another run waits, and begins at once: one that was queued while hooks ran.
    pub run_follows: bool,
    /// Which hooks failed or were cut off, and why; absent where none was.
    #[serde(rename = "source")]
    pub cause: Option<String>,
}

/// THREAD_COMPLETED: the run reached an end. The thread can be given another run.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadCompleted {
    /// The node it ended on.
    pub node_id: NodeId,
    /// Whether another run waits, and begins at once.
    pub run_follows: bool,
}

/// THREAD_FAILED: the run ended in an error. The thread can be given another run.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ThreadFailed {
    /// The node it failed on, if it was in one.
    pub node_id: Option<NodeId>,
    /// Why.
    pub error: ExecutionError,
    /// Whether another run waits, and begins at once.
    pub run_follows: bool,
}

/// WORKFLOW_CHANGED: from here on the thread runs on another definition. What is open goes on by its recorded request.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct WorkflowChanged {
    /// The definition that it runs on from here on.
    pub workflow: WorkflowRef,
    /// The one that it ran on before.
    pub previous: WorkflowRef,
    /// Who did it.
    pub by: Option<Principal>,
}

/// CHECKPOINT_CREATED: this moment has a name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CheckpointCreated {
    /// The name, unique in the thread.
    pub label: String,
    /// Who did it; absent where a node of the workflow did.
    pub by: Option<Principal>,
}

/// VARIABLES_UPDATED: variables were set from outside a node.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct VariablesUpdated {
    /// The new values.
    pub variables: OrderedMap<Json>,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
}

/// MESSAGE_ADDED: the application put a message into the conversation. It comes after the answer that a model is giving
/// just then, and after the results of tools that run; the next model call sees it.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct MessageAdded {
    /// The message.
    pub message: Arc<Message>,
    /// What else it does.
    pub effect: MessageEffect,
    /// The idempotency key of the request.
    pub key: Option<String>,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
}

/// What a message does that comes while a run is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageEffect {
    /// It joins the conversation.
    #[default]
    Add,
    /// It steers the run: where no model reads it before the run ends, it begins the next run.
    Steer,
    /// As `steer`, and it interrupts the agent loop: tool calls that were not begun are not.
    Interrupt,
}

/// WARNING: something came that changes nothing, for example a late answer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Warning {
    /// The kind of input that was ignored.
    pub code: WarningCode,
    /// The call it is about.
    pub call_id: Option<CallId>,
    /// For people, at most 1 000 characters.
    pub detail: String,
}

/// Kinds of warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// An answer to a call that is no longer open.
    LateAnswer,
    /// An answer to a call that never was.
    UnknownCall,
    /// An answer of an attempt that was given up.
    StaleAttempt,
    /// A model that judged a condition said neither yes nor no, or nothing: the condition counts as not fulfilled.
    DoubtfulVerdict,
    /// A model is called with more than the limit of its conversation, because no summary makes it shorter.
    ContextOverLimit,
    /// A budget in money is set and what a model call cost is not known: it is not counted.
    UnknownCost,
    /// A thread ends and no model has read a message that the application added for the user.
    UnreadMessage,
    /// What an agent said does not fit in an event: its conversation is as it was before the call.
    ConversationTooLarge,
    /// The first answer of a node had to use a tool, and uses none: the server ignores that it must.
    ToolNotUsed,
}

/// The name of a workflow and the hash of the exact definition.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct WorkflowRef {
    /// Its name.
    pub name: String,
    /// The hash of the definition's JSON, which is kept as a blob under that hash.
    pub hash: Hash,
}
