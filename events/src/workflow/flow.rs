//! Configuration of the nodes that decide where a thread goes: routes, forks and joins, loops, sub-workflows.
//!
//! `route`, `condition`, `parallel` and `loop` are short forms: a definition is built with the edges and markers they
//! stand for ([`super::Graph`]), and the machine knows only those.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Edge, Node};
use crate::codec::OrderedMap;
use crate::event::{BudgetLimits, ModelChoice, NodeContext, OnFailed, OnLimit, OnUnpriced};
use crate::ids::{NodeId, ProfileId};
use crate::json::Json;

/// A node that only chooses the way: its conditions in order, then the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteNode {
    /// The first one that holds is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<RouteCondition>,
    /// Where to go when none holds. Edges that leave the node can say the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<NodeId>,
}

/// One condition of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteCondition {
    /// An expression over the variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// A condition in natural language, in place of `when`; a model judges it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The node that is entered when it holds.
    pub to: NodeId,
}

/// A route with one condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConditionNode {
    /// An expression over the variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// A condition in natural language, in place of `when`; a model judges it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Where to go when it holds.
    pub then: NodeId,
    /// Where to go when it does not.
    #[serde(rename = "else")]
    pub otherwise: NodeId,
}

/// The model that judges conditions in natural language; never a person. It is shown the conversation, `input` and
/// `output`, and answers yes or no. Any other answer is asked for once more; then the condition counts as not fulfilled.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    /// A named profile in place of provider and model.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "profile", alias = "profileId")]
    pub profile_id: Option<ProfileId>,
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's name at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How long one verdict may take; 60 000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
    /// Keys of the provider's own, merged into its request as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json>,
}

/// What a thread may spend on models. Checked before each model call against what is known to be spent, so that the
/// last call may go beyond it. A branch may spend what its owner had left when it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens of prompts and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in billionths of a US dollar. Every model needs a known price, unless `on_unpriced` is `allow`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "costNanousd")]
    pub cost_nanousd: Option<u64>,
    /// The same in US dollars, as a text such as `'0.25'`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<String>,
    /// What happens when it is spent; the thread pauses when absent.
    #[serde(default = "pause", alias = "onExceeded")]
    pub on_exceeded: OnLimit,
    /// Whether a thread with a budget in money may start, and go on, although the price of a model is not known. When
    /// absent it does not start, and a call that turns out to have no price counts as a spent budget. With `allow` such
    /// calls are not counted, and a WARNING says so.
    #[serde(default, skip_serializing_if = "is_refuse", alias = "onUnpriced")]
    pub on_unpriced: OnUnpriced,
}

// The signature that serde asks for.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_refuse(on_unpriced: &OnUnpriced) -> bool {
    *on_unpriced == OnUnpriced::Refuse
}

fn pause() -> OnLimit {
    OnLimit::Pause
}

/// What is absent in a file.
impl Default for Budget {
    fn default() -> Self {
        Self { tokens: None, cost_nanousd: None, usd: None, on_exceeded: pause(), on_unpriced: OnUnpriced::Refuse }
    }
}

impl Budget {
    /// What a thread is started with.
    pub(crate) fn limits(&self) -> BudgetLimits {
        let cost_nanousd = self.cost_nanousd.or_else(|| self.usd.as_deref().and_then(nanousd));
        BudgetLimits { tokens: self.tokens, cost_nanousd, on_exceeded: self.on_exceeded, on_unpriced: self.on_unpriced }
    }
}

/// An amount in US dollars with at most nine decimals, in billionths; `None` when it is none.
pub fn nanousd(text: &str) -> Option<u64> {
    let (whole, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && decimals.is_empty()) || !digits(whole) || !digits(decimals) || decimals.len() > 9 {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let decimals: u64 = format!("{decimals:0<9}").parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(decimals)
}

/// When a conversation that has become too long is summarised, and by which model. User messages stay; the messages
/// between two of them are replaced by a summary. The originals stay in the log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Before a model call that would be sent more than so many counted tokens; 80 000 when absent, never when 0 or `off`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "tokenLimit")]
    pub token_limit: Option<TokenLimit>,
    /// A named profile in place of provider and model. Without any of them, the node's own model is asked.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "profile", alias = "profileId")]
    pub profile_id: Option<ProfileId>,
    /// The provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's name at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How long one summary may take; 120 000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
    /// Keys of the provider's own, merged into its request as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json>,
}

