//! The connection to the servers, and the stream: created as a log needs it, or refused.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream::{
    self, Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, StorageType, Stream,
};
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt as _;

use super::message::Change;
use super::options::JetStreamOptions;
use super::rules::State as Seen;
use super::servers::{ConnectError, REQUEST_MAX, with_sources};
use super::stats::Stats;
use super::subject::Subject;
use super::summary::Summary;
use crate::error::StoreError;

/// Older servers lost acknowledged messages, or do not know what the configuration of the stream asks for.
const SERVER_MIN: (u64, u64) = (2, 12);
/// For this long servers that have just begun may answer nothing, and the pause until they are asked again.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);
/// How long to wait for what is read. A leader that has gone answers nothing.
const READ_MAX: Duration = Duration::from_secs(2);
/// The smallest limit of a server for a message.
const PAYLOAD_BYTES_MIN: usize = 16 << 10;
/// Larger messages are not made, whatever the server allows: one message is one write of every server.
const PART_BYTES_MAX: usize = 1 << 20;

/// The metadata of the stream that makes it a log: its id and the version of its messages.
const LOG_ID: &str = "rethread.log";
const FORMAT: &str = "rethread.format";
const FORMAT_VERSION: &str = "1";

/// A connection to the stream of a log.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) stream: Stream,
    /// The name of the stream.
    pub(super) name: String,
    /// The address for errors.
    pub(super) address: String,
    /// The id of the log.
    pub(super) log: [u8; 16],
    /// The most bytes of an operation in one message.
    pub(super) part_bytes: usize,
    /// The name of the process, for people.
    pub(super) label: String,
    pub(super) n_replicas: usize,
    pub(super) stats: Arc<Stats>,
}

impl Connection {
    /// Connects, and creates the stream if it is not there.
    pub(super) async fn open(options: &JetStreamOptions) -> Result<Self, StoreError> {
        let address = options.address();
        let client = options.servers.connect(&options.replica.label).await.map_err(|error| match error {
            ConnectError::Options(why) => unsuitable(&address, why),
            ConnectError::Unavailable(why) => StoreError::Unavailable { log: address.clone(), why },
        })?;
        let info = client.server_info();
        check_version(&info.version).map_err(|why| unsuitable(&address, why))?;
        if info.max_payload < PAYLOAD_BYTES_MIN {
            let why = format!(
                "its servers accept messages of {} bytes: set `max_payload` to at least {PAYLOAD_BYTES_MIN}",
                info.max_payload
            );
            return Err(unsuitable(&address, why));
        }
        let part_bytes = info.max_payload.min(PART_BYTES_MAX) - 1024;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(READ_MAX);
        // The servers of a cluster that has just begun have no leader.
        let stream = patiently(|| open_stream(&context, options, &address)).await?;
        let config = &stream.cached_info().config;
        let log = check_stream(config, &options.stream).map_err(|why| unsuitable(&address, why))?;
        let (name, label) = (options.stream.clone(), options.replica.label.clone());
        let n_replicas = config.num_replicas;
        // What is published is in doubt without an acknowledgement. What is read is asked for again.
        context.set_timeout(REQUEST_MAX);
        Ok(Self { client, context, stream, name, address, log, part_bytes, label, n_replicas, stats: Arc::default() })
    }

    /// The name of this process, for people.
    pub(super) fn name_of_process(&self) -> String {
        format!("{}, pid {}", self.label, std::process::id())
    }

    pub(super) fn unavailable(&self, error: &dyn std::error::Error) -> StoreError {
        unavailable(&self.address, error)
    }

    /// The last message of a subject, with its sequence.
    pub(super) async fn last_of(&self, subject: Subject) -> Result<Option<(u64, bytes::Bytes)>, StoreError> {
        match self.stream.get_last_raw_message_by_subject(&subject.name(&self.name)).await {
            Ok(message) => Ok(Some((message.sequence, message.payload))),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(self.unavailable(&error)),
        }
    }

