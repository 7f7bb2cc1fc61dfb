//! Threads in lists and families.

use rethread::operate::Labels;
use rethread::{CallId, Hash, NodeId, Position, Seq, Status, ThreadId, ThreadSummary, Time};
use rethread_events::thread::ThreadUsage;
use serde::Serialize;
use serde_json::Value;

/// A thread at a glance.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Thread {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) thread_id: ThreadId,
    /// `pending`, `running`, `waiting`, `suspended`, `queued`, `paused`, `completed`, `cancelled`, `error` or `interrupted`.
    #[cfg_attr(feature = "server", schema(value_type = String))]
    status: Status,
    /// The name of the workflow it began on.
    workflow: Option<String>,
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    workflow_hash: Option<Hash>,
    /// Its labels.
    #[cfg_attr(feature = "server", schema(value_type = std::collections::BTreeMap<String, String>))]
    labels: Labels,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    started_at: Time,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    last_at: Time,
    /// Its last event.
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    last_seq: Seq,
    /// The place of that event in the whole log.
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    last_position: Position,
    forked_from: Option<Moment>,
    branch_of: Option<BranchOf>,
    /// Whether the workflow or the branch is unknown because the log is damaged there, or a newer
    /// version of the program wrote it.
    damaged: bool,
    /// Where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<ThreadUsage>,
    /// The node it is in, where usage was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    pub(crate) node: Option<Option<NodeId>>,
    /// `on_failed`, `on_cancel` or `finally` while that hook runs, where usage was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hook: Option<&'static str>,
    /// The calls of the thread that wait for a concurrency permit now, where one thread was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) calls_waiting: Option<Vec<WaitingCall>>,
    /// Why the thread cannot be read, where usage was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<Object>))]
    pub(crate) problem: Option<Value>,
    /// The name of the branch at its parent, in a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    pub(crate) branch: Option<Option<String>>,
    /// Its forks and branches, in a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(no_recursion))]
    pub(crate) children: Option<Vec<Self>>,
}

/// A moment of a thread.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Moment {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    thread_id: ThreadId,
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    seq: Seq,
}

/// The thread whose branch a thread is.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchOf {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    thread_id: ThreadId,
    /// Its number there, from 0.
    index: u32,
}

/// A call that waits for a concurrency permit.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitingCall {
    /// The seq of its request.
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    pub(crate) call: CallId,
    /// `model` or `tool`.
    pub(crate) kind: &'static str,
    pub(crate) waiting_ms: u64,
}

/// A thread of a family at a moment.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) thread_id: ThreadId,
    /// The thread whose branch it is; null for the first.
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    pub(crate) owner: Option<ThreadId>,
    /// What the branch is called at its owner.
    pub(crate) name: Option<String>,
    /// Its last event at that moment; null for a branch that had not begun.
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    pub(crate) seq: Option<Seq>,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) status: Status,
    /// The node it was in.
    pub(crate) node: Option<String>,
}

impl From<&ThreadSummary> for Thread {
    fn from(summary: &ThreadSummary) -> Self {
        Self {
            thread_id: summary.thread_id,
            status: summary.status,
            workflow: summary.workflow.as_ref().map(|workflow| workflow.name.clone()),
            workflow_hash: summary.workflow.as_ref().map(|workflow| workflow.hash),
            labels: summary.labels.clone(),
            started_at: summary.started_at,
            last_at: summary.last_at,
            last_seq: summary.last_seq,
            last_position: summary.last_position,
            forked_from: summary.forked_from.map(|(thread_id, seq)| Moment { thread_id, seq }),
            branch_of: summary.branch_of.map(|(thread_id, index)| BranchOf { thread_id, index }),
            damaged: summary.is_damaged,
            usage: None,
            node: None,
            hook: None,
            calls_waiting: None,
            problem: None,
            branch: None,
            children: None,
        }
    }
}
