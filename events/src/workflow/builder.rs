//! Building a workflow in Rust.

use super::actions::{LlmNode, ToolNode, UserInteractionNode};
use super::definition::Workflow;
use super::fault::Faults;
use super::flow::Edge;
use super::models::{Budget, Judge, Summary, ThreadLimits};
use super::node::{Marker, Node};
use super::queue::Queue;
use super::spec::{FORMAT_VERSION, SubWorkflow, WorkflowSpec};
use crate::codec::OrderedMap;
use crate::event::{OnLimit, OnMessage, ToolMode};
use crate::ids::{NodeId, ToolName};
use crate::json::Json;
use crate::schema::schema_of;
use schemars::JsonSchema;

/// Builds the same workflow values that a file gives, with the same defaults. [`AgentBuilder::add_node`] takes a node of
/// every kind: an id and its configuration, such as [`LoopNode`](super::LoopNode) or
/// [`ParallelNode`](super::ParallelNode).
///
/// ```
/// use rethread_events::workflow::{AgentBuilder, LlmNode};
///
/// let ask = |prompt: &str| LlmNode {
///     provider: Some("mock".into()),
///     model: Some("scripted".into()),
///     user_prompt: prompt.into(),
///     ..LlmNode::default()
/// };
/// let workflow = AgentBuilder::new("review")
///     .set_description("answers, then checks the answer")
///     .add_llm_node("chat", "answers", ask("{{ input }}"), &["read_file"], "You are helpful.")
///     .add_llm_node("check", "checks", ask("Check: {{ output }}"), &[], "You are strict.")
///     .add_edge("chat", "check")
///     .set_entry_point("chat")
///     .set_end_points(&["check"])
///     .build()?;
/// assert_eq!(workflow.max_iterations(), 50);
/// # Ok::<(), rethread_events::workflow::Faults>(())
/// ```
#[derive(Debug, Clone)]
pub struct AgentBuilder {
    spec: WorkflowSpec,
}

