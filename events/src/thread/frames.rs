//! How loops and sub-workflows that are open end in an error.

use super::state::{Frame, State};
use crate::event::{Event, LoopEnded, NodeFailed, SubWorkflowFailed, ThreadFailed};
use crate::fault::ExecutionError;
use crate::ids::NodeId;

/// A failure that no node takes goes outwards: to the innermost loop, to the sub-workflow, to the thread.
pub(super) fn fail_outwards(state: &State, node: Option<&NodeId>, error: ExecutionError) -> Event {
    match state.own_frames().last() {
        Some(Frame::Loop(open)) => {
            LoopEnded { node_id: open.node.clone(), n_iterations: open.n_begun, error: Some(error) }.into()
        }
        Some(Frame::Sub(open)) => SubWorkflowFailed { node_id: open.run.node.clone(), error }.into(),
        None => ThreadFailed { node_id: node.cloned(), error, run_follows: state.has_next_run() }.into(),
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
