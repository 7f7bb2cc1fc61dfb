//! Configuration of the nodes that act: they ask a model, run a tool, ask a person, change the conversation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agents::{OfferedAgent, handoff_tool};
use super::guardrails::GuardrailSpec;
use super::models::Summary;
use super::strategy::Strategy;
use crate::codec::OrderedMap;
use crate::event::{AnswerType, CacheMode, NodeContext, OperationType, ReasoningOptions, Scope, ToolMode};
use crate::ids::{NodeId, ProfileId, ToolName};
use crate::json::Json;
use crate::message::ToolChoice;
use crate::schema::schema_of;

/// A node that asks a model and lets it use tools until it answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlmNode {
    /// A named profile in place of provider and model.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "profile", alias = "profileId")]
    pub profile_id: Option<ProfileId>,
    /// The provider, for example `openai_chat` or `mock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's name at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The prompt; `{{expressions}}` over the variables are filled in.
    #[serde(alias = "userPrompt")]
    pub user_prompt: String,
    /// The instructions, with expressions as well.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "systemPrompt")]
    pub system_prompt: Option<String>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The most tokens of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "maxTokens")]
    pub max_tokens: Option<u64>,
    /// Nucleus sampling.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "topP")]
    pub top_p: Option<f64>,
    /// A seed, where the provider supports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts at which an answer stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// How much the model thinks before it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<ReasoningOptions>,
    /// How long answers are, where the provider knows that: `low`, `medium` or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
    /// The tier of service, in the provider's words: `flex`, `priority`, …
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "serviceTier")]
    pub service_tier: Option<String>,
    /// Whether the provider caches the beginning of the prompt: `auto` (the default), `1h` or `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMode>,
    /// Whether answers are streamed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// Whether tools are offered.
    #[serde(default, alias = "toolMode")]
    pub tool_mode: ToolMode,
    /// Which tool the first answer must use: `auto`, `none`, `required`, or `{name: tool}`. Later answers choose freely;
    /// with `none`, no answer may use one.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "toolChoice")]
    pub tool_choice: Option<ToolChoice>,
    /// Whether one answer may ask for several tools; as the provider does when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "parallelToolCalls")]
    pub parallel_tool_calls: Option<bool>,
    /// The tools that are offered; all there are when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "availableTools", alias = "tools")]
    pub available_tools: Option<Vec<ToolName>>,
    /// The workflows under `workflows` that are offered as tools: a call runs one as a branch of the thread, and its output
    /// is the result. They are offered for every `tool_mode`. Only with `strategy: react`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<OfferedAgent>,
    /// The nodes that the model may hand the conversation over to, by the tools `transfer_to_…`: the thread continues with the
    /// node in place of what follows this one. Only with `strategy: react`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handoffs: Vec<NodeId>,
    /// The tools of the client, besides the others: a list of objects with `name`, `description` and `parameters` (a JSON
    /// Schema), as an expression. A client that describes its tools in a request sets the variable `client_tools`. A call
    /// waits until the client gives its result. They are offered for every `tool_mode`. Only with `strategy: react`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "clientTools")]
    pub client_tools: Option<String>,
    /// The tools and agents among them whose calls a person approves before they run, besides those that ask for it
    /// themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "approveTools")]
    pub approve_tools: Vec<ToolName>,
    /// How many model calls it may take to an answer; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "maxIterations")]
    pub max_iterations: Option<u32>,
    /// How many tools of one answer may run at once; 8 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "concurrentTools")]
    pub concurrent_tools: Option<u32>,
    /// How long one model call may take; 120 000 when absent, without limit if a person answers for the model.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "llmTimeoutMs")]
    pub llm_timeout_ms: Option<u64>,
    /// When the conversation is summarised, and by which model, in place of what the workflow says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The conversation that it sees beside its own turn: `shared` (that of the thread so far, the default), `fresh` (none
    /// of it), or `{from: [nodes]}` (what these nodes said). What it says joins the conversation of the thread. Or
    /// `{named: name}`: a conversation of the thread that is stored across runs; only the answer leaves it, as `output`.
    #[serde(default, skip_serializing_if = "is_shared")]
    pub context: NodeContext,
    /// What its answer must be, as JSON Schema. Its `output` is the value in the answer then.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "outputSchema")]
    pub output_schema: Option<Json>,
    /// What happens if an answer does not fit `output_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// What checks the input, the answers and the tool calls, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailSpec>,
    /// How it comes to its answer; `react` when absent.
    #[serde(default, skip_serializing_if = "Strategy::is_react")]
    pub strategy: Strategy,
    /// Keys of the provider's own, merged into its request as they are. The provider `mock` reads its `script` here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json>,
}

impl LlmNode {
    /// Whether an agent or a handoff has this name as a tool.
    pub(crate) fn offers_beside(&self, tool: &str) -> bool {
        self.agents.iter().any(|agent| agent.workflow == tool)
            || self.handoffs.iter().any(|node| handoff_tool(node) == tool)
    }

