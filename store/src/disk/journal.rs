//! The write-ahead journal: where an append becomes durable, with one write and one sync.
//!
//! Two files take turns: one takes what comes, the other is being moved into sled, and is then used again in
//! place, so that a sync has data to write and no metadata.

use std::path::Path;

use rethread_events::ids::{Hash, Position, TraceId};

use super::damage_policy::DamagePolicy;
use super::files::{Files, LogFile, failed};
use super::frame::{Entry, HEADER_BYTES, Header, MAGIC_BYTES, Stamp, header, write_begin};
use crate::error::{Damage, StoreError};

/// The names of the two files.
pub(crate) const NAMES: [&str; 2] = ["journal-a", "journal-b"];

/// A file is made longer by at least this much at a time, already filled with zeros: bytes that are there can be
/// overwritten and synced without a change of metadata, which saves a quarter of the wait.
const GROW_BYTES_MIN: u64 = 64 << 10;
const GROW_BYTES_MAX: u64 = 1 << 20;
const GROW_GROUP_BYTES_MAX: usize = 32 << 10;

/// A file that grew beyond this in a burst is cut when nothing more comes.
const KEEP_BYTES: u64 = 4 << 20;

/// A file beyond this size is truncated when it is reused. A smaller one keeps its size: overwriting takes a third of
/// the time of growing a file.
const KEEP_BUSY_BYTES: u64 = 32 << 20;

/// Beyond this a journal file takes no other group until the one before it is in sled: bounds the memory that the
/// tail takes when records come faster than they can be moved.
pub(crate) const FILE_BYTES_MAX: u64 = KEEP_BUSY_BYTES;

/// The most bytes of a file after one more group, the largest import.
const READ_BYTES_MAX: u64 = 1 << 30;

/// The two files and the place where the next group goes.
pub(crate) struct Journal {
    files: [LogFile; 2],
    /// How much of each is there to be overwritten.
    ready_bytes: [u64; 2],
    active: usize,
    epoch: u64,
    offset: u64,
    /// The last group that anything is known of, written or not.
    group: u64,
    /// The last one that was written.
    written_group: u64,
    /// Whether a group that failed may have left whole frames after the last one that was written.
    has_remains: bool,
}

/// The place of the next group. Separate from the files, so that a group can be built while the one before it is being
/// written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    epoch: u64,
    offset: u64,
    /// The last group that was begun.
    group: u64,
}

impl Cursor {
    /// How much is in the file, what is on its way included.
    pub(crate) fn bytes(&self) -> u64 {
        self.offset
    }

    /// Begins a group in `out`; every frame of it is stamped with what this returns. A group that failed is never
    /// taken up again: the next one has another number, so that its remains are recognised.
    pub(crate) fn begin_group(&mut self, position: Position, out: &mut Vec<u8>) -> Stamp {
        self.group += 1;
        let stamp = Stamp {
            epoch: self.epoch,
            group: self.group,
            group_start: self.offset,
            position,
            before: Hash::ZERO,
            trace: TraceId::from_bytes([0; 16]),
            cause: None,
            more: false,
        };
        if self.offset == 0 {
            write_begin(&stamp, out);
        }
        stamp
    }

    /// Ends the group with this many bytes; the next one begins after it.
    pub(crate) fn end_group(&mut self, bytes: usize) {
        self.offset += bytes as u64;
    }

    /// Continues where the journal is: in its other file, or after the last group that did not fail.
    pub(crate) fn follow(&mut self, journal: &Journal) {
        (self.epoch, self.offset) = (journal.epoch, journal.offset);
        self.group = self.group.max(journal.group);
    }
}

/// The content of a file.
#[derive(Debug)]
pub(crate) struct Recovered {
    file: usize,
    pub(crate) epoch: u64,
    pub(crate) base: Position,
    pub(crate) entries: Vec<(Stamp, Entry)>,
    /// Where its last whole frame ends.
    pub(crate) end: u64,
    /// The group of the last whole frame.
    pub(crate) last_group: u64,
    /// The highest group that any frame names, whole or not.
    group_max: u64,
}

