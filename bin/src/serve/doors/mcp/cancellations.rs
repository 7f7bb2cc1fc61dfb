//! The requests in progress, and their cancellation by name.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

/// How many cancellations are kept whose requests are not known.
const EARLY_MAX: usize = 64;

/// The requests in progress that their client can cancel by name.
#[derive(Default)]
pub(super) struct Cancellations(Mutex<Requests>);

#[derive(Default)]
struct Requests {
    open: HashMap<RequestId, CancellationToken>,
    /// The last cancellations of requests that are not open: theirs may be about to begin, on another thread.
    early: VecDeque<RequestId>,
}

impl Cancellations {
    pub(super) fn begin(&self, id: &RequestId) -> Cancellable<'_> {
        let cancelled = CancellationToken::new();
        let mut requests = self.0.lock();
        if let Some(place) = requests.early.iter().position(|early| early == id) {
            requests.early.remove(place);
            cancelled.cancel();
        }
        requests.open.insert(id.clone(), cancelled.clone());
        Cancellable { all: self, id: id.clone(), cancelled }
    }

    /// The client cancels a request; without effect if it has ended.
    pub(super) fn cancel(&self, id: &RequestId) {
        let mut requests = self.0.lock();
        match requests.open.get(id) {
            Some(cancelled) => cancelled.cancel(),
            None => {
                requests.early.truncate(EARLY_MAX - 1);
                requests.early.push_front(id.clone());
            }
        }
    }
}

/// A request in progress.
pub(super) struct Cancellable<'a> {
    all: &'a Cancellations,
    id: RequestId,
    pub(super) cancelled: CancellationToken,
}

impl Drop for Cancellable<'_> {
    fn drop(&mut self) {
        self.all.0.lock().open.remove(&self.id);
    }
}
