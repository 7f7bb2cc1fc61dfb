//! The next run of a thread.

use std::sync::Arc;

use futures_util::StreamExt as _;
use rethread_events::codec::OrderedMap;
use rethread_events::event::{Event, MessageEffect, OnMessage, WorkflowRef};
use rethread_events::fault::ExecutionError;
use rethread_events::ids::{RunId, Seq, ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::thread::{Input, Rejected, RunInput, State, Status};
use rethread_events::trace_context::TraceParent;
use rethread_events::workflow::Workflow;
use rethread_store::{LogReader, StoreError};
use serde::Serialize;

use crate::definitions::{self, Held};
use crate::deliver::settle;
use crate::error::{ControlError, ReadError, RunError, RuntimeError};
use crate::outcome::Outcome;
use crate::recorded::event;
use crate::thread_handle::ThreadHandle;

/// The next run of a thread, or a message to the run in progress.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = rethread::Runtime::builder().in_memory().start().await?;
/// # let workflow = rethread::parse_workflow(br#"
/// #     version: "1"
/// #     name: chat
/// #     nodes: [{id: ask, llm: {provider: mock, model: m, user_prompt: "{{ input }}", extra: {script: {answers: [{text: Hello}]}}}}]
/// # "#)?;
/// use rethread::runs::RunRequest;
///
/// let chat = runtime.start_thread(workflow, "My name is Ada.").await?;
/// chat.outcome().await?;
///
/// let run = chat.run(RunRequest::new("What is my name?")).await?;
/// assert_eq!(chat.run_outcome(run.run_id).await?.state.conversation().entries.len(), 4);
/// # runtime.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RunRequest {
    input: Result<Json, String>,
    variables: OrderedMap<Json>,
    on_message: Option<OnMessage>,
    after: Option<RunId>,
    key: Option<String>,
    traceparent: Option<TraceParent>,
    on: RunOn,
}

/// The definition that a run begins on.
#[derive(Debug, Clone, Default)]
enum RunOn {
    #[default]
    Newest,
    Same,
    Given(Arc<Workflow>),
}

impl RunRequest {
    /// Creates a run with this input: a text, a JSON value, or any value that can be serialized as JSON.
    pub fn new(input: impl Serialize) -> Self {
        let input = serde_json::to_value(input).map(Json::from).map_err(|why| why.to_string());
        let variables = OrderedMap::default();
        Self { input, variables, on_message: None, after: None, key: None, traceparent: None, on: RunOn::Newest }
    }

    /// Sets these variables of the thread as the run begins.
    #[must_use]
    pub fn variables(mut self, variables: OrderedMap<Json>) -> Self {
        self.variables = variables;
        self
    }

    /// Sets what happens if a run is in progress, instead of the workflow's `on_message`.
    #[must_use]
    pub fn on_message(mut self, policy: OnMessage) -> Self {
        self.on_message = Some(policy);
        self
    }

    /// Begins only right after this run: rejected with `RunGoesOn` and the last run if that goes on, or if another one came
    /// after it.
    #[must_use]
    pub fn after(mut self, run: RunId) -> Self {
        self.after = Some(run);
        self
    }

    /// Sets an idempotency key: the same request again with the same key changes nothing, and returns the first result.
    /// A thread remembers the keys of its last 256 requests.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the span of the caller: the run is part of its trace, unless it is a message to the run in progress.
    #[must_use]
    pub fn traceparent(mut self, caller: impl Into<Option<TraceParent>>) -> Self {
        self.traceparent = caller.into();
        self
    }

    /// Uses the definition of the last run. By default, a run that begins on a thread at rest uses the newest
    /// definition of that name in the log, except on a fork that was given a definition. A queued run always uses the
    /// definition of the run before it.
    #[must_use]
    pub fn pin(mut self) -> Self {
        self.on = RunOn::Same;
        self
    }

    /// Begins on this definition. While a run is in progress, the request is refused.
    #[must_use]
    pub fn workflow(mut self, workflow: impl Into<Arc<Workflow>>) -> Self {
        self.on = RunOn::Given(workflow.into());
        self
    }
}

/// The result of a [`RunRequest`]; durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedRun {
    /// The run that answers it: a new one, or the one in progress.
    pub run_id: RunId,
    /// How the request was accepted.
    pub taken: Taken,
    /// The event that records it. If it steers or interrupts and no model reads it, a run with this id begins.
    pub seq: Seq,
    /// Whether the same key was used before.
    pub is_repeated: bool,
}

