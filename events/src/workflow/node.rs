//! One node of a workflow, and the kinds that have nodes inside. What a node does is the thread machine's business.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::actions::{ContextProcessorNode, LlmNode, ToolNode, UserInteractionNode};
use super::child::StartThreadNode;
use super::flow::{
    ConditionNode, Edge, ForkNode, JoinMode, JoinNode, LoopEndNode, RouteNode, SubWorkflowNode, is_all, is_fail,
};
use super::retry::RetryPolicy;
use super::signal::SignalNode;
use super::wait::WaitNode;
use crate::event::OnFailed;
use crate::fault::ErrorKind;
use crate::ids::NodeId;

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
    /// Waits for a time, or for the end of a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitNode>,
    /// Waits for a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalNode>,
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
    /// Starts a workflow as a thread of its own.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "startThread")]
    pub start_thread: Option<StartThreadNode>,
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
    /// The node to continue with when this one has failed for good; the thread fails when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "onError")]
    pub on_error: Option<NodeId>,
    /// The node to continue with when this one has failed for good because of a timeout: its own, that of a call, or
    /// that of a question; `on_error` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "onTimeout")]
    pub on_timeout: Option<NodeId>,
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
    /// Waits for a time, or for the end of a thread.
    Wait(&'a WaitNode),
    /// Waits for a signal.
    Signal(&'a SignalNode),
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
    /// Starts a workflow as a thread of its own.
    StartThread(&'a StartThreadNode),
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
            wait: None,
            signal: None,
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
            start_thread: None,
            start: None,
            end: None,
            timeout_ms: None,
            retry: None,
            on_error: None,
            on_timeout: None,
            checkpoint: None,
        }
    }

    /// The nodes to continue with when this one has failed for good.
    pub(crate) fn after_failure(&self) -> impl Iterator<Item = &NodeId> {
        self.on_error.iter().chain(&self.on_timeout)
    }

    /// The nodes that its model may hand the conversation over to.
    pub(crate) fn handoffs(&self) -> &[NodeId] {
        self.llm.as_ref().map_or(&[], |llm| &llm.handoffs)
    }

    /// The node to continue with when this one has failed for good with an error of this kind.
    pub(crate) fn after_error(&self, kind: ErrorKind) -> Option<&NodeId> {
        let on_timeout = self.on_timeout.as_ref().filter(|_| kind == ErrorKind::Timeout);
        on_timeout.or(self.on_error.as_ref())
    }

    /// What kinds are given: exactly one in a valid node.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = NodeKind<'_>> {
        [
            self.llm.as_ref().map(NodeKind::Llm),
            self.tool.as_ref().map(NodeKind::Tool),
            self.user_interaction.as_ref().map(NodeKind::UserInteraction),
            self.wait.as_ref().map(NodeKind::Wait),
            self.signal.as_ref().map(NodeKind::Signal),
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
            self.start_thread.as_ref().map(NodeKind::StartThread),
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
    WaitNode => wait,
    SignalNode => signal,
    ContextProcessorNode => context_processor,
    RouteNode => route,
    ConditionNode => condition,
    ForkNode => fork,
    JoinNode => join,
    ParallelNode => parallel,
    LoopEndNode => loop_end,
    SubWorkflowNode => sub_workflow,
    StartThreadNode => start_thread,
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
    /// What the join does with failed branches.
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
    /// The number of iterations.
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
