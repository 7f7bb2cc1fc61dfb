//! All streams of a log, one by one.

use std::vec;

use rethread_events::ids::ThreadId;

use crate::contract::{LogReader, StreamInfo, Tag};
use crate::error::StoreError;

/// The streams of the first page.
const FIRST_STREAMS: usize = 512;
/// The most streams of a page.
const PAGE_STREAMS: usize = 2_048;

/// The streams that a function lists in pages, one by one. An error ends it.
///
/// The function takes the last stream of the page before and the size of the page. A shorter page is the last one.
pub struct StreamIter<F> {
    list: F,
    after: Option<ThreadId>,
    size: usize,
    page: vec::IntoIter<StreamInfo>,
    is_done: bool,
}

impl<F> StreamIter<F>
where
    F: FnMut(Option<ThreadId>, usize) -> Result<Vec<StreamInfo>, StoreError>,
{
    /// The streams after `after`.
    pub fn new(after: Option<ThreadId>, list: F) -> Self {
        Self { list, after, size: FIRST_STREAMS, page: Vec::new().into_iter(), is_done: false }
    }
}

impl<F> Iterator for StreamIter<F>
where
    F: FnMut(Option<ThreadId>, usize) -> Result<Vec<StreamInfo>, StoreError>,
{
    type Item = Result<StreamInfo, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(info) = self.page.next() {
                return Some(Ok(info));
            }
            if self.is_done {
                return None;
            }
            match (self.list)(self.after, self.size) {
                Ok(page) => {
                    self.is_done = page.len() < self.size;
                    self.after = page.last().map(|info| info.thread);
                    self.size = (2 * self.size).min(PAGE_STREAMS);
                    self.page = page.into_iter();
                }
                Err(error) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl dyn LogReader {
    /// The streams after `after`, by id, only those with one of `tags` (empty: all). Each page is a read of its own and
    /// blocks.
    pub fn all_streams<'a>(
        &'a self,
        after: Option<ThreadId>,
        tags: &'a [Tag],
    ) -> impl Iterator<Item = Result<StreamInfo, StoreError>> + 'a {
        StreamIter::new(after, move |after, limit| self.streams(after, tags, limit))
    }
}

#[cfg(test)]
mod tests;
