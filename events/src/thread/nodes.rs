//! How each kind of node begins, and how it uses a person's answer.

mod fork;
mod interaction;
mod llm;
mod loops;
mod processor;
mod signal;
mod start_thread;
mod sub_workflow;
mod tool;
mod wait;

pub(super) use interaction::evaluate as evaluate_answer;
pub(super) use loops::next as next_iteration;
pub(super) use sub_workflow::complete as complete_sub_workflow;
pub(super) use tool::run_approved;

use super::env::Env;
use super::state::{NodeRun, State};
use crate::event::Event;
use crate::fault::ExecutionError;
use crate::workflow::{Node, NodeKind, Workflow};

/// Returns the first event of a node that was entered.
pub(super) fn begin(
    state: &State,
    workflow: &Workflow,
    node: &Node,
    run: &NodeRun,
    around: &Env<'_>,
) -> Result<Event, ExecutionError> {
    match node.kind() {
        NodeKind::Llm(llm) => llm::begin(state, workflow, node, llm, around),
        NodeKind::Tool(tool) => tool::begin(state, node, tool, around),
        NodeKind::UserInteraction(ask) => interaction::begin(state, node, ask, around),
        NodeKind::Wait(node_wait) => wait::begin(state, node, node_wait, around),
        NodeKind::Signal(awaited) => signal::begin(state, node, awaited, around),
        NodeKind::ContextProcessor(processor) => processor::begin(state, workflow, node, processor, around),
        NodeKind::LoopStart(repeat) => loops::begin(state, node, repeat, run, around),
        NodeKind::StartThread(start) => start_thread::begin(state, workflow, node, start, around),
        NodeKind::SubWorkflow(sub) => sub_workflow::begin(state, workflow, node, sub),
        NodeKind::Fork(fork) => fork::begin(state, workflow, node, fork, around),
        NodeKind::Route(_) | NodeKind::Join(_) | NodeKind::LoopEnd(_) | NodeKind::Start | NodeKind::End => {
            Ok(run.completed(around.now).into())
        }
        NodeKind::Condition(_) | NodeKind::Parallel(_) | NodeKind::Loop(_) => {
            let message = format!("node `{}` has a kind that this program does not run", node.id);
            Err(ExecutionError::new(crate::fault::ErrorKind::Configuration, message))
        }
    }
}
