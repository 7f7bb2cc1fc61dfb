//! Nodes: configuration by value. What a node does is the thread machine's business.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flow::{
    ConditionNode, ContextProcessorNode, ForkNode, JoinNode, LoopEndNode, LoopNode, ParallelNode, RouteNode,
    SubWorkflowNode, Summary,
};
use super::strategy::Strategy;
use crate::codec::OrderedMap;
use crate::event::{AnswerType, NodeContext, OperationType, Scope, ToolMode};
use crate::fault::ErrorKind;
use crate::ids::{NodeId, ProfileId, ToolName};
use crate::json::Json;

/// One node of a workflow: exactly one of the kinds below, and what holds for all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name, unique in the workflow.
    pub id: NodeId,
    /// What it is for, shown beside its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Asks a model, with tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmNode>,
    /// Runs a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolNode>,
    /// Asks a person.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "userInteraction")]
    pub user_interaction: Option<UserInteractionNode>,
    /// Changes the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "contextProcessor")]
    pub context_processor: Option<ContextProcessorNode>,
    /// Chooses the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteNode>,
    /// Chooses between two ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionNode>,
    /// Starts branches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkNode>,
    /// Ends branches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinNode>,
    /// Branches, from fork to join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Box<ParallelNode>>,
    /// Begins a loop.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "loopStart")]
    pub loop_start: Option<Box<LoopNode>>,
    /// Ends an iteration of a loop.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "loopEnd")]
    pub loop_end: Option<LoopEndNode>,
    /// A loop, from start to end.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "loop")]
    pub repeat: Option<Box<LoopNode>>,
    /// Runs a workflow inside this one.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "subWorkflow")]
    pub sub_workflow: Option<SubWorkflowNode>,
    /// Marks the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Marker>,
    /// Marks an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Marker>,
    /// How long one try of the node may take; without limit of its own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
    /// Whether a failed try is repeated; not when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// The node to go on with when this one has failed for good; the thread fails when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "onError")]
    pub on_error: Option<NodeId>,
    /// The name that the moment after this node gets; from the second visit on with the suffix `#2`, `#3` ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

