//! The thread machine: what one run of a workflow does next. It takes inputs, returns events, folds events
//! into its state, and shows what it owes the world as a view of that state.
//!
//! ```text
//! input ─▶ decide ─▶ events ─▶ (the log) ─▶ apply ─▶ state ─▶ effects ─▶ (the world) ─▶ input …
//! ```
//!
//! [`Thread::step`] does decide and apply together, and goes on with [`Thread::advance`] for as long as the machine
//! owes the next event only to itself.

mod advance;
pub mod agent_loop;
mod apply;
mod asks;
mod bounds;
mod branches;
mod calls;
mod check;
mod checkpoint_names;
mod children;
mod closing;
mod conversation;
mod decide;
mod effects;
mod ending;
mod env;
mod fits;
mod for_each;
mod frames;
mod guardrails;
mod input;
mod judging;
mod listing;
mod messages;
mod migration;
mod nodes;
mod path;
mod permits;
mod processed;
mod processors;
mod questions;
mod queueing;
mod reports;
mod request;
pub mod rerun;
mod runs;
mod signals;
mod sizes;
mod state;
mod status;
mod summaries;
mod totals;
mod transition;
mod variables;
mod view;
mod warnings;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::codec::OrderedMap;
use crate::event::{
    BranchOf, Event, ForkChanges, LimitRaised, ModelChoice, ReplacedBranch, StartedByParent, ThreadForked,
    ThreadPaused, ThreadStarted,
};
use crate::fault::ExecutionError;
use crate::ids::{CallId, Seq, ThreadId, Time};
use crate::json::Json;
use crate::principal::Principal;
use crate::workflow::{Faults, Workflow};

pub use crate::workflow::{built_in_processors, is_built_in_processor};
pub use agent_loop::Turn;
pub use apply::FoldError;
pub(crate) use asks::unanswered;
pub use calls::{
    ApplicationRun, AwaitedRun, BranchRun, CallKind, CallStage, ChildRun, FailedTry, Interaction, KeyOf, ModelCall,
    OpenCall, OpenCalls, ProcessorRun, SignalRun, TimerRun, ToolRun,
};
pub use check::START_MESSAGES_MAX;
pub use children::no_such_thread;
pub use closing::RECOVERIES_MAX;
pub use conversation::{Conversation, Entry, Mark, ToolOffer};
pub use effects::{Effect, Wait};
pub use env::{Env, Models, NoPeople, NoTools, ToolFacts, Tools};
pub use input::{Input, Rejected, RunInput, Start, ToolQuestion};
pub use listing::SUMMARY_HEAD;
pub use messages::Messages;
pub use path::{VISITS_MAX, Visit};
pub use permits::{NoWaits, PermitObserver, PermitWait, Permits};
pub use processed::{CONTEXT_ITEMS_MAX, Processed};
pub use request::{AnswerForm, ModelRequest, Prompt};
pub use runs::runs_of;
pub use state::{
    AgentLoop, Asked, Branch, BranchOutcome, CHILDREN_DEPTH_MAX, CHILDREN_MAX, Candidate, Checkpoint, Ending,
    FailedHook, ForkState, Frame, HookRun, Judging, JudgingStage, LoopFrame, NodeRun, Phase, PlanRun, QueuePlace,
    QueueStart, QueuedRun, RUN_KEY_BYTES_MAX, RUN_KEYS_MAX, RUNS_QUEUED_MAX, STATE_VERSION, SUB_WORKFLOWS_DEPTH_MAX,
    Stage, State, SubFrame, Summarizing, Totals, Uncounted, Work, Written,
};
pub use status::Status;
pub use variables::looking_back::LOOKING_BACK;
pub use view::{OutcomeJson, ThreadUsage};

/// The most events of one step. What is left then is owed still, and comes with the next step.
pub const STEP_EVENTS_MAX: usize = 1_000;

/// The most bytes of the events of one step, but for the first of them: they are appended together, and a log takes 66 MiB
/// at once. What is left then is owed still, as above.
pub const STEP_BYTES_MAX: usize = 4 << 20;

impl State {
    /// The same surroundings, at a time that is not before the last event.
    fn around_at<'a>(&self, around: &Env<'a>) -> Env<'a> {
        Env { now: self.time_at(around.now), ..*around }
    }
}

