//! Branches of a fork node. Each is a thread of its own. Its parent starts it and is notified of its end. Everything
//! here can be repeated after a restart, in any order, because it first reads the log.

use std::sync::Arc;
use std::time::Duration;

use rethread_events::event::{BranchOf, ForkChanges, LimitRaised};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{Position, ThreadId};
use rethread_events::text::with_sources;
use rethread_events::thread::{BranchOutcome, BranchRun, Fork, Input, Status, Totals, Uncounted};
use rethread_events::workflow::Workflow;
use rethread_store::StoreError;

use crate::blocking::blocking;
use crate::branch_states::{BranchBudget, BranchState, news_of};
use crate::deliver::{ask, deliver, report, settle};
use crate::each_key::{STORE_RETRY, each_key};
use crate::error::{ControlError, ReadError, RuntimeError};
use crate::fork_bases::Base;
use crate::load;
use crate::port::Reply;
use crate::registry::ThreadRegistry;
use crate::stream_keys;
use crate::summary::branch_of;
use crate::thread_actor::messages::{
    Begin, BranchChanged, CheckIdle, Origin, PAUSED_WITH_PARENT, Pauses, SyncBudget, SyncPause,
};

/// How long to wait for a free place before another thread is started.
const BUSY_RETRY: Duration = Duration::from_millis(5);

/// A branch that its parent wants to run.
pub(crate) struct Wanted {
    pub(crate) parent: ThreadId,
    pub(crate) run: BranchRun,
    /// The changes from the parent's forks that apply to its branches, also to those that fork off from an earlier
    /// moment.
    pub(crate) changes: ForkChanges,
    /// The definition that the parent runs on.
    pub(crate) workflow: Arc<Workflow>,
    /// What is left of the budget of the parent; `None` if its run has none.
    pub(crate) left: Option<LimitRaised>,
}

/// The state in which a branch is found.
enum Found {
    Absent(Arc<Base>),
    /// It has something to do, or may still be paused although its parent has resumed.
    Open,
    /// No part of it runs: it waits for a person or a time.
    AtRest(BranchState),
    Ended(Box<BranchOutcome>, Position),
}

fn find(registry: &ThreadRegistry, run: &BranchRun) -> Result<Found, ReadError> {
    match registry.services.store.stream(run.child) {
        Ok(info) => match Status::from_code(info.tag.0) {
            Some(status) if status.is_ended() => {
                let (outcome, at) = end_in_log(registry, run.child)?;
                Ok(Found::Ended(outcome, at))
            }
            Some(Status::Waiting) => Ok(Found::AtRest(BranchState::Rests)),
            Some(Status::Suspended) => Ok(Found::AtRest(BranchState::Suspended)),
            _ => Ok(Found::Open),
        },
        Err(StoreError::NotFound { .. }) => Ok(Found::Absent(registry.services.bases.at(
            &*registry.services.store,
            &registry.services.crashes,
            run.from,
        )?)),
        Err(error) => Err(error.into()),
    }
}

/// Returns how a branch ended, with the position of its last event. Blocks.
fn end_in_log(registry: &ThreadRegistry, child: ThreadId) -> Result<(Box<BranchOutcome>, Position), ReadError> {
    let fold = || load::present(&*registry.services.store, child);
    let loaded = registry.services.crashes.folding(child, fold)?;
    let outcome = loaded.state.branch_outcome().ok_or(RuntimeError::ActorStopped(child))?;
    Ok((Box::new(outcome), loaded.last_position))
}