impl AgentBuilder {
    /// A workflow with this name. As in a file, each node leads to the next one if no edge is added.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            spec: WorkflowSpec {
                schema: None,
                version: FORMAT_VERSION.into(),
                name: name.into(),
                description: None,
                workflow_version: None,
                max_iterations: None,
                timeout_ms: None,
                input_schema: None,
                output_schema: None,
                variables: OrderedMap::default(),
                search: Vec::new(),
                entry: None,
                end_points: Vec::new(),
                nodes: Vec::new(),
                edges: None,
                judge: None,
                queue: None,
                summary: None,
                budget: None,
                thread: None,
                on_limit: OnLimit::Fail,
                on_message: OnMessage::Queue,
                on_failed: None,
                on_cancel: None,
                finally: None,
                hook_timeout_ms: None,
                workspace_in_prompt: true,
                workflows: indexmap::IndexMap::new(),
            },
        }
    }

    /// What it is for.
    #[must_use]
    pub fn set_description(mut self, text: impl Into<String>) -> Self {
        self.spec.description = Some(text.into());
        self
    }

    /// The author's own version of it.
    #[must_use]
    pub fn set_workflow_version(mut self, version: impl Into<String>) -> Self {
        self.spec.workflow_version = Some(version.into());
        self
    }

    /// How many nodes a thread may enter; 50, or as many as there are, unless set. Must be set if the graph has a cycle.
    #[must_use]
    pub fn set_max_iterations(mut self, n: u32) -> Self {
        self.spec.max_iterations = Some(n);
        self
    }

    /// How long a thread may take in all, in milliseconds, waiting for people included; without limit unless set.
    #[must_use]
    pub fn set_timeout(mut self, ms: u64) -> Self {
        self.spec.timeout_ms = Some(ms);
        self
    }

    /// What a thread may spend on models, its branches included.
    #[must_use]
    pub fn set_budget(mut self, budget: Budget) -> Self {
        self.spec.budget = Some(budget);
        self
    }

    /// What the runs of a thread may take together.
    #[must_use]
    pub fn set_thread_limits(mut self, limits: ThreadLimits) -> Self {
        self.spec.thread = Some(limits);
        self
    }

    /// What happens when a model node has made all its calls, or the thread has entered all the nodes it may; it fails
    /// unless set.
    #[must_use]
    pub fn set_on_limit(mut self, on_limit: OnLimit) -> Self {
        self.spec.on_limit = on_limit;
        self
    }

    /// When its runs begin; at once unless set.
    #[must_use]
    pub fn set_queue(mut self, queue: Queue) -> Self {
        self.spec.queue = Some(queue);
        self
    }

    /// When conversations are summarised, and by which model.
    #[must_use]
    pub fn set_summary(mut self, summary: Summary) -> Self {
        self.spec.summary = Some(summary);
        self
    }

    /// What the input of a thread must be, as JSON Schema; anything unless set.
    #[must_use]
    pub fn set_input_schema(mut self, schema: impl Into<Json>) -> Self {
        self.spec.input_schema = Some(schema.into());
        self
    }

    /// What the output of a thread must be, as JSON Schema; anything unless set.
    #[must_use]
    pub fn set_output_schema(mut self, schema: impl Into<Json>) -> Self {
        self.spec.output_schema = Some(schema.into());
        self
    }

    /// As [`AgentBuilder::set_input_schema`], with the schema of a Rust type.
    #[must_use]
    pub fn set_input_type<T: JsonSchema>(self) -> Self {
        self.set_input_schema(schema_of::<T>())
    }

    /// As [`AgentBuilder::set_output_schema`], with the schema of a Rust type.
    #[must_use]
    pub fn set_output_type<T: JsonSchema>(self) -> Self {
        self.set_output_schema(schema_of::<T>())
    }

    /// The variables by whose values the threads are found, in place of those named before.
    #[must_use]
    pub fn set_search(mut self, variables: &[&str]) -> Self {
        self.spec.search = variables.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// A variable that a thread begins with.
    #[must_use]
    pub fn set_variable(mut self, name: impl Into<String>, value: impl Into<Json>) -> Self {
        self.spec.variables.insert(name.into(), value.into());
        self
    }

    /// A node that asks a model, offered these tools, under these instructions (none when empty). What `llm` says
    /// about tools and instructions is replaced.
    #[must_use]
    pub fn add_llm_node(
        self,
        id: &str,
        description: &str,
        mut llm: LlmNode,
        tools: &[&str],
        system_prompt: &str,
    ) -> Self {
        llm.system_prompt = (!system_prompt.is_empty()).then(|| system_prompt.into());
        llm.tool_mode = if tools.is_empty() { ToolMode::None } else { ToolMode::Auto };
        llm.available_tools = (!tools.is_empty()).then(|| tools.iter().map(|&tool| ToolName::from(tool)).collect());
        self.add_node(Node { description: Some(description.into()), ..Node::from((id, llm)) })
    }

    /// A node that runs a tool.
    #[must_use]
    pub fn add_tool_node(self, id: &str, tool: ToolNode) -> Self {
        self.add_node((id, tool))
    }

    /// A node that asks a person.
    #[must_use]
    pub fn add_user_interaction_node(self, id: &str, ask: UserInteractionNode) -> Self {
        self.add_node((id, ask))
    }

    /// A node that marks the beginning.
    #[must_use]
    pub fn add_start_node(self, id: &str) -> Self {
        self.add_node(Node { start: Some(Marker {}), ..Node::new(id.into()) })
    }

    /// A node that marks an end.
    #[must_use]
    pub fn add_end_node(self, id: &str) -> Self {
        self.add_node(Node { end: Some(Marker {}), ..Node::new(id.into()) })
    }

    /// Any node: an id and the configuration of its kind, or a [`Node`] with its retry policy, timeout and the rest.
    #[must_use]
    pub fn add_node(mut self, node: impl Into<Node>) -> Self {
        self.spec.nodes.push(node.into());
        self
    }

    /// A way from one node to another: the default one.
    #[must_use]
    pub fn add_edge(self, from: &str, to: &str) -> Self {
        self.edge(from, to, None)
    }

    /// A way that is taken when the expression holds; conditions are tried in the order in which they were added.
    #[must_use]
    pub fn add_conditional_edge(self, from: &str, to: &str, when: impl Into<String>) -> Self {
        self.edge(from, to, Some(when.into()))
    }

    /// A way that is taken when a model says that this condition, in natural language, holds. Needs
    /// [`AgentBuilder::set_judge`].
    #[must_use]
    pub fn add_judged_edge(mut self, from: &str, to: &str, condition: impl Into<String>) -> Self {
        let edge = Edge { judge: Some(condition.into()), ..Edge::default_way(from, to) };
        self.spec.edges.get_or_insert_default().push(edge);
        self
    }

    /// The model that judges conditions in natural language.
    #[must_use]
    pub fn set_judge(mut self, judge: Judge) -> Self {
        self.spec.judge = Some(judge);
        self
    }

    /// A workflow that `sub_workflow` nodes run by this name.
    #[must_use]
    pub fn add_workflow(mut self, name: impl Into<String>, workflow: SubWorkflow) -> Self {
        self.spec.workflows.insert(name.into(), workflow);
        self
    }

    /// Whether models that are offered tools are told in which folder these work; they are unless told otherwise.
    #[must_use]
    pub fn set_workspace_in_prompt(mut self, is_told: bool) -> Self {
        self.spec.workspace_in_prompt = is_told;
        self
    }

    fn edge(mut self, from: &str, to: &str, when: Option<String>) -> Self {
        let edge = Edge { when, ..Edge::default_way(from, to) };
        self.spec.edges.get_or_insert_default().push(edge);
        self
    }

    /// The first node.
    #[must_use]
    pub fn set_entry_point(mut self, id: &str) -> Self {
        self.spec.entry = Some(id.into());
        self
    }

    /// The nodes a thread may end on.
    #[must_use]
    pub fn set_end_points(mut self, ids: &[&str]) -> Self {
        self.spec.end_points = ids.iter().map(|&id| NodeId::from(id)).collect();
        self
    }

    /// The node that a run goes on at when it fails, before it ends.
    #[must_use]
    pub fn set_on_failed(mut self, id: &str) -> Self {
        self.spec.on_failed = Some(id.into());
        self
    }

    /// The node that a run goes on at when it is cancelled, before it ends.
    #[must_use]
    pub fn set_on_cancel(mut self, id: &str) -> Self {
        self.spec.on_cancel = Some(id.into());
        self
    }

    /// The node that a run goes on at before it ends in any way, after the other hooks.
    #[must_use]
    pub fn set_finally(mut self, id: &str) -> Self {
        self.spec.finally = Some(id.into());
        self
    }

    /// How long each hook may take, in milliseconds; 10 minutes unless set.
    #[must_use]
    pub fn set_hook_timeout(mut self, ms: u64) -> Self {
        self.spec.hook_timeout_ms = Some(ms);
        self
    }

    /// The workflow, or everything that is wrong with it.
    pub fn build(self) -> Result<Workflow, Faults> {
        self.spec.build()
    }
}
