//! The request of a model call.

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::conversation::ToolOffer;
use super::messages::Messages;
use crate::event::{LlmExecutionRequest, ModelChoice};
use crate::ids::ProfileId;
use crate::json::Json;
use crate::message::{Message, Role, ToolChoice};

/// How long one model call may take when the node does not say.
pub(super) const LLM_TIMEOUT_MS_DEFAULT: u64 = 120_000;

/// The request of a model call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// How it is reached, which tools it is offered, its limits.
    pub execution: Arc<LlmExecutionRequest>,
    /// The conversation as the model sees it, instructions in their places. The last ones are in force.
    pub messages: Messages,
    /// The tools of the calls of this conversation so far, those of this call among them, each with the number of messages
    /// that came before. Only those of the execution may be used.
    pub offers: Vec<(usize, Arc<ToolOffer>)>,
    /// How many of the messages were there before the node was entered.
    pub n_before: usize,
    /// How it may use tools; absent when it is offered none.
    pub tool_choice: Option<ToolChoice>,
    /// 1 for the first call of the loop.
    pub iteration: u32,
    /// The form of the answer; any when absent.
    pub form: Option<AnswerForm>,
}

impl ModelRequest {
    /// The request of a call without a conversation.
    pub(super) fn alone(execution: Arc<LlmExecutionRequest>, messages: Messages) -> Self {
        Self { execution, messages, offers: Vec::new(), n_before: 0, tool_choice: None, iteration: 1, form: None }
    }
}

/// The instructions that a model call begins with.
pub(super) fn instructions(execution: &LlmExecutionRequest) -> Option<Arc<Message>> {
    execution.system_prompt.as_ref().map(|text| Arc::new(Message::text(Role::System, text)))
}

/// What of a request counts in tokens.
#[derive(Debug, Clone)]
pub struct Prompt<'a> {
    /// Which tools the model is offered, and which model it is.
    pub execution: &'a LlmExecutionRequest,
    /// The messages that it reads.
    pub messages: Messages,
}

impl<'a> From<&'a ModelRequest> for Prompt<'a> {
    fn from(request: &'a ModelRequest) -> Self {
        Self { execution: &request.execution, messages: request.messages.clone() }
    }
}

/// The form of an answer: a name and a JSON Schema. Providers that can, enforce it.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerForm {
    /// A name for the schema.
    pub name: &'static str,
    /// The JSON Schema.
    pub schema: Json,
    /// Whether providers get the schema as it is. Otherwise each gets what it can enforce of it.
    pub is_exact: bool,
}

/// Returns the model choice with another profile.
pub(super) fn of_profile(old: ModelChoice, profile: &ProfileId) -> ModelChoice {
    ModelChoice { profile: Some(profile.clone()), provider: None, model: None, ..old }
}

/// Who answers the next model calls.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ModelBinding {
    /// The model.
    pub model: ModelChoice,
    /// Whether a person answers for it.
    pub relay: bool,
    /// How long one call may take.
    pub llm_timeout_ms: Option<u64>,
}

impl ModelBinding {
    pub(super) fn of(request: &LlmExecutionRequest) -> Self {
        let LlmExecutionRequest { model, relay, llm_timeout_ms, .. } = request;
        Self { model: model.clone(), relay: *relay, llm_timeout_ms: *llm_timeout_ms }
    }

    /// Returns the same place with another model in it.
    pub(super) fn with(&self, model: &ModelChoice, relay: bool) -> Self {
        let llm_timeout_ms =
            if relay == self.relay { self.llm_timeout_ms } else { (!relay).then_some(LLM_TIMEOUT_MS_DEFAULT) };
        Self { model: model.clone(), relay, llm_timeout_ms }
    }

    pub(super) fn use_profile(&mut self, profile: &ProfileId, relay: bool) {
        let model = of_profile(std::mem::take(&mut self.model), profile);
        *self = self.with(&model, relay);
    }
}
