//! Events of branches, loops, sub-workflows, judged conditions and context processors.

use std::sync::Arc;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::guardrail::JudgedGuardrail;
use super::model::ModelChoice;
use crate::codec::OrderedMap;
use crate::fault::ExecutionError;
use crate::ids::{CallId, Hash, NodeId, ThreadId, Time};
use crate::json::Json;
use crate::message::{Message, UnitPrices, Usage, UsageSource};

/// CONDITION_EVALUATION_REQUESTED: a model evaluates a condition in natural language. Its seq is the call's id.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ConditionEvaluationRequested {
    /// The node that the edge leaves, or whose guardrail it is.
    pub node_id: NodeId,
    /// The index of the edge among those that leave the node; 0 for a guardrail.
    pub edge: u32,
    /// The condition.
    pub condition: String,
    /// 1 for the first call, 2 if the first answer was neither yes nor no.
    pub attempt: u32,
    /// The model that judges.
    pub model: ModelChoice,
    /// The timeout.
    pub timeout_ms: u64,
    /// As in LLM_CALL_REQUESTED.
    pub model_profile: Option<Hash>,
    /// The guardrail whose condition it is; absent for that of an edge.
    pub guardrail: Option<JudgedGuardrail>,
}

/// CONDITION_EVALUATION_COMPLETED: the model's verdict, or that it gave none.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ConditionEvaluationCompleted {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// Whether the condition holds; absent if the answer was neither yes nor no, or the call failed.
    pub verdict: Option<bool>,
    /// The answer of the model, cut to 1 000 characters.
    pub answer: String,
    /// The error of the call.
    pub error: Option<ExecutionError>,
    /// Tokens.
    pub usage: Usage,
    /// Cost in billionths of a US dollar.
    pub cost_nanousd: Option<u64>,
    /// The prices of that cost.
    pub prices: Option<UnitPrices>,
    /// The model, as the provider names it.
    pub model: Option<String>,
    /// The duration.
    pub duration_ms: u64,
    /// Who counted the tokens.
    pub usage_source: UsageSource,
    /// As in LLM_CALL_COMPLETED.
    #[serde(default)]
    pub fallback_from: Option<String>,
}

/// FORK_STARTED: branches are planned. Contains everything that later decisions about them need, so that a replay needs
/// no definition.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ForkStarted {
    /// The fork node.
    pub node_id: NodeId,
    /// The join node at which the branches end.
    pub join: NodeId,
    /// The branches.
    pub branches: Branches,
    /// The number of branches that must complete.
    pub n_needed: u32,
    /// The policy for failed branches.
    pub on_failed: OnFailed,
    /// The most branches that run at the same time.
    pub concurrency_max: u32,
    /// The deadline of the branches.
    pub deadline: Option<Time>,
    /// Whether `n_needed` branches must succeed for every value of `on_failed`, as in the modes `any` and `n_of_m`.
    pub quorum: bool,
    /// The variable that holds all results, beside `output`.
    pub into: Option<String>,
}

/// The branches of a fork.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Branches {
    /// One for each name, which is the variable that its result becomes.
    Named(Vec<NamedBranch>),
    /// One for each element of a list, called `0`, `1` …
    Each {
        /// The first node.
        entry: NodeId,
        /// The variable that holds the element.
        variable: String,
        /// The list.
        items: Vec<Json>,
    },
}

/// A branch with a name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct NamedBranch {
    /// The name.
    pub name: String,
    /// The first node.
    pub entry: NodeId,
}

/// What a join does with failed branches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailed {
    /// The fork fails as soon as too many have failed for enough to complete.
    #[default]
    Fail,
    /// Their result is null. In mode `all` the fork does not fail because of them.
    Ignore,
    /// Their result is `{"error": …}`. In mode `all` the fork does not fail because of them.
    Collect,
}