/// Ensures that a branch runs: starts it if it has not begun, and notifies its parent if it has ended or is at rest.
pub(crate) async fn ensure(registry: Arc<ThreadRegistry>, wanted: Wanted) {
    let Wanted { parent, ref run, .. } = wanted;
    while !registry.is_shutting_down() {
        let found = {
            let (registry, run) = (registry.clone(), run.clone());
            actix_rt::task::spawn_blocking(move || find(&registry, &run)).await
        };
        let Ok(found) = found else { return };
        match found {
            Ok(Found::Open) => return activate(&registry, parent, run.child).await,
            Ok(Found::AtRest(state)) => return rests_in_log(&registry, parent, run.child, state).await,
            Ok(Found::Ended(outcome, at)) => {
                let (index, child) = (run.index, run.child);
                return tell_end(registry, parent, End { index, child, outcome, at }).await;
            }
            Ok(Found::Absent(base)) => match begin(&registry, &wanted, &base).await {
                // The parent may have cancelled or paused the branch before it began.
                Ok(()) => {
                    // It compares its budget with that of its parent, which may have changed while it waited for a place.
                    if wanted.left.is_some() {
                        activate(&registry, parent, run.child).await;
                    }
                    return reconcile_parent(registry, parent, run.index, run.child, Pauses::default()).await;
                }
                Err(error) => match error.runtime() {
                    Some(RuntimeError::Busy { .. }) => tokio::time::sleep(BUSY_RETRY).await,
                    Some(RuntimeError::Store(StoreError::Conflict { .. } | StoreError::Fenced { .. })) => {}
                    Some(RuntimeError::Store(error)) if error.is_temporary() => {
                        tokio::time::sleep(STORE_RETRY).await;
                    }
                    Some(RuntimeError::ShuttingDown) => return,
                    _ => return give_up(&registry, parent, run, &error).await,
                },
            },
            Err(error) => return give_up(&registry, parent, run, &error).await,
        }
    }
}

async fn begin(registry: &Arc<ThreadRegistry>, wanted: &Wanted, base: &Base) -> Result<(), ControlError> {
    let Wanted { parent, run, changes, workflow, .. } = wanted;
    let branch = Some(BranchOf { owner: *parent, index: run.index });
    let (changes, workflow) = on_definition(registry, changes, workflow, base).await?;
    let fork = Fork {
        changes,
        branch,
        branches: run.inherits.clone(),
        globals: (*run.globals).clone(),
        left: wanted.left.clone(),
        ..Fork::default()
    };
    let (reply, answer) = Reply::channel(None);
    let parent = base.state.clone();
    let origin = Origin::Moment { parent, fork: Box::new(fork), answers: Vec::new() };
    let begin = Begin { workflow, origin, trace: Some(base.trace), needs_room: true, reply };
    registry.begin(run.child, &mut Some(Box::new(begin)))?;
    answer.await.map_err(|_| RuntimeError::ActorStopped(run.child))?.map(drop)
}

/// Returns the definition that a branch begins on: that of its parent, which may have been migrated since the moment from
/// which the branch forks off. A branch that takes the place of one that had not been migrated yet, and that does not fit,
/// keeps its own.
async fn on_definition(
    registry: &Arc<ThreadRegistry>,
    changes: &ForkChanges,
    workflow: &Arc<Workflow>,
    base: &Base,
) -> Result<(ForkChanges, Arc<Workflow>), ControlError> {
    let mut changes = changes.clone();
    if changes.workflow.is_some() || base.state.workflow().is_none_or(|present| present.hash == workflow.hash()) {
        return Ok((changes, workflow.clone()));
    }
    if base.state.fits(workflow).is_ok() {
        changes.workflow = Some(workflow.reference());
        return Ok((changes, workflow.clone()));
    }
    let (services, state) = (registry.services.clone(), base.state.clone());
    let own = blocking(move || services.definitions.of(state.thread(), &state)).await.map_err(ReadError::from)??;
    Ok((changes, own))
}

/// Fails a branch that cannot run. A branch that cannot begin before the runtime stops begins with the next runtime.
async fn give_up(registry: &Arc<ThreadRegistry>, parent: ThreadId, run: &BranchRun, error: &dyn std::error::Error) {
    if registry.is_shutting_down() {
        return;
    }
    let error = with_sources(error);
    tracing::error!(thread = %parent, branch = %run.child, error, "the branch cannot begin");
    let error = ExecutionError::new(ErrorKind::Internal, format!("the branch cannot begin: {error}"));
    let outcome = BranchOutcome { totals: run.spent, ..BranchOutcome::failed(error) };
    let end = Input::BranchEnded { index: run.index, child: run.child, outcome };
    tell_parent(registry, parent, run.child, end, None).await;
}

