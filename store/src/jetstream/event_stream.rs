//! A stream of events for clients of NATS. It is not the log: only its last message is read here, to go on after it.

use std::time::Duration;

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, StorageType, Stream,
};
use async_nats::jetstream::{self, Context};

use super::connection::{check_version, is_absent, patiently, unavailable, unsuitable};
use super::options::{check_replicas, check_stream_name};
use super::servers::{ConnectError, NatsServers, REQUEST_MAX};
use crate::error::StoreError;

/// The metadata of the stream that names the log whose events it has.
const SOURCE: &str = "rethread.events_of";

/// A stream of events, and what is kept in it if it is created. An existing stream keeps its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventStreamOptions {
    /// The servers that store the stream.
    pub servers: NatsServers,
    /// The name of the stream, which is also the first word of its subjects: 1 to 64 letters, digits, `-` and `_`.
    pub stream: String,
    /// How many servers store the stream: 1, 3 or 5.
    pub replicas: usize,
    /// How long an event is kept; for ever if this is zero.
    pub max_age: Duration,
    /// How many bytes of events are kept; the oldest leave the stream. `None` is no limit.
    pub max_bytes: Option<u64>,
}

impl EventStreamOptions {
    /// The defaults for a stream: one server stores it, and events are kept for seven days.
    pub fn new(servers: NatsServers, stream: impl Into<String>) -> Self {
        let max_age = Duration::from_secs(7 * 24 * 3_600);
        Self { servers, stream: stream.into(), replicas: 1, max_age, max_bytes: None }
    }

    /// Checks what needs no server.
    ///
    /// # Errors
    /// Why these options cannot be used.
    pub fn check(&self) -> Result<(), &'static str> {
        check_stream_name(&self.stream)?;
        check_replicas(self.replicas)?;
        match self.max_bytes {
            Some(bytes) if bytes == 0 || i64::try_from(bytes).is_err() => {
                Err("a stream that keeps events has room for some bytes")
            }
            _ => Ok(()),
        }
    }

    /// The address as people read it, without what proves who the client is.
    pub fn address(&self) -> String {
        format!("{}/{}", self.servers, self.stream)
    }

    fn config(&self, source: &str) -> Config {
        Config {
            name: self.stream.clone(),
            subjects: vec![format!("{}.>", self.stream)],
            description: Some("events of rethread, as CloudEvents".into()),
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            discard: DiscardPolicy::Old,
            num_replicas: self.replicas,
            max_age: self.max_age,
            max_bytes: self.max_bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1),
            allow_direct: true,
            metadata: [(SOURCE.to_owned(), source.to_owned())].into(),
            ..Config::default()
        }
    }
}

/// A message of a stream of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventMessage {
    /// The words of its subject after the name of the stream.
    pub subject: String,
    /// What it says, as JSON.
    pub body: Vec<u8>,
}

/// An open stream of events. It is connected for as long as it exists, and connects again by itself.
#[derive(Debug)]
pub struct EventStream {
    context: Context,
    stream: Stream,
    address: String,
    /// The sequence of the last message, once that is known.
    sequence: Option<u64>,
    bytes_max: usize,
}

impl EventStream {
    /// Connects, and creates the stream if it is not there. `source` names the log whose events it has.
    ///
    /// # Errors
    /// `Unavailable` if no server answers; `Unsuitable` if the options are wrong, the servers are too old, or the stream is not
    /// one for the events of this log.
    pub async fn open(options: &EventStreamOptions, source: &str) -> Result<Self, StoreError> {
        let address = options.address();
        options.check().map_err(|why| unsuitable(&address, why.into()))?;
        let client = options.servers.connect("rethread, events").await.map_err(|error| match error {
            ConnectError::Options(why) => unsuitable(&address, why),
            ConnectError::Unavailable(why) => StoreError::Unavailable { log: address.clone(), why },
        })?;
        let info = client.server_info();
        check_version(&info.version).map_err(|why| unsuitable(&address, why))?;
        // The headers count, too.
        let bytes_max = info.max_payload.saturating_sub(1024);
        let mut context = jetstream::new(client);
        context.set_timeout(REQUEST_MAX);
        let stream = patiently(async || match context.get_stream(&options.stream).await {
            Ok(stream) => Ok(stream),
            Err(error) if is_absent(&error) => match context.create_stream(options.config(source)).await {
                Ok(stream) => Ok(stream),
                Err(error) => Err(unavailable(&address, &error)),
            },
            Err(error) => Err(unavailable(&address, &error)),
        });
        let stream = stream.await?;
        let config = &stream.cached_info().config;
        let why = match config.metadata.get(SOURCE) {
            Some(found) if found == source => None,
            Some(_) => Some("the stream has the events of another log: name another stream"),
            None => Some("the stream was not created for events of rethread: name another stream"),
        };
        match why {
            Some(why) => Err(unsuitable(&address, why.into())),
            None => Ok(Self { context, stream, address, sequence: None, bytes_max }),
        }
    }

    /// The most bytes of a message.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Returns what the last message of the stream says; `None` if it has none. What is published next comes after that one,
    /// or is refused.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn last(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let info = self.stream.get_info().await.map_err(|error| unavailable(&self.address, &error))?;
        let last = self.stream.get_last_raw_message_by_subject(&format!("{}.>", info.config.name)).await;
        let last = match last {
            Ok(message) => Some(message),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => None,
            Err(error) => return Err(unavailable(&self.address, &error)),
        };
        // Of a stream that lost its last messages, it is less.
        let sequence = last.as_ref().map_or(0, |message| message.sequence).max(info.state.last_sequence);
        self.sequence = Some(sequence);
        Ok(last.map(|message| message.payload.into()))
    }

    /// Publishes messages in order, after the last one that [`EventStream::last`] or this returned for. After a failure, the
    /// first of them may be there: read [`EventStream::last`] again.
    ///
    /// # Errors
    /// `Unavailable`, also if another process has published meanwhile.
    pub async fn publish(&mut self, messages: Vec<EventMessage>) -> Result<(), StoreError> {
        let Some(mut sequence) = self.sequence.take() else {
            let why = "what it has is not known".into();
            return Err(StoreError::Unavailable { log: self.address.clone(), why });
        };
        let name = self.stream.cached_info().config.name.clone();
        let mut acknowledgements = Vec::with_capacity(messages.len());
        for message in messages {
            let published = PublishMessage::build()
                .expected_last_sequence(sequence)
                .header("Content-Type", "application/cloudevents+json")
                .payload(message.body.into());
            let sent = self.context.send_publish(format!("{name}.{}", message.subject), published).await;
            acknowledgements.push(sent.map_err(|error| unavailable(&self.address, &error))?);
            sequence += 1;
        }
        for acknowledgement in acknowledgements {
            acknowledgement.await.map_err(|error| unavailable(&self.address, &error))?;
        }
        self.sequence = Some(sequence);
        Ok(())
    }
}