/// The first events of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct First {
    /// The start.
    pub started: ThreadStarted,
    /// The parent that starts it, if it is a child.
    pub parent: Option<StartedByParent>,
}

impl First {
    fn events(self) -> Vec<Event> {
        std::iter::once(self.started.into()).chain(self.parent.map(Event::from)).collect()
    }
}

impl From<ThreadStarted> for First {
    fn from(started: ThreadStarted) -> Self {
        Self { started, parent: None }
    }
}

/// What a fork is to be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fork {
    /// What is different from here on.
    pub changes: ForkChanges,
    /// The branch that it is, when a fork node starts it or it takes the place of one.
    pub branch: Option<BranchOf>,
    /// The threads that take the places of the parent's branches that run.
    pub branches: Vec<ReplacedBranch>,
    /// Variables of scope `global` that a branch begins with, besides those that it inherits.
    pub globals: OrderedMap<Json>,
    /// What is left for it of the budget of the thread whose branch it is.
    pub left: Option<LimitRaised>,
    /// Why it is paused before anything of it begins, where it is to wait until it is resumed.
    pub paused: Option<String>,
    /// The error that it ends in before anything of it begins, where the process ended several times as it began.
    pub crashed: Option<ExecutionError>,
    /// Who forks it; none where a fork node starts it.
    pub by: Option<Principal>,
}

/// A run of a workflow: the fold of its events and the definition it runs on.
#[derive(Debug, Clone)]
pub struct Thread {
    state: State,
    workflow: Arc<Workflow>,
    /// Whether the machine owes an event to itself, after the last step; `None` where that step did not find out.
    owes_itself: Option<bool>,
}

impl Thread {
    /// The first event of a thread, and nothing decided yet: hand it to [`Thread::begin`].
    ///
    /// # Errors
    /// What of the input does not fit the `input_schema` of the workflow, and what of the rest it cannot begin with.
    pub fn started(workflow: &Workflow, given: Start, now: Time) -> Result<ThreadStarted, Faults> {
        check::start(workflow, &given)?;
        let spec = workflow.spec();
        let Start { input, workspace, labels, messages, variables: own, entry, traceparent } = given;
        let (deadline, budget) = runs::limits_of_run(spec, now, &Totals::default(), now);
        let mut variables = spec.variables.clone();
        for (name, value) in own.iter() {
            variables.insert(name.clone(), value.clone());
        }
        Ok(ThreadStarted {
            workflow: workflow.reference(),
            input: workflow.accept_input(input)?,
            variables,
            entry: entry.or_else(|| workflow.main().entry().cloned()).unwrap_or_else(|| "".into()),
            deadline,
            max_iterations: workflow.max_iterations(),
            workspace,
            budget,
            on_limit: spec.on_limit,
            labels,
            messages,
            traceparent,
        })
    }

    /// Begins a thread: the machine, and the events that are to be appended first.
    pub fn begin(
        id: ThreadId,
        workflow: Arc<Workflow>,
        first: impl Into<First>,
        around: &Env<'_>,
    ) -> Result<(Self, Vec<Event>), FoldError> {
        let mut thread = Self::resume(State::new(id), workflow);
        let events = thread.follow(first.into().events(), around)?;
        Ok((thread, events))
    }

    /// As [`Thread::begin`], for a thread that waits until the runtime has room for it. If its workflow has a queue, it
    /// waits in that.
    pub fn begin_queued(
        id: ThreadId,
        workflow: Arc<Workflow>,
        first: impl Into<First>,
        around: &Env<'_>,
    ) -> Result<(Self, Vec<Event>), FoldError> {
        if workflow.spec().queue.is_some() {
            return Self::begin(id, workflow, first, around);
        }
        let mut thread = Self::resume(State::new(id), workflow);
        let mut events = thread.follow_only(first.into().events(), around)?;
        let queued = queueing::for_room(&thread.state).into();
        events.extend(thread.follow(vec![queued], around)?);
        Ok((thread, events))
    }

    /// As [`Thread::begin`], for a thread that ends in this error before anything of it runs.
    pub fn begin_crashed(
        id: ThreadId,
        workflow: Arc<Workflow>,
        first: impl Into<First>,
        error: ExecutionError,
        around: &Env<'_>,
    ) -> Result<(Self, Vec<Event>), FoldError> {
        let mut thread = Self::resume(State::new(id), workflow);
        let mut events = thread.follow_only(first.into().events(), around)?;
        let closed = closing::close_thread(&thread.state, error, around.now);
        events.extend(thread.follow_only(closed, around)?);
        Ok((thread, events))
    }

