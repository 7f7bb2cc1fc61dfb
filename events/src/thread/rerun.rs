//! Reruns a thread with its recorded answers. All inputs from outside (models, tools, people, branches, time)
//! are taken from the log; all decisions of the machine are made again and compared. Costs no tokens and no IO.
//!
//! With the definition that the thread ran on, every thread reproduces; with another, the first event that differs says
//! where the two part.

mod recorded;
mod why;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::decide::decide;
use super::{Env, Input, NoWaits, RunInput, Start, State, Thread, bounds, ending, is_built_in_processor, runs};
use crate::event::{
    Event, HookStarted, OperationType, RunEnding, RunSource, RunStarted, ThreadStarted, WorkflowChanged,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{Hash, Seq, ThreadId, Time};
use crate::workflow::Workflow;
use recorded::Recorded;

/// What is needed to run a thread again.
#[derive(Debug, Clone)]
pub struct Rerun {
    /// The state before its own events: an empty one, or what a fork inherits, folded as its own; of one run, the state
    /// before that.
    pub base: State,
    /// The definition that it ran on.
    pub recorded_on: Arc<Workflow>,
    /// The definition to run it on.
    pub workflow: Arc<Workflow>,
    /// The definitions that its later runs began on and that it was migrated to, by their hashes; what is not among them
    /// ran on `recorded_on`.
    pub of_runs: BTreeMap<Hash, Arc<Workflow>>,
    /// Its own events, each with its time: the first THREAD_STARTED or THREAD_FORKED; of one run, those of the run, the
    /// first RUN_STARTED. All of them, since what a person brought for a model is read by looking ahead.
    pub events: Vec<(Time, Event)>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rerunned {
    /// The thread.
    pub thread: ThreadId,
    /// How many events were reproduced: decided again, or taken as they were recorded.
    pub n_events: u64,
    /// How many of them the machine decided again.
    pub n_decided: u64,
    /// Where it parts from the log; absent when it does not.
    pub diverged: Option<Divergence>,
}

/// The first event that is another.
#[derive(Debug, Clone, PartialEq)]
pub struct Divergence {
    /// The thread.
    pub thread: ThreadId,
    /// The place of the event.
    pub seq: Seq,
    /// What was recorded.
    pub expected: Event,
    /// What the machine does now; absent when it waits, or has ended.
    pub got: Option<Event>,
    /// The difference, in a sentence.
    pub why: String,
}

impl Rerun {
    /// Runs it. Costs about what it costs to fold the events twice.
    pub fn run(self) -> Rerunned {
        self.run_to(None)
    }

    /// The same up to an event.
    pub fn run_to(self, last: Option<Seq>) -> Rerunned {
        let same_definition = self.recorded_on.hash() == self.workflow.hash();
        let workflow = if same_definition { self.workflow } else { Arc::new(self.workflow.without_queue()) };
        let mut again = Again {
            recorded: Recorded::new(&self.events, self.recorded_on),
            machine: Thread::resume(self.base, workflow),
            of_runs: self.of_runs,
            same_definition,
            follow_up: VecDeque::new(),
            crashed_from: usize::MAX,
            done: 0,
            n_decided: 0,
        };
        let first = again.machine.next_seq();
        let n = last.map_or(self.events.len(), |last| {
            usize::try_from((last.0 + 1).saturating_sub(first.0)).unwrap_or(usize::MAX).min(self.events.len())
        });
        let mut diverged = None;
        again.crashed_from = crashed_from(&self.events);
        while again.done < n {
            if let Err(divergence) = again.next(&self.events) {
                diverged = Some(*divergence);
                break;
            }
        }
        Rerunned {
            thread: again.machine.state().thread(),
            n_events: again.done as u64,
            n_decided: again.n_decided,
            diverged,
        }
    }
}

/// From where on events may end the thread because the process ended in one of its steps: they are of one time. None where
/// it did not end so.
fn crashed_from(events: &[(Time, Event)]) -> usize {
    if let Some((at, Event::ThreadFailed(failed))) = events.last()
        && failed.error.kind == ErrorKind::CrashedProcess
    {
        return events.len() - events.iter().rev().take_while(|(other, _)| other == at).count();
    }
    usize::MAX
}

struct Again<'a> {
    recorded: Recorded<'a>,
    machine: Thread,
    of_runs: BTreeMap<Hash, Arc<Workflow>>,
    same_definition: bool,
    /// The events that the machine appends right after its last one.
    follow_up: VecDeque<Event>,
    /// From here on it is asked first whether the rest is that end: what the machine owes then is the step in which the
    /// process ended.
    crashed_from: usize,
    done: usize,
    n_decided: u64,
}

impl Again<'_> {
    fn next(&mut self, events: &[(Time, Event)]) -> Result<(), Box<Divergence>> {
        let Some((at, event)) = events.get(self.done) else { return Ok(()) };
        if let Event::ThreadStarted(recorded) = event {
            let given = self.given(recorded);
            let mut now = match Thread::started(self.machine.workflow(), given, *at) {
                Ok(now) => now,
                Err(faults) => {
                    let why = format!("it cannot begin with what is recorded: {faults}").replace('\n', "; ");
                    return Err(Box::new(Divergence { why, ..*self.differs(event, None) }));
                }
            };
            if now.deadline.is_some() && recorded.deadline.is_some() {
                // It counts from when the thread was asked for, a little before it was recorded.
                now.deadline = recorded.deadline;
            }
            if self.same_definition && now != **recorded {
                return Err(self.differs(event, Some(now.into())));
            }
            // With another definition the thread begins as that says; what follows from it is compared.
            return self.take(*at, event, &now.into(), true);
        }
        if let Event::RunStarted(recorded) = event {
            return self.begin_run(*at, event, recorded);
        }
        if let Event::WorkflowChanged(recorded) = event {
            return self.change_workflow(*at, event, recorded);
        }
        self.recorded.go_to(self.done, self.machine.state());
        if self.done >= self.crashed_from
            && let Some(n) = self.closed_from_outside(events).filter(|n| self.done + n == events.len())
        {
            return self.close(n, events);
        }
        // What a fork inherits may owe the very step in which the process ended.
        let owed = if matches!(event, Event::ThreadForked(_)) { None } else { self.owed(*at) };
        if owed.as_ref().is_some_and(|owed| is_same(owed, event)) {
            self.take(*at, event, event, true)?;
            if let Event::BudgetExceeded(exceeded) = event {
                let (state, workflow) = (self.machine.state(), self.machine.workflow());
                let follow_up = bounds::after_exceeded(state, exceeded, *at);
                self.follow_up = ending::with_hooks(state, workflow, follow_up, *at).into();
            }
            return Ok(());
        }
        if let Some(n) = self.closed_from_outside(events) {
            return self.close(n, events);
        }
        if self.comes_from_outside(event) {
            return self.take(*at, event, event, false);
        }
        Err(self.differs(event, owed))
    }

    /// What the thread was given as it began, beside what its definition says.
    fn given(&self, recorded: &ThreadStarted) -> Start {
        let definition = &self.recorded.definition;
        let own =
            recorded.variables.iter().filter(|(name, value)| definition.spec().variables.get(*name) != Some(*value));
        let entry =
            Some(&recorded.entry).filter(|entry| definition.main().entry().is_some_and(|first| first != *entry));
        Start {
            input: recorded.input.clone(),
            workspace: recorded.workspace.clone(),
            labels: recorded.labels.clone(),
            messages: recorded.messages.clone(),
            variables: own.map(|(name, value)| (name.clone(), value.clone())).collect(),
            entry: entry.cloned(),
            traceparent: recorded.traceparent,
        }
    }

    /// The next run, on the definition that it ran on, or on that of the rerun.
    fn begin_run(&mut self, at: Time, event: &Event, recorded: &RunStarted) -> Result<(), Box<Divergence>> {
        if recorded.from != RunSource::Input && !matches!(self.owed(at), Some(Event::RunStarted(_))) {
            return Err(self.differs(event, None));
        }
        self.goes_on_with(recorded.workflow.hash);
        let given = RunInput {
            input: recorded.input.clone(),
            variables: recorded.variables.clone(),
            key: recorded.key.clone(),
            traceparent: recorded.traceparent,
            ..RunInput::default()
        };
        let id = (recorded.run_id, recorded.from);
        let now = match runs::begun(self.machine.state(), &self.machine.workflow, given, id, at) {
            Ok(now) => RunStarted { by: recorded.by.clone(), ..now },
            Err(faults) => {
                let why = format!("it cannot begin with what is recorded: {faults}").replace('\n', "; ");
                return Err(Box::new(Divergence { why, ..*self.differs(event, None) }));
            }
        };
        if self.same_definition && now != *recorded {
            return Err(self.differs(event, Some(now.into())));
        }
        self.take(at, event, &now.into(), recorded.from != RunSource::Input)
    }

    /// The thread was given another definition. A rerun on another one than the thread ran on stays on that.
    fn change_workflow(&mut self, at: Time, event: &Event, recorded: &WorkflowChanged) -> Result<(), Box<Divergence>> {
        self.goes_on_with(recorded.workflow.hash);
        let mut now = recorded.clone();
        if !self.same_definition {
            let own = self.machine.workflow.reference();
            now.previous = self.machine.state().workflow().cloned().unwrap_or_else(|| own.clone());
            now.workflow = own;
        }
        self.take(at, event, &now.into(), false)
    }

    /// The thread runs on this definition from here on; the rerun does too, unless it runs on another one.
    fn goes_on_with(&mut self, hash: Hash) {
        if let Some(workflow) = self.of_runs.get(&hash) {
            self.recorded.definition = workflow.clone();
            if self.same_definition {
                self.machine.workflow = workflow.clone();
            }
        }
    }

    /// Takes the next events, which are one decision.
    fn close(&mut self, n: usize, events: &[(Time, Event)]) -> Result<(), Box<Divergence>> {
        for (at, event) in &events[self.done..self.done + n] {
            self.take(*at, event, event, true)?;
        }
        Ok(())
    }

    /// What the machine owes to itself at that time.
    fn owed(&mut self, now: Time) -> Option<Event> {
        let around = Env { now, tools: &self.recorded, models: &self.recorded, permits: &NoWaits };
        self.follow_up.pop_front().or_else(|| self.machine.advance(&around))
    }

    /// Goes on: `applied` takes the place of the recorded event.
    fn take(&mut self, at: Time, recorded: &Event, applied: &Event, decided: bool) -> Result<(), Box<Divergence>> {
        let seq = self.machine.next_seq();
        if let Err(unfit) = self.machine.state.apply(at, applied) {
            let around = Env { now: at, tools: &self.recorded, models: &self.recorded, permits: &NoWaits };
            let got = self.machine.advance(&around);
            let why = why::no_longer_follows(recorded, unfit.reason, got.as_ref());
            let thread = self.machine.state().thread();
            return Err(Box::new(Divergence { thread, seq, expected: recorded.clone(), got, why }));
        }
        self.done += 1;
        self.n_decided += u64::from(decided);
        Ok(())
    }

    fn differs(&self, expected: &Event, got: Option<Event>) -> Box<Divergence> {
        let state = self.machine.state();
        let why = why::differs(expected, got.as_ref(), state);
        Box::new(Divergence {
            thread: state.thread(),
            seq: self.machine.next_seq(),
            expected: expected.clone(),
            got,
            why,
        })
    }

    /// How many of the next events are the end of what was open, brought about by a deadline or a person: all of them
    /// are one decision, and happened at one time.
    fn closed_from_outside(&self, events: &[(Time, Event)]) -> Option<usize> {
        let rest = &events[self.done..];
        let (now, _) = rest.first()?;
        let at_once = rest.iter().take_while(|(at, _)| at == now);
        let mut inputs = Vec::new();
        for (_, event) in at_once {
            if let Event::ThreadCancelled(e) = event {
                inputs.push(Input::Cancel { reason: e.reason.clone() }.by(e.by.clone()));
                inputs.push(Input::CancelByParent { reason: e.reason.clone() });
            } else if let Event::ThreadFailed(e) = event {
                let reason = e.error.message.strip_prefix("the thread was aborted");
                let reason = reason.map(|rest| rest.strip_prefix(": ").map(str::to_owned));
                inputs.extend(reason.map(|reason| Input::Abort { reason }));
                if e.error.kind == ErrorKind::CrashedProcess {
                    inputs.push(Input::Crashed { error: e.error.clone() });
                }
                inputs.push(Input::Tick);
            } else if let Event::HookStarted(HookStarted { ending: RunEnding::Cancelled { reason }, by, .. }) = event {
                inputs.push(Input::Cancel { reason: reason.clone() }.by(by.clone()));
                inputs.push(Input::CancelByParent { reason: reason.clone() });
            } else if matches!(
                event,
                Event::NodeFailed(_) | Event::JoinCompleted(_) | Event::HookStarted(_) | Event::HookEnded(_)
            ) {
                inputs.push(Input::Tick);
            }
        }
        let around = Env { now: *now, tools: &self.recorded, models: &self.recorded, permits: &NoWaits };
        inputs.into_iter().find_map(|input| {
            let decided = decide(self.machine.state(), self.machine.workflow(), input, &around).ok()?;
            let same = !decided.is_empty()
                && decided.len() <= rest.len()
                && decided.iter().zip(rest).all(|(decided, (_, recorded))| is_same(decided, recorded));
            same.then_some(decided.len())
        })
    }

    /// Whether an event can come from outside: an answer, a wish of a person, news of a call. Whether it fits is for the
    /// fold to say.
    fn comes_from_outside(&self, event: &Event) -> bool {
        if let Event::ThreadQueued(e) = event {
            // Another definition does not change when a run had its turn.
            e.workflow.is_none() || !self.same_definition
        } else if let Event::GuardrailCompleted(e) = event {
            // The outcome of a function comes from outside; one without a call of its own is decided again.
            self.machine.state().open_calls().get(e.call_id).is_some()
        } else if let Event::UserInteractionRequested(e) = event {
            // A tool that runs asks when it likes.
            e.operation_type == OperationType::InformTool
        } else if let Event::ContextProcessed(_) = event {
            // What is built in is the machine's own work.
            self.machine.state().processor_run().is_some_and(|run| !is_built_in_processor(&run.processor))
        } else {
            event.comes_from_outside()
        }
    }
}

