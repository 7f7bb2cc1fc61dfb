//! Shapes that events had in older versions. A stored event of an older version is read in its old shape and brought
//! up to the present one; it can be written in its old shape again, byte for byte, for an import whose hashes are those
//! of the log that it was exported from.
//!
//! To change an event: raise its version in the table of `event/mod.rs`, describe the shape it had here, and add a line
//! to the table at the end of this file.

use std::sync::Arc;

use bincode::{Decode, Encode};
use serde_json::Value;

use super::*;
use crate::codec::{self, OrderedMap, StoredError};
use crate::fault::ExecutionError;
use crate::ids::{CallId, Hash, NodeId, Seq, ThreadId, Time, ToolName};
use crate::json::Json;
use crate::message::{FinishReason, Message, Part, UnitPrices, Usage, UsageSource};
use crate::tool::Recovery;
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

/// Gives the data of an event of an older version, as an older program exported it, the names of fields that the present
/// version has. A program exports an older event with the names of its own time, so either may be there.
pub(super) fn upcast(name: &str, data: &mut Value) {
    let Value::Object(fields) = data else { return };
    if name == "USER_INTERACTION_PROCESSED" && !fields.contains_key("results") {
        let results = ["variables", "message", "decision"].map(|field| (field.to_owned(), fields.remove(field)));
        let results = results.into_iter().filter_map(|(field, value)| Some((field, value?))).collect();
        fields.insert("results".into(), Value::Object(results));
    }
    let left = ("from", "node_id");
    for (old, present) in RENAMED.iter().chain((name == "CONDITION_EVALUATION_REQUESTED").then_some(&left)) {
        if !fields.contains_key(*present)
            && let Some(value) = fields.remove(*old)
        {
            fields.insert((*present).into(), value);
        }
    }
}

/// Fields that had another name when the events that have them had an older version.
const RENAMED: &[(&str, &str)] = &[
    ("node", "node_id"),
    ("call", "call_id"),
    ("interaction", "interaction_id"),
    ("llm_call", "llm_call_id"),
    ("tool_run", "tool_run_id"),
];

before! {
    UserInteractionRequestedV1 of UserInteractionRequested {
        node_id: NodeId,
        operation_type: OperationType,
        prompt: Option<String>,
        deadline: Option<Time>,
        metadata: Option<Json>,
        tool_call: Option<AskedTool>,
        llm_call_id: Option<CallId>,
        tool_run_id: Option<CallId>,
    } without { answer: None, interaction_id: None, }
}

before! {
    ConditionEvaluationCompletedV1 of ConditionEvaluationCompleted {
        call_id: CallId,
        verdict: Option<bool>,
        answer: String,
        error: Option<ExecutionError>,
        usage: Usage,
        cost_nanousd: Option<u64>,
        prices: Option<UnitPrices>,
        model: Option<String>,
        duration_ms: u64,
    } without { usage_source: UsageSource::Provider, node_id: None, }
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
        call_id: CallId,
        message: Arc<Message>,
        finish_reason: FinishReason,
        usage: Usage,
        cost_nanousd: Option<u64>,
        prices: Option<UnitPrices>,
        model: Option<String>,
        response_id: Option<String>,
        cached: bool,
        duration_ms: u64,
    } without { usage_source: UsageSource::Provider, unusable: None, node_id: None, }
}

before! {
    ContextSummaryCompletedV1 of ContextSummaryCompleted {
        call_id: CallId,
        summary: Option<String>,
        error: Option<ExecutionError>,
        usage: Usage,
        cost_nanousd: Option<u64>,
        prices: Option<UnitPrices>,
        model: Option<String>,
        duration_ms: u64,
    } without { usage_source: UsageSource::Provider, node_id: None, }
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
        interaction_id: CallId,
        input_data: Json,
    } without { by: None, node_id: None, }
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
        interaction_id: CallId,
        reason: InteractionFailure,
        detail: Option<String>,
    } without { by: None, node_id: None, }
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
        node_id: NodeId,
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
        call_id: CallId,
        tool_call_id: Option<String>,
        error: ExecutionError,
        duration_ms: u64,
    } without { not_started: None, node_id: None, }
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
        node_id: NodeId,
        end: NodeId,
        items: Option<Vec<Json>>,
        variable: String,
        n_iterations_max: u64,
    } without { into: None, }
}

