//! Counters of the server.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

/// Requests by method, route and status. There are as many entries as routes and statuses, not as paths.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: Mutex<BTreeMap<(&'static str, String, u16), Sum>>,
}

/// How many there were, and how long they took until their answers began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    pub(crate) n: u64,
    pub(crate) took: Duration,
}

/// The methods that are counted by name; a client can make up any number of others.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];

impl Counters {
    pub(crate) fn answered(&self, method: &str, route: &'static str, status: u16, took: Duration) {
        let method = METHODS.iter().find(|known| **known == method).copied().unwrap_or("OTHER");
        let mut requests = self.requests.lock();
        let sum = requests.entry((route, method.to_owned(), status)).or_default();
        sum.n += 1;
        sum.took += took;
    }

    /// Route, method, status, and the sum of those.
    pub(crate) fn requests(&self) -> Vec<(&'static str, String, u16, Sum)> {
        let requests = self.requests.lock();
        requests.iter().map(|((route, method, status), sum)| (*route, method.clone(), *status, *sum)).collect()
    }
}
