//! Checks that streams are in the right lists: that of their tag, and that of the forks of their parent.
//!
//! A running seal changes these one after the other. So only streams that are not in the tail are checked, and only
//! while that and their heads do not change.

use rethread_events::ids::ThreadId;

use super::damage_of;
use crate::contract::Verification;
use crate::disk::index::pair_key;
use crate::disk::read::Reader;
use crate::disk::tail::Known;
use crate::error::{Damage, StoreError};
use crate::head::Head;

/// How many rows are read at a time.
const ROWS: usize = 512;

/// Checks that the stream is in the lists that its head names.
pub(super) fn check_listed(reader: &Reader, thread: ThreadId, found: &mut Verification) -> Result<(), StoreError> {
    let wrong = settled(reader, thread, |head| {
        let Some(head) = head else { return Ok(None) };
        let (tag, fork) = reader.index.with(|trees| {
            let id = thread.as_bytes();
            let tag = trees.tags.get(&pair_key(&[head.tag.0], id))?;
            let fork = head.fork_of.map(|point| trees.forks.get(&pair_key(point.parent.as_bytes(), id)));
            Ok((tag, fork.map_or(Ok(Some(Vec::new())), |fork| fork)?))
        })?;
        Ok(match (tag, fork) {
            (None, _) => Some("the thread is not listed under its tag".into()),
            (_, None) => Some("the thread is not listed as a fork of its parent".into()),
            _ => None,
        })
    });
    note(reader, thread, wrong, found)
}

/// Checks that each listed fork is one: otherwise the parent could never be deleted.
pub(super) fn check_forks(reader: &Reader, found: &mut Verification) -> Result<(), StoreError> {
    let mut from = Vec::new();
    loop {
        let rows = reader.index.with(|trees| trees.forks.range(&from, &[0xff; 33], ROWS));
        let rows = match damage_of(rows)? {
            Ok(rows) => rows,
            Err(damage) => {
                found.faults.push(damage);
                return Ok(());
            }
        };
        let Some((last, _)) = rows.last() else { return Ok(()) };
        from = [last, &[0][..]].concat();
        for (key, _) in &rows {
            let ids = key.split_at_checked(16).and_then(|(a, b)| Some((a.try_into().ok()?, b.try_into().ok()?)));
            let Some((parent, child)) = ids.map(|(a, b)| (ThreadId::from_bytes(a), ThreadId::from_bytes(b))) else {
                continue;
            };
            let wrong = settled(reader, child, |head| {
                let is_fork = head.and_then(|head| head.fork_of).is_some_and(|point| point.parent == parent);
                if is_fork || reader.index.with(|trees| trees.forks.get(key))?.is_none() {
                    return Ok(None);
                }
                Ok(Some(format!("the thread is listed as a fork of thread {parent}, but is not")))
            });
            note(reader, child, wrong, found)?;
        }
    }
}

/// Returns the faults that `look` finds in sled's entries of a stream, by its head; none if the head was changing.
pub(super) fn settled(
    reader: &Reader,
    thread: ThreadId,
    look: impl FnOnce(Option<&Head>) -> Result<Option<String>, StoreError>,
) -> Result<Option<String>, StoreError> {
    if !matches!(reader.tail.known(thread), Known::No) {
        return Ok(None);
    }
    let head = reader.index.head(thread)?;
    let wrong = look(head.as_ref())?;
    let stayed = wrong.is_some()
        && matches!(reader.tail.known(thread), Known::No)
        && reader.index.head(thread)?.map(|head| head.hash) == head.map(|head| head.hash);
    Ok(wrong.filter(|_| stayed))
}

pub(super) fn note(
    reader: &Reader,
    thread: ThreadId,
    wrong: Result<Option<String>, StoreError>,
    found: &mut Verification,
) -> Result<(), StoreError> {
    let fault = match damage_of(wrong)? {
        Ok(None) => return Ok(()),
        Ok(Some(what)) => {
            Damage { thread: Some(thread), file: Some(reader.index.file_path()), what, ..Damage::default() }
        }
        Err(damage) => damage,
    };
    // Damage of a page of sled's is found by every stream on it.
    if !found.faults.contains(&fault) {
        found.faults.push(fault);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