/// A number of tokens, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TokenLimit {
    /// So many; 0 for none.
    Tokens(u64),
    /// None.
    Word(Off),
}

/// The word for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Off {
    /// Never.
    Off,
}

impl TokenLimit {
    /// The number, where there is one.
    pub fn tokens(self) -> Option<u64> {
        match self {
            Self::Tokens(0) | Self::Word(Off::Off) => None,
            Self::Tokens(n) => Some(n),
        }
    }
}

impl Summary {
    /// The model that it names, if any.
    pub(crate) fn model_choice(&self) -> Option<ModelChoice> {
        let named = self.profile_id.is_some() || self.provider.is_some();
        named.then(|| ModelChoice {
            profile: self.profile_id.clone(),
            provider: self.provider.clone(),
            model: self.model.clone(),
            temperature: None,
            max_tokens: None,
            stream: false,
            extra: self.extra.clone(),
        })
    }
}

/// Starts branches, each a thread of its own that inherits the conversation and the variables. Either named ones, or
/// one for each element of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkNode {
    /// The join at which all of them end.
    pub join: NodeId,
    /// The branches: the name under which the result is merged, and the first node.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub branches: IndexMap<String, NodeId>,
    /// One branch for each element of the list that this expression gives.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "forEach")]
    pub for_each: Option<String>,
    /// The variable that holds the element; `item` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "as")]
    pub variable: Option<String>,
    /// The first node of the branches of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<NodeId>,
    /// The variable that holds all results, as `output` does: an object by name, or a list in the order of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// How many branches run at once; all named ones, and 64 of a list, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

impl ForkNode {
    /// Branches by name, each with its first node, that end at `join`.
    pub fn new<N: Into<String>, F: Into<NodeId>>(
        join: impl Into<NodeId>,
        branches: impl IntoIterator<Item = (N, F)>,
    ) -> Self {
        Self {
            join: join.into(),
            branches: branches.into_iter().map(|(name, first)| (name.into(), first.into())).collect(),
            for_each: None,
            variable: None,
            entry: None,
            into: None,
            concurrency: None,
        }
    }
}

/// Where branches end. The thread goes on from here when enough of them have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinNode {
    /// How many branches it waits for.
    #[serde(default, skip_serializing_if = "is_all")]
    pub mode: JoinMode,
    /// How many, in mode `n_of_m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// What becomes of failed branches.
    #[serde(default, skip_serializing_if = "is_fail", alias = "onFailed")]
    pub on_failed: OnFailed,
    /// How long the branches may take in all; without limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
}

fn is_all(mode: &JoinMode) -> bool {
    *mode == JoinMode::All
}

fn is_fail(on_failed: &OnFailed) -> bool {
    *on_failed == OnFailed::Fail
}

/// How many branches a join waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JoinMode {
    /// All.
    #[default]
    All,
    /// The first that succeeds; the others are cancelled. Fails when none can.
    Any,
    /// The first `n` that succeed; the others are cancelled. Fails when fewer can.
    NOfM,
}

/// A fork, its branches and its join in one node. What the branches end on needs no edge.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParallelNode {
    /// Named branches.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub branches: IndexMap<String, Body>,
    /// One branch for each element of the list that this expression gives.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "forEach")]
    pub for_each: Option<String>,
    /// The variable that holds the element; `item` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "as")]
    pub variable: Option<String>,
    /// What is done for each element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// The variable that holds all results, as `output` does: an object by name, or a list in the order of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// How many branches run at once; all named ones, and 64 of a list, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many branches are waited for.
    #[serde(default, skip_serializing_if = "is_all")]
    pub mode: JoinMode,
    /// How many, in mode `n_of_m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// What becomes of failed branches.
    #[serde(default, skip_serializing_if = "is_fail", alias = "onFailed")]
    pub on_failed: OnFailed,
    /// How long the branches may take in all; without limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "timeout", alias = "timeoutMs")]
    pub timeout_ms: Option<u64>,
}

