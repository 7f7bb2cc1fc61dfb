//! The open questions of all threads, page by page, in the order of their threads.

use std::fmt;
use std::str::FromStr;

use rethread_events::ids::{CallId, IdError, ThreadId};
use rethread_events::thread::Status;

use crate::clock;
use crate::error::ReadError;
use crate::inbox::{self, OpenInteraction};
use crate::load;
use crate::registry::ThreadRegistry;
use crate::runtime::Runtime;
use crate::summary::summary;
use crate::thread_page::{BranchFilter, Source, ThreadQuery, fits};

/// The most threads that are loaded for one page, including those that ask nothing.
const LOADED_MAX: usize = 500;

/// Which open questions a page contains.
#[derive(Debug, Clone, Default)]
pub struct InboxQuery {
    /// The threads whose questions are listed, the order of the list, and the most questions. Its `after` is not used.
    /// Without a status these are all threads that have not ended.
    pub threads: ThreadQuery,
    /// Only questions after this place in the order of the list: the end of the page before.
    pub after: Option<InboxPlace>,
}

/// A place in a list of questions. As text it is the id of a thread, or that of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxPlace {
    /// The thread.
    pub thread: ThreadId,
    /// The question of the thread; absent after the last one.
    pub call: Option<CallId>,
}

impl InboxPlace {
    /// Returns the place of a question.
    pub fn of(question: &OpenInteraction) -> Self {
        Self { thread: question.thread, call: Some(question.request.id) }
    }

    /// Returns whether a question comes after this place, the oldest threads first.
    pub fn is_before(&self, question: &OpenInteraction) -> bool {
        match (self.thread, self.call) {
            (thread, Some(call)) if thread == question.thread => question.request.id > call,
            (thread, _) => question.thread > thread,
        }
    }
}

impl fmt::Display for InboxPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.call {
            Some(call) => f.write_str(&call.key(self.thread)),
            None => fmt::Display::fmt(&self.thread, f),
        }
    }
}

impl FromStr for InboxPlace {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if let Ok(thread) = text.parse() {
            return Ok(Self { thread, call: None });
        }
        CallId::parse_key(text).map(|(thread, call)| Self { thread, call: Some(call) })
    }
}

/// A page of the list.
#[derive(Debug, Default)]
pub struct InboxPage {
    /// The questions. There may be fewer than requested, or none, although more follow, because the search for threads that
    /// ask is limited.
    pub open: Vec<OpenInteraction>,
    /// Threads of the page that cannot be read, and why; their questions are unknown.
    pub unreadable: Vec<(ThreadId, ReadError)>,
    /// Where the next page begins; `None` when this is the last.
    pub next: Option<InboxPlace>,
}

impl Runtime {
    /// Returns a page of the open questions of all threads, as [`Runtime::inbox`] returns all of them. The order is that of
    /// the threads, by creation, and within a thread that of the questions. Costs the load of each thread of the page, and
    /// of the threads between them that ask nothing.
    pub async fn inbox_page(&self, query: InboxQuery) -> Result<InboxPage, ReadError> {
        let registry = self.registry().clone();
        self.blocking(move || Search { registry: &registry, query: &query, page: InboxPage::default() }.page()).await?
    }
}

/// The search for the questions of a page.
struct Search<'a> {
    registry: &'a ThreadRegistry,
    query: &'a InboxQuery,
    page: InboxPage,
}

impl Search<'_> {
    fn page(mut self) -> Result<InboxPage, ReadError> {
        let services = &self.registry.services;
        let (store, query) = (&*services.store, &self.query.threads);
        let mut listed = ThreadQuery { after: self.query.after.map(|after| after.thread), ..query.clone() };
        if listed.status.is_empty() {
            listed.status = Status::ALL.into_iter().filter(|status| !status.is_ended()).collect();
        }
        // The page before ended between the questions of a thread.
        if let Some(InboxPlace { thread, call: Some(call) }) = self.query.after
            && !self.add(thread, Some(call))
        {
            return Ok(self.page);
        }
        let is_filtered = !query.status.is_empty()
            || !query.labels.is_empty()
            || query.workflow.is_some()
            || query.branch_of != BranchFilter::Any;
        let mut n_loaded = 0;
        let mut source = Source::new(&listed);
        while let Some(infos) = source.next(store)? {
            for info in infos {
                if self.page.open.len() >= query.limit.max(1) || n_loaded >= LOADED_MAX {
                    self.page.next = source.last.map(|thread| InboxPlace { thread, call: None });
                    return Ok(self.page);
                }
                n_loaded += 1;
                source.last = Some(info.thread);
                if is_filtered {
                    let works_on = |thread| services.works_on(thread);
                    if !fits(query, &summary(store, &services.crashes, &info, &works_on)?) {
                        continue;
                    }
                }
                if !self.add(info.thread, None) {
                    return Ok(self.page);
                }
            }
        }
        Ok(self.page)
    }

    /// Adds the questions of a thread, only those after `after`. Returns false if there was not room for all of them.
    fn add(&mut self, thread: ThreadId, after: Option<CallId>) -> bool {
        let services = &self.registry.services;
        let loaded = services.crashes.folding(thread, || load::present(&*services.store, thread));
        let mut open = match loaded {
            Ok(loaded) => inbox::open(self.registry, &loaded.state, clock::now()),
            // The thread was deleted meanwhile.
            Err(ReadError::NoThread(_)) => return true,
            Err(error) => {
                self.page.unreadable.push((thread, error));
                return true;
            }
        };
        open.sort_by_key(|question| question.request.id);
        if !self.query.threads.oldest_first {
            open.reverse();
        }
        if let Some(after) = after {
            let oldest_first = self.query.threads.oldest_first;
            open.retain(
                |question| if oldest_first { question.request.id > after } else { question.request.id < after },
            );
        }
        let room = self.query.threads.limit.max(1) - self.page.open.len();
        let is_all = open.len() <= room;
        self.page.open.extend(open.into_iter().take(room));
        if !is_all {
            self.page.next = self.page.open.last().map(InboxPlace::of);
        }
        is_all
    }
}

#[cfg(test)]
mod tests;