    /// Promises that the answer is a `T`: sets `output_schema` to the schema of the type.
    #[must_use]
    pub fn answers<T: JsonSchema>(mut self) -> Self {
        self.output_schema = Some(schema_of::<T>().into());
        self
    }
}

/// What happens if an answer does not fit `output_schema`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repair {
    /// How often the model is asked again, with the faults of its answer; 0 for never.
    pub attempts: u32,
}

fn is_shared(context: &NodeContext) -> bool {
    *context == NodeContext::Shared
}

/// A node that runs one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolNode {
    /// The tool.
    #[serde(alias = "toolName", alias = "name")]
    pub tool_name: ToolName,
    /// Its arguments; a text that is exactly one `{{expression}}` has the expression's type.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub parameters: OrderedMap<Json>,
    /// How long one attempt may take; the tool's own limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
    /// Whether a person approves of the call before it runs; a tool may ask for it itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
}

impl ToolNode {
    /// Runs this tool without arguments.
    pub fn new(tool_name: impl Into<ToolName>) -> Self {
        Self { tool_name: tool_name.into(), parameters: OrderedMap::default(), timeout_ms: None, approval: false }
    }
}

/// A node that asks a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserInteractionNode {
    /// What is done with the answer.
    #[serde(alias = "operationType")]
    pub operation_type: NodeOperation,
    /// The variables it sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<VariableAssignment>,
    /// The message it becomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<InteractionMessage>,
    /// The question, with expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The type of the answer; any value when absent. An answer of another type is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerKind>,
    /// The texts among which `answer: choice` chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// The JSON Schema of `answer: json_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// How long the person has; without limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
    /// What the application may want to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

impl UserInteractionNode {
    /// A question without a prompt, whose answer may be any value.
    pub fn new(operation_type: NodeOperation) -> Self {
        Self {
            operation_type,
            variables: Vec::new(),
            message: None,
            prompt: None,
            answer: None,
            choices: None,
            schema: None,
            timeout_ms: None,
            metadata: None,
        }
    }

    /// The type of the answer, with what belongs to it; `None` where any value is an answer.
    pub fn answer_type(&self) -> Option<AnswerType> {
        Some(match self.answer? {
            AnswerKind::Boolean => AnswerType::Boolean {},
            AnswerKind::Choice => AnswerType::Choice { choices: self.choices.clone().unwrap_or_default() },
            AnswerKind::Text => AnswerType::Text {},
            AnswerKind::Number => AnswerType::Number {},
            AnswerKind::JsonSchema => {
                AnswerType::JsonSchema { schema: self.schema.clone().unwrap_or_else(|| Json::from(false)) }
            }
        })
    }
}

/// The type of the answer to a question, as a workflow file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// True or false; `yes`, `no`, `y`, `n`, `true` and `false` are accepted as text.
    Boolean,
    /// One of `choices`.
    Choice,
    /// A text.
    Text,
    /// A number.
    Number,
    /// A value that `schema` accepts.
    JsonSchema,
}

/// What a node does with the answer of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NodeOperation {
    /// It sets variables.
    UpdateVariables,
    /// It becomes a message of the user.
    AddMessage,
}

impl From<NodeOperation> for OperationType {
    fn from(operation: NodeOperation) -> Self {
        match operation {
            NodeOperation::UpdateVariables => Self::UpdateVariables,
            NodeOperation::AddMessage => Self::AddMessage,
        }
    }
}

/// A variable set from an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VariableAssignment {
    /// The variable.
    #[serde(alias = "variableName")]
    pub variable_name: String,
    /// Its value, over the variables and `input`, the answer.
    pub expression: String,
    /// Where it lives.
    #[serde(default)]
    pub scope: Scope,
}

/// A message made from an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InteractionMessage {
    /// Always `user`.
    pub role: MessageRole,
    /// Its text, over the variables and `input`, the answer.
    #[serde(alias = "contentTemplate")]
    pub content_template: String,
}

/// The only role an answer can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    /// The person.
    User,
}

/// Changes the conversation by a processor: the application's own, or a built-in one. Of those,
/// - `truncate` retains at most `head` messages of the beginning and `tail` of the end; instructions do not count;
/// - `filter` retains messages of the roles in `keep`, or all but those in `drop`;
/// - `extract` sets `variable` to an `expression`, or to the text of the last message, of one `role` or of any;
/// - `inject` adds a message with the text `content`, of the role `user` (or `role: assistant`), at the end (or `at:
///   start`).
///
/// An answer that asks for tools and the results of those stay or go together. The output of the node is the number of
/// messages that are kept, the value, or the text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextProcessorNode {
    /// The processor.
    #[serde(alias = "processorName", alias = "processor")]
    pub processor_name: String,
    /// Its settings; texts may hold `{{expressions}}`.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty", alias = "processorConfig", alias = "config")]
    pub processor_config: OrderedMap<Json>,
}
