//! Checking everything: that no seal, chunk, record or blob is missing or changed, and that lists hold what they should.

mod keys;
mod lists;

use std::collections::HashMap;

use rethread_events::ids::{Hash, Position, Seq, ThreadId};

use super::read::Reader;
use super::tail::Known;
use crate::contract::{StreamInfo, Verification};
use crate::error::{Damage, StoreError};
use crate::record::Record;
use crate::streams::StreamIter;

/// How many records of a stream are checked at a time.
const RECORDS: usize = 512;

/// Reads the whole log. Costs as much as that; memory grows with the number of streams, 40 bytes each.
pub(crate) fn verify(reader: &Reader) -> Result<Verification, StoreError> {
    let mut found = Verification::default();
    let mut by_position = last_by_position(reader, &mut found)?;
    for info in StreamIter::new(None, |after, limit| reader.streams(after, &[], limit)) {
        let info = match damage_of(info)? {
            Ok(info) => info,
            Err(damage) => {
                found.faults.push(damage);
                break;
            }
        };
        found.n_streams += 1;
        let sealed_to = by_position.remove(&info.thread);
        check_stream(reader, &info, sealed_to, &mut found)?;
        lists::check_listed(reader, info.thread, &mut found)?;
    }
    let mut unlisted: Vec<ThreadId> = by_position.into_keys().collect();
    unlisted.sort_unstable();
    for thread in unlisted {
        // One that began or was deleted meanwhile is sound.
        let is_recent = !matches!(reader.tail.known(thread), Known::No);
        let has_head = damage_of(reader.index.head(thread))?.is_ok_and(|head| head.is_some());
        if !is_recent && !has_head && damage_of(reader.index.has_runs(thread))?.unwrap_or(true) {
            found.faults.push(Damage {
                thread: Some(thread),
                what: "the thread has records but no head".into(),
                ..Damage::default()
            });
        }
    }
    lists::check_forks(reader, &mut found)?;
    keys::check_keys(reader, &mut found)?;
    check_blobs(reader, &mut found)?;
    Ok(found)
}

/// Distinguishes damage, which is a finding, from a failed read.
fn damage_of<T>(result: Result<T, StoreError>) -> Result<Result<T, Damage>, StoreError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(StoreError::Damaged(damage)) => Ok(Err(damage)),
        Err(error) => Err(error),
    }
}

/// Walks along the positions; the last of each stream in sled.
fn last_by_position(reader: &Reader, found: &mut Verification) -> Result<HashMap<ThreadId, Position>, StoreError> {
    let mut last = HashMap::new();
    // Deleted data stays in sled until the next seal, and does not count.
    let (_, end, deleted) = reader.tail.records(Position(0), 0);
    let mut next = Position(0);
    while next < end {
        let missing = |until: Position| Damage {
            position: Some(next),
            file: Some(reader.index.file_path()),
            what: format!("records are missing from this position to {until}"),
            ..Damage::default()
        };
        let seal = match damage_of(reader.index.seal_at(next))? {
            Ok(Some(seal)) => seal,
            Ok(None) => {
                found.faults.push(missing(end));
                break;
            }
            Err(damage) => {
                found.faults.push(damage);
                break;
            }
        };
        let (first, seal_end, n_chunks) = seal;
        if first > next {
            found.faults.push(missing(first));
        }
        for number in 0..n_chunks {
            match damage_of(reader.read_chunk(first, number))? {
                Ok(rows) => {
                    for row in rows.iter().filter(|row| !deleted.contains(&row.record.thread)) {
                        let at = last.entry(row.record.thread).or_insert(Position(0));
                        *at = row.record.position.max(*at);
                    }
                }
                Err(damage) => found.faults.push(damage),
            }
        }
        next = seal_end.max(next.next());
    }
    Ok(last)
}

/// Checks a stream that was listed; by position its last record in sled is at `sealed_to`.
fn check_stream(
    reader: &Reader,
    info: &StreamInfo,
    sealed_to: Option<Position>,
    found: &mut Verification,
) -> Result<(), StoreError> {
    let mut info = *info;
    loop {
        let mut n_records = 0;
        let fault = walk(reader, &info, sealed_to, &mut n_records)?;
        if fault.is_some() && !is_still_there(reader, &info)? {
            // It was deleted meanwhile. A new stream under its id is checked instead.
            let Some(head) = reader.find_head(info.thread)? else { return Ok(()) };
            info = head.info(info.thread);
            continue;
        }
        found.n_records += n_records;
        found.faults.extend(fault);
        return Ok(());
    }
}

