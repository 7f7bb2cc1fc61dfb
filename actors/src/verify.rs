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
    /// Reads the whole log, and checks the hash chain of every stream, that its events follow from each other, and that
    /// its snapshots are their folds. A thread whose check crashed the process several times is not checked again,
    /// which is reported as a fault.
    ///
    /// # Errors
    /// When the log cannot be read at all. Faults of single threads are in the result.
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

/// Checks a listed thread. It may be deleted at any time, and an import may write another one with its id.
fn check_stream(
    store: &dyn LogReader,
    crashes: &Arc<Crashes>,
    mut info: StreamInfo,
) -> Result<Option<Damage>, ReadError> {
    loop {
        let check = || check_fold(store, info.thread, info.last_seq);
        let checked = match crashes.asked_for(Step::verify(info.thread), check) {
            // Other threads are still checked.
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

/// Returns whether the thread is the listed one: no other has the position of its last record.
fn is_still_there(store: &dyn LogReader, info: &StreamInfo) -> Result<bool, StoreError> {
    match store.record(info.thread, info.last_seq) {
        Ok(record) => Ok(record.is_some_and(|record| record.position == info.last_position)),
        Err(StoreError::NotFound { .. }) => Ok(false),
        // In either case it is damaged.
        Err(StoreError::Damaged(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Checks that the events of a thread follow from each other and belong to the runs that their records name, and that
/// its snapshots are their folds.
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
        // One with another hash was written late, for a deleted thread with this id: it is never used.
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
