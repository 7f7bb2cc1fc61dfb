//! What happened in a thread, where time and money went, and why it failed.

use rethread::runs::RunId;
use rethread::steps::CallKind;
use rethread::steps::Steps;
use rethread::{CallId, ExecutionError, NodeId, Seq, Status, ThreadId};
use rethread_events::message::Usage;
use rethread_events::thread::ThreadUsage;
use serde::Serialize;

use crate::explain::Cause;

/// What happened in a thread, where its time and money went, and why it failed.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Explanation {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) thread_id: ThreadId,
    /// The run, if only that is explained.
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    pub(crate) run_id: Option<RunId>,
    /// How far the thread is, or the run.
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) status: Status,
    pub(crate) workflow: Option<String>,
    /// The last event that is explained.
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    pub(crate) seq: Option<Seq>,
    #[cfg_attr(feature = "server", schema(value_type = Option<Object>))]
    pub(crate) error: Option<ExecutionError>,
    pub(crate) usage: ThreadUsage,
    pub(crate) steps: Steps,
    /// Its branches, and their branches.
    pub(crate) branches: Vec<BranchSteps>,
    /// The number of branches that were not read.
    pub(crate) branches_left_out: usize,
    /// The calls that took longest.
    pub(crate) longest: Vec<Top>,
    /// The calls that cost most.
    pub(crate) dearest: Vec<Top>,
    /// Why it failed: the end of the thread first, then its causes. Empty if it did not fail.
    pub(crate) causes: Vec<Cause>,
}

/// The steps of a branch.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchSteps {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) thread_id: ThreadId,
    pub(crate) steps: Steps,
}

/// A call that took much time or money.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Top {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) thread_id: ThreadId,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) node: NodeId,
    /// Its id: the seq of its request.
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    pub(crate) call: CallId,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) kind: CallKind,
    /// The tool, or the model.
    pub(crate) name: Option<String>,
    pub(crate) took_ms: u64,
    pub(crate) cost_nanousd: Option<u64>,
    #[cfg_attr(feature = "server", schema(value_type = Option<Object>))]
    pub(crate) usage: Usage,
}