/// Activates a branch, so that it continues and writes its state.
async fn activate(registry: &Arc<ThreadRegistry>, parent: ThreadId, child: ThreadId) {
    if let Err(error) = deliver(registry, child, || CheckIdle).await
        && !registry.is_shutting_down()
    {
        tell_put_back(registry, parent, child, &error.into()).await;
    }
}

/// Handles a branch that waits for a person according to the log. One in memory may have moved since; it writes its own
/// state.
async fn rests_in_log(registry: &Arc<ThreadRegistry>, parent: ThreadId, child: ThreadId, state: BranchState) {
    if let Some(actor) = registry.actor(child) {
        if actor.send(CheckIdle).await.is_ok() {
            return;
        }
        registry.forget(child, &actor);
    }
    notify(registry, parent, registry.branch_states.set_if_unknown(parent, child, state));
}

/// Makes a parent read the states of its branches, if one changed. A parent that is not in memory finds its branches
/// when it is activated.
pub(crate) fn notify(registry: &ThreadRegistry, parent: ThreadId, is_changed: bool) {
    if is_changed && let Some(actor) = registry.actor(parent) {
        actor.do_send(BranchChanged);
    }
}

/// The end of a branch, with the event that recorded it.
pub(crate) struct End {
    pub(crate) index: u32,
    pub(crate) child: ThreadId,
    pub(crate) outcome: Box<BranchOutcome>,
    pub(crate) at: Position,
}

/// Reports to a parent what became of a branch, until that is durable there: the actor of a repeated start of the parent knows
/// no branches, and ignores it. The parent is activated for that. A report that fails is made up for when the parent is loaded
/// again and checks its branches.
async fn tell_parent(
    registry: &Arc<ThreadRegistry>,
    parent: ThreadId,
    branch: ThreadId,
    input: Input,
    cause: Option<Position>,
) {
    if let Err(error) = report(registry, parent, input, cause).await
        && !registry.is_shutting_down()
    {
        tracing::error!(thread = %parent, %branch, error = with_sources(&error), "a parent that is activated later counts what the branch spent, and its end");
    }
}

/// Reports the end of a branch to its parent.
pub(crate) async fn tell_end(registry: Arc<ThreadRegistry>, parent: ThreadId, end: End) {
    let End { index, child, outcome, at } = end;
    let end = Input::BranchEnded { index, child, outcome: *outcome };
    tell_parent(&registry, parent, child, end, Some(at)).await;
}

/// Handles a thread that was returned to the log and does not resume by itself. If it is a branch, callers that wait
/// for its parent would wait for ever: they are notified.
pub(crate) async fn put_back(registry: Arc<ThreadRegistry>, thread: ThreadId, error: ReadError) {
    if let Some(parent) = parent_of(&registry, thread).await {
        tell_put_back(&registry, parent, thread, &error).await;
    }
}

/// Notifies callers that wait for a parent that a branch was returned to the log, from parent to parent, up to one that
/// does not watch the branch. A parent that is not in memory is not activated: it would activate the branch, which
/// would fail again. One that is in memory retries the branch for the next caller.
async fn tell_put_back(registry: &Arc<ThreadRegistry>, mut parent: ThreadId, mut branch: ThreadId, error: &ReadError) {
    while !registry.is_shutting_down() {
        if !registry.branch_states.set(parent, branch, BranchState::PutBack) && registry.is_live(parent) {
            return;
        }
        registry.waiters.failed(parent, error);
        match parent_of(registry, parent).await {
            Some(next) => (branch, parent) = (parent, next),
            None => return,
        }
    }
}

/// Returns the parent of a branch. If that cannot be read, the parent is notified when it asks for the branch.
async fn parent_of(registry: &Arc<ThreadRegistry>, thread: ThreadId) -> Option<ThreadId> {
    let store = registry.services.store.clone();
    let found = actix_rt::task::spawn_blocking(move || branch_of(&*store, &store.stream(thread)?)).await;
    found.ok()?.ok()?.map(|(parent, _)| parent)
}

/// Cancels a branch that its parent no longer needs. Does nothing if the branch has ended or never began.
pub(crate) async fn cancel(registry: Arc<ThreadRegistry>, child: ThreadId) {
    let reason = Some("its result is not needed any more".to_owned());
    tell_if_unfinished(registry.clone(), child, Input::Cancel { reason }).await;
    // A shutdown waits for the report of the end, which the branch has begun when it has handled this.
    if let Some(actor) = registry.actor(child) {
        let _ = actor.send(CheckIdle).await;
    }
}

