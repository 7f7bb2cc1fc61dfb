//! Lists of threads, page by page, the newest or the oldest first.

use std::sync::Arc;

use rethread_events::ids::{ThreadId, Time};
use rethread_events::labels::Labels;
use rethread_events::thread::Status;
use rethread_events::workflow::Search;
use rethread_store::{LogReader, StreamInfo, Tag};

use crate::clock;
use crate::crashes::Crashes;
use crate::error::ReadError;
use crate::runtime::Runtime;
use crate::selection::{self, before};
use crate::summary::{ThreadSummary, summary};
use crate::thread_list::{is_one_of, tags};

/// How many streams are listed at a time, the oldest first.
const PAGE: usize = 512;
/// The most threads that are read for one page, including those that the filter drops.
const SCANNED_MAX: usize = 5_000;
/// More streams than this are not read from the store in one window of time.
const WINDOW_STREAMS_MAX: usize = 20_000;
/// How far back the search for the newest threads begins, in milliseconds; each further step is four times as long.
const FIRST_WINDOW_MS: u64 = 1_000;

/// Which branches a list contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BranchFilter {
    /// Threads of all kinds.
    #[default]
    Any,
    /// Only those that are not a branch.
    TopLevel,
    /// Only the branches of this one.
    Of(ThreadId),
}

/// Which threads a page contains.
#[derive(Debug, Clone, Default)]
pub struct ThreadQuery {
    /// Only those with one of these statuses; empty for all.
    pub status: Vec<Status>,
    /// Only those that began on a workflow of this name.
    pub workflow: Option<String>,
    /// Only those with these labels.
    pub labels: Labels,
    /// Only those with these search attributes.
    pub search: Search,
    /// Which branches.
    pub branch_of: BranchFilter,
    /// Only those whose id was made at this time or later.
    pub since: Option<Time>,
    /// Only those whose id was made before this time.
    pub until: Option<Time>,
    /// Only threads after this one in the order of the list: the end of the page before.
    pub after: Option<ThreadId>,
    /// The oldest first; otherwise the newest.
    pub oldest_first: bool,
    /// The most threads; at least 1.
    pub limit: usize,
}

/// A page of a list.
#[derive(Debug, Clone, Default)]
pub struct ThreadPage {
    /// The threads. There may be fewer than requested, or none, although more follow, because the search for a rare
    /// match is limited.
    pub threads: Vec<ThreadSummary>,
    /// Where the next page begins; `None` when this is the last.
    pub next: Option<ThreadId>,
}

impl Runtime {
    /// Returns the first threads of a query, in its order. Reads pages until there are as many, so that it costs what these
    /// pages cost.
    ///
    /// # Errors
    /// As [`Runtime::thread_page`].
    pub async fn first_threads(&self, mut query: ThreadQuery, limit: usize) -> Result<Vec<ThreadSummary>, ReadError> {
        let mut threads = Vec::new();
        loop {
            query.limit = limit - threads.len();
            let page = self.thread_page(query.clone()).await?;
            threads.extend(page.threads);
            match page.next {
                Some(next) if threads.len() < limit => query.after = Some(next),
                _ => return Ok(threads),
            }
        }
    }

    /// Returns a page of the list of threads. The order is that of their ids, so of their creation. Costs a read of one
    /// or two events for each thread that is examined.
    pub async fn thread_page(&self, query: ThreadQuery) -> Result<ThreadPage, ReadError> {
        let services = self.services().clone();
        self.blocking(move || page(&*services.store, &services.crashes, &query, &|thread| services.works_on(thread)))
            .await?
    }
}

/// Returns the first id that can be created at a time.
fn id_at(time: Time) -> ThreadId {
    ThreadId::new(time.unix_us() / 1_000, [0; 10])
}

fn ms_of(id: ThreadId) -> u64 {
    let mut ms = [0; 8];
    ms[2..].copy_from_slice(&id.as_bytes()[..6]);
    u64::from_be_bytes(ms)
}

fn page(
    store: &dyn LogReader,
    crashes: &Arc<Crashes>,
    query: &ThreadQuery,
    works_on: &dyn Fn(ThreadId) -> bool,
) -> Result<ThreadPage, ReadError> {
    let mut page = ThreadPage::default();
    let mut n_scanned = 0;
    let mut source = Source::new(query);
    while let Some(infos) = source.next(store)? {
        for info in infos {
            if page.threads.len() >= query.limit.max(1) || n_scanned >= SCANNED_MAX {
                page.next = source.last;
                return Ok(page);
            }
            n_scanned += 1;
            source.last = Some(info.thread);
            let summary = summary(store, crashes, &info, works_on)?;
            if fits(query, &summary) {
                page.threads.push(summary);
            }
        }
    }
    Ok(page)
}

