//! Events of the agent loop and of model calls.

use std::sync::Arc;

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::agent::{AgentTool, Handoff, HandoffTool};
use super::graph::{ContextItem, NodeContext};
use super::guardrail::{GuardedContent, Guardrail};
use super::model::{ModelChoice, RequestChange};
use super::strategy::{Aside, LoopStrategy};
use crate::fault::ExecutionError;
use crate::ids::{CallId, Hash, NodeId, Time, ToolName};
use crate::json::Json;
use crate::message::{FinishReason, Message, ToolSpec, UnitPrices, Usage, UsageSource};

/// LLM_EXECUTION_REQUEST: a node asks for an agent loop. Everything that decides its course is in here, so that a
/// replay needs no definition.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LlmExecutionRequest {
    /// The node.
    pub node_id: NodeId,
    /// The prompt, with its expressions filled in; becomes a user message.
    pub prompt: String,
    /// The instructions; becomes the system message when it differs from the one in force.
    pub system_prompt: Option<String>,
    /// The model: provider, name, parameters.
    pub model: ModelChoice,
    /// Whether tools are offered.
    pub tool_mode: ToolMode,
    /// The names of the tools that are offered.
    pub tools: Vec<String>,
    /// The hash of the catalogue of those tools (a blob: the JSON that the model receives).
    pub tool_catalog: Option<Hash>,
    /// The most model calls of the loop.
    pub max_iterations: u32,
    /// The most tools of one answer that run at the same time.
    pub concurrent_tools_max: u32,
    /// The timeout of one model call; absent if it has none, as for a person.
    pub llm_timeout_ms: Option<u64>,
    /// The tools among them that run only when a person approves of the call.
    pub approve_tools: Vec<String>,
    /// The tools among them that never run: a person gives the result.
    pub person_tools: Vec<String>,
    /// Whether a person answers for the model: its calls are questions.
    pub relay: bool,
    /// When the conversation is summarised, and by which model; never when absent.
    pub summary: Option<SummaryPlan>,
    /// The strategy of the agent loop.
    pub strategy: LoopStrategy,
    /// The conversation that the loop sees beside its own turn.
    pub context: NodeContext,
    /// The required form of the answer; any text if absent.
    pub output: Option<OutputSpec>,
    /// The agents that are offered beside the tools.
    pub agents: Vec<AgentTool>,
    /// The nodes that it may hand the conversation over to.
    pub handoffs: Vec<HandoffTool>,
    /// The guardrails, in the order in which they check.
    pub guardrails: Vec<Guardrail>,
    /// Whether what is said in the loop joins the conversation around the node.
    pub joins: bool,
    /// The tools that the client of the thread runs, offered beside the others: each call is a question, and its answer is
    /// the result.
    pub client_tools: Vec<ToolSpec>,
}

impl LlmExecutionRequest {
    /// The request of a single call without tools, as for a judgement or a summary.
    pub(crate) fn of_one_call(
        node_id: NodeId,
        prompt: String,
        system_prompt: &str,
        (model, timeout_ms): (ModelChoice, u64),
    ) -> Self {
        Self {
            node_id,
            prompt,
            system_prompt: Some(system_prompt.to_owned()),
            model,
            tool_mode: ToolMode::None,
            tools: Vec::new(),
            tool_catalog: None,
            max_iterations: 1,
            concurrent_tools_max: 1,
            llm_timeout_ms: Some(timeout_ms),
            approve_tools: Vec::new(),
            person_tools: Vec::new(),
            relay: false,
            summary: None,
            strategy: LoopStrategy::React {},
            context: NodeContext::Shared,
            output: None,
            agents: Vec::new(),
            handoffs: Vec::new(),
            guardrails: Vec::new(),
            joins: true,
            client_tools: Vec::new(),
        }
    }

