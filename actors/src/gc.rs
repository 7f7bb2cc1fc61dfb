//! Retention: deletes threads that ended long ago.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rethread_events::event::Event;
use rethread_events::ids::{Hash, Position, Seq, ThreadId, Time};
use rethread_events::labels::Labels;
use rethread_events::principal::Principal;
use rethread_events::thread::Status;
use rethread_events::workflow::Search;
use rethread_store::{Backup, LogReader, Store, StoreError, StreamInfo};

use crate::crashes::Crashes;
use crate::definitions::{self, NAMES, hashes_of};
use crate::error::{ControlError, ReadError, RuntimeError};
use crate::family;
use crate::kept_schedules;
use crate::recorded::event;
use crate::request_keys::delete_threads;
use crate::runtime::Runtime;
use crate::selection;
use crate::stream_keys;
use crate::summary::{ThreadSummary, summary};
use rethread_events::text::with_sources;

/// How many threads are deleted with one durable write: more would delay other writers for longer.
const BATCH: usize = 256;

/// Which threads may be deleted. A thread is deleted with its branches, when all of them have ended. A thread is kept
/// if a thread that is kept inherits from it, or waits for its end and has not received it.
#[derive(Debug, Clone, Default)]
pub struct Retention {
    /// Threads whose last event was before this time: of a conversation, the end of its last run, or a later event.
    pub ended_before: Option<Time>,
    /// Also the oldest threads, until the rest takes at most this many bytes: of events, before compression.
    pub keep_bytes: Option<u64>,
    /// Only threads with one of these final statuses; all if empty.
    pub status: Vec<Status>,
    /// Only threads with these labels.
    pub labels: Labels,
    /// At most this many threads with their branches; all of them unless set.
    pub limit: Option<usize>,
    /// Also the newest definition of each workflow, if no thread runs on it and no schedule starts it. This may remove
    /// the workflow itself.
    pub definitions: bool,
    /// Also all memories of the namespaces that have all of `labels`; none if `labels` is empty. Memories stay otherwise,
    /// also if the threads that stored them are deleted.
    pub memories: bool,
    /// Also everything else that the log has of `labels`: the memories as above, the schedules whose threads have all of
    /// the labels, and the kept signals that only threads with all of them receive. `labels` must not be empty.
    pub erase: bool,
    /// Only report what would be deleted.
    pub dry_run: bool,
    /// The principal of the deletions, for the audit log;
    /// [`RuntimeBuilder::principal`](crate::RuntimeBuilder::principal) unless set.
    pub by: Option<Principal>,
}

/// What was deleted, or would be.
#[derive(Debug, Clone, Default)]
pub struct Collected {
    /// The threads, without their branches, in the order in which they were deleted.
    pub threads: Vec<CollectedThread>,
    /// Threads that may be deleted and are kept, because a thread that is kept inherits from them.
    pub inherited: Vec<ThreadId>,
    /// Whether there are more that may be deleted, beyond the limit.
    pub more: bool,
    /// Bytes of the events of all threads that are kept; absent if no size was requested.
    pub bytes_left: Option<u64>,
    /// The hashes of the definitions that were removed.
    pub definitions: Vec<Hash>,
    /// How many memories were removed.
    pub n_memories: u64,
    /// How many schedules were removed.
    pub n_schedules: u64,
    /// How many kept signals were removed.
    pub n_signals: u64,
}

/// What [`Runtime::compact`] has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The bytes of the index before.
    pub before: u64,
    /// Its bytes now.
    pub after: u64,
    /// How many cached answers were removed.
    pub n_answers: u64,
}

/// A thread that was deleted.
#[derive(Debug, Clone)]
pub struct CollectedThread {
    /// The summary of the thread before the deletion.
    pub summary: ThreadSummary,
    /// How many branches were deleted with it.
    pub n_branches: u64,
    /// The thread and its branches.
    members: Vec<ThreadId>,
    /// The number of their events.
    pub n_events: u64,
    /// Their bytes, before they were compressed.
    pub bytes: u64,
}