impl Journal {
    /// Opens both files and reads what they hold that is newer than `sealed_epoch`, from old to new.
    pub(crate) fn open(
        dir: &Path,
        access: &Files,
        sealed_epoch: u64,
        care: &mut DamagePolicy,
    ) -> Result<(Self, Vec<Recovered>), StoreError> {
        let files = [access.open(&dir.join(NAMES[0]))?, access.open(&dir.join(NAMES[1]))?];
        files.iter().try_for_each(|file| access.hold(file.path()))?;
        let (mut found, mut ready_bytes) = (Vec::new(), [0; 2]);
        for (index, file) in files.iter().enumerate() {
            let failed = |source| failed(file.path(), source);
            let bytes = file.read_all(READ_BYTES_MAX).map_err(failed)?;
            ready_bytes[index] = bytes.len() as u64;
            found.extend(scan(index, &bytes, file.path(), sealed_epoch, care)?);
            if !access.only_reads() {
                // A killed process may have left what is not on the disk yet, and it is about to be shown.
                file.sync().map_err(failed)?;
            }
        }
        found.sort_by_key(|recovered| recovered.epoch);
        let group = found.iter().map(|recovered| recovered.group_max).max().unwrap_or(0);
        let (active, epoch, offset) = match found.last() {
            Some(last) => (last.file, last.epoch, last.end),
            None => (0, sealed_epoch + 1, 0),
        };
        let written_group = found.last().map_or(0, |last| last.last_group);
        let journal = Self { files, ready_bytes, active, epoch, offset, group, written_group, has_remains: false };
        Ok((journal, found))
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The last group that was written.
    pub(crate) fn written_group(&self) -> u64 {
        self.written_group
    }

    /// Where the last group ended in its file; 0 if the file has none.
    pub(crate) fn end(&self) -> u64 {
        self.offset
    }

    /// Continues after `group`, if that is later than the last group in the files.
    pub(crate) fn skip_to_group(&mut self, group: u64) {
        self.group = self.group.max(group);
        self.written_group = self.written_group.max(group);
    }

    pub(crate) fn path(&self) -> &Path {
        self.files[self.active].path()
    }

    /// Where the next group goes, when none is on its way.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor { epoch: self.epoch, offset: self.offset, group: self.group }
    }

    /// Writes a group and waits until it is on the disk. On an error nothing of it counts.
    pub(crate) fn commit(&mut self, group: u64, out: &mut Vec<u8>) -> std::io::Result<()> {
        self.group = group;
        let file = &self.files[self.active];
        let n = out.len();
        let end = self.offset + n as u64;
        let ready = &mut self.ready_bytes[self.active];
        let grows = end > *ready;
        // A large group has its own metadata to wait for anyway, and zeros would be most of what it writes.
        if grows && n < GROW_GROUP_BYTES_MAX {
            let more = (*ready).clamp(GROW_BYTES_MIN, GROW_BYTES_MAX);
            out.resize(n + more as usize, 0);
        }
        let written = file.write_at(out, self.offset).and_then(|()| file.sync());
        if grows && written.is_ok() {
            *ready = self.offset + out.len() as u64;
        }
        out.truncate(n);
        self.has_remains = written.is_err();
        written?;
        self.offset = end;
        self.written_group = group;
        Ok(())
    }

    /// Continues in the other file, whose contents are in sled by now; `next` is the position of the next record. After
    /// an error it continues in this one.
    pub(crate) fn switch(&mut self, next: Position) -> Result<(), StoreError> {
        if self.has_remains {
            self.overwrite_remains(next).map_err(|source| failed(self.path(), source))?;
        }
        self.active ^= 1;
        self.epoch += 1;
        self.offset = 0;
        self.cut(self.active, KEEP_BUSY_BYTES);
        Ok(())
    }

    /// Overwrites a failed group with an empty one if no other group would: its remains would count if the file was
    /// read again.
    fn overwrite_remains(&mut self, next: Position) -> std::io::Result<()> {
        let mut out = Vec::new();
        let stamp = self.cursor().begin_group(next, &mut out);
        if out.is_empty() {
            write_begin(&stamp, &mut out);
        }
        self.commit(stamp.group, &mut out)
    }

    /// Frees the space that a burst took, after a while without one; `is_free` when all of the file that takes
    /// nothing now is in sled.
    pub(crate) fn tidy(&mut self, is_free: bool) {
        if is_free {
            self.cut(self.active ^ 1, KEEP_BYTES);
        }
        if self.offset <= KEEP_BYTES {
            self.cut(self.active, KEEP_BYTES);
        }
    }

