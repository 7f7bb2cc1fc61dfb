//! The mark: how far the log was acknowledged, written with a small delay, so that a missing end of the log is noticed.
//!
//! Neither the journal nor sled can distinguish a tail that was cut off from one that was never written.

use std::path::Path;

use parking_lot::Mutex;
use rethread_events::ids::Position;

use super::files::{Files, LogFile, failed};
use crate::error::StoreError;
use crate::wire::{Malformed, Put, Take};

pub(crate) const NAME: &str = "mark";
const SLOT_BYTES: usize = 64;
/// The bytes before the checksum.
const CHECKED_BYTES: usize = 40;

/// The end of the log when the mark was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogEnd {
    /// The last group that was acknowledged.
    pub(crate) group: u64,
    /// The position after it.
    pub(crate) next: Position,
    /// The last life of a journal file that is all in sled.
    pub(crate) sealed_epoch: u64,
    /// Where in its journal file that group ended.
    pub(crate) journal_end: u64,
}

/// The mark of an open log, which the writer and the sealer both write. The writer never waits for the sealer, which may
/// hold the file for the time of a sync: what it could not note then, the sealer notes when it is done.
pub(crate) struct SharedMark {
    mark: Mutex<Mark>,
    /// The last group that is not noted yet, the position after it, and where it ended in its journal file.
    latest: Mutex<Option<(u64, Position, u64)>>,
}

impl SharedMark {
    pub(crate) fn new(mark: Mark) -> Self {
        Self { mark: Mutex::new(mark), latest: Mutex::default() }
    }

    /// As [`Mark::note`].
    pub(crate) fn record(&self, group: u64, next: Position, journal_end: u64) -> std::io::Result<()> {
        *self.latest.lock() = Some((group, next, journal_end));
        self.catch_up()
    }

    /// As [`Mark::record_sealed`].
    pub(crate) fn record_sealed(&self, epoch: u64) -> Result<(), StoreError> {
        let noted = self.mark.lock().record_sealed(epoch);
        if let Err(error) = self.catch_up() {
            tracing::warn!(%error, "cannot write the mark");
        }
        noted
    }

    /// As [`Mark::renew`].
    pub(crate) fn renew(&self, log_end: LogEnd) -> Result<(), StoreError> {
        self.mark.lock().renew(log_end)
    }

    /// Notes the latest group. If another thread holds the mark, that thread writes this group after its own.
    fn catch_up(&self) -> std::io::Result<()> {
        while self.latest.lock().is_some() {
            let Some(mut mark) = self.mark.try_lock() else { return Ok(()) };
            let latest = self.latest.lock().take();
            if let Some((group, next, journal_end)) = latest {
                mark.record(group, next, journal_end)?;
            }
        }
        Ok(())
    }
}

/// The file, which holds two copies that are overwritten in turn: one of them is always whole.
pub(crate) struct Mark {
    file: LogFile,
    count: u64,
    log_end: LogEnd,
}

impl Mark {
    /// Opens the file; the second answer is what it says, `None` when it says nothing that can be trusted.
    pub(crate) fn open(dir: &Path, files: &Files) -> Result<(Self, Option<LogEnd>), StoreError> {
        let file = files.open(&dir.join(NAME))?;
        let bytes = file.read_all(1 << 16).map_err(|source| failed(file.path(), source))?;
        let newest = bytes.chunks(SLOT_BYTES).filter_map(|slot| read(slot).ok()).max_by_key(|slot| slot.0);
        let (count, log_end) = newest.unwrap_or_default();
        Ok((Self { file, count, log_end }, newest.map(|(_, log_end)| log_end)))
    }

    /// Notes how far the log has come. Not waited for.
    pub(crate) fn record(&mut self, group: u64, next: Position, journal_end: u64) -> std::io::Result<()> {
        self.write(LogEnd { group, next, journal_end, ..self.log_end })
    }

    /// Notes what is in sled now, on the disk when it returns.
    pub(crate) fn record_sealed(&mut self, epoch: u64) -> Result<(), StoreError> {
        self.write(LogEnd { sealed_epoch: epoch, ..self.log_end })
            .and_then(|()| self.file.sync())
            .map_err(|source| failed(self.file.path(), source))
    }

    /// Repairs both copies, durable when it returns.
    pub(crate) fn renew(&mut self, log_end: LogEnd) -> Result<(), StoreError> {
        self.write(log_end)
            .and_then(|()| self.write(log_end))
            .and_then(|()| self.file.sync())
            .map_err(|source| failed(self.file.path(), source))
    }

    fn write(&mut self, log_end: LogEnd) -> std::io::Result<()> {
        self.log_end = log_end;
        self.count += 1;
        let mut slot = Vec::with_capacity(SLOT_BYTES);
        slot.u64(self.count);
        slot.u64(log_end.group);
        slot.u64(log_end.next.0);
        slot.u64(log_end.sealed_epoch);
        slot.u64(log_end.journal_end);
        let crc = crc32fast::hash(&slot);
        slot.u32(crc);
        slot.resize(SLOT_BYTES, 0);
        self.file.write_at(&slot, self.count % 2 * SLOT_BYTES as u64)
    }
}

fn read(slot: &[u8]) -> Result<(u64, LogEnd), Malformed> {
    let mut take = Take(slot);
    let count = take.u64()?;
    let log_end =
        LogEnd { group: take.u64()?, next: Position(take.u64()?), sealed_epoch: take.u64()?, journal_end: take.u64()? };
    let is_whole = take.u32()? == crc32fast::hash(&slot[..CHECKED_BYTES]);
    if is_whole && count > 0 { Ok((count, log_end)) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests;