/// A run that a fork makes again.
#[derive(Debug, Clone, PartialEq)]
pub struct RunAgain {
    /// The run. It has begun, and need not have ended.
    pub run: RunId,
    /// The variable `input` that it gets; as it was when absent. It must fit the workflow's `input_schema`.
    pub input: Option<Json>,
}

/// The variable that holds the input of a run.
pub(crate) const INPUT: &str = "input";

/// A run of a thread, which has begun.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// The run.
    pub run_id: RunId,
    /// Its number in the thread; the first run has 1.
    pub number: u64,
    /// The event with which it began.
    pub started: Seq,
    /// When it began.
    pub started_at: Time,
    /// The event with which it ended, if it has.
    pub ended: Option<Seq>,
    /// Its last event: the one before the next run begins; of the last run, the thread's last event.
    pub last: Seq,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// How it ended, or the status of the thread.
    pub status: Status,
    /// Why it failed.
    pub error: Option<ExecutionError>,
    /// Its input.
    pub input: Json,
    /// The definition that it ran on.
    pub workflow: WorkflowRef,
}

impl RunSummary {
    /// Returns its last event until it ended; of a run in progress, its last one so far.
    pub(crate) fn until(&self) -> Seq {
        self.ended.unwrap_or(self.last)
    }
}

/// The runs of a thread, the last one first. Each run names the one before it.
pub(crate) struct Runs<'a> {
    store: &'a dyn LogReader,
    thread: ThreadId,
    /// The number of the next one, and the events with which it began and ended.
    next: Option<(u64, Seq, Option<Seq>)>,
    /// The last event of that one.
    last: Seq,
    status: Status,
}

impl<'a> Runs<'a> {
    pub(crate) fn of(store: &'a dyn LogReader, thread: ThreadId, state: &State) -> Self {
        let next = state.last_seq().map(|_| (state.run_number(), state.run_started(), state.run_ended()));
        Self { store, thread, next, last: state.last_seq().unwrap_or_default(), status: state.status() }
    }

    fn read(&mut self, number: u64, started: Seq, ended: Option<Seq>) -> Result<RunSummary, ReadError> {
        let read = |seq: Seq| {
            let damaged = || RuntimeError::from(StoreError::Invalid(format!("seq {seq} begins or ends no run")));
            Ok::<_, ReadError>(event(self.store, self.thread, seq)?.ok_or_else(damaged)?)
        };
        let begin = read(started)?;
        let (run_id, input, workflow) = if let Event::ThreadStarted(e) = begin.event {
            (RunId(started), e.input, e.workflow)
        } else if let Event::RunStarted(e) = begin.event {
            self.next = Some((number - 1, e.previous.started, Some(e.previous.ended)));
            (e.run_id, e.input, e.workflow)
        } else {
            let what = format!("seq {started} of thread {} begins no run", self.thread);
            return Err(RuntimeError::from(StoreError::Invalid(what)).into());
        };
        // A fork that makes the run again may change its input.
        let next = event(self.store, self.thread, started.next())?;
        let input = if let Some(Event::ThreadForked(fork)) = next.map(|next| next.event) {
            fork.changes.variables.get(INPUT).cloned().unwrap_or(input)
        } else {
            input
        };
        let last = std::mem::replace(&mut self.last, Seq(started.0.saturating_sub(1)));
        let end = ended.map(read).transpose()?;
        let (status, error) = end.as_ref().map_or((self.status, None), |end| how_it_ended(&end.event));
        Ok(RunSummary {
            run_id,
            number,
            started,
            started_at: begin.record.recorded_at,
            ended,
            last,
            ended_at: end.map(|end| end.record.recorded_at),
            status,
            error,
            input,
            workflow,
        })
    }
}

/// Returns the status and error that the last event of a run records.
fn how_it_ended(event: &Event) -> (Status, Option<ExecutionError>) {
    if let Event::ThreadFailed(e) = event {
        (Status::Error, Some(e.error.clone()))
    } else if matches!(event, Event::ThreadCancelled(_)) {
        (Status::Cancelled, None)
    } else {
        (Status::Completed, None)
    }
}

impl Iterator for Runs<'_> {
    type Item = Result<RunSummary, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (number, started, ended) = self.next.take()?;
        Some(self.read(number, started, ended))
    }
}

/// How a [`RunRequest`] was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// The run has begun.
    Started,
    /// The run begins when earlier runs have ended.
    Queued,
    /// The next model call of the run in progress includes the message.
    Steers,
    /// It interrupts the run in progress.
    Interrupts,
}

