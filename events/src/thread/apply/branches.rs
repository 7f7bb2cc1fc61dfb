//! Applies events of branches to the state of their parent.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::calls::{CallKind, OpenCall, OpenCalls};
use super::super::path::Path;
use super::super::state::{Aside, Branch, ForkState, Frame, NodeRun, Phase, State, SubFrame, Totals, Uncounted, Work};
use super::super::transition::{NO_NODE, TransitionError};
use super::entering;
use crate::event::{
    AgentTool, BranchEnded, BranchSpent, BranchStarted, ForkStarted, JoinCompleted, NodeContext, ReplacedBranch,
};
use crate::ids::{Seq, ThreadId, Time, ToolName};
use crate::json::Json;

const NOT_RUNNING: TransitionError = TransitionError("no such branch is running");

impl State {
    pub(super) fn plan_branches(&mut self, seq: Seq, e: &ForkStarted) -> Result<(), TransitionError> {
        *self.ready(&e.node_id)? = Work::Branches(Box::new(ForkState::new(e, seq)));
        Ok(())
    }

    pub(super) fn start_branch(&mut self, seq: Seq, e: &BranchStarted) -> Result<(), TransitionError> {
        let owner = self.thread;
        let (fan, calls) = self.fan_mut()?;
        calls.insert(fan.start(seq, owner, e)?);
        Ok(())
    }

    /// A branch has spent this so far: what was not counted yet counts.
    pub(super) fn branch_spent(&mut self, e: &BranchSpent) -> Result<(), TransitionError> {
        if self.uncounted.contains_key(&e.child) {
            return self.count_late(e);
        }
        let run = self.branch_run(e.index).filter(|run| run.child == e.child);
        let (call, name) = run.map(|run| (run.call, self.branch_name(run))).ok_or(NOT_RUNNING)?;
        let Some(OpenCall { kind: CallKind::Branch(run), .. }) = self.calls.get_mut(call) else {
            return Err(NOT_RUNNING);
        };
        let before = std::mem::replace(&mut run.spent, e.into());
        let since = run.spent.since(&before);
        self.count_branch(&name, &since);
        Ok(())
    }

    /// What a branch spent that has ended here counts for the run that it belongs to.
    fn count_late(&mut self, e: &BranchSpent) -> Result<(), TransitionError> {
        let mut of = self.uncounted.remove(&e.child).ok_or(NOT_RUNNING)?;
        let before = std::mem::replace(&mut of.counted, e.into());
        let since = of.counted.since(&before);
        if of.run == self.runs.number {
            self.count_branch(&of.name, &since);
        } else {
            self.totals.add(&since);
            self.runs.totals_before.add(&since);
        }
        if !e.is_final {
            self.uncounted.insert(e.child, of);
        }
        Ok(())
    }

    fn count_branch(&mut self, name: &str, since: &Totals) {
        self.totals.add(since);
        if since.n_unpriced > 0 {
            self.cost_is_missing(format!("a model that branch `{name}` called"));
        }
    }

    pub(super) fn end_branch(&mut self, seq: Seq, e: &BranchEnded) -> Result<(), TransitionError> {
        let run = self.branch_run(e.index);
        let (name, before) = run.map(|run| (self.branch_name(run), run.spent)).unwrap_or_default();
        match &mut self.phase {
            Phase::InNode(NodeRun { work: Work::Llm(_), .. }) => self.end_agent(seq, e)?,
            _ => {
                let (fan, calls) = self.fan_mut()?;
                calls.close(fan.end(e)?)?;
            }
        }
        let counted = Totals::from(e);
        self.count_branch(&name, &counted.since(&before));
        if !e.is_final {
            self.uncounted.insert(e.child, Uncounted { index: e.index, name, run: self.runs.number, counted });
        }
        for (name, value) in e.globals.iter() {
            self.set_global(name, value.clone());
        }
        Ok(())
    }

    /// An agent ended: the result of the call.
    fn end_agent(&mut self, seq: Seq, e: &BranchEnded) -> Result<(), TransitionError> {
        let run = self.branch_run(e.index).filter(|run| run.child == e.child);
        let run = run.ok_or(TransitionError("no such agent is running"))?;
        let (call, name) = (run.call, run.agent.as_ref().map(|agent| ToolName::from(agent.name.as_str())));
        let ended = self.calls.close(call)?;
        let Phase::InNode(node) = &mut self.phase else {
            return Err(NO_NODE);
        };
        // What its tools did is not known here.
        node.wrote.clone_from(&name);
        if let (Some(error), Some(name)) = (&e.error, &name) {
            node.failed_tool = Some((name.clone(), error.clone()));
        }
        let Work::Llm(agent_loop) = &mut node.work else {
            return Err(TransitionError("no agent loop is running"));
        };
        let conversation = name.and_then(|name| agent_loop.agent(name.as_str())?.context.name().cloned());
        let results = agent_loop.agent_ended(ended, e)?;
        self.conversation_mut().results(seq, results);
        match (conversation, &e.said) {
            (_, None) => Ok(()),
            (None, Some(_)) => Err(TransitionError("the conversation of that agent has no name")),
            (Some(name), Some(items)) => {
                let made = self.named.get(&name).map_or_else(Default::default, Arc::clone).rebuilt_from(seq, items);
                let made = made.ok_or(TransitionError("the agent keeps messages that are not in its conversation"))?;
                self.named.insert(name, Arc::new(made));
                Ok(())
            }
        }
    }

    pub(super) fn join(&mut self, e: &JoinCompleted) -> Result<(), TransitionError> {
        let (fan, calls) = self.fan_mut()?;
        if fan.plan.node_id != e.node_id || !calls.is_empty() {
            return Err(TransitionError("branches of that node are still running"));
        }
        let (named, all) = fan.results();
        let into = fan.plan.into.clone();
        if let Some(into) = into {
            self.set_here(&into, all.clone());
        }
        *self.work()? = Work::Done { output: all };
        for (name, value) in named {
            self.set_here(&name, value);
        }
        Ok(())
    }

