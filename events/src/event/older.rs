//! Shapes that events had in older versions. A stored event of an older version is read in its old shape and brought
//! up to the present one; it can be written in its old shape again, byte for byte, for an import whose hashes are those
//! of the log that it was exported from.
//!
//! To change an event: raise its version in the table of `event/mod.rs`, describe the shape it had here, and add a line
//! to the table at the end of this file.

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::{
    AskedTool, BranchEnded, BranchOf, Branches, BudgetLimits, CheckpointCreated, ConditionEvaluationCompleted,
    ContextSummaryCompleted, Event, ForkChanges, ForkStarted, InteractionFailure, LimitRaised, LlmCallCompleted,
    LlmExecutionRequest, LoopStarted, LoopStrategy, MessageAdded, ModelChoice, NodeContext, OnFailed, OnLimit,
    OnUnpriced, OperationType, ReplacedBranch, RouteTaken, SubWorkflowStarted, SummaryPlan, ThreadCancelled,
    ThreadForked, ThreadPaused, ThreadResumed, ThreadStarted, ToolExecutionFailed, ToolMode, UserInteractionFailed,
    UserInteractionRequested, UserInteractionResponded, VariablesUpdated,
};
use crate::codec::{self, OrderedMap, StoredError};
use crate::fault::ExecutionError;
use crate::ids::{CallId, Hash, NodeId, Seq, ThreadId, Time};
use crate::json::Json;
use crate::message::{FinishReason, Message, UnitPrices, Usage, UsageSource};
use crate::workflow::WorkflowRef;

/// Describes an older shape of an event to which fields were added: the fields it had, in their stored order, and the
/// values that stand for the fields it did not have.
macro_rules! before {
    ($old:ident of $present:ident { $($field:ident: $type:ty,)* } without { $($later:ident: $value:expr,)* }) => {
        #[derive(Encode, Decode)]
        struct $old {
            $($field: $type,)*
        }

        impl From<$old> for $present {
            fn from($old { $($field,)* }: $old) -> Self {
                Self { $($field,)* $($later: $value,)* }
            }
        }

        impl From<$present> for $old {
            fn from($present { $($field,)* .. }: $present) -> Self {
                Self { $($field,)* }
            }
        }
    };
}

macro_rules! older {
    ($($code:literal v $version:literal $old:ident of $present:ident;)*) => {
        /// The event of an older version; `None` where this program knows no such version.
        pub(super) fn decode(code: u16, version: u16, bytes: &[u8]) -> Option<Result<Event, StoredError>> {
            match (code, version) {
                $(($code, $version) => Some(codec::decode::<$old>(bytes).map(|old| $present::from(old).into())),)*
                _ => None,
            }
        }

        /// The event in the shape of an older version; `None` where this program knows no such version.
        pub(super) fn encode(event: &Event, version: u16) -> Option<Result<Vec<u8>, StoredError>> {
            match (event, version) {
                $((Event::$present(event), $version) => Some(codec::encode(&$old::from(event.clone()))),)*
                _ => None,
            }
        }
    };
}

before! {
    UserInteractionRequestedV1 of UserInteractionRequested {
        node: NodeId,
        operation_type: OperationType,
        prompt: Option<String>,
        deadline: Option<Time>,
        metadata: Option<Json>,
        tool_call: Option<AskedTool>,
        llm_call: Option<CallId>,
        tool_run: Option<CallId>,
    } without { answer: None, }
}

before! {
    ConditionEvaluationCompletedV1 of ConditionEvaluationCompleted {
        call: CallId,
        verdict: Option<bool>,
        answer: String,
        error: Option<ExecutionError>,
        usage: Usage,
        cost_nanousd: Option<u64>,
        prices: Option<UnitPrices>,
        model: Option<String>,
        duration_ms: u64,
    } without { usage_source: UsageSource::Provider, }
}

before! {
    BranchEndedV1 of BranchEnded {
        index: u32,
        child: ThreadId,
        output: Option<Json>,
        error: Option<ExecutionError>,
        globals: OrderedMap<Json>,
        n_llm_calls: u64,
        n_tool_calls: u64,
        usage: Usage,
        cost_nanousd: Option<u64>,
    } without { n_unpriced: 0, }
}

