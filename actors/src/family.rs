//! A thread and its branches as a unit: at a moment, for a fork, for a delete.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rethread_events::event::{Event, ReplacedBranch};
use rethread_events::ids::{Position, Seq, ThreadId};
use rethread_events::thread::{Effect, Rejected, State, Status};
use rethread_events::workflow::Workflow;
use rethread_store::{LogReader, StoreError, StreamInfo};

use crate::clock;
use crate::crashes::{Crashes, Step};
use crate::error::{ControlError, ForkError, ReadError};
use crate::load::{self, Loaded};
use crate::recorded::{RecordedEvent, event};
use crate::summary;

/// How many forks are listed at a time.
const PAGE: usize = 1_024;

/// A branch of a thread that is forked, and the thread that replaces it.
#[derive(Debug, Clone)]
pub(crate) struct Replacement {
    /// The branch.
    pub(crate) of: ThreadId,
    /// The thread that replaces it.
    pub(crate) by: ReplacedBranch,
}

/// Returns the threads that replace the branches that ran when the log had `cut` records, for a fork of their parent;
/// also those of their own branches. Blocks.
///
/// # Errors
/// `Workflow` when a branch does not fit the definition that the family moves to.
///
/// The log's one order makes the cut consistent: what a thread knew of another at a position was recorded before it.
pub(crate) fn replacements(
    store: &dyn LogReader,
    crashes: &Arc<Crashes>,
    state: &State,
    cut: Position,
    moves_to: Option<&Workflow>,
) -> Result<Vec<Replacement>, ForkError> {
    let mut replaced = Vec::new();
    collect(store, crashes, state, cut, moves_to, &mut Vec::new(), &mut replaced)?;
    Ok(replaced)
}

fn collect(
    store: &dyn LogReader,
    crashes: &Arc<Crashes>,
    state: &State,
    cut: Position,
    moves_to: Option<&Workflow>,
    path: &mut Vec<u32>,
    replaced: &mut Vec<Replacement>,
) -> Result<(), ForkError> {
    for run in state.running_branches() {
        path.push(run.index);
        let seq = last_before(store, run.child, cut)?;
        let by = ReplacedBranch { path: path.clone(), child: clock::new_thread_id(), seq };
        replaced.push(Replacement { of: run.child, by });
        if let Some(seq) = seq {
            let state = past(store, crashes, run.child, seq)?.state;
            if let Some(workflow) = moves_to {
                state.fits(workflow).map_err(ForkError::Workflow)?;
            }
            collect(store, crashes, &state, cut, moves_to, path, replaced)?;
        }
        path.pop();
    }
    Ok(())
}

/// The state of a thread after event `seq`. Blocks.
pub(crate) fn past(
    store: &dyn LogReader,
    crashes: &Arc<Crashes>,
    thread: ThreadId,
    seq: Seq,
) -> Result<Loaded, ReadError> {
    crashes.asked_for(Step::history(thread, seq), || load::at(store, thread, seq))
}

