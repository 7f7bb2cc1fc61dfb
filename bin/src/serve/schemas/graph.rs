//! The picture of a workflow.

use serde::Deserialize;
use utoipa::ToSchema;

/// What is drawn of a workflow, and how a thread went through it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Graph {
    thread_id: String,
    /// The moment that is shown.
    seq: u64,
    workflow: String,
    workflow_hash: String,
    status: String,
    /// The workflow's own graph first, then its sub-workflows.
    parts: Vec<GraphPart>,
    /// Arrows from one part into another.
    arrows: Vec<GraphArrow>,
    /// The nodes that were entered, the last at the end; of a long path, the last.
    path: Vec<Visit>,
    /// How many visits came before those.
    path_dropped: u64,
}

/// A graph of the workflow.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphPart {
    /// The name of the sub-workflow; null for the workflow itself.
    name: Option<String>,
    nodes: Vec<GraphNode>,
    arrows: Vec<GraphArrow>,
}

/// A node of the picture.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphNode {
    /// Unique in the picture.
    number: usize,
    /// The node's id in the workflow; null for the mark of where a graph begins.
    id: Option<String>,
    /// `entry`, `llm`, `tool`, `person`, `processor`, `route`, `fork`, `join`, `loop_start`, `loop_end`,
    /// `sub_workflow`, `start` or `end`.
    kind: String,
    /// Its id, and what is said of it.
    lines: Vec<String>,
    /// Whether the workflow ends there.
    is_end: bool,
    /// How often it was entered, by the thread on the path that is shown and by its branches.
    visits: u64,
    /// Whether the thread, or a branch of it, is in it.
    is_current: bool,
    /// What came of it the last time that it was entered: `open`, `completed`, `failed` or `cancelled`; null where it was
    /// not entered.
    outcome: Option<String>,
}

/// An edge of the picture.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphArrow {
    from: usize,
    to: usize,
    /// `on`, `on_error`, `again` or `into`.
    kind: String,
    label: Option<String>,
    /// How often the path goes along it.
    taken: u64,
}

/// A node that was entered.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Visit {
    seq: u64,
    node: String,
    attempt: u32,
}