impl Runtime {
    /// Deletes the threads that `retention` selects, each as [`crate::ThreadHandle::delete`] does, many with one
    /// durable write. Threads that have not ended, threads that they inherit from, and threads that begin another run
    /// meanwhile are kept. Reads the events of all that may be deleted, and of all threads if `keep_bytes` is given.
    /// Each deleted thread is in the audit log, with the principal.
    ///
    /// Then removes the definitions of workflows that no thread refers to, whether or not one ever ran on them. The
    /// newest of each name is kept, since threads can be started by the name, unless [`Retention::definitions`] is set.
    /// Costs a read of one event for each thread that is kept, and nothing if no definition can be removed. None is
    /// removed if that event of a thread cannot be read, or while [`Collected::more`] is true. Memories are removed last,
    /// also not while it is true. Schedules and kept signals are removed first, so that none of them begins or continues
    /// a thread meanwhile.
    ///
    /// Where several runtimes have the log, each deletes threads of its own, so it is called at each of them; `keep_bytes` is
    /// of the threads of one. No definition is removed then; memories and schedules are, by the runtimes that have them.
    /// Kept signals are removed at the runtime that has the place of their name.
    ///
    /// # Errors
    /// When the log cannot be read or written. What was deleted until then stays deleted. `NoLabels` if `erase` is set and
    /// `labels` is empty. `Shared` if the newest definitions are to
    /// be removed from a log that several runtimes have.
    pub async fn gc(&self, retention: Retention) -> Result<Collected, ControlError> {
        let is_alone = self.services().shared.is_none();
        if retention.definitions {
            self.registry().alone("removing the newest definitions")?;
        }
        let (labels, dry_run, erase) = (retention.labels.clone(), retention.dry_run, retention.erase);
        let has_memories = retention.memories || erase;
        let (n_schedules, n_signals) = match erase {
            true => self.erase_waiting(&labels, dry_run).await?,
            false => (0, 0),
        };
        let registry = self.registry().clone();
        let by = retention.by.clone().unwrap_or_else(|| self.services().principal.clone());
        let collect = move || {
            let services = &registry.services;
            let removal = services.definitions.begin_removal();
            let is_ours = |thread| registry.has_slot(thread);
            let collected = collect(&*services.store, &services.crashes, &retention, &by, &is_ours);
            // Also if not all could be deleted.
            registry.recent_ends.deleted();
            let mut collected = collected?;
            // Others may begin threads with definitions that seem unused here.
            if !collected.more && is_alone {
                let unused = unused(&*services.store, &retention, &collected)?;
                collected.definitions = match retention.dry_run {
                    true => unused.into_iter().collect(),
                    false if unused.is_empty() => Vec::new(),
                    false => removal.remove(&unused)?,
                };
            }
            Ok::<_, ControlError>(collected)
        };
        let mut collected = self.blocking(collect).await??;
        (collected.n_schedules, collected.n_signals) = (n_schedules, n_signals);
        if has_memories && !collected.more {
            collected.n_memories = self.erase_memories(labels, dry_run).await?;
        }
        Ok(collected)
    }

    /// Erases from the files what was deleted: rewrites the index as [`Store::compact`] does, which returns the disk space of
    /// deleted threads to the file system, and empties the cache of answers of every profile of this runtime. Cached
    /// answers do not say which thread asked, so that none of them stays.
    ///
    /// # Errors
    /// `Store`, for example when the disk has no room for the new index. `Answers` if cached answers cannot be removed;
    /// the index is not rewritten then.
    pub async fn compact(&self) -> Result<Compacted, RuntimeError> {
        let services = self.registry().services.clone();
        let erase = move || {
            let cleared = services.models.all().clear_answers();
            let n_answers = cleared.map_err(|error| RuntimeError::Answers(with_sources(&error)))?;
            let rethread_store::Compacted { before, after } = services.store.compact()?;
            Ok(Compacted { before, after, n_answers })
        };
        self.blocking(erase).await?
    }

    /// As [`Store::backup`]: a copy of the log while it is in use.
    ///
    /// # Errors
    /// `Store`, for example when the disk has no room for a copy of the index.
    pub async fn backup(&self) -> Result<Backup, RuntimeError> {
        let store = self.store().clone();
        Ok(self.blocking(move || store.backup()).await??)
    }
}