    /// Cuts off all that is in sled and all that remains after the part in use, when nothing is on its way to sled.
    pub(crate) fn scrub(&mut self) -> Result<(), StoreError> {
        for (file, bytes) in [(self.active ^ 1, 0), (self.active, self.offset)] {
            let log_file = &self.files[file];
            let cut = log_file.resize(bytes).and_then(|()| log_file.sync());
            cut.map_err(|source| failed(log_file.path(), source))?;
            self.ready_bytes[file] = bytes;
        }
        Ok(())
    }

    fn cut(&mut self, file: usize, bytes: u64) {
        let ready = &mut self.ready_bytes[file];
        if *ready > bytes && self.files[file].resize(bytes).is_ok() {
            *ready = bytes;
        }
    }

    /// Frees the space of both files, once all is in sled.
    pub(crate) fn trim(&mut self) -> Result<(), StoreError> {
        for file in &self.files {
            file.resize(0).and_then(|()| file.sync()).map_err(|e| failed(file.path(), e))?;
        }
        self.ready_bytes = [0; 2];
        Ok(())
    }
}

/// Reads a file: whole frames of one epoch up to the first that is not whole, without the first frames of an operation
/// whose last one is missing. `None` if it has nothing newer than `sealed_epoch`.
fn scan(
    file: usize,
    bytes: &[u8],
    path: &Path,
    sealed_epoch: u64,
    care: &mut DamagePolicy,
) -> Result<Option<Recovered>, StoreError> {
    let first = header(bytes).filter(Header::is_begin);
    if first.is_some_and(|first| first.stamp.epoch <= sealed_epoch) {
        return Ok(None);
    }
    let mut found = Recovered {
        file,
        epoch: first.map_or(0, |first| first.stamp.epoch),
        base: first.map_or(Position(0), |first| first.stamp.position),
        entries: Vec::new(),
        end: 0,
        last_group: 0,
        group_max: 0,
    };
    // Before the first frame of a multi-frame operation: its offset, the number of entries, the last group.
    let mut before = None;
    while let Some(header) = header(&bytes[found.end as usize..])
        && first.is_some()
        && (before.is_none() || header.stamp.group == found.last_group)
        && header.stamp.epoch == found.epoch
        && header.stamp.group >= found.last_group
        && let Some(entry) = header.entry(&bytes[found.end as usize..])
    {
        before = match before {
            _ if !header.stamp.more => None,
            None => Some((found.end, found.entries.len(), found.last_group)),
            begun => begun,
        };
        found.last_group = header.stamp.group;
        found.end += header.frame_bytes() as u64;
        if !matches!(entry, Entry::Begin) {
            found.entries.push((header.stamp, entry));
        }
    }
    if let Some((end, n, group)) = before {
        found.entries.truncate(n);
        (found.end, found.last_group) = (end, group);
    }
    found.group_max = found.last_group;
    for (at, header) in headers(bytes, found.end as usize) {
        let Stamp { epoch, group, group_start, position, .. } = header.stamp;
        let newer = match first {
            Some(_) => epoch == found.epoch,
            None => epoch > sealed_epoch,
        };
        if !newer {
            continue;
        }
        found.group_max = found.group_max.max(group);
        if group_start > found.end && group > found.last_group {
            care.report(Damage {
                position: Some(position),
                file: Some(path.into()),
                what: format!(
                    "the journal cannot be read at byte {}, and what was written later, at byte {at}, can",
                    found.end
                ),
                ..Damage::default()
            })?;
            break;
        }
    }
    Ok(first.map(|_| found))
}

/// All whole headers from `from` on, with their places.
fn headers(bytes: &[u8], from: usize) -> impl Iterator<Item = (usize, Header)> {
    let magic = &MAGIC_BYTES;
    (from..bytes.len().saturating_sub(HEADER_BYTES - 1))
        .filter(move |at| bytes[*at] == magic[0] && bytes[*at..].starts_with(magic))
        .filter_map(move |at| header(&bytes[at..]).map(|header| (at, header)))
}

#[cfg(test)]
mod tests;
