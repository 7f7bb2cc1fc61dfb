//! The branches of a fork node: each a thread of its own. Its owner owes that it runs; its end is told to the owner.
//! Everything here may be done again after a restart, in any order: the log says what is so.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::event::{BranchOf, ForkChanges};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{Position, Seq, ThreadId, TraceId};
use rethread_events::thread::{BranchOutcome, BranchRun, Fork, Input, State, Status, Totals};
use rethread_events::workflow::Workflow;
use rethread_store::StoreError;
use tokio::sync::oneshot;

use crate::error::RuntimeError;
use crate::inner::Inner;
use crate::load;
use crate::thread_actor::{Begin, BranchReport, Owns, Tell};

/// How many moments are kept at which threads fork off.
const BASES_MAX: usize = 16;
/// How long to wait for room to begin another thread.
const BUSY_RETRY: Duration = Duration::from_millis(5);
/// How long to wait when the log cannot be read or written just now.
const STORE_RETRY: Duration = Duration::from_secs(1);
/// What the pause of a thread is called in its branches; the end of that pause ends only such pauses.
pub(crate) const PAUSED_WITH_OWNER: &str = "the thread whose branch this is was paused";

/// The moments at which branches fork off, folded once for all branches of a fork.
#[derive(Default)]
pub(crate) struct Bases {
    recent: Mutex<Vec<Arc<Base>>>,
}

/// A moment of a thread.
pub(crate) struct Base {
    key: (ThreadId, Seq),
    state: Arc<State>,
    trace: TraceId,
}

/// A branch that its owner owes.
pub(crate) struct Wanted {
    pub(crate) owner: ThreadId,
    pub(crate) run: BranchRun,
    /// What the owner's forks changed holds for its branches, also for those that fork off from an earlier moment.
    pub(crate) changes: ForkChanges,
    /// The definition that the owner runs on.
    pub(crate) workflow: Arc<Workflow>,
}

impl Bases {
    /// Blocks when the moment is not among the recent ones.
    fn at(&self, inner: &Inner, key: (ThreadId, Seq)) -> Result<Arc<Base>, RuntimeError> {
        if let Some(base) = self.recent.lock().iter().find(|base| base.key == key) {
            return Ok(base.clone());
        }
        let (thread, seq) = key;
        let state = load::as_recorded(&*inner.store, load::at(&*inner.store, thread, seq)?.state)?;
        let record = inner.store.read_stream(thread, seq..seq.next(), 1)?;
        let trace = record.first().map_or_else(|| thread.into(), |record| record.trace);
        let base = Arc::new(Base { key, state: Arc::new(state), trace });
        let mut recent = self.recent.lock();
        if recent.len() >= BASES_MAX {
            recent.remove(0);
        }
        recent.push(base.clone());
        Ok(base)
    }
}

/// How a branch is found.
enum Found {
    Absent(Arc<Base>),
    Running,
    Resting,
    Ended(Box<BranchOutcome>, Position),
}

fn find(inner: &Inner, run: &BranchRun) -> Result<Found, RuntimeError> {
    match inner.store.stream(run.child) {
        Ok(info) => match Status::from_code(info.tag.0) {
            Some(status) if status.is_ended() => {
                let loaded = load::present(&*inner.store, run.child)?;
                let outcome = loaded.state.branch_outcome().ok_or(RuntimeError::ActorStopped(run.child))?;
                Ok(Found::Ended(Box::new(outcome), loaded.last_position))
            }
            Some(Status::Waiting | Status::Paused) => Ok(Found::Resting),
            _ => Ok(Found::Running),
        },
        Err(StoreError::NotFound { .. }) => Ok(Found::Absent(inner.bases.at(inner, run.from)?)),
        Err(error) => Err(error.into()),
    }
}

/// Sees that a branch runs: begins it where it has not begun, and tells its owner where it has ended.
pub(crate) async fn ensure(inner: Arc<Inner>, wanted: Wanted) {
    let Wanted { owner, ref run, .. } = wanted;
    while !inner.is_shutting_down() {
        let found = {
            let (inner, run) = (inner.clone(), run.clone());
            actix_rt::task::spawn_blocking(move || find(&inner, &run)).await
        };
        let Ok(found) = found else { return };
        match found {
            Ok(Found::Running) => {
                let _ = inner.activate(run.child);
                return;
            }
            Ok(Found::Resting) => return report(&inner, owner, BranchReport::LiesAtRest { index: run.index }),
            Ok(Found::Ended(outcome, at)) => return tell_end(&inner, owner, run, *outcome, at).await,
            Ok(Found::Absent(base)) => match begin(&inner, &wanted, &base).await {
                // Between the owner's wish and the beginning it may have changed its mind.
                Ok(()) => return cancel_unless_owned(inner, owner, run.index, run.child).await,
                Err(RuntimeError::Busy { .. }) => tokio::time::sleep(BUSY_RETRY).await,
                Err(RuntimeError::Store(StoreError::Conflict { .. })) => {}
                Err(RuntimeError::Store(StoreError::Full { .. } | StoreError::Busy { .. })) => {
                    tokio::time::sleep(STORE_RETRY).await;
                }
                Err(RuntimeError::ShuttingDown) => return,
                Err(error) => return give_up(&inner, owner, run, &error).await,
            },
            Err(error) => return give_up(&inner, owner, run, &error).await,
        }
    }
}

