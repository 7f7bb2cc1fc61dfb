//! The runs of a thread.

use rethread::errors::ReadError;
use rethread::runs::{RunId, RunSummary};
use rethread::{Seq, ThreadHandle};
use serde::Serialize;
use serde_json::Value;

/// A run of a thread.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    pub(crate) run_id: RunId,
    /// Its number in the thread, from 1.
    pub(crate) number: u64,
    /// How it ended, or how far the thread is.
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) status: rethread::Status,
    /// The event with which it began.
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    pub(crate) started: Seq,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) started_at: rethread::Time,
    /// The event with which it ended.
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    pub(crate) ended: Option<Seq>,
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    ended_at: Option<rethread::Time>,
    pub(crate) input: Value,
    /// Why it failed.
    #[cfg_attr(feature = "server", schema(value_type = Option<Object>))]
    error: Option<rethread::ExecutionError>,
    workflow: String,
    workflow_hash: String,
}

/// A run that waits for the end of those before it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct QueuedRun {
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    pub(crate) run_id: RunId,
    pub(crate) input: Value,
}

/// A page of the runs of a thread.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Runs {
    /// The runs that have begun, the last one first.
    pub(crate) runs: Vec<Run>,
    /// The runs that wait, in the order in which they begin.
    pub(crate) queued: Vec<QueuedRun>,
    /// The `cursor` of the next page; null on the last.
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    pub(crate) next: Option<RunId>,
}

impl Run {
    fn of(run: RunSummary) -> Self {
        let RunSummary {
            run_id,
            number,
            started,
            started_at,
            ended,
            ended_at,
            last: _,
            status,
            error,
            input,
            workflow,
        } = run;
        let (workflow, workflow_hash) = (workflow.name, workflow.hash.to_string());
        let input = input.into_value();
        Self { run_id, number, status, started, started_at, ended, ended_at, input, error, workflow, workflow_hash }
    }
}

impl Runs {
    /// At most `limit` runs, from the one before `before` on.
    pub(crate) async fn of(thread: &ThreadHandle, before: Option<RunId>, limit: usize) -> Result<Self, ReadError> {
        let runs: Vec<_> = thread.runs(before, limit).await?.into_iter().map(Run::of).collect();
        let next = runs.last().filter(|last| last.number > 1).map(|last| last.run_id);
        let state = thread.state().await?;
        let waits = state.queued_runs().iter();
        let queued = waits.map(|run| QueuedRun { run_id: run.id, input: run.input.clone().into_value() }).collect();
        Ok(Self { runs, queued, next })
    }
}
