//! Events of tool calls.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::fault::ExecutionError;
use crate::ids::{CallId, Hash, NodeId, Time, ToolName};
use crate::json::Json;
use crate::message::Part;
use crate::tool::Recovery;

/// TOOL_EXECUTION_REQUEST: a tool is to run. Its seq is the call's id. A tool that the model was not offered does not
/// run: TOOL_EXECUTION_FAILED of kind `unknown_tool` follows at once.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ToolExecutionRequest {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The id the model gave the call; absent when a tool node asks.
    pub tool_call_id: Option<String>,
    /// The tool.
    pub name: ToolName,
    /// Its arguments: an object, or null when the model's were cut off.
    pub arguments: Json,
    /// The recovery class: what may be done if the answer is lost.
    pub recovery: Recovery,
    /// Limits of the call.
    pub options: ToolCallOptions,
}

/// Limits of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ToolCallOptions {
    /// The timeout of one attempt.
    pub timeout_ms: u64,
    /// The most retries after a retryable error.
    pub retries: u32,
    /// The wait before a retry.
    pub retry_delay_ms: u64,
}

/// TOOL_CALL_RETRIED: a call is made again, after an error or because its answer was lost in a crash.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ToolCallRetried {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The number of this attempt; 1 was the first.
    pub attempt: u32,
    /// The attempt does not start before this time.
    pub not_before: Time,
    /// The error of the attempt before; absent when its answer was lost.
    pub error: Option<ExecutionError>,
}

/// TOOL_EXECUTION_PROGRESS: a tool says how far it is. Informational.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ToolExecutionProgress {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The attempt.
    pub attempt: u32,
    /// The progress message.
    pub message: String,
}

/// TOOL_EXECUTION_COMPLETED: the tool answered.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ToolExecutionCompleted {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The id the model gave the call.
    pub tool_call_id: Option<String>,
    /// The answer: text, sometimes pictures.
    pub content: Vec<Part>,
    /// The answer as a value, if the tool returns one.
    pub value: Option<Json>,
    /// The duration.
    pub duration_ms: u64,
    /// The hash of the whole text (a blob), where `content` has only its head and tail.
    pub full_output: Option<Hash>,
}

/// TOOL_EXECUTION_FAILED: the call failed. The model receives the error.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct ToolExecutionFailed {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The id the model gave the call.
    pub tool_call_id: Option<String>,
    /// Why.
    pub error: ExecutionError,
    /// The duration.
    pub duration_ms: u64,
    /// Whether it is certain that the tool did nothing: the call was refused before it started, or the tool reported
    /// it.
    pub not_started: bool,
}
