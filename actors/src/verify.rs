//! The check of the whole log.

use std::sync::Arc;

use rethread_events::codec;
use rethread_events::ids::{Seq, ThreadId};
use rethread_events::thread::STATE_VERSION;
use rethread_store::{Damage, LogReader, Record, StoreError, StreamInfo, Verification};

use crate::crashes::{Crashes, Step};
use crate::error::{ReadError, RuntimeError};
use crate::load::{self, Loaded};
use crate::runtime::Runtime;
use rethread_events::text::with_sources;

impl Runtime {
    /// Reads the whole log: the chain of every stream, that its events follow from each other, and that its
    /// snapshots are their folds. A thread whose check ended the process several times is not checked again, and said so
    /// as a fault.
    ///
    /// # Errors
    /// When the log cannot be read at all. What is wrong with single threads is in the answer.
    pub async fn verify(&self) -> Result<Verification, ReadError> {
        let services = self.services().clone();
        self.blocking(move || verify(&*services.store, &services.crashes)).await?
    }
}

fn verify(store: &dyn LogReader, crashes: &Arc<Crashes>) -> Result<Verification, ReadError> {
    let mut found = store.verify()?;
    for info in store.all_streams(None, &[]) {
        let info = info?;
        let known = found.faults.iter().any(|fault| fault.thread == Some(info.thread));
        if !known && let Some(fault) = check_stream(store, crashes, info)? {
            found.faults.push(fault);
        }
    }
    Ok(found)
}

/// Checks a thread that was listed. It may be deleted at any time, and another may begin under its id, by an import.
fn check_stream(
    store: &dyn LogReader,
    crashes: &Arc<Crashes>,
    mut info: StreamInfo,
) -> Result<Option<Damage>, ReadError> {
    loop {
        let check = || check_fold(store, info.thread, info.last_seq);
        let checked = match crashes.asked_for(Step::verify(info.thread), check) {
            // Others are checked all the same.
            Err(error @ (ReadError::EndsProcess { .. } | ReadError::SetAside { .. })) => {
                let (thread, what) = (Some(info.thread), format!("not checked: {error}"));
                return Ok(Some(Damage { thread, what, ..Damage::default() }));
            }
            checked => checked,
        };
        if matches!(checked, Ok(None)) || is_still_there(store, &info)? {
            return checked;
        }
        info = match store.stream(info.thread) {
            Ok(info) => info,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    }
}

/// Whether the thread is the one that was listed: the position of its last record is that of no other.
fn is_still_there(store: &dyn LogReader, info: &StreamInfo) -> Result<bool, StoreError> {
    match store.record(info.thread, info.last_seq) {
        Ok(record) => Ok(record.is_some_and(|record| record.position == info.last_position)),
        Err(StoreError::NotFound { .. }) => Ok(false),
        // Whichever it is, it is damaged.
        Err(StoreError::Damaged(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// That the events of a thread follow from each other and belong to the runs that their records name, and that its snapshots
/// are their folds.
fn check_fold(store: &dyn LogReader, thread: ThreadId, last: Seq) -> Result<Option<Damage>, ReadError> {
    let mut loaded = Loaded::empty(thread);
    let mut of_another_run = None;
    let mut check_run = |loaded: &Loaded, record: &Record| {
        if record.run.is_some_and(|run| run != loaded.state.run_id()) {
            of_another_run.get_or_insert(record.seq);
        }
    };
    for seq in store.snapshots(thread)?.into_iter().filter(|seq| *seq <= last) {
        let Some(snapshot) = store.snapshot(thread, seq)?.filter(|snapshot| snapshot.version == STATE_VERSION) else {
            continue;
        };
        loaded = match load::fold_to(store, thread, loaded, seq.next(), &mut check_run) {
            Ok(loaded) => loaded,
            Err(error) => return as_damage(thread, error).map(Some),
        };
        // One of other records was written late, for a thread that was deleted and had this id: it is never used.
        if snapshot.hash == loaded.last_hash && codec::encode(&loaded.state).ok().as_ref() != Some(&snapshot.state) {
            let what = "the snapshot is not the fold of the events".into();
            return Ok(Some(Damage { thread: Some(thread), seq: Some(seq), what, ..Damage::default() }));
        }
    }
    if let Err(error) = load::fold_to(store, thread, loaded, last.next(), &mut check_run) {
        return as_damage(thread, error).map(Some);
    }
    Ok(of_another_run.map(|seq| {
        let what = "the event is not of the run that its record names".into();
        Damage { thread: Some(thread), seq: Some(seq), what, ..Damage::default() }
    }))
}

fn as_damage(thread: ThreadId, error: ReadError) -> Result<Damage, ReadError> {
    let seq = match &error {
        ReadError::Runtime(RuntimeError::Event { seq, .. }) => Some(*seq),
        ReadError::Runtime(RuntimeError::Fold(fold)) => Some(fold.seq),
        ReadError::Runtime(RuntimeError::Store(StoreError::Damaged(damage))) => return Ok(damage.clone()),
        _ => return Err(error),
    };
    Ok(Damage { thread: Some(thread), seq, what: with_sources(&error), ..Damage::default() })
}

#[cfg(test)]
mod tests;