before! {
    LlmCallCompletedV1 of LlmCallCompleted {
        call: CallId,
        message: Arc<Message>,
        finish_reason: FinishReason,
        usage: Usage,
        cost_nanousd: Option<u64>,
        prices: Option<UnitPrices>,
        model: Option<String>,
        response_id: Option<String>,
        cached: bool,
        duration_ms: u64,
    } without { usage_source: UsageSource::Provider, unusable: None, }
}

before! {
    ContextSummaryCompletedV1 of ContextSummaryCompleted {
        call: CallId,
        summary: Option<String>,
        error: Option<ExecutionError>,
        usage: Usage,
        cost_nanousd: Option<u64>,
        prices: Option<UnitPrices>,
        model: Option<String>,
        duration_ms: u64,
    } without { usage_source: UsageSource::Provider, }
}

before! {
    ThreadForkedV1 of ThreadForked {
        parent: ThreadId,
        seq: Seq,
        changes: ForkChanges,
        branch: Option<BranchOf>,
        branches: Vec<ReplacedBranch>,
    } without { globals: OrderedMap::default(), by: None, }
}

before! {
    ThreadForkedV2 of ThreadForked {
        parent: ThreadId,
        seq: Seq,
        changes: ForkChanges,
        branch: Option<BranchOf>,
        branches: Vec<ReplacedBranch>,
        globals: OrderedMap<Json>,
    } without { by: None, }
}

before! {
    ThreadPausedV1 of ThreadPaused {
        reason: Option<String>,
    } without { by: None, }
}

before! {
    ThreadResumedV1 of ThreadResumed {
    } without { by: None, }
}

before! {
    ThreadCancelledV1 of ThreadCancelled {
        reason: Option<String>,
    } without { by: None, }
}

before! {
    VariablesUpdatedV1 of VariablesUpdated {
        variables: OrderedMap<Json>,
    } without { by: None, }
}

before! {
    MessageAddedV1 of MessageAdded {
        message: Arc<Message>,
    } without { by: None, }
}

before! {
    UserInteractionRespondedV1 of UserInteractionResponded {
        interaction: CallId,
        input_data: Json,
    } without { by: None, }
}

before! {
    LimitRaisedV1 of LimitRaised {
        tokens: Option<u64>,
        cost_nanousd: Option<u64>,
        iterations: Option<u32>,
    } without { allow_unpriced: false, by: None, }
}

before! {
    LimitRaisedV2 of LimitRaised {
        tokens: Option<u64>,
        cost_nanousd: Option<u64>,
        iterations: Option<u32>,
        allow_unpriced: bool,
    } without { by: None, }
}

before! {
    CheckpointCreatedV1 of CheckpointCreated {
        label: String,
    } without { by: None, }
}

before! {
    UserInteractionFailedV1 of UserInteractionFailed {
        interaction: CallId,
        reason: InteractionFailure,
        detail: Option<String>,
    } without { by: None, }
}

before! {
    // A thread goes on as it began: what had no price was not counted.
    BudgetLimitsV1 of BudgetLimits {
        tokens: Option<u64>,
        cost_nanousd: Option<u64>,
        on_exceeded: OnLimit,
    } without { on_unpriced: OnUnpriced::Allow, }
}

#[derive(Encode, Decode)]
struct ThreadStartedV1 {
    workflow: WorkflowRef,
    input: Json,
    variables: OrderedMap<Json>,
    entry: NodeId,
    deadline: Option<Time>,
    max_iterations: u32,
    workspace: Option<String>,
    budget: Option<BudgetLimitsV1>,
    on_limit: OnLimit,
}

impl From<ThreadStartedV1> for ThreadStarted {
    fn from(old: ThreadStartedV1) -> Self {
        let ThreadStartedV1 { workflow, input, variables, entry, deadline, max_iterations, workspace, .. } = old;
        let (budget, on_limit) = (old.budget.map(Into::into), old.on_limit);
        Self { workflow, input, variables, entry, deadline, max_iterations, workspace, budget, on_limit }
    }
}