/// Where a branch is that has ended for its parent before it reported its final sums.
enum Late {
    /// It never began.
    Absent,
    Open,
    Ended(Box<BranchOutcome>, Position),
}

fn find_late(registry: &ThreadRegistry, child: ThreadId) -> Result<Late, ReadError> {
    match registry.services.store.stream(child) {
        Ok(info) if Status::from_code(info.tag.0).is_some_and(Status::is_ended) => {
            let (outcome, at) = end_in_log(registry, child)?;
            Ok(Late::Ended(outcome, at))
        }
        Ok(_) => Ok(Late::Open),
        Err(StoreError::NotFound { .. }) => Ok(Late::Absent),
        Err(error) => Err(error.into()),
    }
}

/// Reports to a parent what a branch spent that has ended for it before, as the log has it: a report may have been lost. A
/// branch that has not ended is cancelled, and reports itself. `begins` says whether a branch that is not in the log may still
/// begin.
pub(crate) async fn count_late(
    registry: Arc<ThreadRegistry>,
    parent: ThreadId,
    (child, of): (ThreadId, Uncounted),
    begins: bool,
) {
    let found = {
        let registry = registry.clone();
        blocking(move || find_late(&registry, child)).await
    };
    let index = of.index;
    match found.map_err(ReadError::from).flatten() {
        Ok(Late::Ended(outcome, at)) if outcome.is_final || outcome.totals.is_beyond(&of.counted) => {
            tell_end(registry, parent, End { index, child, outcome, at }).await;
        }
        Ok(Late::Open) => cancel(registry, child).await,
        Ok(Late::Absent) if !begins => {
            let outcome = BranchOutcome::failed(ExecutionError::new(ErrorKind::Cancelled, "the branch never began"));
            tell_parent(&registry, parent, child, Input::BranchEnded { index, child, outcome }, None).await;
        }
        // Its own branches report to it, and it then to its parent.
        Ok(Late::Ended(..) | Late::Absent) => {}
        Err(error) => {
            tracing::error!(thread = %parent, branch = %child, error = with_sources(&error), "cannot read what the branch spent: its parent counts it with a later start");
        }
    }
}

/// Runs after a start: counts what branches spent whose reports were lost with the last process.
pub(crate) async fn tidy(registry: Arc<ThreadRegistry>) {
    each_key(&registry, "the branches to count", stream_keys::uncounted, async |parent| {
        if !registry.is_mine(parent) {
            return;
        }
        let folded = {
            let services = registry.services.clone();
            let fold = move || {
                services.crashes.folding(parent, || load::present(&*services.store, parent))
            };
            blocking(fold).await
        };
        match folded.map_err(ReadError::from).flatten() {
            Ok(loaded) => {
                for (child, of) in loaded.state.uncounted_branches() {
                    // One that is in memory may have begun a branch since the start.
                    let begins = registry.is_live(parent) || registry.is_live(*child);
                    count_late(registry.clone(), parent, (*child, of.clone()), begins).await;
                }
            }
            Err(error) => {
                tracing::error!(thread = %parent, error = with_sources(&error), "cannot read a thread whose branches are to be counted");
            }
        }
    })
    .await;
}

/// Gives a branch the limits that its parent leaves it, and pauses it with its parent or resumes it.
pub(crate) async fn follow(
    registry: Arc<ThreadRegistry>,
    child: ThreadId,
    left: Option<LimitRaised>,
    paused: Option<bool>,
) {
    if let Some(left) = left {
        tell_if_unfinished(registry.clone(), child, Input::BudgetLeft(left)).await;
    }
    let pause = || Input::Pause { reason: Some(PAUSED_WITH_PARENT.into()) };
    if let Some(input) = paused.map(|paused| if paused { pause() } else { Input::Resume }) {
        tell_if_unfinished(registry, child, input).await;
    }
}

/// Reports to a parent what a branch has spent.
pub(crate) async fn report_spending(
    registry: Arc<ThreadRegistry>,
    parent: ThreadId,
    (index, child): (u32, ThreadId),
    totals: Totals,
    at: Position,
) {
    tell_parent(&registry, parent, child, Input::BranchSpent { index, child, totals }, Some(at)).await;
}