/// Returns the definitions that may be removed and that no thread that is kept refers to. Blocks.
fn unused(store: &dyn LogReader, retention: &Retention, collected: &Collected) -> Result<BTreeSet<Hash>, ReadError> {
    let mut unused: BTreeSet<Hash> =
        collected.threads.iter().filter_map(|gone| Some(gone.summary.workflow.as_ref()?.hash)).collect();
    let scheduled = kept_schedules::workflows(store)?;
    for (name, hashes) in store.values(NAMES)? {
        let mut hashes = hashes_of(&hashes).rev();
        if let Some(newest) = hashes.next() {
            match retention.definitions && !scheduled.contains(&name[NAMES.len()..]) {
                true => unused.insert(newest),
                false => unused.remove(&newest),
            };
        }
        unused.extend(hashes);
    }
    let going: BTreeSet<ThreadId> = match retention.dry_run {
        true => collected.threads.iter().flat_map(|gone| gone.members.iter().copied()).collect(),
        false => BTreeSet::new(),
    };
    for info in store.all_streams(None, &[]) {
        let info = info?;
        if unused.is_empty() {
            break;
        }
        if going.contains(&info.thread) {
            continue;
        }
        match first_refers_to(store, &info) {
            Ok(Some(hash)) => drop(unused.remove(&hash)),
            Ok(None) | Err(ReadError::Runtime(RuntimeError::Store(StoreError::NotFound { .. }))) => {}
            Err(error) => {
                tracing::warn!(thread = %info.thread, error = with_sources(&error), "no definition is removed: a thread may refer to it");
                return Ok(BTreeSet::new());
            }
        }
    }
    for (hash, thread) in definitions::of_later_events(store)? {
        let stays = || match store.stream(thread) {
            Ok(_) => Ok(!going.contains(&thread)),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        };
        if unused.contains(&hash) && stays()? {
            unused.remove(&hash);
        }
    }
    Ok(unused)
}

/// Returns the definition that the first event of the thread itself refers to.
fn first_refers_to(store: &dyn LogReader, info: &StreamInfo) -> Result<Option<Hash>, ReadError> {
    let first = info.fork_of.map_or(Seq(0), |point| point.seq.next());
    let Some(recorded) = event(store, info.thread, first)? else {
        return Err(ReadError::NoSeq { thread: info.thread, seq: first, last: info.last_seq });
    };
    if !matches!(recorded.event, Event::ThreadStarted(_) | Event::ThreadForked(_)) {
        return Err(StoreError::Invalid("a thread does not begin with its start".into()).into());
    }
    Ok(refers_to(&recorded.event))
}

/// Returns the definition that an event refers to. A fork that does not change it refers to none: the thread that it
/// inherits from refers to it, and is kept as long.
pub(crate) fn refers_to(event: &Event) -> Option<Hash> {
    if let Event::ThreadStarted(started) = event {
        return Some(started.workflow.hash);
    }
    if let Event::RunStarted(started) = event {
        return Some(started.workflow.hash);
    }
    if let Event::WorkflowChanged(changed) = event {
        return Some(changed.workflow.hash);
    }
    let Event::ThreadForked(forked) = event else { return None };
    forked.changes.workflow.as_ref().map(|workflow| workflow.hash)
}

/// A thread with its branches.
#[derive(Debug, Default)]
struct Run {
    members: Vec<ThreadSummary>,
    /// Runs that inherit from this one.
    heirs: BTreeSet<ThreadId>,
}

/// Threads that are deleted with one durable write.
#[derive(Default)]
struct Batch {
    families: Vec<Going>,
    n_threads: usize,
}

/// A thread that is to be deleted.
struct Going {
    gone: CollectedThread,
    /// The thread with its branches, in the order in which they can be deleted.
    family: Vec<ThreadId>,
    /// The position of their last event when the deletion was decided.
    last: Position,
}

