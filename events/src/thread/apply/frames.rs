//! What events of loops and sub-workflows make of the state of their thread.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::state::{Aside, Frame, LoopFrame, NodeRun, Phase, State, SubFrame, Work};
use super::super::transition::{NO_NODE, TransitionError};
use super::entering;
use crate::codec::OrderedMap;
use crate::event::{
    LoopEnded, LoopIterationStarted, LoopStarted, SubWorkflowCompleted, SubWorkflowFailed, SubWorkflowStarted,
};
use crate::ids::{NodeId, Time};
use crate::json::Json;

const NO_LOOP: TransitionError = TransitionError("no such loop is open");
const NO_SUB: TransitionError = TransitionError("no such sub-workflow runs");
const STILL_IN_A_NODE: TransitionError = TransitionError("a node is still running");

impl State {
    pub(super) fn begin_loop(&mut self, e: &LoopStarted) -> Result<(), TransitionError> {
        self.ready(&e.node_id)?;
        self.frames.push(Frame::Loop(LoopFrame {
            node: e.node_id.clone(),
            end: e.end.clone(),
            items: e.items.clone().map(Arc::new),
            variable: e.variable.clone(),
            n_iterations_max: e.n_iterations_max,
            n_begun: 0,
            is_inside: false,
            n_entered: 0,
            into: e.into.clone(),
            results: Vec::new(),
            n_result_bytes: 0,
            variables: Arc::default(),
        }));
        Ok(())
    }

    pub(super) fn begin_iteration(&mut self, e: &LoopIterationStarted) -> Result<(), TransitionError> {
        let Phase::Leaving { node, .. } = &mut self.phase else {
            return Err(NO_NODE);
        };
        let Some(Frame::Loop(open)) = self.frames.last_mut() else {
            return Err(NO_LOOP);
        };
        if open.node != e.node_id
            || open.is_inside
            || open.n_begun != e.index
            || (*node != open.node && *node != open.end)
        {
            return Err(TransitionError("no such iteration is due"));
        }
        node.clone_from(&open.node);
        open.variables = Arc::new(iteration_variables(open));
        open.n_begun += 1;
        open.n_entered = 0;
        open.is_inside = true;
        Ok(())
    }

    /// A node did its work; when it was the end of the innermost loop, an iteration is over.
    pub(super) fn end_iteration(&mut self, node: &NodeId) {
        let output = self.output_here().cloned();
        if let Some(Frame::Loop(open)) = self.frames.last_mut()
            && open.end == *node
        {
            open.is_inside = false;
            open.variables = Arc::default();
            if open.into.is_some() {
                let result = output.unwrap_or_default();
                open.n_result_bytes = open.n_result_bytes.saturating_add(result.0.to_string().len() as u64);
                open.results.push(result);
            }
        }
    }

    pub(super) fn end_loop(&mut self, e: &LoopEnded) -> Result<(), TransitionError> {
        let Some(open) = self.loop_frame().filter(|open| open.node == e.node_id) else {
            return Err(NO_LOOP);
        };
        let (node, end, is_inside) = (open.node.clone(), open.end.clone(), open.is_inside);
        let phase = match &e.error {
            Some(error) => {
                self.between_nodes()?;
                Phase::Failing { node, error: error.clone(), tool: None }
            }
            None => match &self.phase {
                Phase::Leaving { .. } if !is_inside => Phase::Leaving { node: end, handoff: None },
                _ => return Err(TransitionError("an iteration is still running")),
            },
        };
        if let Some(Frame::Loop(LoopFrame { into: Some(into), results, .. })) = self.frames.pop() {
            let results = serde_json::Value::Array(results.into_iter().map(Json::into_value).collect()).into();
            match e.error {
                None => self.set_here(&into, results),
                Some(_) => self.show_here(&into, results),
            }
        }
        self.phase = phase;
        Ok(())
    }

