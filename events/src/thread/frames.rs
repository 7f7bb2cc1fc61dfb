//! Loops and sub-workflows that are open, and the scopes of variables they bring.

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::conversation::Conversation;
use super::state::{NodeRun, State};
use crate::codec::OrderedMap;
use crate::event::{Event, LoopEnded, NodeFailed, Scope, SubWorkflowFailed, ThreadFailed};
use crate::fault::ExecutionError;
use crate::ids::NodeId;
use crate::json::Json;
use crate::workflow::Workflow;

/// How deep sub-workflows may run inside each other.
pub const SUB_WORKFLOWS_DEPTH_MAX: usize = 16;

/// A loop or a sub-workflow that is open.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Frame {
    /// A loop.
    Loop(LoopFrame),
    /// A sub-workflow.
    Sub(SubFrame),
}

/// A loop that is open.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct LoopFrame {
    /// The node it begins at.
    pub node: NodeId,
    /// The node at which an iteration ends.
    pub end: NodeId,
    /// The list, in a loop over one; evaluated once, when the loop began.
    pub items: Option<Arc<Vec<Json>>>,
    /// The variable that holds the element.
    pub variable: String,
    /// The most iterations.
    pub n_iterations_max: u64,
    /// Iterations begun.
    pub n_begun: u64,
    /// Whether an iteration runs; otherwise the next one is to be decided on.
    pub is_inside: bool,
    /// Nodes entered in this iteration.
    pub n_entered: u32,
    /// The variable that is to hold the results.
    pub into: Option<String>,
    /// What `output` was at the end of each iteration, where that is wanted.
    pub results: Vec<Json>,
    /// The bytes of the results as JSON.
    pub n_result_bytes: u64,
    /// The variables of this iteration.
    pub variables: Arc<OrderedMap<Json>>,
}

/// A sub-workflow that runs.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct SubFrame {
    /// The node that runs it; goes on when the sub-workflow has ended.
    pub run: Box<NodeRun>,
    /// Its name in the definition.
    pub workflow: String,
    /// How many nodes it may enter outside of its loops.
    pub max_iterations: u32,
    /// How many it has entered.
    pub n_entered: u32,
    /// The conversation of its caller, where it has one of its own.
    pub aside: Option<Arc<Conversation>>,
    /// Its variables.
    pub variables: Arc<OrderedMap<Json>>,
}

impl Frame {
    /// The node that opened it.
    pub fn node(&self) -> &NodeId {
        match self {
            Self::Loop(open) => &open.node,
            Self::Sub(open) => &open.run.node,
        }
    }

    /// The variables of its scope.
    pub fn variables(&self) -> &Arc<OrderedMap<Json>> {
        match self {
            Self::Loop(open) => &open.variables,
            Self::Sub(open) => &open.variables,
        }
    }
}

/// Variables of scope `global`: one set for a whole family of threads.
#[derive(Debug, Clone, PartialEq, Default, Encode, Decode)]
pub(super) struct Globals {
    pub(super) values: Arc<OrderedMap<Json>>,
    /// The names that this thread set since it began, or since it was forked off as a branch.
    pub(super) written: std::collections::BTreeSet<String>,
}

impl State {
    /// The loops and sub-workflows that are open, innermost last.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Those that this thread opened itself. A branch inherits the others from its owner, who alone ends them.
    pub(super) fn own_frames(&self) -> &[Frame] {
        let n_inherited = self.branch.as_ref().map_or(0, |branch| branch.n_frames);
        let n_inherited = usize::try_from(n_inherited).unwrap_or(usize::MAX);
        self.frames.get(n_inherited..).unwrap_or_default()
    }

    /// The sub-workflow that runs, if one does.
    pub(super) fn sub_frame(&self) -> Option<&SubFrame> {
        self.frames.iter().rev().find_map(|frame| match frame {
            Frame::Sub(open) => Some(open),
            Frame::Loop(_) => None,
        })
    }

    /// The innermost frame, when it is a loop.
    pub(super) fn loop_frame(&self) -> Option<&LoopFrame> {
        match self.frames.last() {
            Some(Frame::Loop(open)) => Some(open),
            Some(Frame::Sub(_)) | None => None,
        }
    }

    /// How many nodes were entered against the limit that holds here, and that limit: an iteration of a loop may enter
    /// as many nodes as the workflow or sub-workflow around it.
    pub(super) fn entered_of(&self) -> (u32, u32) {
        let around = match (self.sub_frame(), &self.run) {
            (Some(open), _) => open.max_iterations,
            (None, Some(run)) => run.max_iterations,
            (None, None) => 0,
        };
        match self.frames.last() {
            Some(Frame::Loop(open)) => (open.n_entered, around),
            Some(Frame::Sub(open)) => (open.n_entered, around),
            None => (self.n_entered, around),
        }
    }

    /// A node was entered.
    pub(super) fn count_entered(&mut self) {
        let n_entered = match self.frames.last_mut() {
            Some(Frame::Loop(open)) => &mut open.n_entered,
            Some(Frame::Sub(open)) => &mut open.n_entered,
            None => &mut self.n_entered,
        };
        *n_entered = n_entered.saturating_add(1);
        self.totals.n_iterations = self.totals.n_iterations.saturating_add(1);
    }

    /// A branch begins: what it may enter is its own.
    pub(super) fn begin_to_count(&mut self) {
        match self.frames.last_mut() {
            Some(Frame::Loop(open)) => open.n_entered = 0,
            Some(Frame::Sub(open)) => open.n_entered = 0,
            None => self.n_entered = 0,
        }
    }

