//! Open calls: questions to a model or a tool that are not answered yet.

use bincode::{Decode, Encode};

use crate::event::{ToolCallOptions, ToolCallRetried, ToolExecutionRequest};
use crate::ids::{CallId, Time, ToolName};
use crate::json::Json;
use crate::tool::Recovery;

/// A call of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ModelCall {
    /// Which call.
    pub call: CallId,
    /// The number of the attempt.
    pub attempt: u32,
    /// When this attempt was asked for.
    pub requested_at: Time,
    /// When it must have been answered.
    pub deadline: Time,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ToolRun {
    /// Which call.
    pub call: CallId,
    /// The id the model gave it.
    pub tool_call_id: Option<String>,
    /// The tool.
    pub name: ToolName,
    /// The arguments.
    pub arguments: Json,
    /// What may be done when the answer is lost.
    pub recovery: Recovery,
    /// Its limits.
    pub options: ToolCallOptions,
    /// The number of the attempt.
    pub attempt: u32,
    /// How many attempts failed by themselves, as opposed to being lost.
    pub n_failed: u32,
    /// When the call was first asked for.
    pub requested_at: Time,
    /// This attempt may not begin before.
    pub not_before: Time,
    /// When this attempt must have been answered.
    pub deadline: Time,
}

impl ToolRun {
    pub(super) fn new(call: CallId, at: Time, request: &ToolExecutionRequest) -> Self {
        Self {
            call,
            tool_call_id: request.tool_call_id.clone(),
            name: request.name.clone(),
            arguments: request.arguments.clone(),
            recovery: request.recovery,
            options: request.options,
            attempt: 1,
            n_failed: 0,
            requested_at: at,
            not_before: at,
            deadline: at.plus_ms(request.options.timeout_ms),
        }
    }

    pub(super) fn retry(&mut self, retried: &ToolCallRetried) {
        self.attempt = retried.attempt;
        self.n_failed += u32::from(retried.error.is_some());
        self.not_before = retried.not_before;
        self.deadline = retried.not_before.plus_ms(self.options.timeout_ms);
    }

    pub(super) fn shift(&mut self, ms: u64) {
        self.not_before = self.not_before.plus_ms(ms);
        self.deadline = self.deadline.plus_ms(ms);
    }
}