    /// How the stream differs from what a replica has seen of it. After a restore from an older backup, the next message is a
    /// change of the members, so two histories differ in one of these at least: the change that was the last one for the replica,
    /// and those after it up to where it is. Changes never leave the stream.
    pub(super) async fn difference(&self, state: &Seen) -> Result<Option<String>, StoreError> {
        if state.changed == 0 {
            return Ok(None);
        }
        let own = self.next_change(state.changed).await?;
        if own.is_none_or(|(sequence, id)| (sequence, id) != (state.changed, state.change)) {
            return Ok(Some(format!("has seen another process take the log over, with message {}", state.changed)));
        }
        let next = self.next_change(state.changed + 1).await?;
        let unseen = next.filter(|(sequence, _)| *sequence <= state.sequence);
        Ok(unseen
            .map(|(sequence, _)| format!("has not seen that a process took the log over, with message {sequence}")))
    }

    /// The first change of the members from a sequence on, with its id. Messages of other programs are passed over.
    async fn next_change(&self, mut from: u64) -> Result<Option<(u64, [u8; 16])>, StoreError> {
        let subject = Subject::TakeOver.name(&self.name);
        loop {
            match self.stream.get_first_raw_message_by_subject(&subject, from).await {
                Ok(message) => match Change::decode(&message.payload) {
                    Ok(change) => return Ok(Some((message.sequence, change.id))),
                    Err(_) => from = message.sequence + 1,
                },
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(None),
                Err(error) => return Err(self.unavailable(&error)),
            }
        }
    }

    /// The messages of a subject from a sequence on, in order; of all subjects without one.
    pub(super) async fn messages(&self, subject: Option<Subject>, from: u64) -> Result<pull::Ordered, StoreError> {
        let config = pull::OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from.max(1) },
            filter_subject: subject.map(|subject| subject.name(&self.name)).unwrap_or_default(),
            ..pull::OrderedConfig::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(|error| self.unavailable(&error))?;
        consumer.messages().await.map_err(|error| self.unavailable(&error))
    }

    /// All messages of summaries from a sequence on.
    pub(super) async fn summaries(&self, from: u64) -> Result<Vec<Summary>, StoreError> {
        let Some((last, _)) = self.last_of(Subject::Summary).await?.filter(|(last, _)| *last >= from) else {
            return Ok(Vec::new());
        };
        let mut messages = self.messages(Some(Subject::Summary), from).await?;
        let mut summaries = Vec::new();
        loop {
            let next = tokio::time::timeout(REQUEST_MAX, messages.next()).await;
            let message = match next {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => return Err(self.unavailable(&error)),
                Ok(None) | Err(_) => return Err(self.timed_out()),
            };
            let sequence = message.info().map_err(|error| self.unavailable(&*error))?.stream_sequence;
            match Summary::decode(&message.payload) {
                Ok(summary) => summaries.push(summary),
                Err(_) => tracing::error!(sequence, "a message of the stream is no summary of a log: skipped"),
            }
            if sequence >= last {
                return Ok(summaries);
            }
        }
    }

    /// Whether a server is connected.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            State::Disconnected | State::Pending => {
                Err(StoreError::Unavailable { log: self.address.clone(), why: "no server is connected".into() })
            }
        }
    }

    pub(super) fn timed_out(&self) -> StoreError {
        StoreError::Unavailable { log: self.address.clone(), why: "its servers do not answer".into() }
    }
}

async fn open_stream(context: &Context, options: &JetStreamOptions, address: &str) -> Result<Stream, StoreError> {
    match context.get_stream(&options.stream).await {
        Ok(stream) => return Ok(stream),
        Err(error) if is_absent(&error) && !options.create => {
            return Err(StoreError::NotFound { what: "log", name: address.into() });
        }
        Err(error) if is_absent(&error) => {}
        Err(error) => return Err(unavailable(address, &error)),
    }
    let created = context.create_stream(config(&options.stream, options.replicas)).await;
    match created {
        Ok(stream) => Ok(stream),
        // Another process may have created it at the same time, with an id of its own.
        Err(error) => context.get_stream(&options.stream).await.map_err(|_| unavailable(address, &error)),
    }
}

pub(super) fn is_absent(error: &jetstream::context::GetStreamError) -> bool {
    use jetstream::context::GetStreamErrorKind;
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == jetstream::ErrorCode::STREAM_NOT_FOUND)
}