impl ThreadHandle {
    /// Starts the next run of the thread. The conversation and the variables continue. While a run is in progress, the
    /// workflow or the request decides: the new run is queued, steers or interrupts the run, or is refused. Returns
    /// when that is durable.
    ///
    /// # Errors
    /// `NoJson`, `TooLarge`; `Workflow` if the definition needs something that this runtime lacks; `Rejected` if the
    /// input does not fit, if too many runs wait, if the policy is `reject`, if the run that it follows is not the last one, if a run is in progress and the request
    /// has a definition of its own, and for a branch; `LabelLimit` if a limit of its labels is reached, except for a
    /// repeated request with the same key. Nothing changed then.
    pub async fn run(&self, request: RunRequest) -> Result<AcceptedRun, RunError> {
        let RunRequest { input, variables, on_message, after, key, traceparent, on } = request;
        let input = input.map_err(RunError::NoJson)?;
        let runtime = self.runtime();
        runtime.fits("an input", &input.0)?;
        for value in variables.values() {
            runtime.fits("a variable", &value.0)?;
        }
        let mut given = RunInput { input, variables, on_message, after, key, definition: None, traceparent };
        let first = loop {
            let state = self.state().await?;
            // A repeated request gets its first result, even if a limit of its labels was reached since.
            let is_known = given.key.as_ref().is_some_and(|key| state.request_of_key(key).is_some());
            let ledger = &runtime.services().labels;
            let permit =
                if is_known { None } else { ledger.begin(self.id(), state.labels()).map_err(RuntimeError::from)? };
            given.definition = match &on {
                RunOn::Same => None,
                RunOn::Given(workflow) => Some(workflow.clone()),
                // It is queued, or a message to the run in progress.
                RunOn::Newest if !state.is_ended() => None,
                RunOn::Newest => self.newest(&state).await?,
            };
            let held = match &given.definition {
                Some(workflow) => Some(self.runs_on(workflow, &state).await?),
                None => None,
            };
            let result = self.send_start_input(Input::Run(Box::new(given.clone())), permit).await;
            drop(held);
            match (result, &on) {
                // Another run has begun meanwhile.
                (Err(ControlError::Rejected { source: Rejected::DefinitionLate { .. }, .. }), RunOn::Newest) => {}
                (Err(error @ ControlError::Rejected { source: Rejected::RunGoesOn { .. }, .. }), _) => {
                    // The caller finds the run that it names in the log.
                    settle(runtime.registry(), self.id()).await?;
                    return Err(error.into());
                }
                (result, _) => break result?,
            }
        };
        if let Some(seq) = first {
            return self.accepted(seq, false).await;
        }
        // It is a repeated request.
        let before = match given.key {
            Some(key) => self.state().await?.request_of_key(&key),
            None => None,
        };
        self.accepted(before.ok_or(RuntimeError::ActorStopped(self.id()))?, true).await
    }

    /// Stores a definition for the next run.
    async fn runs_on(&self, workflow: &Arc<Workflow>, state: &State) -> Result<Held, RunError> {
        let runtime = self.runtime();
        runtime.runnable(workflow).map_err(RunError::Workflow)?;
        let held = runtime.keep(workflow).await?;
        if state.workflow().is_none_or(|present| present.hash != workflow.hash()) {
            let (store, (name, value)) = (runtime.store().clone(), definitions::of_run(workflow.hash(), self.id()));
            runtime.blocking(move || store.put_value(&name, &value)).await??;
        }
        Ok(held)
    }

    /// Cancels one run: that which goes on, one that waits, or a message that was to steer and that no model has read. Other
    /// runs that wait follow; [`ThreadHandle::cancel`] cancels them too.
    ///
    /// # Errors
    /// `Rejected` if the run neither goes on nor waits, or if it has failed or completed and its hooks are running.
    pub async fn cancel_run(&self, run: RunId, reason: Option<String>) -> Result<(), ControlError> {
        self.send_input(Input::CancelRun { run, reason }).await.map(drop)
    }

    /// Waits for the end of a run and returns the outcome at that moment. Dropping the future cancels nothing.
    ///
    /// # Errors
    /// `NoRun` if the thread has no such run, or it was cancelled; otherwise as [`ThreadHandle::outcome`].
    pub async fn run_outcome(&self, run: RunId) -> Result<Outcome, RunError> {
        loop {
            let mut loaded = self.load(None).await?;
            let last = loaded.state.last_seq();
            if loaded.state.is_open_run(run) {
                self.wait_for_change(last.unwrap_or_default()).await?;
                continue;
            }
            let found = self.find_run(&loaded.state, run).await?;
            let Some(found) = found.filter(|run| run.ended.is_some()) else {
                return Err(RunError::NoRun { thread: self.id(), run });
            };
            // What its branches spent may be counted after its end.
            if last != Some(found.last) {
                loaded = self.load(Some(found.last)).await?;
            }
            return Ok(Outcome::new(loaded.state, loaded.last_position));
        }
    }

