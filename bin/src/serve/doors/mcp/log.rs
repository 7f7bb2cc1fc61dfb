//! The log that tools work on.

use std::sync::Arc;

use super::stdio::on_demand::{Lease, OnDemand};
use crate::serve::problem::Problem;
use crate::serve::server::Shared;

/// The log that tools work on.
#[derive(Clone)]
pub(super) enum Log {
    /// That of a server.
    Served(Shared),
    /// One that is open only while a tool works.
    OnDemand(Arc<OnDemand>),
}

/// What a tool does with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It reads.
    Read,
    /// It runs threads.
    Run,
}

/// A log that is open.
pub(super) struct Opened {
    pub(super) server: Shared,
    lease: Option<Lease>,
}

impl Log {
    /// Opens the log, which stays open until the result is dropped.
    pub(super) async fn open(&self, purpose: Purpose) -> Result<Opened, Problem> {
        match self {
            Self::Served(server) => Ok(Opened { server: server.clone(), lease: None }),
            Self::OnDemand(log) => {
                let lease = OnDemand::open(log, purpose).await?;
                Ok(Opened { server: lease.server.clone(), lease: Some(lease) })
            }
        }
    }
}

impl Opened {
    /// Whether the log closes when it is not used.
    pub(super) fn is_on_demand(&self) -> bool {
        self.lease.is_some()
    }

    /// Names the threads that are run here, for other commands that control them.
    pub(super) fn drives(&self, thread: rethread::ThreadId) {
        if let Some(lease) = &self.lease {
            lease.driven.add(thread);
        }
    }
}