/// Whether the stream is the one that was listed: the position of its last record is that of no other.
fn is_still_there(reader: &Reader, info: &StreamInfo) -> Result<bool, StoreError> {
    match reader.range(info.thread, info.last_seq..info.last_seq.next(), 1) {
        Ok(records) => Ok(records.first().is_some_and(|record| record.position == info.last_position)),
        Err(StoreError::NotFound { .. }) => Ok(false),
        // Whichever it is, it is damaged.
        Err(StoreError::Damaged(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Checks the chain of a stream's own records up to the one that was the last when it was listed.
fn walk(
    reader: &Reader,
    info: &StreamInfo,
    sealed_to: Option<Position>,
    n_records: &mut u64,
) -> Result<Option<Damage>, StoreError> {
    let thread = info.thread;
    let missing = |what: String| Ok(Some(Damage { thread: Some(thread), what, ..Damage::default() }));
    let (mut next, mut hash) = match info.fork_of {
        None => (Seq(0), Hash::ZERO),
        Some(point) => match reader.hash_at(point) {
            Ok(hash) => (point.seq.next(), hash),
            Err(StoreError::Damaged(damage)) => return Ok(Some(Damage { thread: Some(thread), ..damage })),
            Err(StoreError::NotFound { .. }) => {
                return missing(format!("thread {}, which it inherits from, is missing", point.parent));
            }
            Err(error) => return Err(error),
        },
    };
    while next <= info.last_seq {
        let records = match reader.range(thread, next..info.last_seq.next(), RECORDS) {
            Ok(records) => records,
            Err(StoreError::Damaged(damage)) => return Ok(Some(Damage { thread: Some(thread), ..damage })),
            Err(StoreError::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        if records.is_empty() {
            return missing(format!("records are missing from seq {next} on"));
        }
        for record in &records {
            *n_records += 1;
            hash = rechain(hash, record);
            if hash != record.hash || record.seq != next {
                return Ok(Some(Damage {
                    thread: Some(thread),
                    seq: Some(record.seq),
                    position: Some(record.position),
                    file: Some(reader.index.file_path()),
                    what: "the record is not chained to the one before it".into(),
                }));
            }
            next = next.next();
        }
    }
    let is_whole = hash == info.hash && sealed_to <= Some(info.last_position);
    Ok((!is_whole).then(|| Damage {
        thread: Some(thread),
        seq: Some(info.last_seq),
        position: Some(info.last_position),
        file: Some(reader.index.file_path()),
        what: "the records of the thread are not those that its head was written for".into(),
    }))
}

fn rechain(before: Hash, record: &Record) -> Hash {
    Record::chain(
        before,
        record.thread,
        record.seq,
        record.recorded_at,
        record.trace,
        record.kind,
        record.version,
        &record.payload,
    )
}

fn check_blobs(reader: &Reader, found: &mut Verification) -> Result<(), StoreError> {
    let hashes = match damage_of(reader.index.blob_hashes())? {
        Ok(hashes) => hashes,
        Err(damage) => {
            found.faults.push(damage);
            return Ok(());
        }
    };
    for hash in hashes {
        let fault = |what: String| Damage {
            file: Some(reader.index.file_path()),
            what: format!("blob {hash} {what}"),
            ..Damage::default()
        };
        // A delete takes the owners first and the bytes after them, and bytes are written before an owner. So when
        // something is wrong and there still is an owner, it must be wrong a second time.
        let mut wrong = None;
        for _ in 0..2 {
            wrong = match damage_of(sealed_blob(reader, hash))? {
                Ok(Some(bytes)) if Hash::of(&bytes) == hash => None,
                Ok(Some(_)) => Some("is not what was written".into()),
                Ok(None) => Some("is missing".into()),
                Err(damage) => Some(format!("cannot be read: {}", damage.what)),
            };
            if wrong.is_none() || damage_of(reader.index.owners(hash))?.is_ok_and(|o| o.is_empty()) {
                wrong = None;
                break;
            }
        }
        found.faults.extend(wrong.map(fault));
    }
    Ok(())
}

fn sealed_blob(reader: &Reader, hash: Hash) -> Result<Option<Vec<u8>>, StoreError> {
    reader.index.pieces(|trees| &trees.blobs, hash.as_bytes())
}

#[cfg(test)]
mod tests;
