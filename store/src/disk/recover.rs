//! Opening: what sled holds, what the journal holds beyond it, and whether that is all there ever was.

use std::path::Path;
use std::sync::Arc;

use rethread_events::ids::{Position, Seq, ThreadId};

use super::damage_policy::DamagePolicy;
use super::files::{Files, failed};
use super::frame::{Entry, Stamp};
use super::index::{Index, Watermark};
use super::journal::{Journal, NAMES, Recovered};
use super::mark::{self, LogEnd, Mark};
use super::packs::{End, Packs};
use super::rebuild::rebuild;
use super::tail::{Known, Segment, State, Tail};
use crate::error::{Damage, StoreError};
use crate::head::Head;
use crate::plan::{Addition, Recent};

/// The folder that is sled's.
pub(crate) const INDEX: &str = "index";
pub(crate) const FORMAT: &str = "format";
/// The format of the files that this program reads and writes.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// A log that was found whole.
pub(crate) struct Found {
    pub(crate) index: Index,
    pub(crate) packs: Packs,
    pub(crate) journal: Journal,
    pub(crate) mark: Mark,
    pub(crate) tail: Tail,
    pub(crate) watermark: Watermark,
    pub(crate) next: Position,
    /// The faults that were found and repaired.
    pub(crate) mended: Vec<Damage>,
}