pub(crate) fn fits(query: &ThreadQuery, summary: &ThreadSummary) -> bool {
    let of_whom = match query.branch_of {
        BranchFilter::Any => true,
        BranchFilter::TopLevel => summary.branch_of.is_none(),
        BranchFilter::Of(owner) => summary.branch_of.is_some_and(|(branch_of, _)| branch_of == owner),
    };
    let workflow = query.workflow.as_ref();
    is_one_of(summary.status, &query.status)
        && summary.labels.include(&query.labels)
        && of_whom
        && workflow.is_none_or(|name| summary.workflow.as_ref().is_some_and(|workflow| workflow.name == *name))
}

/// Streams in the order of a list, some at a time.
pub(crate) struct Source {
    labels: Labels,
    search: Search,
    tags: Vec<Tag>,
    oldest_first: bool,
    /// Streams from this id on, if the list has a lower end.
    floor: Option<ThreadId>,
    /// Streams before this id, if the list has an upper end; decreases if the newest come first.
    ceiling: Option<ThreadId>,
    window_ms: u64,
    /// The last stream that was examined.
    pub(crate) last: Option<ThreadId>,
    ended: bool,
}

impl Source {
    pub(crate) fn new(query: &ThreadQuery) -> Self {
        let until = query.until.map(id_at);
        let ceiling = match query.after {
            Some(after) if !query.oldest_first => Some(until.map_or(after, |until| until.min(after))),
            _ => until,
        };
        Self {
            labels: query.labels.clone(),
            search: query.search.clone(),
            tags: tags(&query.status),
            oldest_first: query.oldest_first,
            floor: query.since.map(id_at),
            ceiling,
            window_ms: FIRST_WINDOW_MS,
            last: query.after,
            ended: false,
        }
    }

    pub(crate) fn next(&mut self, store: &dyn LogReader) -> Result<Option<Vec<StreamInfo>>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        if self.oldest_first { self.upwards(store) } else { self.downwards(store) }
    }

    fn upwards(&mut self, store: &dyn LogReader) -> Result<Option<Vec<StreamInfo>>, ReadError> {
        let from = self.last.max(self.floor.and_then(before));
        let listed = selection::streams(store, &self.labels, &self.search, from, &self.tags)?;
        let mut infos = listed.take(PAGE).collect::<Result<Vec<_>, _>>()?;
        self.ended = infos.len() < PAGE;
        if let Some(ceiling) = self.ceiling {
            self.ended |= infos.iter().any(|info| info.thread >= ceiling);
            infos.retain(|info| info.thread < ceiling);
        }
        Ok(Some(infos))
    }

    /// A store lists streams only in ascending order. So the newest are searched in windows of time, each further back
    /// and longer than the one before: at most a few times as many streams are read as are found.
    fn downwards(&mut self, store: &dyn LogReader) -> Result<Option<Vec<StreamInfo>>, ReadError> {
        let top_ms = match self.ceiling {
            Some(ceiling) => ms_of(ceiling),
            None => clock::now().unix_us() / 1_000,
        };
        let bottom_ms = top_ms.saturating_sub(self.window_ms);
        let floor_ms = self.floor.map_or(0, ms_of);
        self.ended = bottom_ms <= floor_ms;
        let bottom = if self.ended { self.floor } else { Some(ThreadId::new(bottom_ms, [0; 10])) };
        let (mut found, mut is_crowded) = (Vec::new(), false);
        let listed = selection::streams(store, &self.labels, &self.search, bottom.and_then(before), &self.tags)?;
        for info in listed {
            let info = info?;
            if self.ceiling.is_some_and(|ceiling| info.thread >= ceiling) {
                break;
            }
            found.push(info);
            is_crowded = found.len() > WINDOW_STREAMS_MAX && self.window_ms > 1;
            if is_crowded {
                break;
            }
        }
        if is_crowded {
            self.window_ms = (self.window_ms / 16).max(1);
            self.ended = false;
            return self.downwards(store);
        }
        found.reverse();
        self.ceiling = bottom;
        self.window_ms = self.window_ms.saturating_mul(4);
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests;