    /// Returns the runs of the thread, the last one first: at most `limit` of them, from the one before `before` on. Those
    /// that wait are in [`State::queued_runs`]. The cost grows with the number of runs that are returned, and with those
    /// after `before`.
    ///
    /// # Errors
    /// `NoThread`, and errors of the log.
    pub async fn runs(&self, before: Option<RunId>, limit: usize) -> Result<Vec<RunSummary>, ReadError> {
        let state = self.state().await?;
        let (store, id) = (self.store().clone(), self.id());
        let read = move || {
            // The ids of runs that waited need not be in the order in which they began.
            let mut is_before = before.is_none();
            let runs = Runs::of(&*store, id, &state).filter(|run| {
                let is_wanted = is_before || run.is_err();
                is_before |= run.as_ref().is_ok_and(|run| Some(run.run_id) == before);
                is_wanted
            });
            runs.take(limit).collect()
        };
        self.runtime().blocking(read).await?
    }

    /// Returns one run of the thread. The cost grows with the number of runs after it.
    ///
    /// # Errors
    /// `NoRun` if the thread has no such run, or it was cancelled; `NotBegun` while it waits.
    pub async fn run_summary(&self, run: RunId) -> Result<RunSummary, RunError> {
        let state = self.state().await?;
        let thread = self.id();
        self.find_run(&state, run).await?.ok_or_else(|| match state.is_open_run(run) {
            true => RunError::NotBegun { thread, run },
            false => RunError::NoRun { thread, run },
        })
    }

    /// Returns the run, if it has begun in this state.
    pub(crate) async fn find_run(&self, state: &State, wanted: RunId) -> Result<Option<RunSummary>, ReadError> {
        let (store, id, state) = (self.store().clone(), self.id(), state.clone());
        let find = move || {
            Runs::of(&*store, id, &state).find(|run| run.as_ref().map_or(true, |run| run.run_id == wanted)).transpose()
        };
        self.runtime().blocking(find).await?
    }

    /// Waits until a run has ended, or was cancelled, after this event.
    async fn wait_for_change(&self, last: Seq) -> Result<(), ReadError> {
        self.wake().await?;
        let mut events = self.events(last.next());
        while let Some(event) = events.next().await {
            let event = event?.event;
            if let Event::ThreadCompleted(_)
            | Event::ThreadFailed(_)
            | Event::ThreadCancelled(_)
            | Event::RunCancelled(_) = event
            {
                return Ok(());
            }
        }
        if self.runtime().registry().is_shutting_down() { Err(RuntimeError::ShuttingDown.into()) } else { Ok(()) }
    }

    /// Returns the result of a request, whose first event has this seq.
    async fn accepted(&self, seq: Seq, is_repeated: bool) -> Result<AcceptedRun, RunError> {
        let (store, id) = (self.store().clone(), self.id());
        let recorded = self.runtime().blocking(move || event(&*store, id, seq)).await??;
        let event = recorded.ok_or(RuntimeError::ActorStopped(id))?.event;
        let (run_id, taken) = if let Event::RunStarted(e) = event {
            (e.run_id, Taken::Started)
        } else if let Event::RunQueued(e) = event {
            (e.run_id, Taken::Queued)
        } else if let Event::MessageAdded(e) = event {
            let interrupts = e.effect == MessageEffect::Interrupt;
            let taken = if interrupts { Taken::Interrupts } else { Taken::Steers };
            (self.state_at(seq).await?.run_id(), taken)
        } else {
            return Err(RuntimeError::ActorStopped(id).into());
        };
        Ok(AcceptedRun { run_id, taken, seq, is_repeated })
    }

    /// Returns the newest definition of the name that the thread runs on; `None` if the thread runs on it.
    async fn newest(&self, state: &State) -> Result<Option<Arc<Workflow>>, RunError> {
        // A fork that was given a definition uses it.
        let given = state.changes().workflow.as_ref();
        let Some(present) = state.workflow().filter(|present| Some(*present) != given) else { return Ok(None) };
        let versions = self.runtime().workflow_versions(&present.name).await?;
        let newest = versions.and_then(|versions| versions.newest()).filter(|newest| *newest != present.hash);
        match newest {
            Some(hash) => Ok(self.runtime().workflow(hash).await?),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