    /// The agents, the handoffs and the tools of the client, as the model is shown them.
    pub fn tools_beside(&self) -> impl Iterator<Item = ToolSpec> {
        let agents = self.agents.iter().map(ToolSpec::from);
        agents.chain(self.handoffs.iter().map(ToolSpec::from)).chain(self.client_tools.iter().cloned())
    }

    /// Whether pieces of a streamed answer are held back: a guardrail checks the answer first.
    pub fn holds_answers(&self) -> bool {
        self.guardrails.iter().any(|guardrail| guardrail.on == GuardedContent::Answer && guardrail.hold)
    }
}

/// The required form of the answer of an agent loop.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct OutputSpec {
    /// The JSON Schema that it must fit.
    pub schema: Json,
    /// How often the model may be called again for an answer that does not fit.
    pub max_repairs: u32,
}

/// When and by whom the conversation of an agent loop is summarised.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct SummaryPlan {
    /// Before a model call with more than this many counted tokens.
    pub token_limit: u64,
    /// The model that writes the summaries; that of the loop when absent.
    pub model: Option<ModelChoice>,
    /// The timeout of one summary.
    pub timeout_ms: u64,
}

/// Whether a model is offered tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// No.
    #[default]
    None,
    /// It may use them.
    Auto,
    /// Its first answer must use one; afterwards it may. A server may ignore that: a WARNING says so.
    Required,
    /// As `required`, and a first answer without a tool fails the node.
    Enforced,
}

impl ToolMode {
    /// Whether the first answer must use a tool.
    pub fn requires_one(self) -> bool {
        matches!(self, Self::Required | Self::Enforced)
    }
}

/// LLM_CALL_REQUESTED: the model is to be called. The conversation is the thread's own, up to this event.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LlmCallRequested {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// 1 for the first call of the loop; for an aside, the number of calls before it.
    pub iteration: u32,
    /// The purpose of an aside: a call whose answer is not added to the conversation by itself.
    pub aside: Option<Aside>,
    /// The hash of what is known of the model's profile now (a blob, without keys), so that what is sent can be got back;
    /// absent where nothing is sent over HTTP.
    pub model_profile: Option<Hash>,
}

/// LLM_CALL_RETRIED: a call is made again, with the same messages, because its answer was lost in a crash.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LlmCallRetried {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The number of this attempt; 1 was the first.
    pub attempt: u32,
    /// As in LLM_CALL_REQUESTED, for this attempt.
    pub model_profile: Option<Hash>,
}

/// LLM_TRY_FAILED: one try inside a call failed and the client will try again, with the same model or with a fallback.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LlmTryFailed {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The number of the client's attempt, from 1.
    pub try_number: u32,
    /// Why.
    pub error: ExecutionError,
    /// The wait of the client before the next attempt.
    pub wait_ms: u64,
    /// The model that was called, as `PROVIDER/MODEL`; absent if the client does not report it.
    #[serde(default)]
    pub model: Option<String>,
    /// The model that failed before, as `PROVIDER/MODEL`, if this attempt was at a fallback of it.
    #[serde(default)]
    pub fallback_from: Option<String>,
    /// What the provider reported of the attempt; absent if it reported nothing.
    #[serde(default)]
    pub used: Option<Box<FailedUsage>>,
}

/// What a provider reported of an attempt before it failed. Tokens of the answer that it generated after its last report are
/// missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct FailedUsage {
    /// Tokens.
    pub usage: Usage,
    /// Their cost in billionths of a US dollar; absent if the price is unknown.
    pub cost_nanousd: Option<u64>,
    /// The prices of that cost.
    pub prices: Option<UnitPrices>,
}

impl FailedUsage {
    /// Returns tokens whose cost is not known yet.
    pub fn reported(usage: Usage) -> Box<Self> {
        Box::new(Self { usage, ..Self::default() })
    }
}

/// LLM_REQUEST_CHANGED: what is sent to the model differs from what was asked for: what the model refuses is left out.
/// Informational.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LlmRequestChanged {
    /// The node that the call belongs to.
    #[serde(default)]
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// What is left out or changed; never empty.
    pub changes: Vec<RequestChange>,
}

