//! The picture of a workflow.

use rethread::steps::StepOutcome;
use rethread::{Hash, NodeId, Seq, Status, ThreadId};
use serde::Serialize;
use utoipa::ToSchema;

/// The drawing of a workflow, and the path of a thread through it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Graph {
    #[schema(value_type = String)]
    pub(crate) thread_id: ThreadId,
    /// The moment that is shown.
    #[schema(value_type = u64)]
    pub(crate) seq: Seq,
    pub(crate) workflow: String,
    #[schema(value_type = String)]
    pub(crate) workflow_hash: Hash,
    #[schema(value_type = String)]
    pub(crate) status: Status,
    /// The workflow's own graph first, then its sub-workflows.
    pub(crate) parts: Vec<GraphPart>,
    /// Arrows from one part into another.
    pub(crate) arrows: Vec<GraphArrow>,
    /// The nodes that were entered, the last at the end; of a long path, the last.
    pub(crate) path: Vec<Visit>,
    /// How many visits came before those.
    pub(crate) path_dropped: u64,
}

/// A graph of the workflow.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphPart {
    /// The name of the sub-workflow; null for the workflow itself.
    pub(crate) name: Option<String>,
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) arrows: Vec<GraphArrow>,
}

/// A node of the picture.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphNode {
    /// Unique in the picture.
    pub(crate) number: usize,
    /// The node's id in the workflow; null for the mark of where a graph begins.
    #[schema(value_type = Option<String>)]
    pub(crate) id: Option<NodeId>,
    /// `entry`, `llm`, `tool`, `person`, `processor`, `route`, `fork`, `join`, `loop_start`, `loop_end`,
    /// `sub_workflow`, `start` or `end`.
    pub(crate) kind: &'static str,
    /// Its id, and what is said of it.
    pub(crate) lines: Vec<String>,
    /// Whether the workflow ends there.
    pub(crate) is_end: bool,
    /// How often it was entered, by the thread on the path that is shown and by its branches.
    pub(crate) visits: u64,
    /// Whether the thread, or a branch of it, is in it.
    pub(crate) is_current: bool,
    /// The result of the last time that it was entered: `open`, `completed`, `failed` or `cancelled`; null if it was
    /// not entered.
    #[schema(value_type = Option<String>)]
    pub(crate) outcome: Option<StepOutcome>,
}

/// An edge of the picture.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphArrow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// `on`, `on_error`, `again` or `into`.
    pub(crate) kind: &'static str,
    pub(crate) label: Option<String>,
    /// How often the path goes along it.
    pub(crate) taken: u64,
}

/// A node that was entered.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Visit {
    #[schema(value_type = u64)]
    pub(crate) seq: Seq,
    #[schema(value_type = String)]
    pub(crate) node: NodeId,
    pub(crate) attempt: u32,
}