impl From<ThreadStarted> for ThreadStartedV1 {
    fn from(present: ThreadStarted) -> Self {
        let ThreadStarted { workflow, input, variables, entry, deadline, max_iterations, workspace, .. } = present;
        let (budget, on_limit) = (present.budget.map(Into::into), present.on_limit);
        Self { workflow, input, variables, entry, deadline, max_iterations, workspace, budget, on_limit }
    }
}

before! {
    ForkStartedV1 of ForkStarted {
        node: NodeId,
        join: NodeId,
        branches: Branches,
        n_needed: u32,
        on_failed: OnFailed,
        concurrency_max: u32,
        deadline: Option<Time>,
    } without { quorum: None, into: None, }
}

before! {
    ToolExecutionFailedV1 of ToolExecutionFailed {
        call: CallId,
        tool_call_id: Option<String>,
        error: ExecutionError,
        duration_ms: u64,
    } without { not_started: None, }
}

before! {
    RouteTakenV1 of RouteTaken {
        from: NodeId,
        to: NodeId,
        condition: Option<String>,
    } without { error: None, }
}

before! {
    LoopStartedV1 of LoopStarted {
        node: NodeId,
        end: NodeId,
        items: Option<Vec<Json>>,
        variable: String,
        n_iterations_max: u64,
    } without { into: None, }
}

before! {
    SubWorkflowStartedV1 of SubWorkflowStarted {
        node: NodeId,
        workflow: String,
        entry: NodeId,
        variables: OrderedMap<Json>,
        max_iterations: u32,
    } without { context: None, }
}

before! {
    LlmExecutionRequestV1 of LlmExecutionRequest {
        node: NodeId,
        prompt: String,
        system_prompt: Option<String>,
        model: ModelChoice,
        tool_mode: ToolMode,
        tools: Vec<String>,
        tool_catalog: Option<Hash>,
        max_iterations: u32,
        concurrent_tools_max: u32,
        llm_timeout_ms: Option<u64>,
        approve_tools: Vec<String>,
        person_tools: Vec<String>,
        relay: bool,
        summary: Option<SummaryPlan>,
        strategy: LoopStrategy,
    } without { context: NodeContext::Shared, }
}

older! {
    1 v 1 ThreadStartedV1 of ThreadStarted;
    2 v 1 ThreadForkedV1 of ThreadForked;
    2 v 2 ThreadForkedV2 of ThreadForked;
    3 v 1 ThreadPausedV1 of ThreadPaused;
    4 v 1 ThreadResumedV1 of ThreadResumed;
    6 v 1 ThreadCancelledV1 of ThreadCancelled;
    9 v 1 CheckpointCreatedV1 of CheckpointCreated;
    10 v 1 VariablesUpdatedV1 of VariablesUpdated;
    11 v 1 MessageAddedV1 of MessageAdded;
    14 v 1 LimitRaisedV1 of LimitRaised;
    14 v 2 LimitRaisedV2 of LimitRaised;
    23 v 1 RouteTakenV1 of RouteTaken;
    25 v 1 ConditionEvaluationCompletedV1 of ConditionEvaluationCompleted;
    27 v 1 BranchEndedV1 of BranchEnded;
    31 v 1 SubWorkflowStartedV1 of SubWorkflowStarted;
    34 v 1 ForkStartedV1 of ForkStarted;
    35 v 1 LoopStartedV1 of LoopStarted;
    40 v 1 LlmExecutionRequestV1 of LlmExecutionRequest;
    45 v 1 LlmCallCompletedV1 of LlmCallCompleted;
    51 v 1 ContextSummaryCompletedV1 of ContextSummaryCompleted;
    64 v 1 ToolExecutionFailedV1 of ToolExecutionFailed;
    70 v 1 UserInteractionRequestedV1 of UserInteractionRequested;
    71 v 1 UserInteractionRespondedV1 of UserInteractionResponded;
    73 v 1 UserInteractionFailedV1 of UserInteractionFailed;
}