/// Whether two events are the same, but for what is counted outside and the texts of errors.
fn is_same(owed: &Event, recorded: &Event) -> bool {
    let mut owed = owed.clone();
    // Tokens are counted by the runtime, with the tokenizer of the model.
    if let (Event::ContextSummaryRequested(a), Event::ContextSummaryRequested(b)) = (&mut owed, recorded) {
        a.tokens = b.tokens;
    } else if let (Event::ContextSummarized(a), Event::ContextSummarized(b)) = (&mut owed, recorded) {
        (a.tokens_before, a.tokens_after) = (b.tokens_before, b.tokens_after);
    } else if let (Event::AnswerRejected(a), Event::AnswerRejected(b)) = (&mut owed, recorded) {
        (a.faults, a.prompt) = (b.faults.clone(), b.prompt.clone());
    } else if let (Event::UserInteractionRequested(a), Event::UserInteractionRequested(b)) = (&mut owed, recorded) {
        // Recorded as the event is applied, which this one is not.
        a.interaction_id = b.interaction_id;
    } else if let (Event::ThreadCancelled(a), Event::ThreadCancelled(b)) = (&mut owed, recorded) {
        a.cause = a.cause.take().and(b.cause.clone());
    } else if let (Event::HookStarted(a), Event::HookStarted(b)) = (&mut owed, recorded)
        && let (RunEnding::Failed { error: a, .. }, RunEnding::Failed { error: b, .. }) = (&mut a.ending, &b.ending)
    {
        use_recorded_text(a, b);
    }
    // The texts of errors differ between versions of this program. The kind says what failed.
    if let (Some(a), Some(b)) = (owed.error_mut(), recorded.error()) {
        use_recorded_text(a, b);
    }
    if let Some(node) = owed.call_node_mut() {
        *node = recorded.call_node().cloned();
    }
    owed == *recorded
}

/// Gives an error of the same kind the recorded text.
fn use_recorded_text(error: &mut ExecutionError, recorded: &ExecutionError) {
    if error.kind == recorded.kind {
        (error.message, error.cause) = (recorded.message.clone(), recorded.cause.clone());
    }
}
