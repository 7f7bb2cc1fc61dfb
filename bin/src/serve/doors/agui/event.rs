//! The events of the protocol that the door writes. Fields without a value are left out: clients refuse `null`.

use rethread::ThreadId;
use rethread_events::message::Usage;
use serde::Serialize;
use serde_json::{Map, Value};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub(super) enum Event {
    RunStarted {
        thread_id: String,
        run_id: String,
        protocol_version: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<String>,
        metadata: Map<String, Value>,
    },
    RunFinished {
        thread_id: String,
        run_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
        outcome: Outcome,
    },
    RunError {
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<TokenUsage>,
    },
    StepStarted {
        step_name: String,
    },
    StepFinished {
        step_name: String,
    },
    TextMessageStart {
        message_id: String,
        role: &'static str,
    },
    TextMessageContent {
        message_id: String,
        delta: String,
    },
    TextMessageEnd {
        message_id: String,
    },
    ToolCallStart {
        tool_call_id: String,
        tool_call_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_message_id: Option<String>,
    },
    ToolCallArgs {
        tool_call_id: String,
        delta: String,
    },
    ToolCallEnd {
        tool_call_id: String,
    },
    ToolCallResult {
        message_id: String,
        tool_call_id: String,
        content: Value,
        role: &'static str,
    },
    StateSnapshot {
        snapshot: Value,
    },
    StateDelta {
        delta: json_patch::Patch,
    },
    ActivitySnapshot {
        message_id: String,
        activity_type: &'static str,
        content: Map<String, Value>,
    },
    ReasoningStart {
        message_id: String,
    },
    ReasoningEnd {
        message_id: String,
    },
    ReasoningMessageStart {
        message_id: String,
        role: &'static str,
    },
    ReasoningMessageContent {
        message_id: String,
        delta: String,
    },
    ReasoningMessageEnd {
        message_id: String,
    },
    SubagentStarted {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_subagent_run_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<String>,
    },
    SubagentFinished {
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        outcome: SubagentOutcome,
    },
    SubagentError {
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    Custom {
        name: &'static str,
        value: Value,
    },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum Outcome {
    Success {
        /// The tool calls that the client is to answer. Clients before 1.0 refuse an empty list.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pending_tool_call_ids: Vec<String>,
    },
    Interrupt {
        interrupts: Vec<Interrupt>,
    },
    Cancelled,
}

/// Something that a person is to answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interrupt {
    pub(super) id: String,
    pub(super) reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subagent_run_id: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) metadata: Map<String, Value>,
}

/// Why a sub-agent is no longer active.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum SubagentOutcome {
    Success,
    Suspended,
}

/// The tokens of a model. The figures have the same meaning as in [`Usage`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_input_tokens: Option<u64>,
}

impl TokenUsage {
    /// Returns the tokens of a model; both names are absent if they are not known.
    pub(super) fn of(provider: Option<String>, model: Option<String>, usage: &Usage) -> Self {
        let Usage { input_tokens, output_tokens, .. } = *usage;
        Self {
            provider,
            model,
            input_tokens,
            output_tokens,
            total_tokens: input_tokens.zip(output_tokens).map(|(input, output)| input.saturating_add(output)),
            reasoning_tokens: usage.reasoning_tokens,
            cached_input_tokens: usage.cached_input_tokens,
            cache_write_input_tokens: usage.cache_write_tokens,
        }
    }
}

/// An event, the sub-agent that it belongs to, and when it happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sent {
    #[serde(flatten)]
    pub(super) event: Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subagent_run_id: Option<ThreadId>,
    /// Milliseconds after 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: Option<u64>,
}

impl From<Event> for Sent {
    fn from(event: Event) -> Self {
        Self { event, subagent_run_id: None, timestamp: None }
    }
}

impl Sent {
    /// The event as it is sent.
    pub(super) fn sse(&self) -> String {
        framed(self)
    }
}

impl Event {
    /// The event as it is sent, without a time.
    pub(super) fn sse(&self) -> String {
        framed(self)
    }
}

/// One event in one `data` line: JSON has no line breaks of its own.
fn framed(event: &impl Serialize) -> String {
    format!("data: {}\n\n", serde_json::to_string(event).unwrap_or_default())
}