async fn begin(inner: &Arc<Inner>, wanted: &Wanted, base: &Base) -> Result<(), RuntimeError> {
    let Wanted { owner, run, changes, workflow } = wanted;
    let branch = Some(BranchOf { owner: *owner, index: run.index });
    let fork = Fork { changes: changes.clone(), branch, branches: run.inherits.clone() };
    let (reply, answer) = oneshot::channel();
    let (parent, workflow) = (base.state.clone(), workflow.clone());
    let (answers, trace) = (Vec::new(), Some(base.trace));
    inner.begin(run.child, Begin::Fork { parent, fork, answers, workflow, trace, reply })?;
    answer.await.map_err(|_| RuntimeError::ActorStopped(run.child))?.map(drop)
}

/// A branch that cannot run has failed; one that only cannot begin before the runtime stops begins with the next one.
async fn give_up(inner: &Arc<Inner>, owner: ThreadId, run: &BranchRun, error: &RuntimeError) {
    if inner.is_shutting_down() {
        return;
    }
    tracing::error!(thread = %owner, branch = %run.child, %error, "the branch cannot begin");
    let error = ExecutionError::new(ErrorKind::Internal, format!("the branch cannot begin: {error}"));
    let outcome = BranchOutcome { output: Err(error), globals: Default::default(), totals: Totals::default() };
    let input = Input::BranchEnded { index: run.index, child: run.child, outcome };
    if let Ok(actor) = inner.activate(owner) {
        actor.do_send(Tell::unasked(input));
    }
}

async fn tell_end(inner: &Arc<Inner>, owner: ThreadId, run: &BranchRun, outcome: BranchOutcome, at: Position) {
    let (index, child) = (run.index, run.child);
    report(inner, owner, BranchReport::Ended { index, child, outcome: Box::new(outcome), at });
}

/// Tells the owner of a branch about it. One that is not live is brought back for an end, and only for that.
pub(crate) fn report(inner: &Arc<Inner>, owner: ThreadId, report: BranchReport) {
    let actor = match &report {
        BranchReport::Ended { .. } => inner.activate(owner).ok(),
        BranchReport::Rests { .. } | BranchReport::LiesAtRest { .. } => inner.actor(owner),
    };
    if let Some(actor) = actor {
        actor.do_send(report);
    }
}

/// Ends a branch that its owner does not need any more. Does nothing to one that has ended or never began.
pub(crate) async fn cancel(inner: Arc<Inner>, child: ThreadId) {
    let reason = Some("its result is not needed any more".to_owned());
    tell_if_unfinished(inner, child, Input::Cancel { reason }).await;
}

/// Pauses a branch with its owner, or lets it go on.
pub(crate) async fn pause(inner: Arc<Inner>, child: ThreadId, paused: bool) {
    let input = if paused { Input::Pause { reason: Some(PAUSED_WITH_OWNER.into()) } } else { Input::Resume };
    tell_if_unfinished(inner, child, input).await;
}

async fn tell_if_unfinished(inner: Arc<Inner>, child: ThreadId, input: Input) {
    let status = {
        let inner = inner.clone();
        actix_rt::task::spawn_blocking(move || inner.store.stream(child).ok().map(|info| info.tag)).await
    };
    let unfinished = status.ok().flatten().and_then(|tag| Status::from_code(tag.0)).is_some_and(|s| !s.is_ended());
    if unfinished && let Ok(actor) = inner.activate(child) {
        actor.do_send(Tell::unasked(input));
    }
}

/// A branch that came back asks whether it is still wanted: its owner may have ended, or gone on without it, when
/// nobody was there to tell it.
pub(crate) async fn cancel_unless_owned(inner: Arc<Inner>, owner: ThreadId, index: u32, child: ThreadId) {
    let info = {
        let inner = inner.clone();
        actix_rt::task::spawn_blocking(move || inner.store.stream(owner)).await
    };
    let owner_status = match info {
        Ok(Ok(info)) => Status::from_code(info.tag.0),
        Ok(Err(StoreError::NotFound { .. })) => Some(Status::Cancelled),
        Ok(Err(_)) | Err(_) => return,
    };
    if owner_status.is_some_and(Status::is_ended) {
        return cancel(inner, child).await;
    }
    let Ok(actor) = inner.activate(owner) else { return };
    // No answer: the owner is leaving, and whoever brings it back brings its branches to order.
    match actor.send(Owns { index, child }).await {
        Ok(Some(owner_is_paused)) => pause_like(inner, child, owner_is_paused),
        Ok(None) => cancel(inner, child).await,
        Err(_) => {}
    }
}

fn pause_like(inner: Arc<Inner>, child: ThreadId, owner_is_paused: bool) {
    if let Some(actor) = inner.actor(child) {
        actor.do_send(crate::thread_actor::PauseLike { owner_is_paused });
    }
}