/// The kind of a node, borrowed from its configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NodeKind<'a> {
    /// Asks a model.
    Llm(&'a LlmNode),
    /// Runs a tool.
    Tool(&'a ToolNode),
    /// Asks a person.
    UserInteraction(&'a UserInteractionNode),
    /// Changes the conversation.
    ContextProcessor(&'a ContextProcessorNode),
    /// Chooses the way.
    Route(&'a RouteNode),
    /// Chooses between two ways: a short form.
    Condition(&'a ConditionNode),
    /// Starts branches.
    Fork(&'a ForkNode),
    /// Ends branches.
    Join(&'a JoinNode),
    /// Branches, from fork to join: a short form.
    Parallel(&'a ParallelNode),
    /// Begins a loop.
    LoopStart(&'a LoopNode),
    /// Ends an iteration of a loop.
    LoopEnd(&'a LoopEndNode),
    /// A loop, from start to end: a short form.
    Loop(&'a LoopNode),
    /// Runs a workflow inside this one.
    SubWorkflow(&'a SubWorkflowNode),
    /// Marks the beginning.
    Start,
    /// Marks an end.
    End,
}

impl Node {
    /// A node of no kind yet.
    pub fn new(id: NodeId) -> Self {
        Self {
            id,
            description: None,
            llm: None,
            tool: None,
            user_interaction: None,
            context_processor: None,
            route: None,
            condition: None,
            fork: None,
            join: None,
            parallel: None,
            loop_start: None,
            loop_end: None,
            repeat: None,
            sub_workflow: None,
            start: None,
            end: None,
            timeout_ms: None,
            retry: None,
            on_error: None,
            checkpoint: None,
        }
    }

    /// What kinds are given: exactly one in a valid node.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = NodeKind<'_>> {
        [
            self.llm.as_ref().map(NodeKind::Llm),
            self.tool.as_ref().map(NodeKind::Tool),
            self.user_interaction.as_ref().map(NodeKind::UserInteraction),
            self.context_processor.as_ref().map(NodeKind::ContextProcessor),
            self.route.as_ref().map(NodeKind::Route),
            self.condition.as_ref().map(NodeKind::Condition),
            self.fork.as_ref().map(NodeKind::Fork),
            self.join.as_ref().map(NodeKind::Join),
            self.parallel.as_deref().map(NodeKind::Parallel),
            self.loop_start.as_deref().map(NodeKind::LoopStart),
            self.loop_end.as_ref().map(NodeKind::LoopEnd),
            self.repeat.as_deref().map(NodeKind::Loop),
            self.sub_workflow.as_ref().map(NodeKind::SubWorkflow),
            self.start.as_ref().map(|_| NodeKind::Start),
            self.end.as_ref().map(|_| NodeKind::End),
        ]
        .into_iter()
        .flatten()
    }

    /// Its kind; `End` for a node of no kind, which validation refuses.
    pub fn kind(&self) -> NodeKind<'_> {
        self.kinds().next().unwrap_or(NodeKind::End)
    }
}

/// A node of each kind from its id and its configuration.
macro_rules! from_configuration {
    ($($kind:ty => $field:ident),* $(,)?) => {$(
        impl<I: Into<NodeId>> From<(I, $kind)> for Node {
            fn from((id, kind): (I, $kind)) -> Self {
                Self { $field: Some(kind.into()), ..Self::new(id.into()) }
            }
        }
    )*};
}

from_configuration! {
    LlmNode => llm,
    ToolNode => tool,
    UserInteractionNode => user_interaction,
    ContextProcessorNode => context_processor,
    RouteNode => route,
    ConditionNode => condition,
    ForkNode => fork,
    JoinNode => join,
    ParallelNode => parallel,
    LoopEndNode => loop_end,
    SubWorkflowNode => sub_workflow,
}

/// With a body it is a `loop`, without one a `loop_start`.
impl<I: Into<NodeId>> From<(I, LoopNode)> for Node {
    fn from((id, repeat): (I, LoopNode)) -> Self {
        let (node, repeat) = (Self::new(id.into()), Some(Box::new(repeat)));
        match repeat.as_ref().is_some_and(|repeat| repeat.body.is_some()) {
            true => Self { repeat, ..node },
            false => Self { loop_start: repeat, ..node },
        }
    }
}

/// A node that only marks a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Marker {}

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
    /// Whether answers are streamed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// Whether tools are offered.
    #[serde(default, alias = "toolMode")]
    pub tool_mode: ToolMode,
    /// The tools that are offered; all there are when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "availableTools", alias = "tools")]
    pub available_tools: Option<Vec<ToolName>>,
    /// The tools among them whose calls a person approves before they run, besides those that ask for it themselves.
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
    /// of it), or `{from: [nodes]}` (what these nodes said). What it says joins the conversation of the thread.
    #[serde(default, skip_serializing_if = "is_shared")]
    pub context: NodeContext,
    /// How it comes to its answer; `react` when absent.
    #[serde(default, skip_serializing_if = "Strategy::is_react")]
    pub strategy: Strategy,
    /// Keys of the provider's own, merged into its request as they are. The provider `mock` reads its `script` here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json>,
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

/// How much chance there is in a wait, so that many threads that failed together do not come back together (Brooker,
/// "Exponential Backoff And Jitter", 2015).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// Anything from nothing to the whole wait.
    Full,
    /// Half of the wait, and anything up to the other half.
    Equal,
}

impl Jitter {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// When a failed try of a node is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// How many tries there are in all, 1 to 100.
    #[serde(alias = "maxAttempts")]
    pub max_attempts: u32,
    /// The wait before the second try; doubles with each further one.
    #[serde(default, alias = "backoffMs")]
    pub backoff_ms: u64,
    /// The longest wait; 60 000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "backoffMsMax")]
    pub backoff_ms_max: Option<u64>,
    /// How much chance there is in the wait.
    #[serde(default, skip_serializing_if = "Jitter::is_none")]
    pub jitter: Jitter,
    /// The kinds of errors after which it is tried again; when absent, after those that another try can mend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<ErrorKind>>,
}

impl RetryPolicy {
    /// The wait after try number `attempt` (from 1) failed: `backoff_ms · 2^(attempt − 1)`, at most `backoff_ms_max`,
    /// of which `chance`, any number, takes its part as `jitter` says.
    pub fn wait_ms(&self, attempt: u32, chance: u64) -> u64 {
        let factor = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
        let wait = self.backoff_ms.saturating_mul(factor).min(self.backoff_ms_max.unwrap_or(60_000));
        let up_to = |ms: u64| ms.checked_add(1).map_or(chance, |n| chance % n);
        match self.jitter {
            Jitter::None => wait,
            Jitter::Full => up_to(wait),
            Jitter::Equal => wait - wait / 2 + up_to(wait / 2),
        }
    }
}
