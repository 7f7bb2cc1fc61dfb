//! A handle of one thread.

use std::sync::Arc;
use std::time::Duration;

use rethread_events::codec::OrderedMap;
use rethread_events::event::LimitRaised;
use rethread_events::ids::{CallId, Position, Seq, ThreadId, Time};
use rethread_events::json::Json;
use rethread_events::message::Message;
use rethread_events::principal::Principal;
use rethread_events::thread::{Input, State, Status};
use rethread_store::{Filter, StreamInfo};
use serde::de::DeserializeOwned;

use crate::clock;
use crate::crashes::Step;
use crate::deliver;
use crate::error::{ControlError, ReadError, RuntimeError};
use crate::family::{self, FamilyMember};
use crate::label_limits::StartPermit;
use crate::labels::labels_of;
use crate::load;
use crate::outcome::{Outcome, OutcomeError};
use crate::recent_ends::Wanted;
use crate::request_keys::delete_threads;
use crate::runtime::Runtime;
use crate::shared::ask::{ask, retry_elsewhere};
use crate::shared::request::Request;
use crate::summary::{ThreadSummary, summary};
use crate::thread_actor::messages::CheckIdle;
use crate::waiters::{Rest, Until};

/// The longest pause before a thread that left, and does not rest, is looked at once more.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pauses between checks of a thread that is passivated again and again and does not rest, as it may where there is no room
/// for it: none before the first, which may have come just when it left.
fn pauses() -> impl Iterator<Item = Duration> {
    let growing = std::iter::successors(Some(Duration::from_millis(1)), |pause| Some((*pause * 2).min(PAUSE_MAX)));
    std::iter::once(Duration::ZERO).chain(growing)
}

/// One thread of a runtime. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ThreadHandle {
    runtime: Runtime,
    id: ThreadId,
    by: Principal,
    /// Of a thread that was started through it.
    _wanted: Option<Arc<Wanted>>,
}

impl ThreadHandle {
    pub(crate) fn new(runtime: Runtime, id: ThreadId) -> Self {
        let by = runtime.services().principal.clone();
        Self { runtime, id, by, _wanted: None }
    }

    /// The handle of a thread that was started just now, whose end is wanted.
    pub(crate) fn started(runtime: Runtime, id: ThreadId, wanted: Wanted) -> Self {
        Self { _wanted: Some(Arc::new(wanted)), ..Self::new(runtime, id) }
    }

    /// Returns a handle of the same thread for another principal, which events of its operations name in `by`. A text is
    /// the name of a principal of the application. Without a principal, [`RuntimeBuilder::principal`] is recorded.
    ///
    /// [`RuntimeBuilder::principal`]: crate::RuntimeBuilder::principal
    #[must_use]
    pub fn by(&self, principal: impl Into<Principal>) -> Self {
        Self { by: principal.into(), ..self.clone() }
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.by
    }

