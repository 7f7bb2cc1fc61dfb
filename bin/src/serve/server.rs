//! The state that all requests of a server share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::web;
use rethread::Runtime;
#[cfg(feature = "jetstream")]
use rethread::operate::EventPublisherStats;
use rethread::store::Recent;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::counters::Counters;
use super::doors::{Doors, a2a, agui, mcp};
use super::event_filter::Hub;
use super::idempotency::Keys;
use super::incoming::Incoming;
use super::local::Driven;
use super::problem::{Kind, Problem};
use super::tokens::Tokens;
use super::webhook::WebhookStats;
use super::written::Entry;
#[cfg(feature = "otlp")]
use crate::otlp::ExportStats;
use crate::toolset::Programs;

/// The server, as a handler gets it.
pub(crate) type Shared = web::Data<Server>;

/// The settings of a server.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Whether a request without a token may do nothing.
    pub(crate) needs_token: bool,
    /// Whether it only shows.
    pub(crate) read_only: bool,
    /// Whether other servers have the log as well.
    pub(crate) is_shared: bool,
    /// Set where a command serves while it holds the log: the threads that it runs, which are the only ones that a
    /// request may change.
    pub(crate) driven: Option<Driven>,
    /// The programs that tools start.
    pub(crate) programs: Programs,
    /// The doors that are open.
    pub(crate) doors: Doors,
    /// The tools that clients run.
    pub(crate) client_tools: BTreeSet<String>,
    /// Names under which it may be reached, besides its addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// Origins whose pages may use it, besides its own.
    pub(crate) origins: Vec<String>,
    /// The folder that threads work in which name none.
    pub(crate) workspace: Option<String>,
    /// The largest body, in bytes.
    pub(crate) body_bytes_max: usize,
    /// How many may follow the log at once.
    pub(crate) subscribers_max: usize,
    /// The longest silence towards a subscriber, so that proxies do not close the connection as idle.
    pub(crate) silence_max: Duration,
}

/// The state that all requests of a server share.
pub(crate) struct Server {
    pub(crate) runtime: Runtime,
    pub(crate) settings: Settings,
    pub(crate) tokens: Tokens,
    pub(crate) counters: Counters,
    pub(crate) keys: Keys,
    pub(crate) hub: Hub,
    /// The lists of tasks that clients of A2A ask for.
    pub(crate) a2a: a2a::Lists,
    /// The threads that requests of the AG-UI door are about.
    pub(crate) agui: agui::Locks,
    /// The sessions of clients of MCP.
    pub(crate) mcp: mcp::Sessions,
    /// The webhooks by name, and what they have done.
    pub(crate) webhooks: Vec<(String, Arc<WebhookStats>)>,
    /// What was sent to a collector of OpenTelemetry, if the configuration names one.
    #[cfg(feature = "otlp")]
    pub(crate) export: Option<Arc<ExportStats>>,
    /// What was published for consumers of NATS, if the configuration says so.
    #[cfg(feature = "jetstream")]
    pub(crate) publisher: Option<Arc<EventPublisherStats>>,
    /// The webhooks of other services, by name.
    pub(crate) incoming: BTreeMap<String, Incoming>,
    /// Cancelled when the server stops.
    pub(crate) stopping: CancellationToken,
    subscribers: Arc<Semaphore>,
    n_subscribers: AtomicUsize,
}

impl Server {
    pub(crate) fn new(
        runtime: Runtime,
        settings: Settings,
        tokens: Tokens,
        stopping: CancellationToken,
        webhooks: Vec<(String, Arc<WebhookStats>)>,
        incoming: BTreeMap<String, Incoming>,
    ) -> Self {
        Self {
            keys: Keys::new(runtime.clone()),
            mcp: mcp::Sessions::default(),
            hub: Recent::beginning_at(runtime.next_position(), Entry::new),
            a2a: a2a::Lists::default(),
            agui: agui::Locks::default(),
            runtime,
            tokens,
            counters: Counters::default(),
            stopping,
            #[cfg(feature = "otlp")]
            export: None,
            #[cfg(feature = "jetstream")]
            publisher: None,
            webhooks,
            incoming,
            subscribers: Arc::new(Semaphore::new(settings.subscribers_max)),
            n_subscribers: AtomicUsize::new(0),
            settings,
        }
    }

    /// Counts what is published.
    #[cfg(feature = "jetstream")]
    pub(crate) fn with_publisher(self, publisher: Option<Arc<EventPublisherStats>>) -> Self {
        Self { publisher, ..self }
    }

    /// Counts what is sent to a collector.
    #[cfg(feature = "otlp")]
    pub(crate) fn with_export(self, export: Option<Arc<ExportStats>>) -> Self {
        Self { export, ..self }
    }

    /// The place of one who follows the log.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Result<SubscriberSlot, Problem> {
        if self.stopping.is_cancelled() {
            return Err(Problem::stopping());
        }
        match self.subscribers.clone().try_acquire_owned() {
            Ok(permit) => {
                self.n_subscribers.fetch_add(1, Ordering::Relaxed);
                Ok(SubscriberSlot { server: self.clone(), _permit: permit })
            }
            Err(_) => {
                let n = self.settings.subscribers_max;
                let detail = format!(
                    "{n} subscribers follow the log already, which is the limit: try again when one has left, or \
                     start the server with a larger --subscribers-max"
                );
                Err(Problem::new(Kind::Busy, detail))
            }
        }
    }

    pub(crate) fn n_subscribers(&self) -> usize {
        self.n_subscribers.load(Ordering::Relaxed)
    }
}

/// The place of one who follows the log; free again when it is dropped.
pub(crate) struct SubscriberSlot {
    server: Arc<Server>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for SubscriberSlot {
    fn drop(&mut self) {
        self.server.n_subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}