    /// The machine for a state that was folded before, on the definition that the state names.
    pub fn resume(state: State, workflow: Arc<Workflow>) -> Self {
        Self { state, workflow, owes_itself: None }
    }

    /// Forks: the machine of the new thread, and the events to be appended to it first. `parent` is the state of the
    /// parent at the fork's seq; `workflow` the definition to go on with.
    pub fn fork(
        id: ThreadId,
        parent: &State,
        fork: Fork,
        workflow: Arc<Workflow>,
        around: &Env<'_>,
    ) -> Result<(Self, Vec<Event>), FoldError> {
        let Some(seq) = parent.last_seq() else {
            return Err(FoldError::before_the_first(parent.thread()));
        };
        let Fork { mut changes, branch, branches, globals, left, paused, crashed, by } = fork;
        changes.relay = changes.profile.as_ref().is_some_and(|profile| {
            around.models.is_person(&ModelChoice { profile: Some(profile.clone()), ..ModelChoice::default() })
        });
        let paused = paused.map(|reason| ThreadPaused { reason: Some(reason), by: by.clone() }.into());
        let forked = ThreadForked { parent: parent.thread(), seq, changes, branch, branches, globals, by };
        let mut thread = Self::resume(parent.clone(), workflow);
        thread.state.rename(id);
        let around = &thread.state.around_at(around);
        let mut events = thread.follow_only(std::iter::once(forked.into()).chain(paused).collect(), around)?;
        if let Some(left) = left {
            let limits = bounds::left_by_parent(&thread.state, &left);
            events.extend(thread.follow_only(limits, around)?);
        }
        if let Some(error) = crashed {
            let closed = closing::close_thread(&thread.state, error, around.now);
            events.extend(thread.follow_only(closed, around)?);
            return Ok((thread, events));
        }
        let recovered = closing::recover(&thread.state, around);
        events.extend(thread.follow(recovered, around)?);
        Ok((thread, events))
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state, of a machine that is not needed any more.
    pub fn into_state(self) -> State {
        self.state
    }

    /// The definition.
    pub fn workflow(&self) -> &Arc<Workflow> {
        &self.workflow
    }

    /// Tells the machine something. Answers with the events to append, already applied; an input that changes
    /// nothing gives none. When the append fails, this machine must be thrown away and folded anew.
    ///
    /// They happened at [`State::time_at`] of the time in `around`, and are to be recorded with that.
    pub fn step(&mut self, input: Input, around: &Env<'_>) -> Result<Vec<Event>, StepError> {
        if input == Input::Recover {
            return Ok(self.recover_but(|_| false, around)?);
        }
        let around = &self.state.around_at(around);
        let decided = self.decide(input, around)?;
        Ok(self.follow(decided, around)?)
    }

    /// Tells the machine something and goes no further: what it then owes to itself comes with the next step. For
    /// a caller that does not have what the thread needs to continue.
    pub fn record_only(&mut self, input: Input, around: &Env<'_>) -> Result<Vec<Event>, StepError> {
        let around = &self.state.around_at(around);
        let decided = self.decide(input, around)?;
        Ok(self.follow_only(decided, around)?)
    }

    /// What an input leads to at once. A run that it begins may be one on another definition, and a thread that goes on
    /// may be given another one.
    fn decide(&mut self, input: Input, around: &Env<'_>) -> Result<Vec<Event>, Rejected> {
        let of_run = if let Input::Run(given) = input.given() { given.definition.clone() } else { None };
        let of_run = of_run.filter(|_| self.state.is_ended());
        let migrates_to = if let Input::Migrate(to) = input.given() { Some(to.clone()) } else { None };
        let decided = decide::decide(&self.state, of_run.as_ref().unwrap_or(&self.workflow), input, around)?;
        if let Some(workflow) = of_run.or(migrates_to) {
            self.workflow = workflow;
        }
        Ok(decided)
    }

    /// As [`Input::Recover`], in a process that goes on and only folded the thread anew: `is_known` names the
    /// calls, by their id and attempt, that are running still or whose answer is at hand, and that stay as they are.
    /// Answers with the events to append, already applied.
    pub fn recover_but(
        &mut self,
        is_known: impl Fn((CallId, u32)) -> bool,
        around: &Env<'_>,
    ) -> Result<Vec<Event>, FoldError> {
        let was_set_back = around.now < self.state.last_at();
        let around = &self.state.around_at(around);
        let events = closing::recover_but(&self.state, is_known, around, was_set_back);
        self.follow(events, around)
    }

    /// Applies events and all that follows from them without anybody's help.
    fn follow(&mut self, decided: Vec<Event>, around: &Env<'_>) -> Result<Vec<Event>, FoldError> {
        let mut events = self.follow_only(decided, around)?;
        let mut bytes = events.iter().map(Event::bytes_at_most).fold(0, usize::saturating_add);
        self.owes_itself = Some(true);
        while events.len() < STEP_EVENTS_MAX && bytes < STEP_BYTES_MAX {
            let Some(event) = self.advance(around) else {
                self.owes_itself = Some(false);
                break;
            };
            bytes = bytes.saturating_add(event.bytes_at_most());
            if bytes > STEP_BYTES_MAX && !events.is_empty() {
                break;
            }
            if let Some(warning) = warnings::ahead(&self.state, &event) {
                self.happen(warning, around.now, &mut events)?;
            }
            let event = self.happen(event, around.now, &mut events)?;
            let follow = warnings::follow_up(&self.state, event, around);
            for event in ending::with_hooks(&self.state, &self.workflow, follow, around.now) {
                self.happen(event, around.now, &mut events)?;
            }
        }
        Ok(events)
    }

    /// Applies an event and adds it to those of the step.
    fn happen<'a>(&mut self, mut event: Event, at: Time, events: &'a mut Vec<Event>) -> Result<&'a Event, FoldError> {
        self.state.fill_ids(&mut event);
        self.state.apply(at, &event)?;
        Ok(events.push_mut(event))
    }

    fn follow_only(&mut self, events: Vec<Event>, around: &Env<'_>) -> Result<Vec<Event>, FoldError> {
        self.owes_itself = None;
        let mut followed = Vec::with_capacity(events.len());
        for event in events {
            let event = self.happen(event, around.now, &mut followed)?;
            let beside = [bounds::unpriced(&self.state, event), warnings::tool_not_used(&self.state, event)];
            for event in beside.into_iter().flatten() {
                self.happen(event, around.now, &mut followed)?;
            }
        }
        Ok(followed)
    }

    /// The next event that follows without an input, if any: the next node, the next model call, the end.
    pub fn advance(&self, around: &Env<'_>) -> Option<Event> {
        advance::advance(&self.state, &self.workflow, around)
    }

    /// Finds out whether the machine owes an event to itself, so that [`Thread::waits_for`] need not: that may take an
    /// evaluation of the workflow's expressions.
    pub fn settle(&mut self, around: &Env<'_>) {
        if self.owes_itself.is_none() && !self.state.is_ended() {
            self.owes_itself = Some(self.advance(&self.state.around_at(around)).is_some());
        }
    }

    /// Returns whether [`Thread::waits_for`] evaluates nothing: the last step, or [`Thread::settle`], found out what it
    /// needs to know.
    pub fn is_settled(&self) -> bool {
        self.owes_itself.is_some() || self.state.is_ended()
    }

    /// What the thread waits for. A thread that has not ended always waits for something. What the last step left to the
    /// machine is known from it; what time alone brings is the moment in the answer.
    pub fn waits_for(&self, around: &Env<'_>) -> Wait {
        let around = &self.state.around_at(around);
        if self.state.is_ended() {
            Wait::Nothing
        } else if self.owes_itself.unwrap_or_else(|| self.advance(around).is_some()) {
            Wait::Itself
        } else if advance::waits_for_a_person(&self.state) {
            Wait::Person { until: self.state.next_deadline_with(around.permits) }
        } else {
            Wait::World { until: self.state.next_deadline_with(around.permits) }
        }
    }

    /// What the thread owes the world: its open calls and questions. A view of the state: asking twice gives the
    /// same answer.
    pub fn effects(&self) -> Vec<Effect> {
        self.state.effects()
    }

    /// The seq the next event will get.
    pub fn next_seq(&self) -> Seq {
        self.state.next_seq()
    }
}

/// A step that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The input does not fit: report it to the caller. Nothing changed.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The machine contradicts itself: a fault of this program. Throw the machine away.
    #[error(transparent)]
    Fold(#[from] FoldError),
}