/// The configuration of a stream that loses nothing.
fn config(name: &str, n_replicas: usize) -> Config {
    Config {
        name: name.into(),
        subjects: vec![format!("{name}.>")],
        description: Some("a log of rethread: do not edit".into()),
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        num_replicas: n_replicas,
        max_messages: -1,
        max_bytes: -1,
        max_messages_per_subject: -1,
        max_message_size: -1,
        // Messages leave the stream one by one, after a summary announced it.
        deny_purge: true,
        allow_direct: true,
        metadata: [(LOG_ID.to_owned(), hex(&super::random_id())), (FORMAT.to_owned(), FORMAT_VERSION.to_owned())]
            .into(),
        ..Config::default()
    }
}

/// The id of the log in a stream, or why the stream is none or could lose messages.
fn check_stream(config: &Config, name: &str) -> Result<[u8; 16], String> {
    let Some(id) = config.metadata.get(LOG_ID).and_then(|id| unhex(id)) else {
        return Err("the stream was not created for a log of rethread: name another stream".into());
    };
    let format = config.metadata.get(FORMAT).map_or("none", String::as_str);
    if format != FORMAT_VERSION {
        return Err(format!("the stream has format {format}, this program reads format {FORMAT_VERSION}"));
    }
    let is_limited = |limit: i64| limit > 0;
    let faults = [
        (config.retention != RetentionPolicy::Limits, "its retention is not `limits`"),
        (is_limited(config.max_messages), "it has a limit of messages"),
        (is_limited(config.max_bytes), "it has a limit of bytes"),
        (is_limited(config.max_messages_per_subject), "it has a limit of messages for each subject"),
        (!config.max_age.is_zero(), "its messages have a largest age"),
        (config.discard != DiscardPolicy::New, "its policy of discarding is not `new`"),
        (config.storage != StorageType::File, "it is not stored in files"),
        (config.subjects != [format!("{name}.>")], "it has other subjects"),
        (config.sealed, "it is sealed"),
        (config.deny_delete, "it denies that messages of deleted threads are deleted"),
        (config.allow_rollup, "it allows roll-ups, which remove messages"),
        (config.allow_message_ttl, "its messages can have a lifetime"),
        (config.no_ack, "it does not acknowledge messages"),
        (config.mirror.is_some() || config.sources.is_some(), "it is filled from another stream"),
        (config.subject_transform.is_some(), "it changes subjects"),
    ];
    match faults.iter().find(|(is_fault, _)| *is_fault) {
        Some((_, fault)) => Err(format!("{fault}: create a stream by opening a log, or undo that change")),
        None => Ok(id),
    }
}

/// Servers name themselves by three numbers, and perhaps more after a `-`.
pub(super) fn check_version(version: &str) -> Result<(), String> {
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']).map(|number| number.parse::<u64>().ok());
    let found = (numbers.next().flatten(), numbers.next().flatten());
    let (major, minor) = SERVER_MIN;
    match found {
        (Some(found_major), Some(found_minor)) if (found_major, found_minor) >= SERVER_MIN => Ok(()),
        _ => Err(format!(
            "its server has version `{version}`, and {major}.{minor} or later is needed: older ones lost acknowledged messages"
        )),
    }
}

fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut id = [0; 16];
    for (byte, at) in id.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(id)
}

pub(super) fn unavailable(address: &str, error: &dyn std::error::Error) -> StoreError {
    let why = with_sources(error);
    StoreError::Unavailable { log: address.into(), why }
}

pub(super) fn unsuitable(address: &str, why: String) -> StoreError {
    StoreError::Unsuitable { log: address.into(), why }
}

/// Repeats a request until it succeeds, is refused, or has failed for too long.
pub(super) async fn patiently<T, F: Future<Output = Result<T, StoreError>>>(
    mut request: impl FnMut() -> F,
) -> Result<T, StoreError> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match request().await {
            Err(error) if error.is_temporary() && tokio::time::Instant::now() < deadline => {
                tracing::debug!(%error, "asked again");
                tokio::time::sleep(PAUSE).await;
            }
            answered => return answered,
        }
    }
}

/// Reads the whole state of the stream from its leader.
pub(super) async fn last_sequence(stream: &Stream) -> Result<u64, stream::InfoError> {
    Ok(stream.get_info().await?.state.last_sequence)
}

#[cfg(test)]
mod tests;
