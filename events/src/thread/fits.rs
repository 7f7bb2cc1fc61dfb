//! Checks whether a thread at a moment can continue with another definition. Reports all misfits at once.

use super::calls::OpenCall;
use super::state::{ForkState, Frame, LoopFrame, Phase, State, SubFrame, Work};
use crate::event::{Branches, LlmExecutionRequest, OperationType};
use crate::ids::NodeId;
use crate::workflow::{Fault, Faults, Graph, NodeKind, Workflow};

/// What to do about a node that is missing or different.
const HINT: &str = "keep it as it is there, or fork at a moment before it began";

impl State {
    /// Checks whether the thread can continue with this definition from its current node: checks everything open, from
    /// the outermost loop or sub-workflow to that node.
    ///
    /// # Errors
    /// All that does not fit.
    pub fn fits(&self, workflow: &Workflow) -> Result<(), Faults> {
        let mut faults = Vec::new();
        if !self.is_ended() {
            check_branch(self, workflow, &mut faults);
            if let Some(graph) = check_frames(self, workflow, &mut faults) {
                check_phase(self, workflow, graph, &mut faults);
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
    }
}

fn fault(message: String) -> Fault {
    Fault::new("", message).hint(HINT)
}

/// The graph that the thread is in, as far as it can be found in the new definition.
fn check_frames<'w>(state: &State, workflow: &'w Workflow, faults: &mut Vec<Fault>) -> Option<&'w Graph> {
    let mut graph = workflow.main();
    for frame in state.frames() {
        match frame {
            Frame::Loop(open) => check_loop(open, graph, faults),
            Frame::Sub(open) => graph = check_sub_workflow(open, graph, workflow, faults)?,
        }
    }
    Some(graph)
}

fn check_loop(open: &LoopFrame, graph: &Graph, faults: &mut Vec<Fault>) {
    let LoopFrame { node, end, n_begun, .. } = open;
    match graph.node(node).map(|node| node.kind()) {
        Some(NodeKind::LoopStart(repeat)) if repeat.end.as_ref() == Some(end) => {}
        Some(NodeKind::LoopStart(repeat)) => {
            let now = repeat.end.as_ref().map(NodeId::as_str).unwrap_or_default();
            faults.push(fault(format!("the thread is in loop `{node}`, which ends at `{end}` and not at `{now}`")));
        }
        Some(other) => {
            let kind = name_of(other);
            faults.push(fault(format!(
                "the thread is in round {n_begun} of loop `{node}`, which is of kind `{kind}` here"
            )));
        }
        None => {
            let message =
                format!("the thread is in round {n_begun} of loop `{node}`, which this workflow does not have");
            faults.push(fault(message));
        }
    }
}

fn check_sub_workflow<'w>(
    open: &SubFrame,
    graph: &Graph,
    workflow: &'w Workflow,
    faults: &mut Vec<Fault>,
) -> Option<&'w Graph> {
    let (node, name) = (&open.run.node, &open.workflow);
    match graph.node(node).map(|node| node.kind()) {
        Some(NodeKind::SubWorkflow(sub)) if sub.workflow == *name => {}
        // An agent that a model called, which may not be offered any more.
        Some(NodeKind::Llm(_)) => {}
        Some(NodeKind::SubWorkflow(sub)) => {
            let now = &sub.workflow;
            faults.push(fault(format!(
                "node `{node}` runs workflow `{now}` here, and the thread is in its run of `{name}`"
            )));
        }
        Some(other) => {
            let kind = name_of(other);
            faults.push(fault(format!(
                "the thread runs workflow `{name}` at node `{node}`, which is of kind `{kind}` here"
            )));
        }
        None => {
            let message =
                format!("the thread runs workflow `{name}` at node `{node}`, which this workflow does not have");
            faults.push(fault(message));
        }
    }
    let inner = workflow.graph(Some(name));
    if inner.is_none() {
        let message = format!("the thread is in workflow `{name}`, which is not among the `workflows` of this one");
        let hint = "keep it, or fork at a moment before its run began";
        faults.push(Fault::new("", message).hint(hint));
    }
    inner
}

fn check_phase(state: &State, workflow: &Workflow, graph: &Graph, faults: &mut Vec<Fault>) {
    match state.phase() {
        Phase::New | Phase::BetweenHooks | Phase::Ended(_) => {}
        Phase::Entering { node, .. } => check_node("is about to enter", node, None, graph, faults),
        Phase::Leaving { node, handoff } => {
            check_node("leaves", node, None, graph, faults);
            if let Some(to) = handoff {
                check_node("is handed over to", to, None, graph, faults);
            }
        }
        Phase::Failing { node, .. } => check_node("failed at", node, None, graph, faults),
        Phase::Judging(judging) => check_node("leaves", &judging.node, None, graph, faults),
        Phase::InNode(run) => {
            check_node("is at", &run.node, kind_at_work(state), graph, faults);
            if let Work::Branches(fan) = &run.work {
                check_fan(fan, graph, faults);
            }
            if let Work::Llm(agent_loop) = &run.work {
                check_agents(&agent_loop.request, workflow, faults);
            }
        }
    }
}