    /// Returns the runtime of the thread.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn store(&self) -> &Arc<dyn rethread_store::Store> {
        self.runtime.store()
    }

    /// Returns a handle of another thread of the same runtime, for the same principal.
    pub fn sibling(&self, id: ThreadId) -> Self {
        Self { id, _wanted: None, ..self.clone() }
    }

    /// Returns the id of the thread.
    pub fn id(&self) -> ThreadId {
        self.id
    }

    /// Waits until the thread has ended, and returns its outcome. Activates a thread that is not in memory. Dropping the
    /// future cancels nothing.
    ///
    /// # Errors
    /// `NoThread`; `SetAside` or an error of the log if the thread cannot be loaded; `ShuttingDown` if the runtime stops
    /// before. A thread that fails is no error: its outcome says so.
    pub async fn outcome(&self) -> Result<Outcome, ReadError> {
        self.wait(Until::Ended).await
    }

    /// Waits for the end of the thread and returns its output as a value of this type.
    ///
    /// # Errors
    /// `NotCompleted` when the thread failed or was cancelled; `Type` when its output is of another type; `Runtime` as
    /// [`ThreadHandle::outcome`].
    pub async fn outcome_as<T: DeserializeOwned>(&self) -> Result<T, OutcomeError> {
        self.outcome().await?.output_as()
    }

    /// Waits until the thread has ended, waits for a person, or is paused. A thread that waits only for its branches is at
    /// rest when all of them are. The thread stays in memory meanwhile, as long as there is room.
    ///
    /// If the runtime runs no threads ([`Mode::Observe`]), this waits, as [`ThreadHandle::outcome`] does, until an input
    /// ends or pauses the thread. If another process runs the threads ([`Mode::RunElsewhere`]), this does not see what that
    /// process does: wait there.
    ///
    /// [`Mode::Observe`]: crate::Mode::Observe
    /// [`Mode::RunElsewhere`]: crate::Mode::RunElsewhere
    pub async fn at_rest(&self) -> Result<Outcome, ReadError> {
        self.wait(Until::AtRest).await
    }

    /// Returns the outcome so far, without waiting. It is final if the status is that of an ended thread.
    pub async fn present(&self) -> Result<Outcome, ReadError> {
        let loaded = self.load(None).await?;
        Ok(Outcome::new(loaded.state, loaded.last_position))
    }

    async fn wait(&self, until: Until) -> Result<Outcome, ReadError> {
        let registry = self.runtime.registry();
        let mut pauses = pauses();
        loop {
            if let Some(Rest { state, last_position }) = registry.recent_ends.take(self.id) {
                return Ok(Outcome::new(state, last_position));
            }
            let waiting = registry.waiters.wait(self.id, until)?;
            // After the waiter is registered, so that an end in between is not missed.
            match registry.actor(self.id) {
                Some(actor) if registry.services.mode.runs() => actor.do_send(CheckIdle),
                _ => {
                    let next = self.store().next_position();
                    if let Some(outcome) = self.rests_in_log(until).await? {
                        return Ok(outcome);
                    }
                    if !registry.has_slot(self.id) {
                        drop(waiting);
                        self.wake_elsewhere().await;
                        self.changed_in_log(next).await?;
                        continue;
                    }
                    match self.start_up() {
                        // A call of a tool that waits here is cut off at the end of the shutdown, and not before: its
                        // failure would be recorded.
                        Ok(()) | Err(RuntimeError::ShuttingDown) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            match waiting.rest().await {
                Some(Ok(Rest { state, last_position })) => return Ok(Outcome::new(state, last_position)),
                Some(Err(error)) => return Err(error),
                None => registry.sleep(pauses.next().unwrap_or_default()).await,
            }
        }
    }

    /// Waits for what another runtime appends to the thread from that position on, for a while.
    async fn changed_in_log(&self, from: Position) -> Result<(), RuntimeError> {
        let registry = self.runtime.registry();
        if registry.is_shutting_down() {
            return Err(RuntimeError::ShuttingDown);
        }
        let mut records = self.store().subscribe(from, Filter { threads: vec![self.id], kinds: Vec::new() });
        tokio::select! {
            _ = records.next_batch() => {}
            () = registry.sleep(PAUSE_MAX) => {}
        }
        Ok(())
    }

    /// What it has come to, if the log has it where it is waited for.
    async fn rests_in_log(&self, until: Until) -> Result<Option<Outcome>, ReadError> {
        let loaded = self.load(None).await?;
        let mut status = loaded.state.status();
        let runs_here = self.runtime.services().mode.runs() && self.runtime.registry().has_slot(self.id);
        if until == Until::AtRest && status == Status::Running && !runs_here {
            // Its branches do not go on either, and tell it nothing.
            let (services, id) = (self.runtime.services().clone(), self.id);
            let status_of =
                move || family::status(&*services.store, &services.crashes, &load::stream(&*services.store, id)?);
            status = self.runtime.blocking(status_of).await??;
        }
        // A thread whose time came while no process ran it is not at rest: it has something to do.
        let is_due = loaded.state.next_deadline().is_some_and(|at| at <= clock::now());
        // Where another runtime runs it, it goes on by itself, too.
        let is_run = self.runtime.services().mode.runs();
        let is_suspended = matches!(status, Status::Suspended | Status::Queued) && !is_run;
        let rests = is_suspended || matches!(status, Status::Waiting | Status::Paused);
        let at_rest = rests && until == Until::AtRest && !is_due;
        Ok((status.is_ended() || at_rest).then(|| Outcome::new(loaded.state, loaded.last_position)))
    }

    fn start_up(&self) -> Result<(), RuntimeError> {
        self.runtime.registry().activate(self.id).map(|_| ())
    }

    /// Activates the thread if it is not in memory, so that it continues.
    pub async fn wake(&self) -> Result<(), ReadError> {
        self.info().await?;
        if self.runtime.registry().has_slot(self.id) {
            return Ok(self.start_up()?);
        }
        self.wake_elsewhere().await;
        Ok(())
    }

    /// Activates the thread at another runtime if it was imported there: that one runs all others by itself.
    async fn wake_elsewhere(&self) {
        let (registry, thread) = (self.runtime.registry(), self.id);
        if self.runtime.services().imported.has(thread)
            && let Err(error) = ask(registry, thread, &Request::Settle { thread }).await
        {
            tracing::debug!(%thread, %error, "an imported thread is not activated at its runtime");
        }
    }

    pub(crate) async fn load(&self, seq: Option<Seq>) -> Result<load::Loaded, ReadError> {
        let (services, id) = (self.runtime.services().clone(), self.id);
        let load = move || {
            let (crashes, store, kept) = (&services.crashes, &*services.store, &services.kept_states);
            match seq {
                None => crashes.folding(id, || load::present_from(store, id, kept)),
                Some(seq) => crashes.asked_for(Step::history(id, seq), || load::at_from(store, id, seq, kept)),
            }
        };
        self.read(load).await
    }

    /// Reads the thread in the log. Where another runtime has it, and it is not in the copy of the log here, it is read again
    /// when this copy is as far as that one was: the thread may have begun just now.
    async fn read<T: Send + 'static>(
        &self,
        read: impl Fn() -> Result<T, ReadError> + Clone + Send + 'static,
    ) -> Result<T, ReadError> {
        let (registry, thread) = (self.runtime.registry(), self.id);
        match self.runtime.blocking(read.clone()).await? {
            Err(ReadError::NoThread(_))
                if !registry.has_slot(thread) && ask(registry, thread, &Request::Settle { thread }).await.is_ok() =>
            {
                self.runtime.blocking(read).await?
            }
            read => read,
        }
    }

    pub(crate) async fn info(&self) -> Result<StreamInfo, ReadError> {
        let (store, id) = (self.runtime.store().clone(), self.id);
        self.read(move || load::stream(&*store, id)).await
    }

    /// Returns the summary that lists of threads have: status, times, workflow, sums.
    pub async fn summary(&self) -> Result<ThreadSummary, ReadError> {
        let (services, id) = (self.runtime.services().clone(), self.id);
        let look = move || {
            let info = load::stream(&*services.store, id)?;
            summary(&*services.store, &services.crashes, &info, &|thread| services.works_on(thread))
        };
        self.read(look).await
    }

    /// Returns the forks and branches of the thread: the threads that inherit from it, and the branches that replace
    /// inherited ones. The cost grows with their number.
    ///
    /// # Errors
    /// `NoThread`, and errors of the log.
    pub async fn children(&self) -> Result<Vec<ThreadId>, ReadError> {
        let (services, id) = (self.runtime.services().clone(), self.id);
        self.runtime.blocking(move || family::children(&*services.store, id)).await?
    }

    /// Returns the first seq that is not inherited from another thread.
    pub async fn first_own_seq(&self) -> Result<Seq, ReadError> {
        Ok(self.info().await?.fork_of.map_or(Seq(0), |point| point.seq.next()))
    }

    /// Returns the state after the last durable event.
    pub async fn state(&self) -> Result<State, ReadError> {
        Ok(self.load(None).await?.state)
    }

    /// Returns the state after event `seq`. Folds the thread from the nearest snapshot before it.
    ///
    /// # Errors
    /// `NoThread`; `NoSeq` if the thread is shorter; errors of the log.
    pub async fn state_at(&self, seq: Seq) -> Result<State, ReadError> {
        Ok(self.load(Some(seq)).await?.state)
    }

    /// Returns the thread and all branches that ran when it had recorded event `seq`, each with the seq it had then. The
    /// result is consistent, because the log has one order. For the last event it is the present. Folds each of them.
    pub async fn family_at(&self, seq: Seq) -> Result<Vec<FamilyMember>, ReadError> {
        let (services, id) = (self.runtime.services().clone(), self.id);
        self.runtime.blocking(move || family::family_at(&*services.store, &services.crashes, id, seq)).await?
    }

    /// Returns the seq of the checkpoint with this label, if the thread has one. Folds the thread.
    pub async fn checkpoint_seq(&self, label: &str) -> Result<Option<Seq>, ReadError> {
        let state = self.state().await?;
        Ok(state.checkpoints().iter().find(|checkpoint| checkpoint.label == label).map(|checkpoint| checkpoint.seq))
    }

    /// Gives the thread an input. Returns the seq of the first event that follows from it, when that is durable.
    pub(crate) async fn send_input(&self, input: Input) -> Result<Option<Seq>, ControlError> {
        self.send_start_input(input, None).await
    }

    /// The same of an input that begins a run, which has this permit.
    pub(crate) async fn send_start_input(
        &self,
        input: Input,
        permit: Option<Arc<StartPermit>>,
    ) -> Result<Option<Seq>, ControlError> {
        let registry = self.runtime.registry();
        // The runtime that has the thread knows whether it is there: the copy of this one may not have it yet.
        if registry.has_slot(self.id) && !registry.is_live(self.id) {
            self.info().await?;
        }
        deliver::ask_to_begin(registry, self.id, input.by(Some(self.by.clone())), permit).await
    }

    /// Pauses the thread: running calls end, and no new one begins until [`ThreadHandle::resume`]. Returns when the pause
    /// is durable in the thread and in its branches.
    ///
    /// # Errors
    /// `Rejected` if the thread has ended or is paused already.
    pub async fn pause(&self, reason: Option<String>) -> Result<(), ControlError> {
        self.send_input(Input::Pause { reason }).await.map(drop)
    }

    /// Ends a pause. Returns when that is durable in the thread and in its branches.
    ///
    /// # Errors
    /// `Rejected` if the thread has ended or is not paused; `LabelLimit` if one of its labels has used its tokens of the
    /// day.
    pub async fn resume(&self) -> Result<(), ControlError> {
        self.check_tokens().await?;
        self.send_input(Input::Resume).await.map(drop)
    }

    /// Raises limits, such as the budget from here on or the number of iterations, and ends a pause. A branch has no larger
    /// budget than its parent leaves it: raise that of the parent, as [`ThreadHandle::resume_tree`] does.
    ///
    /// # Errors
    /// As [`ThreadHandle::resume`].
    pub async fn raise(&self, limits: LimitRaised) -> Result<(), ControlError> {
        self.check_tokens().await?;
        self.send_input(Input::Raise(limits)).await.map(drop)
    }

    /// A thread whose label has used its tokens of the day would pause again at once.
    async fn check_tokens(&self) -> Result<(), ControlError> {
        if self.runtime.services().labels.limits_tokens() {
            let (services, id) = (self.runtime.services().clone(), self.id);
            let labels = self.runtime.blocking(move || labels_of(&*services.store, id)).await??;
            self.runtime
                .services()
                .labels
                .tokens_reached(&labels)
                .map_or(Ok(()), |reached| Err(RuntimeError::from(reached)))?;
        }
        Ok(())
    }

    /// Cancels the thread and its running calls; each open call gets its last event. Returns when that is durable in the
    /// thread and in its branches. If the workflow has `on_cancel` or `finally`, the thread ends after these hooks; a second
    /// cancel ends it at once.
    ///
    /// # Errors
    /// `Rejected` if the thread has ended, or if hooks of a run that failed or completed are running.
    pub async fn cancel(&self, reason: Option<String>) -> Result<(), ControlError> {
        self.send_input(Input::Cancel { reason }).await.map(drop)
    }

    /// Ends the thread with status `error`. Running calls are cancelled. No hooks run; those that are running are cancelled.
    ///
    /// # Errors
    /// `Rejected` if the thread has ended.
    pub async fn abort(&self, reason: Option<String>) -> Result<(), ControlError> {
        self.send_input(Input::Abort { reason }).await.map(drop)
    }

    /// Records a checkpoint: a label for the present seq.
    ///
    /// # Errors
    /// `Rejected` if the thread has ended, or has a checkpoint with this label.
    pub async fn checkpoint(&self, label: impl Into<String>) -> Result<(), ControlError> {
        self.send_input(Input::Checkpoint { label: label.into() }).await.map(drop)
    }

    /// Appends a message to the conversation; the next model call includes it.
    ///
    /// # Errors
    /// `TooLarge`; `Rejected` if the thread has ended or makes no further model call in its node.
    pub async fn add_message(&self, message: Message) -> Result<(), ControlError> {
        let value = serde_json::to_value(&message).unwrap_or_default();
        self.runtime.fits("a message", &value)?;
        self.send_input(Input::AddMessage(message)).await.map(drop)
    }

    /// Sets variables of scope `thread`.
    ///
    /// # Errors
    /// `TooLarge` for a value; `Rejected` if the thread has ended or a name is invalid.
    pub async fn set_variables(&self, variables: OrderedMap<Json>) -> Result<(), ControlError> {
        for value in variables.values() {
            self.runtime.fits("a variable", &value.0)?;
        }
        self.send_input(Input::SetVariables(variables)).await.map(drop)
    }

    /// Lets a wait of the thread end at another time, which can be past: then it ends at once. Its id is in the event
    /// WAIT_STARTED, and in [`State::timer`].
    ///
    /// # Errors
    /// `Rejected` when the thread has no such wait that goes on.
    pub async fn change_wait(&self, wait: CallId, until: Time) -> Result<(), ControlError> {
        self.send_input(Input::ChangeWait { wait, until }).await.map(drop)
    }

    /// Answers a question. The same answer again is accepted without effect.
    ///
    /// # Errors
    /// `NoInteraction` for one that was never asked; `Rejected` for one that is closed or was answered otherwise,
    /// and for an answer that the workflow cannot use. Nothing changed then.
    pub async fn respond(&self, interaction: CallId, answer: impl Into<Json>) -> Result<(), ControlError> {
        let data = answer.into();
        self.runtime.fits("an answer", &data.0)?;
        self.send_input(Input::Respond { interaction, data }).await.map(drop)
    }

    /// Withdraws a question, which fails as cancelled.
    ///
    /// # Errors
    /// `NoInteraction`; `Rejected` if the question is closed.
    pub async fn cancel_interaction(&self, interaction: CallId) -> Result<(), ControlError> {
        self.send_input(Input::CancelInteraction { interaction }).await.map(drop)
    }

    /// Deletes the thread and all its branches, with their snapshots and the blobs that only they name.
    ///
    /// # Errors
    /// `Store(InUse)` while forks inherit from one of them; `Rejected` while it or a branch of it has not ended: cancel it
    /// first. Nothing is deleted then.
    pub async fn delete(&self) -> Result<(), ControlError> {
        let (registry, id) = (self.runtime.registry(), self.id);
        let attempt = || async {
            // The runtime that has the thread knows whether a run of it begins.
            match registry.has_slot(id) {
                true => self.delete_here().await,
                false => ask(registry, id, &Request::Delete { thread: id, by: self.by.clone() }).await.map(drop),
            }
        };
        let deleted = retry_elsewhere(registry, attempt).await;
        registry.recent_ends.deleted();
        deleted
    }

    /// Deletes a thread of this runtime.
    pub(crate) async fn delete_here(&self) -> Result<(), ControlError> {
        let (registry, id) = (self.runtime.registry().clone(), self.id);
        let delete = move || {
            let store = &*registry.services.store;
            let family = family::ended_family(store, id)?;
            let deleted = delete_threads(store, &family);
            registry.recent_ends.deleted();
            Ok::<_, ControlError>(deleted?)
        };
        self.runtime.blocking(delete).await??;
        // No event of the thread is left that could say it.
        tracing::info!(target: "audit", thread = %id, by = %self.by, "thread deleted");
        Ok(())
    }
}