/// BRANCH_STARTED: a branch begins, as a thread of its own that is forked right after FORK_STARTED.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct BranchStarted {
    /// The index of the branch, from 0, in the order of the fork.
    pub index: u32,
    /// The thread. Its id follows from the thread, seq and time of this event.
    pub child: ThreadId,
}

/// BRANCH_SPENT: what a branch has spent so far, while it runs in a run with a budget, or after a BRANCH_ENDED whose sums
/// are not final. This thread counts it from here on.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct BranchSpent {
    /// The index of the branch.
    pub index: u32,
    /// The thread.
    pub child: ThreadId,
    /// Model calls of it and of its own branches so far.
    pub n_llm_calls: u64,
    /// Tool calls of it and of its own branches so far.
    pub n_tool_calls: u64,
    /// Tokens of it and of its own branches so far.
    pub usage: Usage,
    /// Cost of it and of its own branches so far.
    pub cost_nanousd: Option<u64>,
    /// Model calls of it and of its own branches so far whose cost is not known.
    pub n_unpriced: u64,
    /// Whether the sums are final: the branch and its own branches have ended.
    pub is_final: bool,
}

/// BRANCH_ENDED: a branch ended by itself, or is cancelled because it is not needed any more.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct BranchEnded {
    /// The index of the branch.
    pub index: u32,
    /// The thread.
    pub child: ThreadId,
    /// The output, if it completed.
    pub output: Option<Json>,
    /// The error, if it did not complete.
    pub error: Option<ExecutionError>,
    /// Variables of scope `global` that it set; they are set in this thread now.
    pub globals: OrderedMap<Json>,
    /// Model calls of it and of its own branches.
    pub n_llm_calls: u64,
    /// Tool calls of it and of its own branches.
    pub n_tool_calls: u64,
    /// Tokens of it and of its own branches.
    pub usage: Usage,
    /// Cost of it and of its own branches.
    pub cost_nanousd: Option<u64>,
    /// Model calls of it and of its own branches whose cost is not known.
    pub n_unpriced: u64,
    /// Whether the sums are final. They are not if this thread ended the branch, or if the branch ended before its own
    /// branches: BRANCH_SPENT follows.
    pub is_final: bool,
    /// Of an agent whose conversation has a name and that completed: this conversation from here on.
    pub said: Option<Vec<SaidItem>>,
}

/// A part of a conversation that another thread continued.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaidItem {
    /// Messages that stay, by their places in the conversation so far.
    Kept {
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
    },
    /// A message that was not there before.
    New {
        /// The node that said it; absent for what the application added.
        node: Option<NodeId>,
        /// Whether it is a summary of others.
        summary: bool,
        /// The message.
        message: Arc<Message>,
    },
}

/// JOIN_COMPLETED: enough branches have ended. Each name has its branch's output (null if it was left out), and
/// `output` all of them: an object by name, or a list in the order of the fork's list.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct JoinCompleted {
    /// The fork node.
    pub node_id: NodeId,
    /// The number of branches that completed.
    pub n_completed: u32,
    /// The number of branches that failed.
    pub n_failed: u32,
}

/// LOOP_STARTED: a loop begins.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LoopStarted {
    /// The node it begins at.
    pub node_id: NodeId,
    /// The node at which an iteration ends.
    pub end: NodeId,
    /// The list, in a `for_each` loop.
    pub items: Option<Vec<Json>>,
    /// The variable that holds the element.
    pub variable: String,
    /// The most iterations.
    pub n_iterations_max: u64,
    /// The variable that holds a list of what `output` was at the end of each iteration, when the loop is over.
    pub into: Option<String>,
}

/// LOOP_ITERATION_STARTED: a loop goes round.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct LoopIterationStarted {
    /// The node the loop begins at.
    pub node_id: NodeId,
    /// 0 for the first iteration.
    pub index: u64,
}

/// LOOP_ENDED: a loop has ended; its scope is removed.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LoopEnded {
    /// The node the loop begins at.
    pub node_id: NodeId,
    /// The number of iterations.
    pub n_iterations: u64,
    /// The error, if it failed.
    pub error: Option<ExecutionError>,
}