impl Going {
    /// Returns whether none of them has a later event. The decision does not apply to a thread that has begun another
    /// run.
    fn is_as_it_was(&self, store: &dyn Store) -> Result<bool, StoreError> {
        for thread in &self.family {
            match store.stream(*thread) {
                Ok(info) if info.last_position > self.last => return Ok(false),
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Batch {
    fn add(&mut self, going: Going) {
        self.n_threads += going.family.len();
        self.families.push(going);
    }

    /// Deletes them, except those that began another run meanwhile; one by one if they cannot be deleted together.
    /// Returns the bytes of those that are kept.
    fn delete(&mut self, store: &dyn Store, by: &Principal, collected: &mut Collected) -> Result<u64, ReadError> {
        self.n_threads = 0;
        let (mut families, mut left) = (Vec::new(), 0);
        for going in std::mem::take(&mut self.families) {
            if going.is_as_it_was(store)? {
                families.push(going);
            } else {
                left += going.gone.bytes;
            }
        }
        let all: Vec<ThreadId> = families.iter().flat_map(|going| &going.family).copied().collect();
        let is_done = !all.is_empty() && delete_threads(store, &all).is_ok();
        for Going { gone, family, .. } in families {
            let id = gone.summary.thread_id;
            match if is_done { Ok(()) } else { delete_threads(store, &family) } {
                Ok(()) => {
                    tracing::info!(target: "audit", thread = %id, %by, "thread deleted");
                    collected.threads.push(gone);
                }
                // It was forked or deleted meanwhile.
                Err(StoreError::InUse { .. }) => {
                    collected.inherited.push(id);
                    left += gone.bytes;
                }
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(left)
    }
}

fn collect(
    store: &dyn Store,
    crashes: &Arc<Crashes>,
    retention: &Retention,
    by: &Principal,
    is_ours: &dyn Fn(ThreadId) -> bool,
) -> Result<Collected, ControlError> {
    let mut runs = runs(store, crashes, &retention.labels)?;
    // Those of other runtimes are kept here, and so is what they inherit from.
    runs.retain(|id, _| is_ours(*id));
    let mut sizes = BTreeMap::new();
    let mut size = |id: ThreadId| -> Result<(u64, u64), ReadError> {
        if let Some(known) = sizes.get(&id) {
            return Ok(*known);
        }
        let mut sum = (0, 0);
        for member in runs.get(&id).into_iter().flat_map(|run| &run.members) {
            let (n, bytes) = own_size(store, member)?;
            sum = (sum.0 + n, sum.1 + bytes);
        }
        sizes.insert(id, sum);
        Ok(sum)
    };
    let mut left = 0;
    if retention.keep_bytes.is_some() {
        for id in runs.keys() {
            left += size(*id)?.1;
        }
    }
    let may_go = |run: &Run| {
        let ended = run.members.iter().all(|member| member.status.is_ended());
        let first = run.members.first();
        ended && first.is_some_and(|first| retention.status.is_empty() || retention.status.contains(&first.status))
    };
    let is_old = |run: &Run| match (retention.ended_before, retention.keep_bytes) {
        (Some(before), _) => last_at(run) < before,
        // Without a time and a size all may be deleted.
        (None, keep) => keep.is_none(),
    };
    let mut going = BTreeSet::new();
    let mut order = Vec::new();
    let mut candidates = Vec::new();
    let has_waits = match stream_keys::has_thread_waits(store) {
        Ok(has_waits) => has_waits,
        // A server does not list keys: a report of what it would delete includes these threads.
        Err(StoreError::Invalid(_)) if retention.dry_run => false,
        Err(error) => return Err(ReadError::from(error).into()),
    };
    for (id, run) in runs.iter().filter(|(_, run)| may_go(run)) {
        if !(has_waits && is_awaited(store, run).map_err(ReadError::from)?) {
            candidates.push((last_at(run), *id));
        }
    }
    candidates.sort_unstable();
    // A thread is younger than the one it inherits from, and is deleted first: this may free the older one.
    loop {
        let mut changed = false;
        for (_, id) in &candidates {
            let Some(run) = runs.get(id).filter(|_| !going.contains(id)) else { continue };
            let too_much = retention.keep_bytes.is_some_and(|keep| left > keep);
            if (is_old(run) || too_much) && run.heirs.iter().all(|heir| going.contains(heir)) {
                left = left.saturating_sub(if retention.keep_bytes.is_some() { size(*id)?.1 } else { 0 });
                going.insert(*id);
                order.push(*id);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let mut collected = Collected::default();
    if let Some(limit) = retention.limit {
        collected.more = order.len() > limit;
        for id in order.drain(limit.min(order.len())..) {
            left += if retention.keep_bytes.is_some() { size(id)?.1 } else { 0 };
        }
    }
    for (_, id) in candidates.iter().filter(|(_, id)| !going.contains(id)) {
        if runs.get(id).is_some_and(is_old) {
            collected.inherited.push(*id);
        }
    }
    let mut batch = Batch::default();
    for id in order {
        let (n_events, bytes) = size(id)?;
        let Some(run) = runs.get(&id) else { continue };
        let Some(first) = run.members.first() else { continue };
        let n_branches = run.members.len() as u64 - 1;
        let members = run.members.iter().map(|member| member.thread_id).collect();
        let gone = CollectedThread { summary: first.clone(), n_branches, members, n_events, bytes };
        if retention.dry_run {
            collected.threads.push(gone);
            continue;
        }
        match family::ended_family(store, id) {
            Ok(family) => {
                let last = run.members.iter().map(|member| member.last_position).max().unwrap_or_default();
                batch.add(Going { gone, family, last });
            }
            Err(ControlError::Read(ReadError::NoThread(_))) => continue,
            // Another run has begun.
            Err(ControlError::Rejected { .. }) => {
                left += bytes;
                continue;
            }
            Err(error) => return Err(error),
        }
        if batch.n_threads >= BATCH {
            left += batch.delete(store, by, &mut collected)?;
        }
    }
    left += batch.delete(store, by, &mut collected)?;
    collected.bytes_left = retention.keep_bytes.map(|_| left);
    Ok(collected)
}

/// Whether a thread waits for the end of one of these, and has not received it.
fn is_awaited(store: &dyn LogReader, run: &Run) -> Result<bool, StoreError> {
    for member in &run.members {
        if !stream_keys::waiting_for(store, member.thread_id, None, 1)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn last_at(run: &Run) -> Time {
    run.members.iter().map(|member| member.last_at).max().unwrap_or_default()
}

/// Returns all threads with these labels and their branches, by the root of each family, which is the first of its
/// members.
fn runs(store: &dyn LogReader, crashes: &Arc<Crashes>, labels: &Labels) -> Result<BTreeMap<ThreadId, Run>, ReadError> {
    let mut all = BTreeMap::new();
    // Branches and forks have the labels of the thread that they inherit from.
    for info in selection::streams(store, labels, &Search::default(), None, &[])? {
        let summary = summary(store, crashes, &info?, &|_| true)?;
        if summary.labels.include(labels) {
            all.insert(summary.thread_id, summary);
        }
    }
    let run_of = |mut id: ThreadId| {
        // No deeper than the number of threads, even if the log is damaged.
        for _ in 0..all.len() {
            match all.get(&id).and_then(|summary: &ThreadSummary| summary.branch_of) {
                Some((owner, _)) if all.contains_key(&owner) => id = owner,
                _ => break,
            }
        }
        id
    };
    let mut runs: BTreeMap<ThreadId, Run> = BTreeMap::new();
    for (id, summary) in &all {
        let run = run_of(*id);
        let members = &mut runs.entry(run).or_default().members;
        let place = if run == *id { 0 } else { members.len() };
        members.insert(place, summary.clone());
        if let Some((parent, _)) = summary.forked_from {
            let inherited = run_of(parent);
            if inherited != run && all.contains_key(&inherited) {
                runs.entry(inherited).or_default().heirs.insert(run);
            }
        }
    }
    Ok(runs)
}

/// The events of a thread's own, and their bytes.
fn own_size(store: &dyn LogReader, thread: &ThreadSummary) -> Result<(u64, u64), ReadError> {
    let first = thread.forked_from.map_or(Seq(0), |(_, seq)| seq.next());
    let (mut n, mut bytes) = (0, 0);
    for record in store.records(thread.thread_id, first..thread.last_seq.next()) {
        n += 1;
        bytes += record?.payload.len() as u64;
    }
    Ok((n, bytes))
}

#[cfg(test)]
mod tests;
