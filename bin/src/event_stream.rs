//! The table `events` of rethread.toml: events that are published for consumers of NATS.

use std::sync::Arc;
use std::time::Duration;

use rethread::Runtime;
use rethread::errors::with_sources;
use rethread::operate::{EventPublisher, EventPublisherStats};
use rethread::store::EventStreamOptions;
use rethread_events::event::event_type_named;
use serde::Deserialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::exit::Failure;
use crate::nats::{self, Connection, Rest, Table};
use crate::output;
use crate::stream;

/// `[events]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    #[serde(flatten)]
    connection: Connection,
    stream: Option<String>,
    types: Vec<String>,
    from_the_beginning: bool,
    replicas: Option<usize>,
    max_age_s: Option<u64>,
    max_bytes: Option<u64>,
    #[serde(flatten)]
    rest: Rest,
}

/// The keys besides those of the connection.
const KEYS: [&str; 6] = ["stream", "types", "from_the_beginning", "replicas", "max_age_s", "max_bytes"];

/// What is published, and where.
#[derive(Debug)]
pub(crate) struct Published {
    options: EventStreamOptions,
    /// Documented names of events; all when empty.
    types: Vec<String>,
    from_the_beginning: bool,
}

/// What is published, if the configuration says so.
///
/// # Errors
/// For an unknown key, a value that cannot be meant, and a variable that is not set (exit code 3).
pub(crate) fn read(store: Option<&str>, config: &Config) -> Result<Option<Published>, Failure> {
    let Some(settings) = config.events.get()?.clone() else { return Ok(None) };
    let Settings { connection, stream: name, types, from_the_beginning, replicas, max_age_s, max_bytes, rest } =
        settings;
    let table = Table { config, name: "events" };
    table.check_keys(&rest, &KEYS)?;
    let name = name.ok_or_else(|| table.invalid("stream: it is missing: name the stream that gets the events"))?;
    let servers = match connection.url.clone() {
        Some(url) => {
            let addresses = nats::addresses(&url).map_err(|what| table.invalid(format!("url: {what}")))?;
            connection.servers(table, addresses)?
        }
        None => stream::servers(store, config)?.ok_or_else(|| {
            table.invalid("url: no server of NATS is named; it can be left out only if the log is in a stream")
        })?,
    };
    if let Some(unknown) = types.iter().find(|name| event_type_named(name).is_none()) {
        return Err(table.invalid(format!("types: unknown event type {unknown}; docs/EVENTS.md lists them")));
    }
    let defaults = EventStreamOptions::new(servers, name);
    let options = EventStreamOptions {
        replicas: replicas.unwrap_or(defaults.replicas),
        max_age: max_age_s.map_or(defaults.max_age, Duration::from_secs),
        max_bytes,
        ..defaults
    };
    options.check().map_err(|what| table.invalid(format!("stream: {what}")))?;
    let log = stream::options(store, config)?;
    if log.is_some_and(|log| log.stream == options.stream) {
        return Err(table.invalid("stream: it has the name of the log: choose another one"));
    }
    Ok(Some(Published { options, types, from_the_beginning }))
}

/// Publishes events until the server stops.
pub(crate) struct Publishing {
    pub(crate) stats: Arc<EventPublisherStats>,
    task: JoinHandle<()>,
}

/// Begins to publish.
pub(crate) async fn start(
    published: Published,
    runtime: &Runtime,
    stopping: &CancellationToken,
) -> Result<Publishing, Failure> {
    let Published { options, types, from_the_beginning } = published;
    let address = options.address();
    let types: Vec<_> = types.iter().map(String::as_str).collect();
    let publisher = runtime.publish_events(options, &types, from_the_beginning).await?;
    let (stats, stopping) = (publisher.stats(), stopping.clone());
    let task = tokio::spawn(report(publisher, address, stopping));
    Ok(Publishing { stats, task })
}

/// Says when it has ended before the server stops.
async fn report(mut publisher: EventPublisher, address: String, stopping: CancellationToken) {
    let ended = tokio::select! {
        ended = publisher.ended() => ended,
        () = stopping.cancelled() => return publisher.stop().await,
    };
    if let Err(error) = ended {
        let address = output::sanitize(&address, 200);
        let why = output::sanitize(&with_sources(&error), 400);
        output::print_error(&format!("events are no longer published to {address}: {why}"));
    }
}

impl Publishing {
    /// Waits until the position is stored, after the server was asked to stop.
    pub(crate) async fn ended(self) {
        let _ = self.task.await;
    }
}