/// SUB_WORKFLOW_STARTED: a workflow runs inside this one, with a `subgraph` scope of its own.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct SubWorkflowStarted {
    /// The node.
    pub node_id: NodeId,
    /// The workflow's name in the definition.
    pub workflow: String,
    /// Its first node.
    pub entry: NodeId,
    /// Its variables, inputs included.
    pub variables: OrderedMap<Json>,
    /// The most nodes it may enter outside of its own loops and sub-workflows.
    pub max_iterations: u32,
    /// The conversation that it begins with.
    pub context: NodeContext,
}

/// The conversation that a node sees.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeContext {
    /// That of the thread so far.
    #[default]
    Shared,
    /// None of it.
    Fresh,
    /// The messages of these nodes.
    From(Vec<NodeId>),
    /// The conversation of the thread with this name, which all nodes and sub-workflows that name it have.
    Named(String),
}

impl NodeContext {
    /// The name of the conversation, if it is a named one.
    pub(crate) fn name(&self) -> Option<&String> {
        if let Self::Named(name) = self { Some(name) } else { None }
    }
}

/// SUB_WORKFLOW_COMPLETED: the inner workflow reached an end; its scope is removed.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct SubWorkflowCompleted {
    /// The node.
    pub node_id: NodeId,
    /// The output of the sub-workflow.
    pub output: Option<Json>,
    /// Variables of the caller that are set.
    pub variables: OrderedMap<Json>,
}

/// SUB_WORKFLOW_FAILED: the inner workflow failed; its scope is removed.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct SubWorkflowFailed {
    /// The node.
    pub node_id: NodeId,
    /// Why.
    pub error: ExecutionError,
}

/// CONTEXT_PROCESSING_REQUESTED: a context processor is to change the conversation. Its seq is the call's id.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ContextProcessingRequested {
    /// The node.
    pub node_id: NodeId,
    /// The processor.
    pub processor: String,
    /// Its settings.
    pub config: OrderedMap<Json>,
    /// The deadline of the answer.
    pub deadline: Time,
}

/// CONTEXT_PROCESSING_RETRIED: a context processor is called again, because its result was lost in a crash.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ContextProcessingRetried {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The number of this attempt; 1 was the first.
    pub attempt: u32,
}

/// CONTEXT_PROCESSED: a context processor changed the conversation; the messages before stay in the log.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ContextProcessed {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The conversation from here on.
    pub messages: Vec<ContextItem>,
    /// The variables that it set.
    pub variables: OrderedMap<Json>,
    /// The output of the processor.
    pub output: Option<Json>,
}

/// A part of a changed conversation.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextItem {
    /// Messages that stay, by their places in the conversation so far.
    Kept {
        /// The first.
        from: u64,
        /// The one after the last.
        to: u64,
    },
    /// A message that replaces others.
    New(Arc<Message>),
}

/// CONTEXT_PROCESSING_FAILED: a context processor failed; the conversation is as it was.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ContextProcessingFailed {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// Why.
    pub error: ExecutionError,
}

impl Branches {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Named(branches) => branches.len(),
            Self::Each { items, .. } => items.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name of a branch.
    pub fn name(&self, index: u32) -> String {
        match self {
            Self::Named(branches) => branches.get(index as usize).map(|branch| branch.name.clone()).unwrap_or_default(),
            Self::Each { .. } => index.to_string(),
        }
    }

    /// The first node of a branch, and the variable that it begins with.
    pub(crate) fn beginning(&self, index: u32) -> Option<(&NodeId, Option<(&str, &Json)>)> {
        match self {
            Self::Named(branches) => branches.get(index as usize).map(|branch| (&branch.entry, None)),
            Self::Each { entry, variable, items } => {
                items.get(index as usize).map(|item| (entry, Some((variable.as_str(), item))))
            }
        }
    }
}