/// LLM_EXECUTION_PROGRESS: a piece of a streamed answer. Informational: the answer is in LLM_CALL_COMPLETED.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LlmExecutionProgress {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The attempt; chunks of an attempt that failed are void.
    pub attempt: u32,
    /// The number of this piece in its attempt, from 0.
    pub index: u64,
    /// The next piece of the text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The next piece of the reasoning.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Whether the client restarts the answer: earlier chunks of this attempt are void.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restarted: bool,
}

/// LLM_CALL_COMPLETED: the model answered. If the loop has ended although the answer requests tools, a result that says
/// so joins the conversation for each of them.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LlmCallCompleted {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The answer; joins the conversation.
    pub message: Arc<Message>,
    /// Why the model stopped.
    pub finish_reason: FinishReason,
    /// Tokens, as the provider counted them, or as they were counted here where it did not.
    pub usage: Usage,
    /// The cost in billionths of a US dollar; absent if the price is unknown.
    pub cost_nanousd: Option<u64>,
    /// The prices of that cost, so that a later price list does not change it.
    pub prices: Option<UnitPrices>,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub response_id: Option<String>,
    /// Whether it came from the cache of answers.
    pub cached: bool,
    /// The duration of the call.
    pub duration_ms: u64,
    /// The tier of service in which the provider answered, in its words.
    #[serde(default)]
    pub service_tier: Option<String>,
    /// What else the provider says of the answer, by name: `refusal`, `safety_ratings`, `logprobs`, `grounding`, `citations`,
    /// `input_transformations`, … An object; absent if it says nothing.
    #[serde(default)]
    pub details: Option<Json>,
    /// Who counted the tokens.
    pub usage_source: UsageSource,
    /// Why the answer cannot be used: the model refused, or reached its limit before it wrote anything.
    pub unusable: Option<ExecutionError>,
    /// The model that failed before, as `PROVIDER/MODEL`, if a fallback of it answered.
    #[serde(default)]
    pub fallback_from: Option<String>,
}

impl LlmCallCompleted {
    /// Returns what the provider's cache of prompts saved, see [`UnitPrices::cache_saved_nanousd`]. `None` for an answer of the
    /// cache of answers: its provider was not called.
    pub fn cache_saved_nanousd(&self) -> Option<i64> {
        self.prices.filter(|_| !self.cached)?.cache_saved_nanousd(&self.usage)
    }
}

/// LLM_CALL_FAILED: there will be no answer.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LlmCallFailed {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// Why.
    pub error: ExecutionError,
    /// The model of the last attempt, as `PROVIDER/MODEL`; absent if none was called, or the client does not report it.
    #[serde(default)]
    pub model: Option<String>,
    /// The model that failed before, as `PROVIDER/MODEL`, if the last attempt was at a fallback of it.
    #[serde(default)]
    pub fallback_from: Option<String>,
    /// What the provider reported of the last attempt; absent if it reported nothing, or the call was cancelled or lost.
    #[serde(default)]
    pub used: Option<Box<FailedUsage>>,
}

impl LlmCallFailed {
    /// Returns the failure of a call, for an error that no attempt at a model reported.
    pub fn new(call_id: CallId, error: ExecutionError) -> Self {
        Self { node_id: None, call_id, error, model: None, fallback_from: None, used: None }
    }

    /// Returns the failure of a call whose answer cannot be recorded. What the answer used is kept.
    pub fn of_answer(answer: &LlmCallCompleted, error: ExecutionError) -> Self {
        let LlmCallCompleted { call_id, usage, cost_nanousd, prices, .. } = *answer;
        let used = FailedUsage { usage, cost_nanousd, prices };
        Self { used: Some(Box::new(used)), fallback_from: answer.fallback_from.clone(), ..Self::new(call_id, error) }
    }
}