/// The agents that a running loop offers begin where they did.
fn check_agents(request: &LlmExecutionRequest, workflow: &Workflow, faults: &mut Vec<Fault>) {
    for agent in &request.agents {
        let (node, name, entry) = (&request.node_id, &agent.name, &agent.entry);
        match workflow.graph(Some(name)) {
            None => {
                let message =
                    format!("node `{node}` offers agent `{name}`, which is not among the `workflows` of this one");
                faults.push(fault(message));
            }
            Some(graph) if graph.node(entry).is_none() => {
                let message = format!("agent `{name}` begins at node `{entry}`, which this workflow does not have");
                faults.push(fault(message));
            }
            Some(_) => {}
        }
    }
}

/// The kind of node that does such work; any kind may begin or end.
fn kind_at_work(state: &State) -> Option<&'static str> {
    match &state.node_run()?.work {
        Work::Ready | Work::Done { .. } | Work::HandedOver { .. } | Work::Failed(_) => None,
        Work::Llm(_) => Some("llm"),
        Work::Tool(_) | Work::Approved(_) => Some("tool"),
        Work::Asking(_) => Some(match state.open_calls().iter().find_map(OpenCall::question)?.operation_type {
            // A tool that a person answers, in a node of its own.
            OperationType::ApproveTool | OperationType::InformTool | OperationType::AnswerTool => "tool",
            OperationType::UpdateVariables
            | OperationType::AddMessage
            | OperationType::RelayModel
            | OperationType::ApproveContent => "user_interaction",
        }),
        Work::Waiting(_) => {
            Some(if state.open_calls().iter().any(|open| open.signal().is_some()) { "signal" } else { "wait" })
        }
        Work::Processing { .. } => Some("context_processor"),
        Work::Branches(_) => Some("fork"),
    }
}

fn check_node(does: &str, node: &NodeId, kind: Option<&str>, graph: &Graph, faults: &mut Vec<Fault>) {
    match (graph.node(node).map(|node| name_of(node.kind())), kind) {
        (None, _) => {
            faults.push(fault(format!("the thread {does} node `{node}`, which this workflow does not have")));
        }
        (Some(now), Some(then)) if now != then => {
            faults.push(fault(format!("the thread {does} {then} node `{node}`, which is of kind `{now}` here")));
        }
        (Some(_), _) => {}
    }
}

/// A fork in progress: where its branches end, and where they begin.
fn check_fan(fan: &ForkState, graph: &Graph, faults: &mut Vec<Fault>) {
    let plan = &fan.plan;
    let (node, join) = (&plan.node_id, &plan.join);
    match graph.node(node).map(|node| node.kind()) {
        Some(NodeKind::Fork(fork)) if fork.join != *join => {
            let now = &fork.join;
            faults.push(fault(format!("the branches of `{node}` end at join `{join}`, and not at `{now}`")));
        }
        _ => check_join(&format!("the branches of `{node}` end"), join, std::iter::once(graph), faults),
    }
    let mut check_entry = |name: &str, entry: &NodeId| {
        if graph.node(entry).is_none() {
            let message = format!("{name} of `{node}` begins at node `{entry}`, which this workflow does not have");
            faults.push(fault(message));
        }
    };
    match &plan.branches {
        Branches::Named(branches) => {
            for branch in branches {
                check_entry(&format!("branch `{}`", branch.name), &branch.entry);
            }
        }
        Branches::Each { entry, .. } => check_entry("each branch", entry),
    }
}

/// A branch ends at a join.
fn check_branch(state: &State, workflow: &Workflow, faults: &mut Vec<Fault>) {
    if let Some(branch) = state.branch() {
        let subs = workflow.sub_workflows().map(|(_, graph)| graph);
        let graphs = std::iter::once(workflow.main()).chain(subs);
        if let Some(join) = &branch.join {
            check_join("the thread is a branch that ends", join, graphs, faults);
        }
    }
}

fn check_join<'w>(who: &str, join: &NodeId, graphs: impl Iterator<Item = &'w Graph>, faults: &mut Vec<Fault>) {
    let found: Vec<_> = graphs.filter_map(|graph| graph.node(join)).map(|node| name_of(node.kind())).collect();
    match found.as_slice() {
        [] => faults.push(fault(format!("{who} at join `{join}`, which this workflow does not have"))),
        kinds if kinds.contains(&"join") => {}
        kinds => {
            faults.push(fault(format!("{who} at join `{join}`, which is of kind `{}` here", kinds.join("` and `"))))
        }
    }
}

fn name_of(kind: NodeKind<'_>) -> &'static str {
    match kind {
        NodeKind::Llm(_) => "llm",
        NodeKind::Tool(_) => "tool",
        NodeKind::UserInteraction(_) => "user_interaction",
        NodeKind::Wait(_) => "wait",
        NodeKind::Signal(_) => "signal",
        NodeKind::ContextProcessor(_) => "context_processor",
        NodeKind::Route(_) => "route",
        NodeKind::Condition(_) => "condition",
        NodeKind::Fork(_) => "fork",
        NodeKind::Join(_) => "join",
        NodeKind::Parallel(_) => "parallel",
        NodeKind::LoopStart(_) => "loop_start",
        NodeKind::LoopEnd(_) => "loop_end",
        NodeKind::Loop(_) => "loop",
        NodeKind::SubWorkflow(_) => "sub_workflow",
        NodeKind::StartThread(_) => "start_thread",
        NodeKind::Start => "start",
        NodeKind::End => "end",
    }
}