/// Nodes inside a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The first node; the first one listed when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<NodeId>,
    /// The nodes. Their ids are unique in the whole workflow.
    pub nodes: Vec<Node>,
    /// The edges; one node after the other as listed when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<Edge>>,
}

impl Body {
    /// These nodes, one after the other.
    pub fn of(nodes: impl IntoIterator<Item = Node>) -> Self {
        Self { nodes: nodes.into_iter().collect(), ..Self::default() }
    }
}

/// A loop. As `loop_start`, the nodes between it and its `end` are repeated; as `loop`, the `body` is, and
/// what the body ends on needs no edge. At least one of `times`, `while` and `for_each` is given; where several are, the
/// first that says so ends the loop. Its body sees `loop`: `index` (from 0), `iteration` (from 1), `first`, `last`
/// (whether no other can follow) and `n` (how many there are at most).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopNode {
    /// The marker at which an iteration ends; of `loop_start` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<NodeId>,
    /// What is repeated; of `loop` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// So many times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// For as long as this expression holds; asked before each iteration.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "while")]
    pub condition: Option<String>,
    /// Once for each element of the list that this expression gives.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "forEach")]
    pub for_each: Option<String>,
    /// The variable of scope `loop` that holds the element; `item` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "as")]
    pub variable: Option<String>,
    /// The variable that holds a list of what `output` was at the end of each iteration; set when the loop is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// The most iterations. A `while` loop must give it: the loop fails when it is reached and the loop is not over,
    /// because its condition still holds or its list has more elements. Other loops may go round a million times.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "maxIterations")]
    pub max_iterations: Option<u64>,
}

/// Ends an iteration of a loop. Its edges lead on when the loop is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopEndNode {
    /// The marker at which the loop begins.
    pub start: NodeId,
}

/// Runs a workflow inside this one, with a scope of its own: it sees its inputs, the variables it sets, and those of
/// scope `thread` and `global`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubWorkflowNode {
    /// Its name under `workflows`.
    pub workflow: String,
    /// Its variables; a text that is exactly one `{{expression}}` has the expression's type.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub inputs: OrderedMap<Json>,
    /// Variables of the caller that are set at its end, from expressions over its own; when absent, only `output`.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub outputs: OrderedMap<String>,
    /// The conversation that it begins with: `fresh` (none, the default) or `{from: [nodes]}` (what these nodes said), and
    /// its own ends with it; or `shared`, where it goes on with that of its caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<NodeContext>,
}

/// A workflow that others of the same file run by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubWorkflow {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How many nodes one run of it may enter; 50, or as many as there are, when absent. Must be given when its graph
    /// has a cycle. Each iteration of a loop in it may enter as many by itself.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "maxIterations")]
    pub max_iterations: Option<u32>,
    /// What the object of its `inputs` must be, as JSON Schema: the node that runs it fails with other ones.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "inputSchema")]
    pub input_schema: Option<Json>,
    /// What its `output` must be at its end, as JSON Schema: the node that runs it fails with another one. A text that does
    /// not fit is read as JSON once.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "outputSchema")]
    pub output_schema: Option<Json>,
    /// Variables it begins with, beside its inputs.
    #[serde(default, skip_serializing_if = "OrderedMap::is_empty")]
    pub variables: OrderedMap<Json>,
    /// The first node; the first one listed when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<NodeId>,
    /// Nodes that end it, even if edges leave them. Every node without an outgoing edge ends it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "endPoints")]
    pub end_points: Vec<NodeId>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The edges; one node after the other as listed when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<Vec<Edge>>,
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
