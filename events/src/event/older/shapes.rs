//! The shapes themselves, by what the present version added to them.

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::super::agent::*;
use super::super::graph::*;
use super::super::guardrail::Guardrail;
use super::super::interaction::*;
use super::super::llm::*;
use super::super::model::*;
use super::super::node::*;
use super::super::run::*;
use super::super::strategy::*;
use super::super::thread::*;
use super::super::tool::*;
use crate::codec::OrderedMap;
use crate::fault::ExecutionError;
use crate::ids::{CallId, Hash, NodeId, RunId, Seq, ThreadId, Time, ToolName};
use crate::json::Json;
use crate::labels::Labels;
use crate::message::{FinishReason, Message, Part, UnitPrices, Usage, UsageSource};
use crate::principal::Principal;
use crate::tool::Recovery;

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
    ConditionEvaluationRequestedV2 of ConditionEvaluationRequested {
        node_id: NodeId,
        edge: u32,
        condition: String,
        attempt: u32,
        model: ModelChoice,
        timeout_ms: u64,
        model_profile: Option<Hash>,
    } without { guardrail: None, }
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
    } without { n_unpriced: 0, said: None, }
}

before! {
    BranchEndedV2 of BranchEnded {
        index: u32,
        child: ThreadId,
        output: Option<Json>,
        error: Option<ExecutionError>,
        globals: OrderedMap<Json>,
        n_llm_calls: u64,
        n_tool_calls: u64,
        usage: Usage,
        cost_nanousd: Option<u64>,
        n_unpriced: u64,
    } without { said: None, }
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
    } without { service_tier: None, details: None, usage_source: UsageSource::Provider, unusable: None, node_id: None, }
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
    } without { by: None, run_follows: false, cause: None, }
}

before! {
    ThreadCancelledV2 of ThreadCancelled {
        reason: Option<String>,
        by: Option<Principal>,
    } without { run_follows: false, cause: None, }
}

before! {
    ThreadCompletedV2 of ThreadCompleted {
        node_id: NodeId,
    } without { run_follows: false, }
}

before! {
    ThreadFailedV2 of ThreadFailed {
        node_id: Option<NodeId>,
        error: ExecutionError,
    } without { run_follows: false, }
}

before! {
    VariablesUpdatedV1 of VariablesUpdated {
        variables: OrderedMap<Json>,
    } without { by: None, }
}

before! {
    MessageAddedV1 of MessageAdded {
        message: Arc<Message>,
    } without { effect: MessageEffect::Add, key: None, by: None, }
}

before! {
    MessageAddedV2 of MessageAdded {
        message: Arc<Message>,
        by: Option<Principal>,
    } without { effect: MessageEffect::Add, key: None, }
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

before! {
    ThreadStartedV2 of ThreadStarted {
        workflow: WorkflowRef,
        input: Json,
        variables: OrderedMap<Json>,
        entry: NodeId,
        deadline: Option<Time>,
        max_iterations: u32,
        workspace: Option<String>,
        budget: Option<BudgetLimits>,
        on_limit: OnLimit,
    } without { labels: Labels::new(), messages: Vec::new(), traceparent: None, }
}

before! {
    ThreadStartedV3 of ThreadStarted {
        workflow: WorkflowRef,
        input: Json,
        variables: OrderedMap<Json>,
        entry: NodeId,
        deadline: Option<Time>,
        max_iterations: u32,
        workspace: Option<String>,
        budget: Option<BudgetLimits>,
        on_limit: OnLimit,
        labels: Labels,
    } without { messages: Vec::new(), traceparent: None, }
}

before! {
    ThreadStartedV4 of ThreadStarted {
        workflow: WorkflowRef,
        input: Json,
        variables: OrderedMap<Json>,
        entry: NodeId,
        deadline: Option<Time>,
        max_iterations: u32,
        workspace: Option<String>,
        budget: Option<BudgetLimits>,
        on_limit: OnLimit,
        labels: Labels,
        messages: Vec<Arc<Message>>,
    } without { traceparent: None, }
}

before! {
    RunStartedV1 of RunStarted {
        run_id: RunId,
        number: u64,
        previous: PastRun,
        workflow: WorkflowRef,
        input: Json,
        variables: OrderedMap<Json>,
        entry: NodeId,
        deadline: Option<Time>,
        max_iterations: u32,
        budget: Option<BudgetLimits>,
        on_limit: OnLimit,
        from: RunSource,
        key: Option<String>,
        by: Option<Principal>,
    } without { traceparent: None, }
}

before! {
    RunQueuedV1 of RunQueued {
        run_id: RunId,
        input: Json,
        variables: OrderedMap<Json>,
        key: Option<String>,
        by: Option<Principal>,
    } without { traceparent: None, }
}

#[derive(Encode, Decode)]
pub(super) struct ThreadStartedV1 {
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
        let (labels, messages) = (Labels::new(), Vec::new());
        Self {
            workflow,
            input,
            variables,
            entry,
            deadline,
            max_iterations,
            workspace,
            budget,
            on_limit,
            labels,
            messages,
            traceparent: None,
        }
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
    } without {
        context: NodeContext::Shared, output: None, agents: Vec::new(), handoffs: Vec::new(), guardrails: Vec::new(),
        joins: true, client_tools: Vec::new(),
    }
}

