//! The scopes of variables that are open, and the graph that runs.

use std::sync::Arc;

use super::State;
use super::frames::{Frame, LoopFrame, SubFrame};
use crate::codec::OrderedMap;
use crate::event::Scope;
use crate::json::Json;
use crate::workflow::{Graph, Workflow};

impl State {
    /// The loops and sub-workflows that are open, innermost last.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Those that this thread opened itself. A branch inherits the others from its owner, who alone ends them.
    pub fn own_frames(&self) -> &[Frame] {
        let n_inherited = self.branch.as_ref().map_or(0, |branch| branch.n_frames);
        let n_inherited = usize::try_from(n_inherited).unwrap_or(usize::MAX);
        self.frames.get(n_inherited..).unwrap_or_default()
    }

    /// The sub-workflow that runs, if one does.
    pub(in crate::thread) fn sub_frame(&self) -> Option<&SubFrame> {
        self.frames.iter().rev().find_map(|frame| match frame {
            Frame::Sub(open) => Some(open),
            Frame::Loop(_) => None,
        })
    }

    /// The innermost frame, when it is a loop.
    pub(in crate::thread) fn loop_frame(&self) -> Option<&LoopFrame> {
        match self.frames.last() {
            Some(Frame::Loop(open)) => Some(open),
            Some(Frame::Sub(_)) | None => None,
        }
    }

    /// How many nodes were entered against the limit that holds here, and that limit: an iteration of a loop may enter
    /// as many nodes as the workflow or sub-workflow around it.
    pub(in crate::thread) fn entered_of(&self) -> (u32, u32) {
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
    pub(in crate::thread) fn count_entered(&mut self) {
        let n_entered = match self.frames.last_mut() {
            Some(Frame::Loop(open)) => &mut open.n_entered,
            Some(Frame::Sub(open)) => &mut open.n_entered,
            None => &mut self.n_entered,
        };
        *n_entered = n_entered.saturating_add(1);
        self.totals.n_iterations = self.totals.n_iterations.saturating_add(1);
    }

    /// A branch begins: what it may enter is its own.
    pub(in crate::thread) fn begin_to_count(&mut self) {
        match self.frames.last_mut() {
            Some(Frame::Loop(open)) => open.n_entered = 0,
            Some(Frame::Sub(open)) => open.n_entered = 0,
            None => self.n_entered = 0,
        }
    }

    /// The scopes that can be seen from here, innermost first: the loops up to the sub-workflow they run in, that
    /// sub-workflow, the thread, the family.
    pub(in crate::thread) fn scopes(&self) -> Vec<Arc<OrderedMap<Json>>> {
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
    pub(in crate::thread) fn set_global(&mut self, name: &str, value: Json) {
        Arc::make_mut(&mut self.globals.values).insert(name.to_owned(), value);
        self.globals.written.insert(name.to_owned());
    }

    /// Variables of scope `global` as others have set them.
    pub(in crate::thread) fn learn_globals(&mut self, globals: &OrderedMap<Json>) {
        for (name, value) in globals.iter() {
            Arc::make_mut(&mut self.globals.values).insert(name.clone(), value.clone());
        }
    }

    /// Sets a variable of scope `thread`.
    pub(in crate::thread) fn set(&mut self, name: &str, value: Json) {
        self.note_output(name, &value);
        Arc::make_mut(&mut self.variables).insert(name.to_owned(), value);
    }

    /// Sets a variable where nodes leave theirs: in the sub-workflow that runs, or in the thread.
    pub(in crate::thread) fn set_here(&mut self, name: &str, value: Json) {
        if self.sub_frame().is_none() {
            self.note_output(name, &value);
        }
        self.put_here(name, value);
    }

    /// The same for what a fork or a loop did that failed, so that a hook can undo it.
    pub(in crate::thread) fn show_here(&mut self, name: &str, value: Json) {
        self.set_here(name, value);
        if let Some(Frame::Sub(open)) = self.frames.iter_mut().rev().find(|frame| matches!(frame, Frame::Sub(_))) {
            open.shown.insert(name.to_owned());
        }
    }

    /// The same for the output of a node, which is not that of the run while a hook runs.
    pub(in crate::thread) fn put_here(&mut self, name: &str, value: Json) {
        let sub = self.frames.iter_mut().rev().find_map(|frame| match frame {
            Frame::Sub(open) => Some(&mut open.variables),
            Frame::Loop(_) => None,
        });
        Arc::make_mut(sub.unwrap_or(&mut self.variables)).insert(name.to_owned(), value);
    }

    /// Sets a variable where it hides all others of its name.
    pub(in crate::thread) fn set_innermost(&mut self, name: &str, value: Json) {
        let variables = match self.frames.last_mut() {
            Some(Frame::Loop(open)) => &mut open.variables,
            Some(Frame::Sub(open)) => &mut open.variables,
            None => &mut self.variables,
        };
        Arc::make_mut(variables).insert(name.to_owned(), value);
    }

    /// Whether there is such a scope here.
    pub(in crate::thread) fn has_scope(&self, scope: Scope) -> bool {
        match scope {
            Scope::Global | Scope::Thread => true,
            Scope::Subgraph => self.sub_frame().is_some(),
            Scope::Loop => self.loop_frame().is_some(),
        }
    }

    /// Sets a variable of that scope; false when there is no such scope here.
    pub(in crate::thread) fn set_in(&mut self, scope: Scope, name: &str, value: Json) -> bool {
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
    pub(in crate::thread) fn output_here(&self) -> Option<&Json> {
        self.get_here("output")
    }

    /// A variable where nodes leave theirs: of the sub-workflow that runs, or of the thread.
    pub(in crate::thread) fn get_here(&self, name: &str) -> Option<&Json> {
        self.sub_frame().map_or(&self.variables, |open| &open.variables).get(name)
    }

    /// The graph that runs: the one of the innermost sub-workflow, or the workflow's own.
    pub(in crate::thread) fn graph<'w>(&self, workflow: &'w Workflow) -> Option<&'w Graph> {
        workflow.graph(self.sub_frame().map(|open| open.workflow.as_str()))
    }
}
