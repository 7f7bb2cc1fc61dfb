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

use crate::deliver::{ask, deliver, deliver_unasked, settle};
use crate::error::RuntimeError;
use crate::inner::Inner;
use crate::load;
use crate::summary::branch_of;
use crate::thread_actor::{Begin, BranchReport, CheckOwnership, Pauses, ReportStatus, Standing, SyncPause};

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
pub(crate) struct ForkBaseCache {
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

impl ForkBaseCache {
    /// Blocks when the moment is not among the recent ones.
    fn at(&self, inner: &Inner, key: (ThreadId, Seq)) -> Result<Arc<Base>, RuntimeError> {
        if let Some(base) = self.recent.lock().iter().find(|base| base.key == key) {
            return Ok(base.clone());
        }
        let (thread, seq) = key;
        let fold = || load::as_recorded(&*inner.store, load::at(&*inner.store, thread, seq)?.state);
        let state = inner.crashes.folding(thread, fold)?;
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
    /// It has something to do, or may have been left paused when its owner went on.
    Open,
    /// It waits for somebody.
    Waiting,
    Ended(Box<BranchOutcome>, Position),
}

fn find(inner: &Inner, run: &BranchRun) -> Result<Found, RuntimeError> {
    match inner.store.stream(run.child) {
        Ok(info) => match Status::from_code(info.tag.0) {
            Some(status) if status.is_ended() => {
                let loaded = inner.crashes.folding(run.child, || load::present(&*inner.store, run.child))?;
                let outcome = loaded.state.branch_outcome().ok_or(RuntimeError::ActorStopped(run.child))?;
                Ok(Found::Ended(Box::new(outcome), loaded.last_position))
            }
            Some(Status::Waiting) => Ok(Found::Waiting),
            _ => Ok(Found::Open),
        },
        Err(StoreError::NotFound { .. }) => Ok(Found::Absent(inner.bases.at(inner, run.from)?)),
        Err(error) => Err(error.into()),
    }
}

/// Sees that a branch runs: begins it where it has not begun, and tells its owner where it has ended or rests.
pub(crate) async fn ensure(inner: Arc<Inner>, wanted: Wanted) {
    let Wanted { owner, ref run, .. } = wanted;
    while !inner.is_shutting_down() {
        let found = {
            let (inner, run) = (inner.clone(), run.clone());
            actix_rt::task::spawn_blocking(move || find(&inner, &run)).await
        };
        let Ok(found) = found else { return };
        match found {
            Ok(Found::Open) => return have_it_say(&inner, owner, run).await,
            Ok(Found::Waiting) => return report(&inner, owner, BranchReport::LiesAtRest { index: run.index }),
            Ok(Found::Ended(outcome, at)) => {
                let (index, child) = (run.index, run.child);
                return tell_end(inner, owner, End { index, child, outcome, at }).await;
            }
            Ok(Found::Absent(base)) => match begin(&inner, &wanted, &base).await {
                // Between the owner's wish and the beginning it may have changed its mind.
                Ok(()) => return reconcile_parent(inner, owner, run.index, run.child, Pauses::default()).await,
                Err(RuntimeError::Busy { .. }) => tokio::time::sleep(BUSY_RETRY).await,
                Err(RuntimeError::Store(StoreError::Conflict { .. })) => {}
                Err(RuntimeError::Store(error)) if error.is_temporary() => {
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
    let fork = Fork {
        changes: changes.clone(),
        branch,
        branches: run.inherits.clone(),
        globals: (*run.globals).clone(),
        ..Fork::default()
    };
    let (reply, answer) = oneshot::channel();
    let (parent, workflow) = (base.state.clone(), workflow.clone());
    let (answers, trace) = (Vec::new(), Some(base.trace));
    inner.begin(run.child, Begin::Fork { parent, fork: Box::new(fork), answers, workflow, trace, reply })?;
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
    deliver_unasked(inner, owner, Input::BranchEnded { index: run.index, child: run.child, outcome }).await;
}

/// Brings a branch back, so that it goes on and tells its owner where it stands.
async fn have_it_say(inner: &Arc<Inner>, owner: ThreadId, run: &BranchRun) {
    if let Err(error) = deliver(inner, run.child, || ReportStatus).await
        && !inner.is_shutting_down()
    {
        tell_put_back(inner, owner, run.index, error).await;
    }
}

/// Has a branch that the log has at rest, and that is in memory, tell its owner where it stands; it may have told so
/// when its owner was away.
pub(crate) async fn have_live_say(inner: Arc<Inner>, owner: ThreadId, index: u32, child: ThreadId) {
    if let Some(actor) = inner.actor(child) {
        if actor.send(ReportStatus).await.is_ok() {
            return;
        }
        inner.forget(child, &actor);
    }
    report(&inner, owner, BranchReport::LiesAtRest { index });
}

/// How a branch ended, with this event of the log.
pub(crate) struct End {
    pub(crate) index: u32,
    pub(crate) child: ThreadId,
    pub(crate) outcome: Box<BranchOutcome>,
    pub(crate) at: Position,
}

/// Tells the owner of a branch of its end, and brings it back for that.
pub(crate) async fn tell_end(inner: Arc<Inner>, owner: ThreadId, end: End) {
    let End { index, child, outcome, at } = end;
    let told = deliver(&inner, owner, || BranchReport::Ended { index, child, outcome: outcome.clone(), at }).await;
    if let Err(error) = told
        && !inner.is_shutting_down()
    {
        tracing::error!(thread = %owner, branch = %child, %error, "the end of the branch is told when its owner is there");
    }
}

/// Tells the owner of a branch about it, if it is in memory: one that comes back asks its branches.
pub(crate) fn report(inner: &Inner, owner: ThreadId, report: BranchReport) {
    if let Some(actor) = inner.actor(owner) {
        actor.do_send(report);
    }
}

/// A thread is put back to what the log has and does not go on by itself. If it is a branch, whoever waits for its owner
/// would wait for ever: they are told.
pub(crate) async fn put_back(inner: Arc<Inner>, thread: ThreadId, error: RuntimeError) {
    if let Some((owner, index)) = owner_of(&inner, thread).await {
        tell_put_back(&inner, owner, index, error).await;
    }
}

/// Tells an owner that a branch was put back, and who waits for one that is not in memory, from owner to owner. It is
/// not brought back: it would bring back the branch, and that would be put back again.
async fn tell_put_back(inner: &Arc<Inner>, mut owner: ThreadId, mut index: u32, error: RuntimeError) {
    while !inner.is_shutting_down() {
        if let Some(actor) = inner.actor(owner) {
            if actor.send(BranchReport::PutBack { index, error: error.clone() }).await.is_ok() {
                return;
            }
            inner.forget(owner, &actor);
        }
        inner.waiters.failed(owner, &error);
        match owner_of(inner, owner).await {
            Some(next) => (owner, index) = next,
            None => return,
        }
    }
}

/// Whose branch a thread is, and which. Where that cannot be read, the owner hears of it when it asks for the branch.
async fn owner_of(inner: &Arc<Inner>, thread: ThreadId) -> Option<(ThreadId, u32)> {
    let store = inner.store.clone();
    let found = actix_rt::task::spawn_blocking(move || branch_of(&*store, &store.stream(thread)?)).await;
    found.ok()?.ok()?
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
    // One that is about to begin is in memory and not in the log.
    let begins = inner.is_live(child);
    let status = {
        let inner = inner.clone();
        actix_rt::task::spawn_blocking(move || inner.store.stream(child).ok().map(|info| info.tag)).await
    };
    let unfinished = match status.ok().flatten() {
        Some(tag) => Status::from_code(tag.0).is_some_and(|status| !status.is_ended()),
        None => begins,
    };
    if !unfinished {
        return;
    }
    // The command about the thread, and a runtime that stops, wait until the branch and its own branches have recorded
    // it. A branch that rejects it did so by itself: that may not be durable yet.
    let recorded = match ask(&inner, child, input).await {
        Err(RuntimeError::Rejected { .. }) => settle(&inner, child).await,
        answered => answered.map(drop),
    };
    if let Err(error) = recorded {
        tracing::debug!(branch = %child, %error, "the branch has not recorded it");
    }
}

/// A branch that came back asks whether it is still wanted, and paused as its owner is: its owner may have ended, or
/// gone on without it, when nobody was there to tell it. An owner that is not in memory is not brought back for this:
/// it would ask for its branches, and they for it, again and again.
pub(crate) async fn reconcile_parent(inner: Arc<Inner>, owner: ThreadId, index: u32, child: ThreadId, pauses: Pauses) {
    while !inner.is_shutting_down() {
        let standing = match inner.actor(owner) {
            Some(actor) => match actor.send(CheckOwnership { index, child }).await {
                Ok(standing) => standing,
                Err(_) => {
                    inner.forget(owner, &actor);
                    continue;
                }
            },
            None => {
                let inner = inner.clone();
                let found = actix_rt::task::spawn_blocking(move || standing(&inner, owner, index, child)).await;
                let Ok(Ok(found)) = found else { return };
                Some(found)
            }
        };
        match standing {
            Some(Standing::NotOwned) => return cancel(inner, child).await,
            Some(Standing::Owned { is_paused }) if pauses.differ_from(is_paused) => {
                // Where it goes away again and again it asks anew when it is there.
                drop(deliver(&inner, child, || SyncPause { owner_is_paused: is_paused }).await);
                return;
            }
            Some(Standing::Owned { .. }) => return,
            // It waits for room in the log.
            None => tokio::time::sleep(STORE_RETRY).await,
        }
    }
}

/// How a branch stands with its owner, as the log has it. Blocks.
fn standing(inner: &Inner, owner: ThreadId, index: u32, child: ThreadId) -> Result<Standing, RuntimeError> {
    let status = match inner.store.stream(owner) {
        Ok(info) => Status::from_code(info.tag.0),
        Err(StoreError::NotFound { .. }) => return Ok(Standing::NotOwned),
        Err(error) => return Err(error.into()),
    };
    if status.is_some_and(Status::is_ended) {
        return Ok(Standing::NotOwned);
    }
    let fold = || load::present_from(&*inner.store, owner, &inner.kept_states);
    let loaded = inner.crashes.folding(owner, fold)?;
    Ok(Standing::of(&loaded.state, index, child))
}