/// Opens what is in `dir`, or makes a new log there. With the care of a salvage nothing is written, and what is
/// wrong is noted instead of refused.
pub(crate) fn recover(
    dir: &Path,
    cache_bytes: u64,
    files: &Files,
    care: &mut DamagePolicy,
) -> Result<Found, StoreError> {
    let is_new = match has_format(dir, files) {
        Ok(found) => !found,
        Err(error) => {
            care.report_error(error)?;
            false
        }
    };
    if is_new {
        check_nothing_there(dir, files, care)?;
    }
    let mut mended = Vec::new();
    let (mut mark, log_end) = Mark::open(dir, files)?;
    if log_end.is_none() && !is_new {
        mended.push(damage(
            &dir.join(mark::NAME),
            "the mark was missing or unreadable when the log was opened, so that a lost end would not be noticed",
        ));
    }
    let log_end = log_end.unwrap_or_default();
    let mut index = open_index(dir, cache_bytes, files, &log_end, care)?;
    let watermark = index.watermark();
    let is_lost = watermark.is_err();
    let mut watermark = care.or_default(watermark)?.unwrap_or_default();
    if is_new && watermark != Watermark::default() {
        care.report(damage(&dir.join(FORMAT), "the file is missing"))?;
    }
    if is_lost || watermark.epoch < log_end.sealed_epoch {
        care.report(Damage {
            position: Some(watermark.position),
            ..damage(&index.file_path(), "records from this position on are missing")
        })?;
        // Chunks that are not in sled are still in the packs.
        let substitute = Index::substitute(&dir.join(INDEX), cache_bytes, files.clone())?;
        let packs = Packs::new(dir, files.clone(), End::default());
        watermark = care.or_default(rebuild(&substitute, &index, &packs, &log_end))?;
        index = substitute;
    }
    let packs = Packs::new(dir, files.clone(), watermark.packs);
    care.or_default(packs.check_end())?;
    packs.hold()?;
    if !files.only_reads() {
        // From here on, the journal may overwrite what is in sled by this watermark.
        index.sync_file()?;
    }
    let (mut journal, recovered) = Journal::open(dir, files, watermark.epoch, care)?;
    care.or_default(check_complete(dir, &watermark, &log_end, &recovered))?;
    journal.skip_to_group(watermark.group);

    let state = replay_all(recovered, &index, journal.path(), care)?;
    let state =
        state.unwrap_or_else(|| State { active: Segment::new(journal.epoch(), watermark.position), sealing: None });
    let next = state.active.next_position();
    if !files.only_reads() {
        let (group, journal_end) = (journal.written_group(), journal.end());
        let log_end = LogEnd { group, next, sealed_epoch: watermark.epoch, journal_end };
        // With a full disk the old mark stays, which is only older.
        match mark.renew(log_end) {
            Ok(()) | Err(StoreError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        if is_new {
            write_format(dir, files)?;
        }
    }
    let tail = Tail::from(state);
    Ok(Found { index, packs, journal, mark, tail, watermark, next, mended })
}

fn open_index(
    dir: &Path,
    cache_bytes: u64,
    files: &Files,
    log_end: &LogEnd,
    care: &mut DamagePolicy,
) -> Result<Index, StoreError> {
    let dir = dir.join(INDEX);
    let file = dir.join("db");
    let may_begin = log_end.sealed_epoch == 0 && !files.only_reads();
    if may_begin {
        files.make_dir(&dir).map_err(|source| failed(&dir, source))?;
    }
    let opened = match !may_begin && !files.is_there(&file)? {
        // Sled would begin an empty one.
        true => Err(StoreError::Damaged(damage(&file, "the file is missing"))),
        false if files.only_reads() => Index::open_copy(&dir, cache_bytes, files.clone()),
        false => Index::open(&dir, cache_bytes, files.clone()).and_then(|index| {
            files.hold(&dir)?;
            files.hold(&file)?;
            Ok(index)
        }),
    };
    opened.or_else(|error| {
        care.report_error(error.clone())?;
        Ok(Index::absent(&dir, cache_bytes, files.clone(), error))
    })
}

fn replay_all(
    recovered: Vec<Recovered>,
    index: &Index,
    path: &Path,
    care: &mut DamagePolicy,
) -> Result<Option<State>, StoreError> {
    let mut state: Option<State> = None;
    for one in recovered {
        let sealing = state.take().map(|state| Arc::new(state.active));
        let active = Segment { group: one.last_group, ..Segment::new(one.epoch, one.base) };
        let mut next = State { active, sealing };
        for (stamp, entry) in one.entries {
            if let Err(error) = replay(&mut next, index, path, stamp, entry) {
                care.report_error(error)?;
                break;
            }
        }
        state = Some(next);
    }
    Ok(state)
}

/// Returns whether a log is here; an error if it has a format that this program does not read.
fn has_format(dir: &Path, files: &Files) -> Result<bool, StoreError> {
    let path = dir.join(FORMAT);
    let bytes = match files.read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(failed(&path, source)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let number = match (lines.next(), lines.next().and_then(|line| line.strip_prefix("format "))) {
        (Some("rethread log"), Some(number)) => number.parse::<u32>().ok(),
        _ => None,
    };
    match number {
        Some(found) if found != FORMAT_VERSION => {
            Err(StoreError::Format { path: dir.into(), found, supported: FORMAT_VERSION })
        }
        Some(_) if text == format_text() => Ok(true),
        _ => Err(StoreError::Damaged(damage(&path, "the file does not say which format this is"))),
    }
}

fn format_text() -> String {
    format!("rethread log\nformat {FORMAT_VERSION}\n")
}

/// Written last, when everything else of a new log is on the disk.
pub(crate) fn write_format(dir: &Path, files: &Files) -> Result<(), StoreError> {
    let (path, draft) = (dir.join(FORMAT), dir.join("format.new"));
    let file = files.open(&draft)?;
    let text = format_text();
    file.resize(0)
        .and_then(|()| file.write_at(text.as_bytes(), 0))
        .and_then(|()| file.sync())
        .and_then(|()| files.rename(&draft, &path))
        .map_err(|source| failed(&path, source))?;
    files.sync_dir(&dir.join(INDEX))?;
    files.sync_dir(dir)
}

/// Without the file that is written last there may be the beginnings of a new log, but nothing that was used.
fn check_nothing_there(dir: &Path, files: &Files, care: &mut DamagePolicy) -> Result<(), StoreError> {
    for name in NAMES {
        let path = dir.join(name);
        if files.bytes(&path).map_err(|source| failed(&path, source))?.unwrap_or(0) > 0 {
            return care.report(damage(&dir.join(FORMAT), "the file is missing"));
        }
    }
    Ok(())
}

/// Checks that nothing is missing between sled and the journal, in the journal, or at its end.
fn check_complete(
    dir: &Path,
    watermark: &Watermark,
    log_end: &LogEnd,
    recovered: &[Recovered],
) -> Result<(), StoreError> {
    let mut epoch = watermark.epoch;
    for one in recovered {
        epoch += 1;
        if one.epoch != epoch {
            return Err(StoreError::Damaged(damage(
                dir,
                &format!("part {epoch} of the journal is missing, part {} is there", one.epoch),
            )));
        }
    }
    if let Some(first) = recovered.first()
        && first.base != watermark.position
    {
        return Err(StoreError::Damaged(Damage {
            position: Some(watermark.position.min(first.base)),
            ..damage(dir, "the journal does not begin where the index ends")
        }));
    }
    let group = recovered.last().map_or(0, |last| last.last_group).max(watermark.group);
    // Of the last group that was acknowledged every frame counts, and the last one may be a part of it.
    let is_cut = |last: &Recovered| last.last_group == log_end.group && last.end < log_end.journal_end;
    if group < log_end.group || recovered.last().is_some_and(is_cut) {
        return Err(StoreError::Damaged(Damage {
            ..damage(dir, &format!("the end of the journal is missing: the log had reached position {}", log_end.next))
        }));
    }
    Ok(())
}

fn damage(file: &Path, what: &str) -> Damage {
    Damage { file: Some(file.into()), what: what.into(), ..Damage::default() }
}

/// Does one operation of the journal again.
fn replay(state: &mut State, index: &Index, path: &Path, stamp: Stamp, entry: Entry) -> Result<(), StoreError> {
    match entry {
        Entry::Begin => {}
        Entry::Append(addition) => {
            let position = state.active.next_position();
            let wrong = |what: &str| {
                StoreError::Damaged(Damage {
                    thread: Some(addition.thread),
                    seq: Some(addition.expected),
                    position: Some(position),
                    ..damage(path, what)
                })
            };
            if stamp.position != position {
                return Err(wrong("an append is not at the position it was written for"));
            }
            let head = match state.known(addition.thread) {
                Known::Is(head) => {
                    if head.last_seq.next() != addition.expected || head.hash != stamp.before {
                        return Err(wrong("an append is not chained to the one before it"));
                    }
                    Some(head)
                }
                Known::Deleted => None,
                Known::No => sealed_head(index, &addition, &stamp),
            };
            let mut records = Vec::with_capacity(addition.items.len());
            let next = addition
                .place(head.as_ref(), stamp.before, &Recent::default(), position, |record| records.push(record));
            state.active.append(addition.thread, stamp.before, next, records);
            state.active.change_keys(addition.thread, &addition.keys);
        }
        Entry::Blob { owner, hash, bytes } => state.active.blob(owner, hash, bytes),
        Entry::Value { name, value } => state.active.value(name, value),
        Entry::Delete { thread } => state.active.delete(thread),
        Entry::Release { hash } => state.active.release(hash),
    }
    Ok(())
}

/// Returns the head before an append whose stream is in sled. Sled may be ahead if a crash interrupted the sealing of
/// this append, so only what never changes in a stream is used. It may even have another stream, which begins later in
/// the log under this id: then the delete in between comes next, and only the chain has to be right.
fn sealed_head(index: &Index, addition: &Addition, stamp: &Stamp) -> Option<Head> {
    let (thread, expected) = (addition.thread, addition.expected);
    if expected == Seq(0) || addition.fork_of.is_some() {
        return None;
    }
    let found = index.head(thread).unwrap_or_else(|error| {
        tracing::error!(%thread, %error, "the head of a thread cannot be read");
        None
    });
    let last_seq = Seq(expected.0 - 1);
    Some(match found {
        Some(head) => Head { last_seq, hash: stamp.before, trace: stamp.trace, ..head },
        // The older part of the stream is lost, which a read of it reports; its newer part is here.
        None => lost_head(addition, stamp, last_seq, thread),
    })
}

fn lost_head(addition: &Addition, stamp: &Stamp, last_seq: Seq, thread: ThreadId) -> Head {
    let at = addition.items.first().map(|item| item.recorded_at).unwrap_or_default();
    tracing::error!(%thread, seq = %last_seq, "the older part of a thread is missing");
    Head {
        last_seq,
        last_position: stamp.position,
        hash: stamp.before,
        tag: addition.tag,
        first_at: at,
        last_at: at,
        fork_of: None,
        trace: stamp.trace,
    }
}