    pub(super) fn begin_sub_workflow(&mut self, at: Time, e: &SubWorkflowStarted) -> Result<(), TransitionError> {
        self.ready(&e.node_id)?;
        let Phase::InNode(run) = std::mem::replace(&mut self.phase, entering(&e.entry, at)) else {
            return Err(NO_NODE);
        };
        let seen = self.seen_with(&e.context);
        let aside = seen.map(|seen| Aside {
            conversation: std::mem::replace(&mut self.conversation, Arc::new(seen)),
            name: e.context.name().cloned(),
        });
        self.frames.push(Frame::Sub(SubFrame {
            run: Box::new(run),
            workflow: e.workflow.clone(),
            max_iterations: e.max_iterations,
            n_entered: 0,
            aside,
            variables: Arc::new(e.variables.clone()),
            shown: BTreeSet::default(),
        }));
        Ok(())
    }

    pub(super) fn complete_sub_workflow(&mut self, e: &SubWorkflowCompleted) -> Result<(), TransitionError> {
        if !matches!(self.phase, Phase::Leaving { .. }) {
            return Err(NO_NODE);
        }
        self.leave_sub_workflow(&e.node_id, Work::Done { output: e.output.clone().unwrap_or(Json::null()) })?;
        for (name, value) in e.variables.iter() {
            self.set_here(name, value.clone());
        }
        Ok(())
    }

    pub(super) fn fail_sub_workflow(&mut self, e: &SubWorkflowFailed) -> Result<(), TransitionError> {
        self.between_nodes()?;
        let shown = match self.frames.last() {
            Some(Frame::Sub(open)) => {
                let shown = open.shown.iter().map(|name| (name.clone(), open.variables.get(name).cloned()));
                shown.collect::<Vec<_>>()
            }
            _ => Vec::new(),
        };
        self.leave_sub_workflow(&e.node_id, Work::Failed(e.error.clone()))?;
        for (name, value) in shown {
            self.show_here(&name, value.unwrap_or_default());
        }
        Ok(())
    }

    /// The node that runs the innermost sub-workflow goes on.
    fn leave_sub_workflow(&mut self, node: &NodeId, work: Work) -> Result<(), TransitionError> {
        if !matches!(self.frames.last(), Some(Frame::Sub(open)) if open.run.node == *node) {
            return Err(NO_SUB);
        }
        if let Some(Frame::Sub(mut open)) = self.frames.pop() {
            if let Some(Aside { conversation, name }) = open.aside.take() {
                let own = std::mem::replace(&mut self.conversation, conversation);
                match name {
                    None => self.conversation_mut().join_added(&own),
                    Some(name) => self.keep_named(name, own, !matches!(work, Work::Failed(_))),
                }
            }
            self.phase = Phase::InNode(NodeRun { work, ..*open.run });
        }
        Ok(())
    }

    fn between_nodes(&self) -> Result<(), TransitionError> {
        match &self.phase {
            Phase::Entering { .. } | Phase::Leaving { .. } | Phase::Failing { .. } => Ok(()),
            Phase::Judging(judging) if judging.open_call().is_none() => Ok(()),
            Phase::New | Phase::InNode(_) | Phase::Judging(_) | Phase::BetweenHooks | Phase::Ended(_) => {
                Err(STILL_IN_A_NODE)
            }
        }
    }
}

/// What is in the scope of an iteration when it begins: the element, and `loop`.
fn iteration_variables(open: &LoopFrame) -> OrderedMap<Json> {
    let index = usize::try_from(open.n_begun).unwrap_or(usize::MAX);
    let item = open.items.as_ref().and_then(|items| items.get(index));
    let about = serde_json::json!({
        "index": open.n_begun,
        "iteration": open.n_begun + 1,
        "first": open.n_begun == 0,
        "last": open.n_begun + 1 >= open.n_iterations_max,
        "n": open.n_iterations_max,
    });
    let item = item.map(|item| (open.variable.clone(), item.clone()));
    item.into_iter().chain([("loop".to_owned(), about.into())]).collect()
}
