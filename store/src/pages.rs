//! Reading a log page by page: the records of a thread by seq, those of the whole log by position.

use std::iter::Rev;
use std::ops::Range;
use std::sync::Arc;
use std::vec;

use rethread_events::ids::{Position, Seq, ThreadId};

use crate::contract::LogReader;
use crate::error::StoreError;
use crate::record::Record;

/// The most records of a page. Decoding a full page of events takes some 300 µs, so that the cost of one read more or
/// less is negligible.
pub(crate) const PAGE_RECORDS: usize = 512;
/// The records of a first page: a search that succeeds early reads little.
const FIRST_RECORDS: usize = 64;
/// How many bytes of payloads a page is meant to hold at most.
const PAGE_BYTES: usize = 1 << 20;

/// How many records the next page may hold: twice as many as the last one, up to [`PAGE_RECORDS`], and fewer where
/// payloads are so large that they would be more than [`PAGE_BYTES`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageSize(usize);

impl PageSize {
    pub(crate) const FIRST: Self = Self(FIRST_RECORDS);

    pub(crate) fn records(self) -> usize {
        self.0
    }

    /// The size of the page after this one.
    pub(crate) fn after(self, page: &[Record]) -> Self {
        if page.is_empty() {
            return self;
        }
        let bytes: usize = page.iter().map(|record| record.payload.len()).sum();
        let fits = page.len().saturating_mul(PAGE_BYTES) / bytes.max(1);
        Self(fits.clamp(1, PAGE_RECORDS.min(self.0 * 2)))
    }
}

/// A place in a log from which it is read on, page by page. Holds no records.
#[derive(Debug, Clone)]
pub struct Cursor {
    rest: Rest,
    size: PageSize,
    is_done: bool,
}

/// The range that a [`Cursor`] has not read yet.
#[derive(Debug, Clone)]
pub(crate) enum Rest {
    OfThread(ThreadId, Range<Seq>),
    OfLog(Range<Position>),
}

/// The source of pages.
pub(crate) trait Pages: Send + Sync + 'static {
    /// The first records of `rest`, at most `limit`; fewer only at the end.
    fn page(&self, rest: &Rest, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// Whether all records of `rest` are in memory, so that reading them does not wait for the disk.
    fn in_memory(&self, _rest: &Rest) -> bool {
        false
    }
}

impl Pages for Arc<dyn LogReader> {
    fn page(&self, rest: &Rest, limit: usize) -> Result<Vec<Record>, StoreError> {
        page_of(&**self, rest, limit)
    }
}

fn page_of(store: &dyn LogReader, rest: &Rest, limit: usize) -> Result<Vec<Record>, StoreError> {
    match rest {
        Rest::OfThread(thread, seqs) => store.read_stream(*thread, seqs.clone(), limit),
        Rest::OfLog(positions) => store.read_all(positions.start, limit),
    }
}

impl Cursor {
    /// Before the first of these records of a thread, inherited ones included.
    pub fn of_thread(thread: ThreadId, seqs: Range<Seq>) -> Self {
        Self { is_done: seqs.is_empty(), rest: Rest::OfThread(thread, seqs), size: PageSize::FIRST }
    }

    /// Before the first of these records of the whole log.
    pub fn of_log(positions: Range<Position>) -> Self {
        Self { is_done: positions.is_empty(), rest: Rest::OfLog(positions), size: PageSize::FIRST }
    }

    /// The range that it has not read yet.
    pub(crate) fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Continues with another range; its pages are as large as those before.
    pub(crate) fn continue_with(&mut self, rest: Rest) {
        self.rest = rest;
        self.is_done = false;
    }

    /// Whether it has reached the end of its range, or of the log.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Reads the next records and moves after them. Blocks.
    ///
    /// # Errors
    /// Returns the errors of [`LogReader::read_stream`] and [`LogReader::read_all`]; the cursor is done then.
    pub fn read(&mut self, store: &dyn LogReader) -> Result<Vec<Record>, StoreError> {
        self.read_page(|rest, limit| page_of(store, rest, limit))
    }

    /// As [`Cursor::read`], of other pages.
    pub(crate) fn read_from(&mut self, pages: &dyn Pages) -> Result<Vec<Record>, StoreError> {
        self.read_page(|rest, limit| pages.page(rest, limit))
    }

    fn read_page(
        &mut self,
        read: impl FnOnce(&Rest, usize) -> Result<Vec<Record>, StoreError>,
    ) -> Result<Vec<Record>, StoreError> {
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(Vec::new());
        }
        let limit = self.size.records();
        let mut page = read(&self.rest, limit)?;
        self.size = self.size.after(&page);
        if page.len() == limit
            && let Some(last) = page.last()
        {
            self.is_done = match &mut self.rest {
                Rest::OfThread(_, seqs) => {
                    seqs.start = last.seq.next();
                    seqs.is_empty()
                }
                Rest::OfLog(positions) => {
                    positions.start = last.position.next();
                    positions.is_empty()
                }
            };
        }
        if let Rest::OfLog(positions) = &self.rest {
            page.truncate(page.partition_point(|record| record.position < positions.end));
        }
        Ok(page)
    }
}

/// The records that a [`Cursor`] passes, one by one. An error ends it.
pub struct RecordIter<'a> {
    store: &'a dyn LogReader,
    cursor: Cursor,
    page: vec::IntoIter<Record>,
}

impl Iterator for RecordIter<'_> {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.page.next() {
                return Some(Ok(record));
            }
            if self.cursor.is_done() {
                return None;
            }
            match self.cursor.read(self.store) {
                Ok(page) => self.page = page.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Records of a thread from the last to the first. An error ends it.
pub struct RecordIterBack<'a> {
    store: &'a dyn LogReader,
    thread: ThreadId,
    rest: Range<Seq>,
    size: PageSize,
    page: Rev<vec::IntoIter<Record>>,
}

impl Iterator for RecordIterBack<'_> {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.page.next() {
                return Some(Ok(record));
            }
            if self.rest.is_empty() {
                return None;
            }
            let limit = self.size.records();
            let start = Seq(self.rest.end.0.saturating_sub(limit as u64)).max(self.rest.start);
            match self.store.read_stream(self.thread, start..self.rest.end, limit) {
                Ok(page) => {
                    self.rest.end = start;
                    self.size = self.size.after(&page);
                    self.page = page.into_iter().rev();
                }
                Err(error) => {
                    self.rest.end = self.rest.start;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Reading of what may be more than fits into memory. Each call blocks.
impl dyn LogReader {
    /// The records of a thread with these seqs, in order, inherited ones included, as far as they are in the log.
    ///
    /// Each page is a separate read: if a thread is deleted meanwhile and a new one begins under its id, the first
    /// records may be of the deleted one.
    pub fn records(&self, thread: ThreadId, seqs: Range<Seq>) -> RecordIter<'_> {
        RecordIter { store: self, cursor: Cursor::of_thread(thread, seqs), page: Vec::new().into_iter() }
    }

    /// As `records`, from the last to the first. The range must not end after the thread's last record.
    pub fn records_back(&self, thread: ThreadId, seqs: Range<Seq>) -> RecordIterBack<'_> {
        let page = Vec::new().into_iter().rev();
        RecordIterBack { store: self, thread, rest: seqs, size: PageSize::FIRST, page }
    }

    /// The records of the whole log at these positions, in order, as far as they are in the log. Those of deleted threads
    /// are left out.
    pub fn log(&self, positions: Range<Position>) -> RecordIter<'_> {
        RecordIter { store: self, cursor: Cursor::of_log(positions), page: Vec::new().into_iter() }
    }
}

#[cfg(test)]
mod tests;
