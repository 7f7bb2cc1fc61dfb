//! What events of a thread as a whole make of its state.

use std::sync::Arc;

use super::super::calls::CallKind;
use super::super::request::LLM_TIMEOUT_MS_DEFAULT;
use super::super::state::{Checkpoint, Control, Ending, NodeRun, Phase, Queueing, Run, Stage, State, Work};
use super::super::transition::{NOT_BEGUN, TransitionError};
use super::entering;
use crate::event::{
    AttemptUsage, CheckpointCreated, ForkChanges, ModelChoice, ThreadForked, ThreadPaused, ThreadStarted,
    WorkflowChanged,
};
use crate::ids::{Seq, ThreadId, Time};

impl State {
    pub(super) fn start(&mut self, at: Time, e: &ThreadStarted) -> Result<(), TransitionError> {
        if self.run.is_some() {
            return Err(TransitionError("the thread has begun already"));
        }
        self.begin_first_run(at);
        self.run = Some(Run {
            workflow: e.workflow.clone(),
            input: e.input.clone(),
            started_at: at,
            deadline: e.deadline,
            max_iterations: e.max_iterations,
            workspace: e.workspace.clone(),
            budget: e.budget.clone(),
            on_limit: e.on_limit,
            labels: e.labels.clone(),
            forked_from: None,
        });
        let mut variables = e.variables.clone();
        variables.insert("input".into(), e.input.clone());
        self.variables = Arc::new(variables);
        if !e.messages.is_empty() {
            let conversation = Arc::make_mut(&mut self.conversation);
            e.messages.iter().for_each(|message| conversation.say(Seq(0), message.clone()));
            conversation.begin_turn();
        }
        self.phase = entering(&e.entry, at);
        Ok(())
    }

    pub(super) fn fork(&mut self, seq: Seq, at: Time, e: &ThreadForked) -> Result<(), TransitionError> {
        // A fork is made to be run: the parent's pause is not inherited, and all clocks, the thread's own included,
        // go on from where they stood at the moment it forks from, however long ago that was.
        let stood_at = self.clock(self.last_at);
        let run = self.run.as_mut().ok_or(NOT_BEGUN)?;
        if e.seq.next() != seq {
            return Err(TransitionError("it does not follow the last event that it inherits"));
        }
        run.forked_from = Some((e.parent, e.seq));
        // What was asked of the parent is answered there, and it has not begun a run in a queue.
        self.queueing = Queueing::default();
        // No policy of the parent's parent holds for the fork.
        self.children.parent = None;
        self.runs.queue.clear();
        self.runs.steering.clear();
        // Branches that have ended report to their parent.
        self.uncounted.clear();
        run.deadline = run.deadline.map(|deadline| deadline.plus_ms(at.ms_since(self.last_at)));
        if let Some(workflow) = &e.changes.workflow {
            run.workflow = workflow.clone();
        }
        self.control = Control::Running;
        self.accept_unpriced();
        self.shift_clocks(at.ms_since(stood_at));
        self.inherit_calls(at, e.parent);
        self.change(&e.changes);
        self.fork_branch(at, e)
    }

    /// Whose branch the fork is, and whose branches are its own from here on.
    fn fork_branch(&mut self, at: Time, e: &ThreadForked) -> Result<(), TransitionError> {
        match (&e.branch, &mut self.branch) {
            // One that begins forks off from its owner; one that takes the place of another, from that.
            (Some(of), _) if of.owner == e.parent => {
                self.begin_branch(at, of.owner, of.index)?;
                self.learn_globals(&e.globals);
            }
            (Some(of), Some(branch)) => branch.owner = Some((of.owner, of.index)),
            (Some(_), None) => return Err(TransitionError("it takes the place of a thread that is no branch")),
            (None, Some(branch)) => branch.owner = None,
            (None, None) => {}
        }
        self.replace_branches(&e.branches)
    }

    /// Open tool calls keep the key under which the parent made them. A child that is not started yet is one of each of
    /// both threads.
    fn inherit_calls(&mut self, at: Time, parent: ThreadId) {
        if let Phase::Entering { key_of: Some(key_of), .. } | Phase::InNode(NodeRun { key_of: Some(key_of), .. }) =
            &mut self.phase
        {
            key_of.inherited_from(parent);
        }
        let own = self.thread;
        for open in self.calls.iter_mut() {
            match &mut open.kind {
                CallKind::Tool(run) => run.key_of.inherited_from(parent),
                CallKind::Child(run) => run.child = ThreadId::of_branch(own, run.call.0, at),
                _ => {}
            }
        }
    }

