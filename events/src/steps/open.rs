//! What of a thread is open while its events are folded.

use std::collections::BTreeMap;

use super::spent::SpentOn;
use crate::event::{Branches, Hook, OperationType};
use crate::ids::{CallId, ThreadId};
use crate::json::Json;
use crate::thread::Totals;

/// What is open.
#[derive(Debug, Clone, Default)]
pub(super) struct Opened {
    /// The nodes that have not ended, innermost last.
    pub(super) nodes: Vec<OpenNode>,
    /// The node that ended last: conditions and the edge that is taken belong to it.
    pub(super) left: Option<u64>,
    pub(super) next_number: u64,
    pub(super) calls: BTreeMap<CallId, OpenCall>,
    counts: Counts,
    pub(super) is_paused: bool,
    pub(super) is_queued: bool,
    /// The hook that runs.
    pub(super) hook: Option<Hook>,
    pub(super) held_bytes: usize,
    /// Branches that have ended and whose sums are not final, by their threads.
    pub(super) uncounted: BTreeMap<ThreadId, Uncounted>,
}

/// A branch that has ended and whose sums are not final.
#[derive(Debug, Clone)]
pub(super) struct Uncounted {
    /// The node that it belongs to.
    pub(super) number: u64,
    pub(super) call: CallId,
    /// What is counted of its sums.
    pub(super) counted: Totals,
}

/// How many calls of each kind are open.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    model: u64,
    tool: u64,
    processor: u64,
    branches: u64,
    people: u64,
    timer: u64,
}

/// A node that has not ended.
#[derive(Debug, Clone)]
pub(super) struct OpenNode {
    pub(super) number: u64,
    pub(super) frame: Option<FrameKind>,
    /// A try failed, and the next has not begun.
    pub(super) is_retrying: bool,
    /// The model that its calls go to, as far as the request says so.
    pub(super) model: Option<String>,
    pub(super) fan: Option<OpenFan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    Loop { iteration: Option<u64> },
    Sub,
}

/// The branches of a fork.
#[derive(Debug, Clone)]
pub(super) struct OpenFan {
    names: Option<Vec<String>>,
    n: usize,
    calls: BTreeMap<u32, CallId>,
    outputs: BTreeMap<u32, Json>,
    output_bytes: usize,
    is_too_large: bool,
}

/// A call that has not ended.
#[derive(Debug, Clone)]
pub(super) struct OpenCall {
    pub(super) number: u64,
    pub(super) what: Option<SpentOn>,
    /// What is done with the answer, of a question.
    pub(super) operation: Option<OperationType>,
    /// The index of an agent that a model called.
    pub(super) agent: Option<u32>,
}

impl Opened {
    /// What the time is spent on now.
    pub(super) fn spends_on(&self) -> SpentOn {
        let Counts { model, tool, processor, branches, people, timer } = self.counts;
        if self.is_paused {
            SpentOn::Paused
        } else if self.is_queued {
            SpentOn::Queued
        } else if model > 0 {
            SpentOn::Model
        } else if tool > 0 {
            SpentOn::Tool
        } else if processor > 0 {
            SpentOn::Processor
        } else if branches > 0 {
            SpentOn::Branches
        } else if people > 0 {
            SpentOn::People
        } else if timer > 0 {
            SpentOn::Timer
        } else if self.nodes.last().is_some_and(|node| node.is_retrying) {
            SpentOn::Retry
        } else {
            SpentOn::Itself
        }
    }

    /// The agent with this index that runs.
    pub(super) fn agent(&self, index: u32) -> Option<CallId> {
        self.calls.iter().find(|(_, open)| open.agent == Some(index)).map(|(id, _)| *id)
    }

    pub(super) fn open_call(&mut self, id: CallId, call: OpenCall) {
        self.count(call.what, 1);
        self.calls.insert(id, call);
    }

    pub(super) fn close_call(&mut self, id: CallId) -> Option<OpenCall> {
        let call = self.calls.remove(&id)?;
        self.count(call.what, -1);
        Some(call)
    }

    /// A person answers for the model: the time is that of the question.
    pub(super) fn relay_call(&mut self, id: CallId, relayed: bool) {
        let what = (!relayed).then_some(SpentOn::Model);
        if let Some(call) = self.calls.get_mut(&id) {
            let before = std::mem::replace(&mut call.what, what);
            self.count(before, -1);
            self.count(what, 1);
        }
    }

    pub(super) fn close_all_calls(&mut self) {
        self.calls.clear();
        self.counts = Counts::default();
    }

    fn count(&mut self, what: Option<SpentOn>, by: i64) {
        let Counts { model, tool, processor, branches, people, timer } = &mut self.counts;
        let n = match what {
            Some(SpentOn::Model) => model,
            Some(SpentOn::Tool) => tool,
            Some(SpentOn::Processor) => processor,
            Some(SpentOn::Branches) => branches,
            Some(SpentOn::People) => people,
            Some(SpentOn::Timer) => timer,
            Some(SpentOn::Queued | SpentOn::Paused | SpentOn::Retry | SpentOn::Down | SpentOn::Itself) | None => return,
        };
        *n = n.saturating_add_signed(by);
    }
}

impl OpenFan {
    pub(super) fn new(branches: &Branches) -> Self {
        let names = match branches {
            Branches::Named(branches) => Some(branches.iter().map(|branch| branch.name.clone()).collect()),
            Branches::Each { .. } => None,
        };
        Self {
            names,
            n: branches.len(),
            calls: BTreeMap::new(),
            outputs: BTreeMap::new(),
            output_bytes: 0,
            is_too_large: false,
        }
    }

    pub(super) fn name(&self, index: u32) -> String {
        match &self.names {
            Some(names) => names.get(index as usize).cloned().unwrap_or_default(),
            None => index.to_string(),
        }
    }

    pub(super) fn begin(&mut self, index: u32, call: CallId) {
        self.calls.insert(index, call);
    }

    pub(super) fn call(&self, index: u32) -> Option<CallId> {
        self.calls.get(&index).copied()
    }

    /// A branch ended. Its output is held while all of them together are small.
    pub(super) fn end(&mut self, index: u32, output: Option<&Json>, bytes_max: usize) -> Option<CallId> {
        if let Some(output) = output {
            self.output_bytes += super::limits::size(&output.0, bytes_max);
            if self.output_bytes > bytes_max {
                self.is_too_large = true;
                self.outputs.clear();
            } else if !self.is_too_large {
                self.outputs.insert(index, output.clone());
            }
        }
        self.calls.remove(&index)
    }

    /// What the branches gave, as the thread gets it; `None` when it is too large.
    pub(super) fn output(&self) -> Option<Json> {
        if self.is_too_large || self.n.saturating_mul(16) > super::limits::OUTPUT_BYTES_MAX {
            return None;
        }
        let of = |index: usize| {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            self.outputs.get(&index).cloned().unwrap_or_default().into_value()
        };
        let all = match &self.names {
            Some(names) => names.iter().enumerate().map(|(i, name)| (name.clone(), of(i))).collect(),
            None => serde_json::Value::Array((0..self.n).map(of).collect()),
        };
        Some(all.into())
    }
}