/// LLM_EXECUTION_COMPLETED: the loop ended with an answer. The answer's text is that of the last message.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LlmExecutionCompleted {
    /// The node.
    pub node_id: NodeId,
    /// The text of the answer.
    pub content: String,
    /// Why the model stopped.
    pub finish_reason: FinishReason,
    /// Tokens of the whole loop.
    pub usage: Usage,
    /// The number of model calls.
    pub n_llm_calls: u32,
    /// The number of tool calls.
    pub n_tool_calls: u32,
    /// The tool calls of the loop, in the order in which they were requested.
    pub tool_calls: Vec<ToolCallRef>,
    /// The model call that gave the answer. The conversation that the model saw is the thread's own up to this event
    /// (the state at this seq). Absent if a strategy wrote the answer.
    pub context_call_id: Option<CallId>,
    /// The value in the answer, which fits the schema of the request; absent if the request has no schema.
    pub value: Option<Json>,
    /// Where the model handed the conversation over to: there is no answer then, and `content` is empty. What the model said
    /// with the call is in its message.
    pub handoff: Option<Handoff>,
}

/// ANSWER_REJECTED: the last answer does not fit the schema of the request, and the model is called again; the prompt
/// becomes a user message.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct AnswerRejected {
    /// The node.
    pub node_id: NodeId,
    /// 1 for the first answer of the loop that is rejected.
    pub attempt: u32,
    /// The faults of the answer; at most 20.
    pub faults: Vec<AnswerFault>,
    /// The prompt for the model.
    pub prompt: String,
}

/// A place in an answer, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct AnswerFault {
    /// A JSON pointer; empty for the whole answer.
    pub pointer: String,
    /// The fault, and the expected value.
    pub message: String,
}

/// One tool call of an agent loop.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ToolCallRef {
    /// The call: the seq of its TOOL_EXECUTION_REQUEST.
    pub call_id: CallId,
    /// The id the model gave the call.
    pub tool_call_id: Option<String>,
    /// The tool.
    pub name: ToolName,
}

/// LLM_EXECUTION_FAILED: the loop ended in an error.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct LlmExecutionFailed {
    /// The node.
    pub node_id: NodeId,
    /// Why.
    pub error: ExecutionError,
}

/// CONTEXT_SUMMARY_REQUESTED: a model is to summarise a stretch of the conversation. Its seq is the call's id.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ContextSummaryRequested {
    /// The node.
    pub node_id: NodeId,
    /// The first message of the stretch, by its place in the conversation.
    pub from: u64,
    /// The index after its last message.
    pub to: u64,
    /// Counted tokens of what was to be sent.
    pub tokens: u64,
    /// The limit that they pass; 0 if the summary was requested.
    pub limit: u64,
    /// The model that writes the summary.
    pub model: ModelChoice,
    /// The timeout.
    pub timeout_ms: u64,
    /// As in LLM_CALL_REQUESTED.
    pub model_profile: Option<Hash>,
}

/// CONTEXT_SUMMARY_COMPLETED: the summary, or that there is none; a plain listing takes its place then.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ContextSummaryCompleted {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The summary.
    pub summary: Option<String>,
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

/// CONTEXT_SUMMARIZED: what was said between user messages is replaced by summaries; the originals stay in the log.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ContextSummarized {
    /// The conversation from here on.
    pub messages: Vec<ContextItem>,
    /// Counted tokens before.
    pub tokens_before: u64,
    /// Counted tokens after.
    pub tokens_after: u64,
    /// The limit that they passed.
    pub limit: u64,
}

/// BUDGET_EXCEEDED: the thread spent more than it was allowed to, or what it spent is not known.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct BudgetExceeded {
    /// `tokens`, `cost_nanousd`, or `unpriced_calls`: calls whose cost is not known, where a budget in money allows none.
    pub what: String,
    /// The amount that was spent.
    pub spent: u64,
    /// The limit.
    pub limit: u64,
    /// The time when it was noticed.
    pub at: Time,
}