/// Returns the last event of a thread's own before a position; `None` if it had none. Costs a number of reads that
/// grows with the logarithm of its length. Blocks.
pub(crate) fn last_before(store: &dyn LogReader, thread: ThreadId, cut: Position) -> Result<Option<Seq>, ReadError> {
    let info = match store.stream(thread) {
        Ok(info) => info,
        Err(StoreError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if info.last_position < cut {
        return Ok(Some(info.last_seq));
    }
    // The events of [first, below) are before the cut, those of [above, end) after it.
    let first = info.fork_of.map_or(0, |point| point.seq.0 + 1);
    let (mut below, mut above) = (first, info.last_seq.0 + 1);
    while below < above {
        let middle = below + (above - below) / 2;
        let Some(record) = store.record(thread, Seq(middle))? else {
            return Err(ReadError::NoSeq { thread, seq: Seq(middle), last: info.last_seq });
        };
        if record.position < cut { below = middle + 1 } else { above = middle }
    }
    Ok((below > first).then(|| Seq(below - 1)))
}

/// A thread of a family at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyMember {
    /// The thread.
    pub thread: ThreadId,
    /// The thread whose branch it is; absent for the first.
    pub parent: Option<ThreadId>,
    /// The name of the branch at its parent.
    pub name: Option<String>,
    /// Its last event at that moment; absent for a branch that had not begun.
    pub seq: Option<Seq>,
}

/// Returns a thread and all its branches that ran at the moment of its event `seq`, each at its last event before that
/// moment; if `seq` is the last event, each at its current end. Blocks.
pub(crate) fn family_at(
    store: &dyn LogReader,
    crashes: &Arc<Crashes>,
    thread: ThreadId,
    seq: Seq,
) -> Result<Vec<FamilyMember>, ReadError> {
    let loaded = past(store, crashes, thread, seq)?;
    // Its last event is its present, after which its branches may have continued.
    let is_present = load::stream(store, thread)?.last_seq == seq;
    let cut = if is_present { store.next_position() } else { Position(loaded.last_position.0 + 1) };
    let mut family = vec![FamilyMember { thread, parent: None, name: None, seq: Some(seq) }];
    let mut states = vec![loaded.state];
    while let Some(state) = states.pop() {
        for run in state.running_branches() {
            let seq = last_before(store, run.child, cut)?;
            let (parent, name) = (Some(state.thread()), Some(state.branch_name(run)));
            family.push(FamilyMember { thread: run.child, parent, name, seq });
            if let Some(seq) = seq {
                states.push(past(store, crashes, run.child, seq)?.state);
            }
        }
    }
    Ok(family)
}

/// Returns all branches that a thread had before a position of the log, as its own events name them. Blocks; reads the
/// whole of its stream.
pub(crate) fn all_branches(
    store: &dyn LogReader,
    thread: ThreadId,
    until: Position,
) -> Result<Vec<ThreadId>, ReadError> {
    branches_of(store, thread, Seq(0)..=Seq(u64::MAX), until)
}

/// Returns the branches that these events of the thread itself name. Blocks; reads these events.
pub(crate) fn branches_of(
    store: &dyn LogReader,
    thread: ThreadId,
    seqs: RangeInclusive<Seq>,
    until: Position,
) -> Result<Vec<ThreadId>, ReadError> {
    let info = load::stream(store, thread)?;
    let first = info.fork_of.map_or(Seq(0), |point| point.seq.next()).max(*seqs.start());
    let mut found = Vec::new();
    for record in store.records(thread, first..info.last_seq.min(*seqs.end()).next()) {
        let record = record?;
        if record.position >= until {
            break;
        }
        let event = RecordedEvent::decode(record)?.event;
        if let Event::BranchStarted(event) = event {
            found.push(event.child);
        } else if let Event::AgentStarted(event) = event {
            found.push(event.child);
        } else if let Event::ThreadForked(event) = event {
            found.extend(event.branches.iter().filter(|replaced| replaced.path.len() == 1).map(|r| r.child));
        }
    }
    Ok(found)
}

/// See [`crate::ThreadHandle::children`]. Blocks.
pub(crate) fn children(store: &dyn LogReader, thread: ThreadId) -> Result<Vec<ThreadId>, ReadError> {
    let info = load::stream(store, thread)?;
    let mut found = Vec::new();
    loop {
        let page = store.forks(thread, found.last().copied(), PAGE)?;
        let is_last = page.len() < PAGE;
        found.extend(page);
        if is_last {
            break;
        }
    }
    if let Some(point) = info.fork_of
        && let Some(Event::ThreadForked(event)) = event(store, thread, point.seq.next())?.map(|first| first.event)
    {
        found.extend(event.branches.iter().filter(|replaced| replaced.path.len() == 1).map(|r| r.child));
    }
    Ok(found)
}

/// Returns a thread that has ended, after all its branches, in the order in which they can be deleted. Blocks; reads
/// the whole stream of each.
///
/// # Errors
/// `Rejected` when the thread or a branch of it has not ended.
pub(crate) fn ended_family(store: &dyn LogReader, thread: ThreadId) -> Result<Vec<ThreadId>, ControlError> {
    let info = load::stream(store, thread)?;
    if !Status::from_code(info.tag.0).is_some_and(Status::is_ended) {
        let source = Rejected::Invalid("it has not ended: cancel it first".into());
        return Err(ControlError::Rejected { thread, source });
    }
    let mut family = Vec::new();
    for branch in all_branches(store, thread, store.next_position())? {
        match ended_family(store, branch) {
            Ok(branches) => family.extend(branches),
            // It never began, or is deleted already.
            Err(ControlError::Read(ReadError::NoThread(_))) => {}
            Err(error) => return Err(error),
        }
    }
    family.push(thread);
    Ok(family)
}

/// Returns the status of a thread with its branches: one that only waits for branches rests if all of those that have
/// begun do. Blocks; costs a fold of each that runs.
pub(crate) fn status(store: &dyn LogReader, crashes: &Arc<Crashes>, info: &StreamInfo) -> Result<Status, ReadError> {
    let fold = || crashes.folding(info.thread, || load::present(store, info.thread));
    let Some(own) = Status::from_code(info.tag.0) else {
        // Its status is only in its events, if the log lost the tags of its threads. A thread that cannot be folded
        // cannot continue either.
        return Ok(fold().map_or(Status::Error, |loaded| loaded.state.status()));
    };
    if own != Status::Running {
        return Ok(own);
    }
    // One that cannot be read is shown with the status of its last event; reading it returns the error.
    let Ok(loaded) = fold() else { return Ok(own) };
    if !loaded.state.has_branches() {
        return Ok(own);
    }
    // A model that called agents may have called tools as well, about which people are asked.
    let effects = loaded.state.effects();
    if effects.iter().any(|effect| !matches!(effect, Effect::RunBranch(_) | Effect::AskPerson(_))) {
        return Ok(own);
    }
    let asks = effects.iter().any(|effect| matches!(effect, Effect::AskPerson(_)));
    let mut rest = asks.then_some(Status::Waiting);
    for run in loaded.state.running_branches() {
        let branch = match store.stream(run.child) {
            Ok(branch) => status(store, crashes, &branch)?,
            Err(StoreError::NotFound { .. }) => return Ok(own),
            Err(error) => return Err(error.into()),
        };
        match branch {
            Status::Waiting => rest = Some(branch),
            Status::Paused => rest = rest.filter(|rest| *rest == Status::Waiting).or(Some(branch)),
            Status::Suspended | Status::Queued => rest = rest.or(Some(branch)),
            Status::Pending
            | Status::Running
            | Status::Completed
            | Status::Cancelled
            | Status::Error
            | Status::Interrupted => return Ok(own),
        }
    }
    Ok(rest.unwrap_or(own))
}

/// Returns a thread and all branches that it and they ever had. Blocks; reads the whole stream of each.
pub(crate) fn whole(store: &dyn LogReader, thread: ThreadId) -> Result<Vec<ThreadId>, ReadError> {
    let (mut found, mut next) = (vec![thread], 0);
    while let Some(member) = found.get(next).copied() {
        next += 1;
        match all_branches(store, member, store.next_position()) {
            Ok(branches) => found.extend(branches),
            // A branch that was planned and has not begun.
            Err(ReadError::NoThread(_)) if member != thread => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns a thread and all branches that it and they ever had and that have begun, sorted. Blocks; reads one event of
/// each and of each fork of them.
///
/// # Errors
/// `NoThread` if the thread is not in the log. A branch that is deleted meanwhile is left out.
pub(crate) fn members(store: &dyn LogReader, thread: ThreadId) -> Result<Vec<ThreadId>, ReadError> {
    let (mut found, mut todo) = (BTreeSet::from([thread]), vec![thread]);
    while let Some(member) = todo.pop() {
        let children = match children(store, member) {
            Err(ReadError::NoThread(_)) if member != thread => continue,
            children => children?,
        };
        for child in children {
            let parent = match load::stream(store, child) {
                Err(ReadError::NoThread(_)) => None,
                info => summary::branch_of(store, &info?)?,
            };
            if parent.is_some_and(|(parent, _)| parent == member) && found.insert(child) {
                todo.push(child);
            }
        }
    }
    Ok(found.into_iter().collect())
}