before! {
    LlmExecutionRequestV3 of LlmExecutionRequest {
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
        context: NodeContext,
    } without { output: None, agents: Vec::new(), handoffs: Vec::new(), guardrails: Vec::new(), joins: true, client_tools: Vec::new(), }
}

before! {
    LlmExecutionRequestV4 of LlmExecutionRequest {
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
        context: NodeContext,
        output: Option<OutputSpec>,
    } without { agents: Vec::new(), handoffs: Vec::new(), guardrails: Vec::new(), joins: true, client_tools: Vec::new(), }
}

before! {
    LlmExecutionRequestV5 of LlmExecutionRequest {
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
        context: NodeContext,
        output: Option<OutputSpec>,
        agents: Vec<AgentTool>,
        handoffs: Vec<HandoffTool>,
    } without { guardrails: Vec::new(), joins: true, client_tools: Vec::new(), }
}

before! {
    LlmExecutionRequestV6 of LlmExecutionRequest {
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
        context: NodeContext,
        output: Option<OutputSpec>,
        agents: Vec<AgentTool>,
        handoffs: Vec<HandoffTool>,
        guardrails: Vec<Guardrail>,
    } without { joins: true, client_tools: Vec::new(), }
}

before! {
    LlmExecutionRequestV7 of LlmExecutionRequest {
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
        context: NodeContext,
        output: Option<OutputSpec>,
        agents: Vec<AgentTool>,
        handoffs: Vec<HandoffTool>,
        guardrails: Vec<Guardrail>,
        joins: bool,
    } without { client_tools: Vec::new(), }
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
    } without { service_tier: None, details: None, node_id: None, }
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
    } without { tool_calls: Vec::new(), context_call_id: None, value: None, handoff: None, }
}

before! {
    LlmExecutionCompletedV2 of LlmExecutionCompleted {
        node_id: NodeId,
        content: String,
        finish_reason: FinishReason,
        usage: Usage,
        n_llm_calls: u32,
        n_tool_calls: u32,
        tool_calls: Vec<ToolCallRef>,
        context_call_id: Option<CallId>,
    } without { value: None, handoff: None, }
}

before! {
    LlmExecutionCompletedV3 of LlmExecutionCompleted {
        node_id: NodeId,
        content: String,
        finish_reason: FinishReason,
        usage: Usage,
        n_llm_calls: u32,
        n_tool_calls: u32,
        tool_calls: Vec<ToolCallRef>,
        context_call_id: Option<CallId>,
        value: Option<Json>,
    } without { handoff: None, }
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