before! {
    SubWorkflowStartedV1 of SubWorkflowStarted {
        node_id: NodeId,
        workflow: String,
        entry: NodeId,
        variables: OrderedMap<Json>,
        max_iterations: u32,
    } without { context: None, }
}

before! {
    LlmExecutionRequestV1 of LlmExecutionRequest {
        node_id: NodeId,
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

before! {
    LlmCallRequestedV1 of LlmCallRequested {
        iteration: u32,
        aside: Option<Aside>,
        model_profile: Option<Hash>,
    } without { node_id: None, }
}

before! {
    LlmCallRetriedV1 of LlmCallRetried {
        call_id: CallId,
        attempt: u32,
        model_profile: Option<Hash>,
    } without { node_id: None, }
}

before! {
    LlmTryFailedV1 of LlmTryFailed {
        call_id: CallId,
        try_number: u32,
        error: ExecutionError,
        wait_ms: u64,
    } without { node_id: None, }
}

before! {
    LlmExecutionProgressV1 of LlmExecutionProgress {
        call_id: CallId,
        attempt: u32,
        index: u64,
        text: String,
        reasoning: String,
        restarted: bool,
    } without { node_id: None, }
}

before! {
    LlmCallCompletedV2 of LlmCallCompleted {
        call_id: CallId,
        message: Arc<Message>,
        finish_reason: FinishReason,
        usage: Usage,
        cost_nanousd: Option<u64>,
        prices: Option<UnitPrices>,
        model: Option<String>,
        response_id: Option<String>,
        cached: bool,
        duration_ms: u64,
        usage_source: UsageSource,
        unusable: Option<ExecutionError>,
    } without { node_id: None, }
}

before! {
    LlmCallFailedV1 of LlmCallFailed {
        call_id: CallId,
        error: ExecutionError,
    } without { node_id: None, }
}

before! {
    LlmExecutionCompletedV1 of LlmExecutionCompleted {
        node_id: NodeId,
        content: String,
        finish_reason: FinishReason,
        usage: Usage,
        n_llm_calls: u32,
        n_tool_calls: u32,
    } without { tool_calls: Vec::new(), context_call_id: None, }
}

before! {
    ToolExecutionRequestV1 of ToolExecutionRequest {
        tool_call_id: Option<String>,
        name: ToolName,
        arguments: Json,
        recovery: Recovery,
        options: ToolCallOptions,
    } without { node_id: None, }
}

before! {
    ToolCallRetriedV1 of ToolCallRetried {
        call_id: CallId,
        attempt: u32,
        not_before: Time,
        error: Option<ExecutionError>,
    } without { node_id: None, }
}

before! {
    ToolExecutionProgressV1 of ToolExecutionProgress {
        call_id: CallId,
        attempt: u32,
        message: String,
    } without { node_id: None, }
}

before! {
    ToolExecutionCompletedV1 of ToolExecutionCompleted {
        call_id: CallId,
        tool_call_id: Option<String>,
        content: Vec<Part>,
        value: Option<Json>,
        duration_ms: u64,
        full_output: Option<Hash>,
    } without { node_id: None, }
}

before! {
    ToolExecutionFailedV2 of ToolExecutionFailed {
        call_id: CallId,
        tool_call_id: Option<String>,
        error: ExecutionError,
        duration_ms: u64,
        not_started: Option<bool>,
    } without { node_id: None, }
}

before! {
    UserInteractionRequestedV2 of UserInteractionRequested {
        node_id: NodeId,
        operation_type: OperationType,
        prompt: Option<String>,
        deadline: Option<Time>,
        metadata: Option<Json>,
        tool_call: Option<AskedTool>,
        llm_call_id: Option<CallId>,
        tool_run_id: Option<CallId>,
        answer: Option<AnswerType>,
    } without { interaction_id: None, }
}

before! {
    UserInteractionRespondedV2 of UserInteractionResponded {
        interaction_id: CallId,
        input_data: Json,
        by: Option<Principal>,
    } without { node_id: None, }
}

before! {
    UserInteractionProcessedV1 of UserInteractionProcessed {
        interaction_id: CallId,
        operation_type: OperationType,
        results: InteractionResults,
    } without { node_id: None, }
}

before! {
    UserInteractionFailedV2 of UserInteractionFailed {
        interaction_id: CallId,
        reason: InteractionFailure,
        detail: Option<String>,
        by: Option<Principal>,
    } without { node_id: None, }
}

before! {
    ConditionEvaluationCompletedV2 of ConditionEvaluationCompleted {
        call_id: CallId,
        verdict: Option<bool>,
        answer: String,
        error: Option<ExecutionError>,
        usage: Usage,
        cost_nanousd: Option<u64>,
        prices: Option<UnitPrices>,
        model: Option<String>,
        duration_ms: u64,
        usage_source: UsageSource,
    } without { node_id: None, }
}

before! {
    ContextProcessingRetriedV1 of ContextProcessingRetried {
        call_id: CallId,
        attempt: u32,
    } without { node_id: None, }
}

before! {
    ContextProcessedV1 of ContextProcessed {
        call_id: CallId,
        messages: Vec<ContextItem>,
        variables: OrderedMap<Json>,
        output: Option<Json>,
    } without { node_id: None, }
}

before! {
    ContextProcessingFailedV1 of ContextProcessingFailed {
        call_id: CallId,
        error: ExecutionError,
    } without { node_id: None, }
}

before! {
    ContextSummaryCompletedV2 of ContextSummaryCompleted {
        call_id: CallId,
        summary: Option<String>,
        error: Option<ExecutionError>,
        usage: Usage,
        cost_nanousd: Option<u64>,
        prices: Option<UnitPrices>,
        model: Option<String>,
        duration_ms: u64,
        usage_source: UsageSource,
    } without { node_id: None, }
}

before! {
    StrategyDecisionRetriedV1 of StrategyDecisionRetried {
        call_id: CallId,
        attempt: u32,
    } without { node_id: None, }
}

before! {
    StrategyDecidedV1 of StrategyDecided {
        call_id: CallId,
        next: StrategyDecision,
    } without { node_id: None, }
}

before! {
    StrategyDecisionFailedV1 of StrategyDecisionFailed {
        call_id: CallId,
        error: ExecutionError,
    } without { node_id: None, }
}

older! {
    1 v 1 ThreadStartedV1 of ThreadStarted;
    2 v 1 ThreadForkedV1 of ThreadForked;
    2 v 2 ThreadForkedV2 of ThreadForked;
    3 v 1 ThreadPausedV1 of ThreadPaused;
    4 v 1 ThreadResumedV1 of ThreadResumed;
    6 v 1 ThreadCancelledV1 of ThreadCancelled;
    7 v 1 ThreadCompleted of ThreadCompleted;
    8 v 1 ThreadFailed of ThreadFailed;
    9 v 1 CheckpointCreatedV1 of CheckpointCreated;
    10 v 1 VariablesUpdatedV1 of VariablesUpdated;
    11 v 1 MessageAddedV1 of MessageAdded;
    12 v 1 Warning of Warning;
    14 v 1 LimitRaisedV1 of LimitRaised;
    14 v 2 LimitRaisedV2 of LimitRaised;
    20 v 1 NodeStarted of NodeStarted;
    21 v 1 NodeCompleted of NodeCompleted;
    22 v 1 NodeFailed of NodeFailed;
    23 v 1 RouteTakenV1 of RouteTaken;
    24 v 1 ConditionEvaluationRequested of ConditionEvaluationRequested;
    25 v 1 ConditionEvaluationCompletedV1 of ConditionEvaluationCompleted;
    25 v 2 ConditionEvaluationCompletedV2 of ConditionEvaluationCompleted;
    27 v 1 BranchEndedV1 of BranchEnded;
    28 v 1 JoinCompleted of JoinCompleted;
    29 v 1 LoopIterationStarted of LoopIterationStarted;
    30 v 1 LoopEnded of LoopEnded;
    31 v 1 SubWorkflowStartedV1 of SubWorkflowStarted;
    31 v 2 SubWorkflowStarted of SubWorkflowStarted;
    32 v 1 SubWorkflowCompleted of SubWorkflowCompleted;
    33 v 1 ContextProcessedV1 of ContextProcessed;
    34 v 1 ForkStartedV1 of ForkStarted;
    34 v 2 ForkStarted of ForkStarted;
    35 v 1 LoopStartedV1 of LoopStarted;
    35 v 2 LoopStarted of LoopStarted;
    36 v 1 SubWorkflowFailed of SubWorkflowFailed;
    37 v 1 ContextProcessingRequested of ContextProcessingRequested;
    38 v 1 ContextProcessingFailedV1 of ContextProcessingFailed;
    39 v 1 ContextProcessingRetriedV1 of ContextProcessingRetried;
    40 v 1 LlmExecutionRequestV1 of LlmExecutionRequest;
    40 v 2 LlmExecutionRequest of LlmExecutionRequest;
    41 v 1 LlmCallRequestedV1 of LlmCallRequested;
    42 v 1 LlmCallRetriedV1 of LlmCallRetried;
    43 v 1 LlmTryFailedV1 of LlmTryFailed;
    44 v 1 LlmExecutionProgressV1 of LlmExecutionProgress;
    45 v 1 LlmCallCompletedV1 of LlmCallCompleted;
    45 v 2 LlmCallCompletedV2 of LlmCallCompleted;
    46 v 1 LlmCallFailedV1 of LlmCallFailed;
    47 v 1 LlmExecutionCompletedV1 of LlmExecutionCompleted;
    48 v 1 LlmExecutionFailed of LlmExecutionFailed;
    50 v 1 ContextSummaryRequested of ContextSummaryRequested;
    51 v 1 ContextSummaryCompletedV1 of ContextSummaryCompleted;
    51 v 2 ContextSummaryCompletedV2 of ContextSummaryCompleted;
    60 v 1 ToolExecutionRequestV1 of ToolExecutionRequest;
    61 v 1 ToolCallRetriedV1 of ToolCallRetried;
    62 v 1 ToolExecutionProgressV1 of ToolExecutionProgress;
    63 v 1 ToolExecutionCompletedV1 of ToolExecutionCompleted;
    64 v 1 ToolExecutionFailedV1 of ToolExecutionFailed;
    64 v 2 ToolExecutionFailedV2 of ToolExecutionFailed;
    70 v 1 UserInteractionRequestedV1 of UserInteractionRequested;
    70 v 2 UserInteractionRequestedV2 of UserInteractionRequested;
    71 v 1 UserInteractionRespondedV1 of UserInteractionResponded;
    71 v 2 UserInteractionRespondedV2 of UserInteractionResponded;
    72 v 1 UserInteractionProcessedV1 of UserInteractionProcessed;
    73 v 1 UserInteractionFailedV1 of UserInteractionFailed;
    73 v 2 UserInteractionFailedV2 of UserInteractionFailed;
    80 v 1 PlanRequested of PlanRequested;
    81 v 1 PlanMade of PlanMade;
    82 v 1 PlanStepStarted of PlanStepStarted;
    83 v 1 PlanStepCompleted of PlanStepCompleted;
    84 v 1 PlanStepFailed of PlanStepFailed;
    85 v 1 PlanCompleted of PlanCompleted;
    86 v 1 CandidateChosen of CandidateChosen;
    87 v 1 CandidatesGathered of CandidatesGathered;
    88 v 1 StrategyDecisionRequested of StrategyDecisionRequested;
    89 v 1 StrategyDecisionRetriedV1 of StrategyDecisionRetried;
    90 v 1 StrategyDecidedV1 of StrategyDecided;
    91 v 1 StrategyDecisionFailedV1 of StrategyDecisionFailed;
}
