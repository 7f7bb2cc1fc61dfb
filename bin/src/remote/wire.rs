//! `/v1/log` as JSON: what a server sends of its log, and what a command reads of it from elsewhere.

use data_encoding::BASE64;
use rethread::runs::RunId;
use rethread::store::{Damage, ForkPoint, Kind, Record, StreamInfo, Tag, Verification};
use rethread::{Hash, Position, Seq, ThreadId, Time};
use rethread_events::ids::TraceId;
use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

/// The description of the log.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub(crate) struct Log {
    /// The position that the next record will get.
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    pub(crate) next_position: Position,
    /// Whether threads run here: not at a server that only shows.
    pub(crate) runs: bool,
}

/// A record as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub(crate) struct StoredRecord {
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    position: Position,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    thread: ThreadId,
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    seq: Seq,
    kind: u16,
    version: u16,
    /// Microseconds since 1970.
    at: u64,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    trace: TraceId,
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    cause: Option<Position>,
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    run: Option<RunId>,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    hash: Hash,
    /// The encoded event, base64.
    payload: String,
}

/// Records as they are stored.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub(crate) struct StoredRecords {
    pub(crate) records: Vec<StoredRecord>,
    /// The position that the next record of the log will get.
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    pub(crate) next_position: Position,
}

/// The head of a stream.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub(crate) struct Stream {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    thread: ThreadId,
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    last_seq: Seq,
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    last_position: Position,
    #[cfg_attr(feature = "server", schema(value_type = String))]
    hash: Hash,
    tag: u8,
    /// Microseconds since 1970.
    first_at: u64,
    last_at: u64,
    fork_of: Option<StreamFork>,
}

/// Where a stream forked off.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub(crate) struct StreamFork {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    parent: ThreadId,
    /// The last seq that is inherited.
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    seq: Seq,
}

/// Streams.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub(crate) struct Streams {
    pub(crate) streams: Vec<Stream>,
}

/// The result of the check of a log.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub(crate) struct Verified {
    streams: u64,
    records: u64,
    faults: Vec<LogFault>,
}

/// Something that is wrong with a log; null where the place is not known.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub(crate) struct LogFault {
    #[cfg_attr(feature = "server", schema(value_type = Option<String>))]
    thread: Option<ThreadId>,
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    seq: Option<Seq>,
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    position: Option<Position>,
    what: String,
    /// The name of the file, without its folder.
    file: Option<String>,
}

impl From<&Record> for StoredRecord {
    fn from(record: &Record) -> Self {
        Self {
            position: record.position,
            thread: record.thread,
            seq: record.seq,
            kind: record.kind.0,
            version: record.version,
            at: record.recorded_at.unix_us(),
            trace: record.trace,
            cause: record.cause,
            run: record.run,
            hash: record.hash,
            payload: BASE64.encode(&record.payload),
        }
    }
}

impl StoredRecord {
    /// The record; `None` where its payload is not base64.
    pub(crate) fn record(self) -> Option<Record> {
        Some(Record {
            position: self.position,
            thread: self.thread,
            seq: self.seq,
            kind: Kind(self.kind),
            version: self.version,
            recorded_at: Time::from_unix_us(self.at),
            trace: self.trace,
            cause: self.cause,
            run: self.run,
            hash: self.hash,
            payload: BASE64.decode(self.payload.as_bytes()).ok()?.into(),
        })
    }
}

impl From<&StreamInfo> for Stream {
    fn from(info: &StreamInfo) -> Self {
        Self {
            thread: info.thread,
            last_seq: info.last_seq,
            last_position: info.last_position,
            hash: info.hash,
            tag: info.tag.0,
            first_at: info.first_at.unix_us(),
            last_at: info.last_at.unix_us(),
            fork_of: info.fork_of.map(|point| StreamFork { parent: point.parent, seq: point.seq }),
        }
    }
}

impl From<Stream> for StreamInfo {
    fn from(stream: Stream) -> Self {
        Self {
            thread: stream.thread,
            last_seq: stream.last_seq,
            last_position: stream.last_position,
            hash: stream.hash,
            tag: Tag(stream.tag),
            first_at: Time::from_unix_us(stream.first_at),
            last_at: Time::from_unix_us(stream.last_at),
            fork_of: stream.fork_of.map(|fork| ForkPoint { parent: fork.parent, seq: fork.seq }),
        }
    }
}

impl From<Verification> for Verified {
    fn from(found: Verification) -> Self {
        let fault = |fault: Damage| LogFault {
            thread: fault.thread,
            seq: fault.seq,
            position: fault.position,
            what: fault.what,
            file: fault.file.as_ref().and_then(|file| file.file_name()).map(|name| name.to_string_lossy().into_owned()),
        };
        Self {
            streams: found.n_streams,
            records: found.n_records,
            faults: found.faults.into_iter().map(fault).collect(),
        }
    }
}

impl From<Verified> for Verification {
    fn from(found: Verified) -> Self {
        let damage = |fault: LogFault| Damage {
            thread: fault.thread,
            seq: fault.seq,
            position: fault.position,
            file: fault.file.map(Into::into),
            what: fault.what,
        };
        let faults = found.faults.into_iter().map(damage).collect();
        Self { n_streams: found.streams, n_records: found.records, faults }
    }
}
