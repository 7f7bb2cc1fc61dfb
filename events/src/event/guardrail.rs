//! Guardrails of an agent loop: their settings, and the events of their checks.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::ModelChoice;
use crate::codec::OrderedMap;
use crate::fault::ExecutionError;
use crate::ids::{CallId, NodeId, Seq, Time};
use crate::json::Json;

/// A guardrail of an agent loop.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Guardrail {
    /// Its name.
    pub name: String,
    /// What it checks.
    pub on: GuardedContent,
    /// The tools whose calls it checks; all when empty.
    pub tools: Vec<String>,
    /// How it checks.
    pub check: GuardrailCheck,
    /// What follows if its condition holds. A function decides by itself, and this is `reject` then.
    pub then: GuardrailAction,
    /// The reason that is recorded if its condition holds, a template.
    pub reason: Option<String>,
    /// Whether pieces of a streamed answer are held back until the answer has been checked.
    pub hold: bool,
}

/// What a guardrail checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardedContent {
    /// The prompt of the node, and each message that the application or a person added for the user and no model has read.
    Input,
    /// The text of each answer of the model.
    Answer,
    /// Each tool call of the model, with its arguments.
    ToolCall,
}

/// How a guardrail checks.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum GuardrailCheck {
    /// An expression.
    Expression {
        /// The expression, over the variables and `checked`.
        when: String,
    },
    /// A model judges a condition in natural language.
    Judge {
        /// The condition, a template.
        condition: String,
        /// The model.
        model: Box<ModelChoice>,
        /// The timeout of one verdict.
        timeout_ms: u64,
    },
    /// A function of the application.
    Function {
        /// The name under which it was registered.
        name: String,
        /// Its settings.
        config: OrderedMap<Json>,
        /// The timeout of one check.
        timeout_ms: u64,
    },
}

/// What follows if the condition of a guardrail holds.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardrailAction {
    /// The input or the answer makes the node fail; a tool call does not run, and the model reads why.
    #[default]
    Reject,
    /// A person decides.
    Ask,
    /// This takes its place: a text, or for a tool call the arguments. `{{expressions}}` are filled in.
    Replace(Json),
}

/// The content that a check is about.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "on", rename_all = "snake_case")]
pub enum CheckedContent {
    /// A message of the user: the prompt of the node, or one that came later.
    Input {
        /// The event that added it to the conversation.
        message: Seq,
    },
    /// The last answer.
    Answer {},
    /// The answer of one of several models, before one of them is chosen or written.
    Candidate {
        /// The index of the model among them, from 0.
        index: u32,
    },
    /// A tool call of the last answer.
    ToolCall {
        /// Its index in the answer, from 0.
        index: u32,
        /// The id that the model gave it.
        tool_call_id: String,
    },
}

impl CheckedContent {
    /// What it is, in words.
    pub const fn in_words(&self) -> &'static str {
        match self {
            Self::Input { .. } => "input",
            Self::Answer {} | Self::Candidate { .. } => "answer",
            Self::ToolCall { .. } => "tool call",
        }
    }
}

/// The guardrail whose condition a model judges.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct JudgedGuardrail {
    /// Its index among those of the node, from 0.
    pub index: u32,
    /// What it checks.
    pub content: CheckedContent,
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum GuardrailOutcome {
    /// It may be used.
    Allow {},
    /// This takes its place: a text, or for a tool call an object with the arguments.
    Replace {
        /// The replacement.
        with: Json,
        /// Why.
        reason: String,
    },
    /// The input or the answer makes the node fail; a tool call does not run, and the model reads the reason.
    Reject {
        /// Why.
        reason: String,
    },
    /// A person decides.
    Ask {
        /// Why.
        reason: String,
    },
}

impl GuardrailOutcome {
    /// The outcome in a word, and its reason.
    pub fn in_words(&self) -> String {
        match self {
            Self::Allow {} => "allow".into(),
            Self::Replace { reason, .. } => format!("replace: {reason}"),
            Self::Reject { reason } => format!("reject: {reason}"),
            Self::Ask { reason } => format!("ask: {reason}"),
        }
    }
}

/// GUARDRAIL_REQUESTED: a function of the application is called to check something. Its seq is the call's id.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct GuardrailRequested {
    /// The node.
    pub node_id: NodeId,
    /// The index of the guardrail among those of the node, from 0.
    pub guardrail: u32,
    /// What it checks.
    pub content: CheckedContent,
    /// The deadline of the check.
    pub deadline: Time,
}

/// GUARDRAIL_RETRIED: it is called again, because its outcome was lost in a crash.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct GuardrailRetried {
    /// The node that the call belongs to.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The number of this attempt; 1 was the first.
    pub attempt: u32,
}

/// GUARDRAIL_COMPLETED: the outcome of one guardrail for one content.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct GuardrailCompleted {
    /// The node.
    pub node_id: Option<NodeId>,
    /// The call of the function; where an expression or a model checked, the seq of this event.
    pub call_id: CallId,
    /// The index of the guardrail among those of the node, from 0.
    pub guardrail: u32,
    /// Its name.
    pub name: String,
    /// What it checked.
    pub content: CheckedContent,
    /// The outcome.
    pub outcome: GuardrailOutcome,
    /// Why the check could not be made. The outcome is that of a condition that holds then, and of a function `reject`.
    pub error: Option<ExecutionError>,
}

impl GuardrailCompleted {
    /// The report of a check that a function has made. What it checked is left to the thread.
    pub fn of(call_id: CallId, outcome: GuardrailOutcome) -> Self {
        let content = CheckedContent::Answer {};
        Self { node_id: None, call_id, guardrail: 0, name: String::new(), content, outcome, error: None }
    }

    /// The report of a check that could not be made: what was to be checked is rejected.
    pub fn failed(call_id: CallId, error: ExecutionError) -> Self {
        let reason = format!("the check failed: {}", error.message);
        Self { error: Some(error), ..Self::of(call_id, GuardrailOutcome::Reject { reason }) }
    }
}
