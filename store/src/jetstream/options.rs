//! The options of a log in a JetStream stream.

use std::time::Duration;

use super::between::PREFIX;
use super::servers::NatsServers;
use crate::disk::Options;

/// The first word of the subjects of calls of workers, unless they are configured with another prefix.
const WORKERS: &str = "rethread";

/// The options for opening a log in a stream.
#[derive(Debug, Clone)]
pub struct JetStreamOptions {
    /// The servers that store the stream.
    pub servers: NatsServers,
    /// The name of the stream, which is also the first word of its subjects: 1 to 64 letters, digits, `-` and `_`.
    pub stream: String,
    /// Whether the stream is created if it is not there.
    pub create: bool,
    /// How many servers store the stream, if it is created: 1, 3 or 5. An existing stream keeps its number.
    pub replicas: usize,
    /// How long a write waits for the servers before it fails.
    pub write_timeout: Duration,
    /// How long the lease of a process that ended without closing the log keeps others out, if the log is created:
    /// at least one second.
    pub lease: Duration,
    /// Who else may have the log open.
    pub access: Access,
    /// The options of the replica. Its `sync` is ignored.
    pub replica: Options,
}

/// Who else may have a log in a stream open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// No process but those that only read it.
    #[default]
    Alone,
    /// Others that say so too. Each runs the threads of its slots, see [`SharedLog`](crate::SharedLog). One that ends without
    /// closing the log is taken out by the others, once it has not reported for the time of the lease.
    Shared,
    /// Any, because this one writes nothing. Its replica follows the stream.
    Read,
}

impl JetStreamOptions {
    /// The defaults for a stream: one server stores it, writes wait 30 s, a lease lasts 6 s.
    pub fn new(servers: impl Into<String>, stream: impl Into<String>) -> Self {
        Self {
            servers: NatsServers::new(servers),
            stream: stream.into(),
            create: true,
            replicas: 1,
            write_timeout: Duration::from_secs(30),
            lease: Duration::from_secs(6),
            access: Access::default(),
            replica: Options::default(),
        }
    }

    /// The address of the log as people read it, without what proves who the client is.
    pub(super) fn address(&self) -> String {
        format!("{}/{}", self.servers, self.stream)
    }

    /// Checks what needs no server.
    ///
    /// # Errors
    /// Why these options cannot be used.
    pub fn check(&self) -> Result<(), &'static str> {
        self.fault().map_or(Ok(()), Err)
    }

    fn fault(&self) -> Option<&'static str> {
        if let Err(fault) = check_stream_name(&self.stream).and_then(|()| check_replicas(self.replicas)) {
            return Some(fault);
        }
        if self.lease < Duration::from_secs(1) || self.write_timeout.is_zero() {
            return Some("a lease lasts at least one second, and a write waits for some time");
        }
        if self.servers.addresses.trim().is_empty() {
            return Some("no server is named");
        }
        None
    }
}

/// Whether a stream can have this name.
pub(super) fn check_stream_name(name: &str) -> Result<(), &'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_word) {
        return Err("the name of a stream has 1 to 64 letters, digits, `-` and `_`");
    }
    if name == WORKERS {
        return Err(
            "the name `rethread` is the prefix of calls of workers, which the stream would store: choose another one",
        );
    }
    if name == PREFIX {
        return Err("the name `rethread_members` is that of the requests between processes: choose another one");
    }
    Ok(())
}

pub(super) fn check_replicas(replicas: usize) -> Result<(), &'static str> {
    if matches!(replicas, 1 | 3 | 5) { Ok(()) } else { Err("a stream is stored by 1, 3 or 5 servers") }
}
