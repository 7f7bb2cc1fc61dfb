//! The results of a thread, node by node: one for each node it entered, with the calls inside it and their durations. A
//! fold over the events, independent of the one that computes the state.
//!
//! A fork has what it inherits as its own, and what it did after that. A branch begins with nothing: what its owner did
//! before is in the owner's results.
//!
//! The fold of the events of one run alone, from its RUN_STARTED on, has the results of that run.
//!
//! ```
//! use rethread_events::steps::Steps;
//! # let events: Vec<(rethread_events::ids::Seq, rethread_events::ids::Time, rethread_events::event::Event)> = vec![];
//! let mut steps = Steps::default();
//! for (seq, recorded_at, event) in &events {
//!     steps.apply(*seq, *recorded_at, event);
//! }
//! for result in steps.results() {
//!     println!("{}: {:?}, {:?} ms", result.node, result.outcome, result.execution_time_ms);
//! }
//! ```

mod call;
mod fold;
mod limits;
mod open;
mod outcome;
mod result;
mod spent;

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::event::WorkflowRef;
use crate::fault::ExecutionError;
use crate::ids::{Seq, ThreadId, Time};

pub use call::{Call, CallKind, FailedTry};
pub use limits::{CALLS_OF_NODE_MAX, HELD_BYTES_MAX, OUTPUT_BYTES_MAX, RESULTS_MAX, TEXT_CHARS_MAX, WAITS_MAX};
pub use outcome::StepOutcome;
pub use result::{NodeDoes, NodeMetadata, NodeResult, Route, Wait, WaitKind};
pub use spent::{Spent, SpentOn};

use open::Opened;
use result::values;

/// The results of the nodes of a thread. Costs the same for each event; holds the last [`RESULTS_MAX`] results, and not
/// more than about [`HELD_BYTES_MAX`].
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema), schema(description = "What a thread did, node by node."))]
pub struct Steps {
    /// The first event that is in it: 0, or the one with which a branch began, or the run if it is of one run.
    #[cfg_attr(feature = "utoipa", schema(value_type = u64))]
    pub first_seq: Seq,
    /// The last event that is in it.
    #[cfg_attr(feature = "utoipa", schema(value_type = u64))]
    pub last_seq: Seq,
    /// When the thread began; for a branch, or if it is of one run, when that did.
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    pub began: Option<Time>,
    /// When the last event happened.
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    pub last_at: Time,
    /// The moments at which it was forked off on the way here, the last one last: thread, and the last inherited seq.
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    pub forked_from: Vec<(ThreadId, Seq)>,
    /// The definitions that it was migrated to, each with its event, the last one last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    pub migrated: Vec<(Seq, WorkflowRef)>,
    /// How it ended: `completed`, `failed` or `cancelled`; `open` while it has not.
    #[cfg_attr(feature = "utoipa", schema(value_type = String))]
    pub outcome: StepOutcome,
    /// Why it did not reach an end.
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    pub error: Option<ExecutionError>,
    /// Where the time went, of the thread itself.
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    pub spent: Spent,
    /// When nothing of it went on, but for questions to people: those are calls.
    #[cfg_attr(feature = "utoipa", schema(ignore))]
    pub waits: VecDeque<Wait>,
    /// One for each node that was entered, in that order: its calls, its times, its usage, its result.
    #[serde(serialize_with = "values")]
    #[cfg_attr(feature = "utoipa", schema(value_type = Vec<Object>))]
    results: BTreeMap<u64, NodeResult>,
    /// The number of results before those that are kept.
    pub n_dropped: u64,
    #[serde(skip)]
    opened: Opened,
}

impl Steps {
    /// The results, in the order in which the nodes were entered.
    pub fn results(&self) -> impl DoubleEndedIterator<Item = &NodeResult> {
        self.results.values()
    }

    /// Returns the result with this number, if it is kept.
    pub fn result(&self, number: u64) -> Option<&NodeResult> {
        self.results.get(&number)
    }

    /// The results inside of a loop or a sub-workflow; those outside of all for `None`.
    pub fn within(&self, number: Option<u64>) -> impl Iterator<Item = &NodeResult> {
        self.results().filter(move |result| result.within == number)
    }
}