    /// The fork fails before its join: what branches did that have ended is in the variables that the join would have set,
    /// so that a hook can undo it.
    pub(super) fn show_ended_branches(&mut self) {
        let Phase::InNode(NodeRun { work: Work::Branches(fan), .. }) = &self.phase else { return };
        let (named, all) = fan.results();
        let into = fan.plan.into.clone().map(|into| (into, all));
        for (name, value) in into.into_iter().chain(named) {
            self.show_here(&name, value);
        }
    }

    pub(super) fn fan_mut(&mut self) -> Result<(&mut ForkState, &mut OpenCalls), TransitionError> {
        match &mut self.phase {
            Phase::InNode(NodeRun { work: Work::Branches(fan), .. }) => Ok((fan, &mut self.calls)),
            Phase::InNode(_) => Err(TransitionError("the thread is in no fork")),
            _ => Err(NO_NODE),
        }
    }

    /// Other threads take the places of the branches that run.
    pub(super) fn replace_branches(&mut self, replaced: &[ReplacedBranch]) -> Result<(), TransitionError> {
        let (owner, planned_at) = (self.thread, self.fan().map(|fan| fan.planned_at));
        for replaced in replaced {
            let Some((index, rest)) = replaced.path.split_first() else {
                return Err(TransitionError("a branch without a number"));
            };
            let open = self.branch_run(*index).map(|run| run.call).and_then(|call| self.calls.get_mut(call));
            let Some(OpenCall { kind: CallKind::Branch(run), .. }) = open else {
                return Err(TransitionError("no such branch is running"));
            };
            if rest.is_empty() {
                // One that had not begun forks off where it would have.
                let planned_at = planned_at.unwrap_or(run.call.0);
                run.from = replaced.seq.map_or((owner, planned_at), |seq| (run.child, seq));
                run.child = replaced.child;
                run.inherits.clear();
                if replaced.seq.is_none() {
                    run.spent = Totals::default();
                }
            } else {
                run.inherits.push(ReplacedBranch { path: rest.to_vec(), ..replaced.clone() });
            }
        }
        Ok(())
    }

    /// Turns the state at which the parent forked into that of a branch.
    pub(super) fn begin_branch(&mut self, at: Time, owner: ThreadId, index: u32) -> Result<(), TransitionError> {
        let Phase::InNode(run) = &self.phase else {
            return Err(TransitionError("the parent runs no branch"));
        };
        let (entry, join, item) = match &run.work {
            Work::Branches(fan) => {
                let plan = fan.plan.clone();
                let (entry, item) = plan.branches.beginning(index).ok_or(TransitionError("there is no such branch"))?;
                let item = item.map(|(variable, item)| (variable.to_owned(), item.clone()));
                (entry.clone(), Some(plan.join.clone()), item)
            }
            Work::Llm(agent_loop) => {
                let call = self.branch_run(index).and_then(|run| run.agent.clone());
                let call = call.ok_or(TransitionError("there is no such agent"))?;
                let agent = agent_loop.agent(&call.name).ok_or(TransitionError("no such agent is offered"))?.clone();
                let (caller, joins) = (run.clone(), agent_loop.request.joins);
                let entry = agent.entry.clone();
                self.begin_agent(caller, agent, &call.arguments, joins);
                (entry, None, None)
            }
            _ => return Err(TransitionError("the parent runs no branch")),
        };
        self.branch = Some(Branch { owner: Some((owner, index)), join, n_frames: self.frames.len() as u64 });
        self.phase = entering(&entry, at);
        self.calls = OpenCalls::default();
        self.children.n_in_run = 0;
        self.leave_budget();
        self.totals = Totals::default();
        self.unpriced = None;
        self.path = Path::default();
        self.begin_to_count();
        self.globals.written.clear();
        if let Some((variable, item)) = item {
            self.set_innermost(&variable, item);
        }
        Ok(())
    }

    /// The scope of an agent and its conversation. Its caller ends them; what that says `joins` the conversation around it or
    /// not.
    fn begin_agent(&mut self, caller: NodeRun, agent: AgentTool, arguments: &Json, joins: bool) {
        let mut variables = agent.variables.clone();
        for (name, value) in arguments.0.as_object().into_iter().flatten().filter(|(name, _)| agent.takes(name)) {
            variables.insert(name.clone(), value.clone().into());
        }
        self.conversation_mut().leave_out_open_calls();
        if let Some(mut seen) = self.seen_with(&agent.context) {
            // Nodes whose messages are in the conversation that the caller does not see.
            if let (Some(aside), NodeContext::From(nodes)) = (&caller.aside, &agent.context)
                && let Some(of_thread) = aside.conversation.seen_by(&agent.context)
            {
                // Programs of before LLM_EXECUTION_REQUEST 7 gave it what both conversations have twice.
                seen = match joins {
                    true => of_thread.followed_by(&seen),
                    false => of_thread.followed_by_turn(&self.conversation, nodes),
                };
            }
            self.conversation = Arc::new(seen);
        }
        // Under its name it is open in this thread. Its caller keeps it.
        let aside = agent.context.name().map(|name| Aside { conversation: Arc::default(), name: Some(name.clone()) });
        self.frames.push(Frame::Sub(SubFrame {
            run: Box::new(NodeRun { work: Work::Ready, ..caller }),
            workflow: agent.name,
            max_iterations: agent.max_iterations,
            n_entered: 0,
            aside,
            variables: Arc::new(variables),
            shown: BTreeSet::default(),
        }));
    }
}
