//! What happened in a thread, and what happens when it is run again.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::event::BareEvent;
use super::thread::Usage;
use crate::views::Thread;

/// What a thread did, node by node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Runs {
    first_seq: u64,
    last_seq: u64,
    /// `open`, `completed`, `failed` or `cancelled`.
    outcome: String,
    /// One for each node that was entered, in that order: its calls, its times, what it used, what came of it.
    #[schema(value_type = Vec<Object>)]
    results: Vec<Value>,
    /// How many results were there before those that are held.
    n_dropped: u64,
}

/// The first event that is another.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Diverged {
    thread_id: String,
    seq: u64,
    /// What was recorded.
    expected: BareEvent,
    /// What it does now; null when it waits, or has ended.
    got: Option<BareEvent>,
    /// The difference, in a sentence.
    why: String,
}

/// A thread that was run again.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RanAgain {
    thread_id: String,
    /// How many events were reproduced.
    events: u64,
    /// How many of them were decided again, and not taken as they were recorded.
    decided: u64,
    diverged: Option<Diverged>,
}

/// What came of a thread that was run again.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RerunReport {
    /// Whether every event was reproduced.
    same: bool,
    /// The first place where a thread parts from its log.
    diverged: Option<Diverged>,
    /// The thread, then its branches.
    threads: Vec<RanAgain>,
    /// The new thread that goes on with real calls, where one was begun.
    thread: Option<Thread>,
}

/// What a branch did.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchRuns {
    thread_id: String,
    runs: Runs,
}

/// A call that time or money went to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Top {
    thread_id: String,
    node: String,
    /// Its id: the seq of its request.
    call: u64,
    kind: String,
    /// The tool, or the model.
    name: Option<String>,
    took_ms: u64,
    cost_nanousd: Option<u64>,
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
}

/// A step on the way to a failure.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cause {
    thread_id: String,
    seq: Option<u64>,
    /// What failed, in words.
    what: String,
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    #[schema(value_type = Vec<Object>)]
    failed_tries: Vec<Value>,
}

/// What happened in a thread, where its time and money went, and why it failed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explanation {
    thread_id: String,
    status: String,
    workflow: Option<String>,
    /// The last event that is explained.
    seq: Option<u64>,
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    usage: Usage,
    runs: Runs,
    /// Its branches, and theirs.
    branches: Vec<BranchRuns>,
    /// How many branches were not read.
    branches_left_out: usize,
    /// The calls that took longest.
    longest: Vec<Top>,
    /// The calls that cost most.
    dearest: Vec<Top>,
    /// Why it failed: the end of the thread first, then what led to it. Empty when it did not fail.
    causes: Vec<Cause>,
}