    /// The scopes that can be seen from here, innermost first: the loops up to the sub-workflow they run in, that
    /// sub-workflow, the thread, the family.
    pub(super) fn scopes(&self) -> Vec<Arc<OrderedMap<Json>>> {
        let mut scopes = Vec::with_capacity(3);
        for frame in self.frames.iter().rev() {
            scopes.push(frame.variables().clone());
            if matches!(frame, Frame::Sub(_)) {
                break;
            }
        }
        scopes.push(self.variables.clone());
        scopes.push(self.globals.values.clone());
        scopes
    }

    /// The variables of scope `global` as this thread knows them.
    pub fn globals(&self) -> &OrderedMap<Json> {
        &self.globals.values
    }

    /// What this thread set of scope `global` since it began, or since it was forked off as a branch.
    pub fn globals_written(&self) -> OrderedMap<Json> {
        let written = self.globals.values.iter().filter(|(name, _)| self.globals.written.contains(*name));
        written.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Sets a variable of scope `global`.
    pub(super) fn set_global(&mut self, name: &str, value: Json) {
        Arc::make_mut(&mut self.globals.values).insert(name.to_owned(), value);
        self.globals.written.insert(name.to_owned());
    }

    /// Variables of scope `global` as others have set them.
    pub(super) fn learn_globals(&mut self, globals: &OrderedMap<Json>) {
        for (name, value) in globals.iter() {
            Arc::make_mut(&mut self.globals.values).insert(name.clone(), value.clone());
        }
    }

    /// Sets a variable of scope `thread`.
    pub(super) fn set(&mut self, name: &str, value: Json) {
        Arc::make_mut(&mut self.variables).insert(name.to_owned(), value);
    }

    /// Sets a variable where nodes leave theirs: in the sub-workflow that runs, or in the thread.
    pub(super) fn set_here(&mut self, name: &str, value: Json) {
        let sub = self.frames.iter_mut().rev().find_map(|frame| match frame {
            Frame::Sub(open) => Some(&mut open.variables),
            Frame::Loop(_) => None,
        });
        Arc::make_mut(sub.unwrap_or(&mut self.variables)).insert(name.to_owned(), value);
    }

    /// Sets a variable where it hides all others of its name.
    pub(super) fn set_innermost(&mut self, name: &str, value: Json) {
        let variables = match self.frames.last_mut() {
            Some(Frame::Loop(open)) => &mut open.variables,
            Some(Frame::Sub(open)) => &mut open.variables,
            None => &mut self.variables,
        };
        Arc::make_mut(variables).insert(name.to_owned(), value);
    }

    /// Whether there is such a scope here.
    pub(super) fn has_scope(&self, scope: Scope) -> bool {
        match scope {
            Scope::Global | Scope::Thread => true,
            Scope::Subgraph => self.sub_frame().is_some(),
            Scope::Loop => self.loop_frame().is_some(),
        }
    }

    /// Sets a variable of that scope; false when there is no such scope here.
    pub(super) fn set_in(&mut self, scope: Scope, name: &str, value: Json) -> bool {
        if !self.has_scope(scope) {
            return false;
        }
        match scope {
            Scope::Global => self.set_global(name, value),
            Scope::Thread => self.set(name, value),
            Scope::Subgraph => self.set_here(name, value),
            Scope::Loop => {
                if let Some(Frame::Loop(open)) = self.frames.last_mut() {
                    Arc::make_mut(&mut open.variables).insert(name.to_owned(), value);
                }
            }
        }
        true
    }

    /// The variable `output` of the sub-workflow that runs, or of the thread.
    pub(super) fn output_here(&self) -> Option<&Json> {
        self.sub_frame().map_or(&self.variables, |open| &open.variables).get("output")
    }

    /// The graph that runs: the one of the innermost sub-workflow, or the workflow's own.
    pub(super) fn graph<'w>(&self, workflow: &'w Workflow) -> Option<&'w crate::workflow::Graph> {
        workflow.graph(self.sub_frame().map(|open| open.workflow.as_str()))
    }
}

/// A failure that no node takes goes outwards: to the innermost loop, to the sub-workflow, to the thread.
pub(super) fn fail_outwards(state: &State, node: Option<&NodeId>, error: ExecutionError) -> Event {
    match state.own_frames().last() {
        Some(Frame::Loop(open)) => {
            LoopEnded { node_id: open.node.clone(), n_iterations: open.n_begun, error: Some(error) }.into()
        }
        Some(Frame::Sub(open)) => SubWorkflowFailed { node_id: open.run.node.clone(), error }.into(),
        None => ThreadFailed { node_id: node.cloned(), error }.into(),
    }
}

/// The terminal events of the loops and sub-workflows that this thread opened, from the innermost outwards.
pub(super) fn close_frames(state: &State, error: &ExecutionError) -> Vec<Event> {
    let mut events = Vec::new();
    for frame in state.own_frames().iter().rev() {
        match frame {
            Frame::Loop(open) => {
                let (node, n_iterations) = (open.node.clone(), open.n_begun);
                events.push(LoopEnded { node_id: node, n_iterations, error: Some(error.clone()) }.into());
            }
            Frame::Sub(open) => {
                let (node, attempt) = (open.run.node.clone(), open.run.attempt);
                events.push(SubWorkflowFailed { node_id: node.clone(), error: error.clone() }.into());
                events.push(NodeFailed { node_id: node, attempt, error: error.clone(), retry_at: None }.into());
            }
        }
    }
    events
}
