//! Threads in a list, the oldest first.

use rethread_events::ids::ThreadId;
use rethread_events::labels::Labels;
use rethread_events::thread::Status;
use rethread_events::workflow::Search;
use rethread_store::Tag;

use crate::error::ReadError;
use crate::runtime::Runtime;
use crate::selection;
use crate::summary::{ThreadSummary, summary};

/// Which threads a list contains.
#[derive(Debug, Clone, Default)]
pub struct ThreadFilter {
    /// Only those with one of these statuses; empty for all.
    pub status: Vec<Status>,
    /// Only those with these labels.
    pub labels: Labels,
    /// Only those with these search attributes.
    pub search: Search,
    /// Only those after this one, by id, so by time of creation.
    pub after: Option<ThreadId>,
    /// The most threads; 0 for all.
    pub limit: usize,
}

impl Runtime {
    /// Threads, oldest first. Costs a read of one or two events for each, and a fold of each that runs.
    pub async fn threads(&self, filter: ThreadFilter) -> Result<Vec<ThreadSummary>, ReadError> {
        let services = self.services().clone();
        self.blocking(move || {
            let store = services.reader();
            let tags = tags(&filter.status);
            let limit = if filter.limit == 0 { usize::MAX } else { filter.limit };
            let mut found = Vec::new();
            for info in selection::streams(store, &filter.labels, &filter.search, filter.after, &tags)
                .map_err(ReadError::from)?
            {
                let summary = summary(store, &services.crashes, &info?, &|thread| services.works_on(thread))?;
                if is_one_of(summary.status, &filter.status) && summary.labels.include(&filter.labels) {
                    found.push(summary);
                    if found.len() == limit {
                        break;
                    }
                }
            }
            Ok(found)
        })
        .await?
    }
}

/// Returns the tags to list for these statuses; empty for all. Threads that wait with their branches, and those that no
/// process works on, have the tag of running threads.
pub(crate) fn tags(statuses: &[Status]) -> Vec<Tag> {
    let seems_to_run =
        |status: &Status| matches!(status, Status::Waiting | Status::Paused | Status::Pending | Status::Interrupted);
    let also = (statuses.iter().any(seems_to_run) && !statuses.contains(&Status::Running)).then_some(Status::Running);
    statuses.iter().copied().chain(also).map(|status| Tag(status.code())).collect()
}

/// Returns whether a list of these statuses contains a thread of this one; an empty list contains all.
pub(crate) fn is_one_of(status: Status, statuses: &[Status]) -> bool {
    statuses.is_empty() || statuses.contains(&status)
}
