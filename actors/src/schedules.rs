//! Schedules: threads of workflows that are started by themselves.
//!
//! A schedule is a value of the log. Where several runtimes have the log, the one that has the place of all schedules changes
//! them and starts what is due. The rules are in [`rethread_events::schedule`]; here they meet the clock and the log.
//! The thread of a tick has an id that the tick gives it, and is looked for before anything else is decided: a process that
//! ended between a start and the note of it finds the thread, and starts no second one.

use std::sync::Arc;
use std::time::Duration;

use rethread_events::codec::OrderedMap;
use rethread_events::ids::{ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::labels::Labels;
use rethread_events::schedule::{AtTick, SCHEDULED_AT, SCHEDULES_MAX, Schedule, ScheduleState};
use rethread_events::text::{head, with_sources};
use rethread_events::thread::{Rejected, Start, Status};
use rethread_events::workflow::Workflow;
use rethread_store::{LogReader, StoreError};

use crate::clock;
use crate::error::{ControlError, NextMove, ReadError, RuntimeError, ScheduleError, StartThreadError};
use crate::kept_schedules::NAMES;
use crate::registry::ThreadRegistry;
use crate::runtime::Runtime;
use crate::shared::ask::{ask_for, retry_elsewhere};
use crate::shared::place_of;
use crate::shared::request::{Request, ScheduleChange, ScheduleFailure};
use crate::start_thread::StartThread;
use crate::timers;

/// The most ticks of one backfill.
pub const BACKFILL_MAX: usize = 1_000;

/// The longest part of an unknown name in an error, in characters.
const NAME_SHOWN: usize = 80;
/// How soon a tick that could not be started is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How often a thread is looked at whose end a tick waits for.
const WAITING: Duration = Duration::from_secs(1);
/// How often the clock is looked at: it can be set.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(10);

fn all(store: &dyn LogReader) -> Result<Vec<ScheduleState>, StoreError> {
    store.values(NAMES)?.iter().map(|(name, value)| read(name, value)).collect()
}

fn find(store: &dyn LogReader, name: &str) -> Result<Option<ScheduleState>, StoreError> {
    let name = format!("{NAMES}{name}");
    store.value(&name)?.map(|value| read(&name, &value)).transpose()
}

fn read(name: &str, value: &[u8]) -> Result<ScheduleState, StoreError> {
    serde_json::from_slice(value)
        .map_err(|error| StoreError::Invalid(format!("the value `{name}` of the log is no schedule: {error}")))
}

/// Starts what is due, until the runtime shuts down.
pub(crate) async fn run(registry: Arc<ThreadRegistry>) {
    while !registry.is_shutting_down() {
        let Some(runtime) = Runtime::of_registry(&registry) else { return };
        let next = runtime.start_due().await;
        drop(runtime);
        let now = clock::now();
        let wait = match next {
            // Nothing to wait for but a change.
            Ok(None) => Duration::MAX,
            Ok(Some(at)) => timers::until(at, now).min(CLOCK_CHECK_INTERVAL),
            Err(error) => {
                tracing::error!(error = with_sources(&error), "the schedules of the log cannot be read: trying again");
                CLOCK_CHECK_INTERVAL
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = registry.services.schedules.changed.notified() => {}
        }
    }
}

impl Runtime {
    /// Makes a schedule, or changes the one of this name if it has the labels `within`. Durable when it returns. A change
    /// takes effect now: ticks before it are done with, threads that run go on.
    ///
    /// # Errors
    /// `Taken` if the schedule of this name lacks one of the labels; `Invalid` for what makes no sense; `NoWorkflow` when the log has no workflow of that name
    /// ([`Runtime::put_workflow`]); `Start` when its newest definition cannot run here, or does not take the input, or when
    /// a tick of the schedule as it was is due and cannot be started at present; `Full`. Nothing changed then.
    pub async fn put_schedule(
        &self,
        name: &str,
        schedule: Schedule,
        within: &Labels,
    ) -> Result<ScheduleState, ScheduleError> {
        self.fits("the input of a schedule", &schedule.input.0)?;
        self.change_schedule(name, ScheduleChange::Put { schedule: Box::new(schedule) }, within).await?;
        self.schedule_within(name, within).await
    }

    /// Changes a schedule at the runtime that has the place of all schedules. The schedule can be read here then.
    async fn change_schedule(&self, name: &str, change: ScheduleChange, within: &Labels) -> Result<(), ScheduleError> {
        let (registry, place) = (self.registry(), place_of(NAMES));
        let attempt = || async {
            let change = change.clone();
            if let Some(_held) = registry.hold(place) {
                return self.change_schedule_here(name, change, within).await;
            }
            let request = Request::Schedule { place, name: name.to_owned(), change, within: within.clone() };
            match ask_for::<Result<_, ScheduleFailure>>(registry, place, &request).await {
                Ok(changed) => changed.map_err(|failure| failure.into_error(place)),
                Err(error) => Err(RuntimeError::of_control(place, &error).into()),
            }
        };
        retry_elsewhere(registry, attempt).await
    }

    /// Changes a schedule. This runtime must have the place of all schedules.
    pub(crate) async fn change_schedule_here(
        &self,
        name: &str,
        change: ScheduleChange,
        within: &Labels,
    ) -> Result<(), ScheduleError> {
        let _lock = self.services().schedules.lock().await;
        // So that a removal of definitions does not take the workflow away meanwhile.
        let mut held = None;
        let state = match change {
            ScheduleChange::Put { schedule } => {
                let (state, workflow) = self.put_schedule_here(name, *schedule, within).await?;
                held = Some(self.keep(&workflow).await?);
                state
            }
            ScheduleChange::Pause { is_paused } => {
                let mut state = self.schedule_within(name, within).await?;
                state.pause(is_paused, clock::now());
                state
            }
            ScheduleChange::Delete => {
                let state = self.schedule_within(name, within).await?;
                let store = self.store().clone();
                self.blocking(move || store.remove_value(&format!("{NAMES}{}", state.name))).await??;
                return Ok(());
            }
        };
        self.store_state(&state).await?;
        drop(held);
        self.services().schedules.changed.notify_one();
        Ok(())
    }

    /// The schedule as it is to be stored, and its workflow.
    async fn put_schedule_here(
        &self,
        name: &str,
        schedule: Schedule,
        within: &Labels,
    ) -> Result<(ScheduleState, Arc<Workflow>), ScheduleError> {
        let now = clock::now();
        let known = self.find_schedule(name).await?;
        let is_new = known.is_none();
        let state = match known {
            Some(known) if !known.schedule.labels.include(within) => {
                return Err(ScheduleError::Taken { name: known.name });
            }
            Some(mut known) => {
                // What is due is started as it was to be.
                if self.mode().runs()
                    && let Err(error) = self.start_due_of(&mut known).await
                {
                    // One that can never be started is to be changed.
                    if error.next_move() == NextMove::Retry {
                        return Err(error);
                    }
                    tracing::warn!(schedule = name, error = with_sources(&error), "due ticks are not started");
                }
                known.change(schedule, now).map(|()| known)
            }
            None => ScheduleState::new(name, schedule, now),
        };
        let state = state.map_err(ScheduleError::Invalid)?;
        if is_new {
            let n = self.schedules().await?.len();
            if n >= SCHEDULES_MAX {
                return Err(ScheduleError::Full { n });
            }
        }
        let workflow = self.scheduled_workflow(&state).await?;
        let refused = |source| ScheduleError::Start { tick: None, source };
        if self.mode().runs() {
            self.runnable(&workflow).map_err(|faults| refused(StartThreadError::Workflow(faults)))?;
        }
        let given = Start { input: state.schedule.input.clone(), ..Start::default() };
        self.started(&workflow, given).await.map_err(refused)?;
        Ok((state, workflow))
    }

    /// All schedules of the log, by name.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn schedules(&self) -> Result<Vec<ScheduleState>, ScheduleError> {
        let store = self.store().clone();
        Ok(self.blocking(move || all(&*store)).await??)
    }

    /// A schedule.
    ///
    /// # Errors
    /// `NoSchedule`; when the log cannot be read.
    pub async fn schedule(&self, name: &str) -> Result<ScheduleState, ScheduleError> {
        self.find_schedule(name)
            .await?
            .ok_or_else(|| ScheduleError::NoSchedule { name: head(name, NAME_SHOWN).to_owned() })
    }

    /// Begins or ends a pause of a schedule that has the labels `within`: nothing is started meanwhile, and ticks of the
    /// pause are not caught up.
    ///
    /// # Errors
    /// As [`Runtime::schedule`], also for one that lacks a label, and when the log cannot be written.
    pub async fn pause_schedule(
        &self,
        name: &str,
        is_paused: bool,
        within: &Labels,
    ) -> Result<ScheduleState, ScheduleError> {
        self.change_schedule(name, ScheduleChange::Pause { is_paused }, within).await?;
        self.schedule_within(name, within).await
    }

    /// Removes a schedule that has the labels `within`. Its threads stay.
    ///
    /// # Errors
    /// As [`Runtime::pause_schedule`].
    pub async fn delete_schedule(&self, name: &str, within: &Labels) -> Result<(), ScheduleError> {
        self.change_schedule(name, ScheduleChange::Delete, within).await
    }

    /// Starts the threads of the ticks after `after` and up to `until`, at once, beside all others that run. A tick whose thread
    /// the log has is left out, so it can be repeated; one whose thread was deleted is started again. Returns the threads
    /// that were started.
    ///
    /// # Errors
    /// As [`Runtime::schedule`]; `Invalid` if `until` has not come, or there are more than [`BACKFILL_MAX`] ticks; `Start`
    /// names the tick that could not be started: those before it were.
    pub async fn backfill_schedule(
        &self,
        name: &str,
        after: Time,
        until: Time,
    ) -> Result<Vec<ThreadId>, ScheduleError> {
        let state = self.schedule(name).await?;
        if until > clock::now() {
            return Err(ScheduleError::Invalid(format!(
                "{until} is in the future: the schedule starts future ticks by itself"
            )));
        }
        let mut schedule = state.schedule.clone();
        if schedule.cron.is_some() {
            // Also ticks from before it was made.
            schedule.from = schedule.from.or(Some(after));
        }
        let times = schedule.times(state.created_at).map_err(ScheduleError::Invalid)?;
        let ticks: Vec<_> = times.after(after).take_while(|tick| *tick <= until).take(BACKFILL_MAX + 1).collect();
        if ticks.len() > BACKFILL_MAX {
            let what =
                format!("there are more than {BACKFILL_MAX} ticks between {after} and {until}: choose a shorter range");
            return Err(ScheduleError::Invalid(what));
        }
        let mut started = Vec::new();
        for tick in ticks {
            let thread = state.thread_of(tick);
            if !self.has_thread(thread).await? {
                self.start_tick(&state, tick).await?;
                started.push(thread);
            }
        }
        Ok(started)
    }

    async fn schedule_within(&self, name: &str, within: &Labels) -> Result<ScheduleState, ScheduleError> {
        let state = self.schedule(name).await?;
        match state.schedule.labels.include(within) {
            true => Ok(state),
            false => Err(ScheduleError::NoSchedule { name: state.name }),
        }
    }

    async fn find_schedule(&self, name: &str) -> Result<Option<ScheduleState>, ScheduleError> {
        let (store, name) = (self.store().clone(), name.to_owned());
        Ok(self.blocking(move || find(&*store, &name)).await??)
    }

    async fn store_state(&self, state: &ScheduleState) -> Result<(), ScheduleError> {
        let value = serde_json::to_vec(state).map_err(|error| ScheduleError::Invalid(error.to_string()))?;
        let (store, name) = (self.store().clone(), format!("{NAMES}{}", state.name));
        Ok(self.blocking(move || store.put_value(&name, &value)).await??)
    }

    /// The newest definition of its workflow.
    async fn scheduled_workflow(&self, state: &ScheduleState) -> Result<Arc<Workflow>, ScheduleError> {
        let name = &state.schedule.workflow;
        let newest = self.workflow_versions(name).await?.and_then(|versions| versions.newest());
        let workflow = match newest {
            Some(hash) => self.workflow(hash).await?,
            None => None,
        };
        workflow.ok_or_else(|| ScheduleError::NoWorkflow { workflow: head(name, NAME_SHOWN).to_owned() })
    }

    /// Starts what is due. Returns when the next is due; `None` if that depends on a change.
    async fn start_due(&self) -> Result<Option<Time>, ScheduleError> {
        let Some(_held) = self.registry().hold(place_of(NAMES)) else { return Ok(None) };
        let _lock = self.services().schedules.lock().await;
        let mut next: Option<Time> = None;
        for mut state in self.schedules().await? {
            let done = self.start_due_of(&mut state).await;
            let now = clock::now();
            let after = |pause| Some(now.plus_ms(clock::millis(pause)));
            let at = match done.and_then(|()| state.next_due(now).map_err(ScheduleError::Invalid)) {
                Ok(_) if !state.waiting.is_empty() && !state.is_paused => after(WAITING),
                Ok(at) => at,
                Err(error) => {
                    tracing::warn!(schedule = state.name, error = with_sources(&error), "not started: trying again");
                    after(RETRY)
                }
            };
            next = next.into_iter().chain(at).min();
        }
        Ok(next)
    }

    /// Starts what is due of one schedule. After an error, what is not done is still due.
    async fn start_due_of(&self, state: &mut ScheduleState) -> Result<(), ScheduleError> {
        while let Some(&tick) = state.waiting.first().filter(|_| !state.is_paused) {
            if !self.has_thread(state.thread_of(tick)).await? && self.last_runs(state).await? {
                break;
            }
            self.do_tick(state, tick).await?;
        }
        for tick in state.due(clock::now()).map_err(ScheduleError::Invalid)? {
            // What was started before the process ended is not decided about again.
            let at_tick = match self.has_thread(state.thread_of(tick)).await? {
                true => AtTick::Start,
                false => state.at_tick(self.last_runs(state).await?),
            };
            match at_tick {
                AtTick::Start => self.do_tick(state, tick).await?,
                AtTick::CancelAndStart => {
                    self.cancel_last(state).await?;
                    self.do_tick(state, tick).await?;
                }
                AtTick::Wait => {
                    state.waits(tick);
                    self.store_state(state).await?;
                }
                AtTick::Skip => {
                    tracing::info!(schedule = state.name, %tick, "skipped: the thread before it runs");
                    state.skipped(tick);
                    self.store_state(state).await?;
                }
            }
        }
        Ok(())
    }

    /// Starts the thread of a tick, or notes that it cannot be started. After an error nothing is noted.
    async fn do_tick(&self, state: &mut ScheduleState, tick: Time) -> Result<(), ScheduleError> {
        let done = match self.has_thread(state.thread_of(tick)).await? {
            true => Ok(()),
            false => self.start_tick(state, tick).await,
        };
        match done {
            Ok(()) => state.started(tick),
            Err(error) => match error.next_move() {
                NextMove::Retry | NextMove::TellOperator => return Err(error),
                NextMove::ChangeRequest | NextMove::NameAnother | NextMove::ReadAgain => {
                    let why = with_sources(&error);
                    tracing::error!(schedule = state.name, %tick, error = why, "the thread of a schedule is not started");
                    state.failed(tick, why);
                }
            },
        }
        self.store_state(state).await
    }

    async fn start_tick(&self, state: &ScheduleState, tick: Time) -> Result<(), ScheduleError> {
        let workflow = self.scheduled_workflow(state).await?;
        let mut variables = OrderedMap::default();
        variables.insert(SCHEDULED_AT.into(), Json::from(tick.to_string()));
        let mut start = StartThread::new(workflow, &state.schedule.input.0)
            .id(state.thread_of(tick))
            .labels(state.labels())
            .variables(variables);
        if let Some(folder) = self.services().workspace_folder() {
            start = start.workspace(folder);
        }
        match self.start(start).await {
            Ok(_) | Err(StartThreadError::Runtime(RuntimeError::Store(StoreError::Conflict { .. }))) => Ok(()),
            Err(source) => Err(ScheduleError::Start { tick: Some(tick), source }),
        }
    }

    async fn cancel_last(&self, state: &ScheduleState) -> Result<(), ScheduleError> {
        let Some(last) = state.last_thread else { return Ok(()) };
        let reason = format!("the next start of schedule `{}`", state.name);
        match self.thread(last).cancel(Some(reason)).await {
            // It has ended meanwhile, does no more than its hooks, or was deleted.
            Ok(()) | Err(ControlError::Rejected { source: Rejected::Ended { .. } | Rejected::Ending { .. }, .. }) => {
                Ok(())
            }
            Err(ControlError::Read(ReadError::NoThread(_))) => Ok(()),
            Err(source) => Err(ScheduleError::Cancel { thread: last, source: Box::new(source) }),
        }
    }

    async fn last_runs(&self, state: &ScheduleState) -> Result<bool, RuntimeError> {
        let Some(last) = state.last_thread else { return Ok(false) };
        let status = self.status_of(last).await?;
        Ok(status.is_some_and(|status| !status.is_ended()))
    }

    async fn has_thread(&self, thread: ThreadId) -> Result<bool, RuntimeError> {
        Ok(self.status_of(thread).await?.is_some())
    }

    /// `None` if the log has no such thread.
    async fn status_of(&self, thread: ThreadId) -> Result<Option<Status>, RuntimeError> {
        let store = self.store().clone();
        match self.blocking(move || store.stream(thread)).await? {
            Ok(info) => Ok(Some(Status::from_code(info.tag.0).unwrap_or(Status::Running))),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