/// Makes a parent and a branch that was activated compare their budgets. A parent that is not in memory is only activated if
/// one of them learns something: otherwise it would activate the branch, and the branch the parent, without end.
pub(crate) async fn sync_budget(registry: Arc<ThreadRegistry>, parent: ThreadId, of: BranchBudget) {
    if let Some(actor) = registry.actor(parent) {
        return actor.do_send(SyncBudget(Box::new(of)));
    }
    let in_log = {
        let registry = registry.clone();
        blocking(move || {
            let fold = || load::present_from(&*registry.services.store, parent, &registry.services.kept_states);
            let state = registry.services.crashes.folding(parent, fold)?.state;
            Ok::<_, ReadError>((news_of(&state, &of), of))
        })
    };
    let Ok(Ok((Some(news), of))) = in_log.await else { return };
    if let Some((totals, at)) = news.spent {
        report_spending(registry.clone(), parent, (of.index, of.branch), totals, at).await;
    }
    if news.left.is_some() {
        follow(registry, of.branch, news.left, None).await;
    }
}

async fn tell_if_unfinished(registry: Arc<ThreadRegistry>, child: ThreadId, input: Input) {
    // A branch that is about to begin is in memory and not in the log.
    let begins = registry.is_live(child);
    let status = {
        let registry = registry.clone();
        actix_rt::task::spawn_blocking(move || registry.services.store.stream(child).ok().map(|info| info.tag)).await
    };
    let unfinished = match status.ok().flatten() {
        Some(tag) => Status::from_code(tag.0).is_some_and(|status| !status.is_ended()),
        None => begins,
    };
    if !unfinished {
        return;
    }
    // The command about the thread, and a runtime that stops, wait until the branch and its own branches have recorded
    // it. If the branch rejects the command, it ended by itself: that may not be durable yet.
    let recorded = match ask(&registry, child, input).await {
        Err(ControlError::Rejected { .. }) => settle(&registry, child).await,
        answered => answered.map(drop),
    };
    if let Err(error) = recorded {
        tracing::debug!(branch = %child, error = with_sources(&error), "the branch has not recorded it");
    }
}

/// Applies the pause and the end of a parent to its branch: the parent may have ended or resumed while the branch was
/// not in memory. A parent that is not in memory is not activated for this: it would ask for its branches, and they for
/// it, without end.
pub(crate) async fn reconcile_parent(
    registry: Arc<ThreadRegistry>,
    parent: ThreadId,
    index: u32,
    child: ThreadId,
    pauses: Pauses,
) {
    let parent_is_paused = match registry.branch_states.is_parent_paused(parent, child) {
        Some(is_paused) => Some(is_paused),
        None => {
            let registry = registry.clone();
            let found = actix_rt::task::spawn_blocking(move || is_paused_in_log(&registry, parent, index, child)).await;
            let Ok(Ok(found)) = found else { return };
            found
        }
    };
    match parent_is_paused {
        None => cancel(registry, child).await,
        Some(parent_is_paused) if pauses.differ_from(parent_is_paused) => {
            // If the branch keeps stopping, it reconciles again after it is activated.
            drop(deliver(&registry, child, || SyncPause { parent_is_paused }).await);
        }
        Some(_) => {}
    }
}

/// Returns whether the parent of a branch is paused, according to the log; `None` if the parent no longer has the
/// branch. Blocks.
fn is_paused_in_log(
    registry: &ThreadRegistry,
    parent: ThreadId,
    index: u32,
    child: ThreadId,
) -> Result<Option<bool>, ReadError> {
    let status = match registry.services.store.stream(parent) {
        Ok(info) => Status::from_code(info.tag.0),
        Err(StoreError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if status.is_some_and(Status::is_ended) {
        return Ok(None);
    }
    let fold = || load::present_from(&*registry.services.store, parent, &registry.services.kept_states);
    let state = registry.services.crashes.folding(parent, fold)?.state;
    let is_own = state.branch_run(index).is_some_and(|run| run.child == child);
    Ok(is_own.then(|| state.is_paused()))
}
