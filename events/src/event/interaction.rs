//! Events of questions to people.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{CallId, NodeId, Time, ToolName};
use crate::json::Json;
use crate::principal::Principal;

/// How the answer of a person is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OperationType {
    /// It sets variables.
    UpdateVariables,
    /// It becomes a message of the user.
    AddMessage,
    /// It decides whether a tool runs, and with which arguments.
    ApproveTool,
    /// It is the result of a tool call.
    AnswerTool,
    /// It is the answer of a person in place of a model.
    RelayModel,
    /// It goes to a tool that runs and asked for it.
    InformTool,
    /// It decides whether an input or an answer is used that a guardrail has stopped.
    ApproveContent,
}

impl OperationType {
    /// Whether the answer approves or rejects something.
    pub const fn is_approval(self) -> bool {
        match self {
            Self::ApproveTool | Self::ApproveContent => true,
            Self::UpdateVariables | Self::AddMessage | Self::AnswerTool | Self::RelayModel | Self::InformTool => false,
        }
    }

    /// Its name, as it appears in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UpdateVariables => "UPDATE_VARIABLES",
            Self::AddMessage => "ADD_MESSAGE",
            Self::ApproveTool => "APPROVE_TOOL",
            Self::AnswerTool => "ANSWER_TOOL",
            Self::RelayModel => "RELAY_MODEL",
            Self::InformTool => "INFORM_TOOL",
            Self::ApproveContent => "APPROVE_CONTENT",
        }
    }
}

/// Where a variable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The root thread of a family.
    Global,
    /// The thread.
    #[default]
    Thread,
    /// The sub-workflow that runs.
    Subgraph,
    /// The iteration that runs.
    Loop,
}

/// USER_INTERACTION_REQUESTED: a person is asked. Its seq is the interaction's id within the thread.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct UserInteractionRequested {
    /// The interaction: the seq of this event. The thread fills it in as it records the event.
    pub interaction_id: Option<CallId>,
    /// The node that asks the question.
    pub node_id: NodeId,
    /// The use of the answer.
    pub operation_type: OperationType,
    /// The question.
    pub prompt: Option<String>,
    /// The time until which it can be answered.
    pub deadline: Option<Time>,
    /// Data for the application.
    pub metadata: Option<Json>,
    /// The tool call of the question: it waits for approval, or the person answers in its place, or it runs and asks.
    pub tool_call: Option<AskedTool>,
    /// The model call that a person answers. Its prompt is made from the conversation and not stored twice.
    pub llm_call_id: Option<CallId>,
    /// The tool call that runs and asks. The question ends with it at the latest.
    pub tool_run_id: Option<CallId>,
    /// The type of the answer; any JSON value when absent.
    pub answer: Option<AnswerType>,
}

/// The type of the answer to a question. An answer of another type is refused and the question stays open.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AnswerType {
    /// True or false.
    Boolean {},
    /// One of some texts.
    Choice {
        /// The texts.
        choices: Vec<String>,
    },
    /// A text.
    Text {},
    /// A number.
    Number {},
    /// A value that a JSON Schema accepts.
    JsonSchema {
        /// The schema.
        schema: Json,
    },
}

impl AnswerType {
    /// The answers that it accepts, for a person.
    pub fn expected(&self) -> String {
        match self {
            Self::Boolean {} => "yes or no (also y, n, true, false)".into(),
            Self::Choice { choices } => {
                let quoted: Vec<_> = choices.iter().map(|choice| format!("`{choice}`")).collect();
                format!("one of {}", quoted.join(", "))
            }
            Self::Text {} => "a text".into(),
            Self::Number {} => "a number".into(),
            Self::JsonSchema { .. } => "a JSON value that fits the schema of the question".into(),
        }
    }
}

/// The tool call of a question.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct AskedTool {
    /// The id the model gave the call; absent when a tool node asks.
    pub tool_call_id: Option<String>,
    /// The tool.
    pub name: ToolName,
    /// Its arguments.
    pub arguments: Json,
}

/// The decision of a person about a tool call.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// It runs.
    Approve {},
    /// It runs with other arguments.
    Edit {
        /// These.
        arguments: Json,
    },
    /// It does not run.
    Reject {
        /// Why; the model reads it.
        #[serde(default)]
        reason: Option<String>,
    },
    /// It does not run, and this is its result.
    Answer {
        /// The result.
        content: Json,
    },
}

/// USER_INTERACTION_RESPONDED: a person answered.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct UserInteractionResponded {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The question.
    pub interaction_id: CallId,
    /// The raw answer.
    pub input_data: Json,
    /// Who did it; absent where the runtime did.
    pub by: Option<Principal>,
}

/// USER_INTERACTION_PROCESSED: the answer took effect.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct UserInteractionProcessed {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The question.
    pub interaction_id: CallId,
    /// The use of the answer.
    pub operation_type: OperationType,
    /// The changes that the answer caused.
    pub results: InteractionResults,
}

/// The changes by the answer to a question.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode, Serialize, Deserialize)]
pub struct InteractionResults {
    /// The variables that were set, by scope and name.
    pub variables: Vec<VariableUpdate>,
    /// The text of the message that was added.
    pub message: Option<String>,
    /// The decision about the tool call that the question is about, or the answer that the asking tool receives.
    pub decision: Option<Decision>,
}

impl InteractionResults {
    /// The output of the node, if the answer set the variable `output`.
    pub(crate) fn output(&self) -> Option<&Json> {
        self.variables.iter().rfind(|update| update.name == "output").map(|update| &update.value)
    }
}

/// A variable that an answer set.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct VariableUpdate {
    /// The scope of the variable.
    pub scope: Scope,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Json,
}

/// USER_INTERACTION_FAILED: the question will not be answered.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct UserInteractionFailed {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The question.
    pub interaction_id: CallId,
    /// Why.
    pub reason: InteractionFailure,
    /// Details for people.
    pub detail: Option<String>,
    /// Who took it back; absent where the runtime did.
    pub by: Option<Principal>,
}

/// Why a question was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InteractionFailure {
    /// No answer came in time.
    Timeout,
    /// The question was taken back.
    Cancelled,
    /// The application's handler failed.
    HandlerError,
    /// The answer could not be used.
    InvalidInput,
}