    fn change(&mut self, changes: &ForkChanges) {
        if changes.workflow.is_some() {
            self.changes.workflow.clone_from(&changes.workflow);
        }
        for (name, value) in changes.variables.iter() {
            self.set(name, value.clone());
        }
        for (node, prompt) in changes.prompts.iter() {
            self.changes.prompts.insert(node.clone(), prompt.clone());
        }
        if let Some(profile) = &changes.profile {
            self.changes.profile = Some(profile.clone());
            if let Phase::Judging(judging) = &mut self.phase {
                judging.use_profile(profile);
            }
            if let Phase::InNode(run) = &mut self.phase
                && let Work::Processing { summarizing: Some(open), .. } = &mut run.work
            {
                open.use_profile(profile);
            }
            if let Phase::InNode(run) = &mut self.phase
                && let Work::Llm(agent_loop) = &mut run.work
            {
                if let Stage::Summarizing(open) = &mut agent_loop.stage {
                    open.use_profile(profile);
                }
                if let Some(judging) = agent_loop.guarding.judging_mut() {
                    judging.use_profile(profile);
                }
                agent_loop.use_profile(profile, changes.relay);
                let request = Arc::make_mut(&mut agent_loop.request);
                if request.relay != changes.relay {
                    request.relay = changes.relay;
                    request.llm_timeout_ms = (!changes.relay).then_some(LLM_TIMEOUT_MS_DEFAULT);
                }
                let old = std::mem::take(&mut request.model);
                request.model = ModelChoice { profile: Some(profile.clone()), provider: None, model: None, ..old };
                // A person who was asked already is asked on.
                if let Stage::Asking(call) = agent_loop.stage
                    && self.calls.children(call).next().is_none()
                    && let Some(open) = self.calls.get_mut(call)
                {
                    open.stage = agent_loop.model_stage();
                }
            }
        }
    }

    pub(super) fn change_workflow(&mut self, e: &WorkflowChanged) -> Result<(), TransitionError> {
        self.lives()?;
        let run = self.run.as_mut().ok_or(NOT_BEGUN)?;
        if run.workflow != e.previous {
            return Err(TransitionError("the thread does not run on the definition that it is taken from"));
        }
        run.workflow = e.workflow.clone();
        self.queueing.is_exempt = self.queueing.place.is_none();
        // A fork that was given a definition keeps to it in later runs.
        if let Some(given) = self.changes.workflow.as_mut().filter(|given| **given == e.previous) {
            given.clone_from(&e.workflow);
        }
        Ok(())
    }

    pub(super) fn pause(&mut self, at: Time, e: &ThreadPaused, for_budget: bool) -> Result<(), TransitionError> {
        self.lives()?;
        if self.is_paused() {
            return Err(TransitionError("the thread is paused already"));
        }
        self.control = Control::Paused { since: at, reason: e.reason.clone(), for_budget };
        Ok(())
    }

    pub(super) fn resume(&mut self, at: Time) -> Result<(), TransitionError> {
        let Control::Paused { since, .. } = self.control else {
            return Err(TransitionError("the thread is not paused"));
        };
        self.control = Control::Running;
        self.accept_unpriced();
        // The clocks of a run that waits in a queue go on when it begins.
        if !self.is_queued() {
            self.shift_clocks(at.ms_since(since));
        }
        Ok(())
    }

    /// The clocks of the node, its calls and its question go on from where they stood.
    pub(super) fn shift_clocks(&mut self, ms: u64) {
        match &mut self.phase {
            Phase::Entering { not_before, .. } => *not_before = not_before.plus_ms(ms),
            Phase::InNode(run) => {
                run.deadline = run.deadline.map(|deadline| deadline.plus_ms(ms));
                if let Work::Branches(fan) = &mut run.work {
                    fan.shift(ms);
                }
            }
            Phase::New
            | Phase::Leaving { .. }
            | Phase::Judging(_)
            | Phase::Failing { .. }
            | Phase::BetweenHooks
            | Phase::Ended(_) => {}
        }
        if let Some(hooks) = &mut self.hooks {
            let hooks = Arc::make_mut(hooks);
            hooks.deadline = hooks.deadline.plus_ms(ms);
        }
        self.calls.shift(ms);
    }

    pub(super) fn end(&mut self, seq: Seq, ending: Ending) -> Result<(), TransitionError> {
        self.may_end()?;
        self.restore_output();
        self.hooks = None;
        self.control = Control::Running;
        self.phase = Phase::Ended(ending);
        self.runs.ended = Some(seq);
        Ok(())
    }

    pub(super) fn checkpoint(&mut self, seq: Seq, e: &CheckpointCreated) -> Result<(), TransitionError> {
        self.lives()?;
        self.checkpoint_names.take(&e.label);
        self.checkpoints.push(Checkpoint { label: e.label.clone(), seq });
        Ok(())
    }

    /// Adds what an attempt at a model used to the sums.
    pub(in super::super) fn count_attempt(&mut self, used: &AttemptUsage<'_>) {
        self.totals.usage.add(&used.usage);
        self.totals.add_cost(used.cost_nanousd);
        if used.cost_nanousd.is_none() {
            self.totals.n_unpriced += 1;
            self.cost_is_missing(used.model.map_or_else(|| "the model".into(), |model| format!("model `{model}`")));
        }
    }
}
