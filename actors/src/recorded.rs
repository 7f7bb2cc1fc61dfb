//! Recorded events, and their JSON.

use std::ops::Range;

use rethread_events::event::{Event, EventError};
use rethread_events::ids::{EventId, Hash, Position, RunId, Seq, ThreadId, Time, TraceId};
use rethread_store::{Cause, Kind, LogReader, NewRecord, Record};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::error::{ReadError, RuntimeError};

/// An event with its seq, position and time.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEvent {
    /// The record it was read from.
    pub record: Record,
    /// The event.
    pub event: Event,
}

/// JSON that is not a recorded event.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A field is missing or has another type.
    #[error("`{field}` is missing or not {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// The expected value.
        expected: &'static str,
    },
    /// The data does not fit the event type.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The event cannot be stored.
    #[error(transparent)]
    Stored(#[from] rethread_events::codec::StoredError),
}

impl RecordedEvent {
    /// Decodes the event in a record.
    pub fn decode(record: Record) -> Result<Self, ReadError> {
        let event = Event::decode(record.kind.0, record.version, &record.payload)
            .map_err(|source| RuntimeError::Event { thread: record.thread, seq: record.seq, source })?;
        Ok(Self { record, event })
    }

    /// Returns the documented name.
    pub fn name(&self) -> &'static str {
        self.event.event_type().name
    }

    /// Returns the JSON object that scripts rely on: `position`, `thread_id`, `seq`, `run_id`, `id`, `time`, `type`,
    /// `version`, `trace_id`, `cause`, `hash`, `data`. To write it, serialise the event itself, which costs less.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns the data of the event, to be written as JSON.
    pub fn data(&self) -> impl Serialize + '_ {
        Data(&self.event)
    }

    /// Parses the JSON of [`RecordedEvent::to_json`] to a record. Position and cause are those of the log it
    /// was exported from.
    pub fn from_json(value: &Value) -> Result<Record, RecordError> {
        fn field<T: serde::de::DeserializeOwned>(
            value: &Value,
            field: &'static str,
            expected: &'static str,
        ) -> Result<T, RecordError> {
            let wrong = RecordError::Field { field, expected };
            T::deserialize(value.get(field).ok_or_else(|| wrong.clone())?).map_err(|_| wrong)
        }
        let name: String = field(value, "type", "the name of an event")?;
        let data = value.get("data").cloned().unwrap_or_default();
        let version: u16 = field(value, "version", "a number")?;
        let event = Event::from_data_of(&name, version, data)?;
        let kind = event.event_type();
        Ok(Record {
            position: field::<Position>(value, "position", "a number")?,
            thread: field::<ThreadId>(value, "thread_id", "a thread id")?,
            seq: field::<Seq>(value, "seq", "a number")?,
            kind: Kind(kind.code),
            version,
            recorded_at: field::<Time>(value, "time", "an RFC 3339 time")?,
            trace: field::<TraceId>(value, "trace_id", "32 hexadecimal digits")?,
            cause: field::<Option<Position>>(value, "cause", "a position or null")?,
            run: field::<Option<RunId>>(value, "run_id", "a number or null")?,
            hash: field(value, "hash", "64 hexadecimal digits")?,
            payload: event.encode_as(version)?.into(),
        })
    }
}

struct Data<'a>(&'a Event);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize_data(serializer)
    }
}

/// The JSON form of an event; docs/EVENTS.md describes its `data`.
#[derive(Serialize)]
#[cfg_attr(feature = "utoipa", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
struct Whole<'a> {
    /// Its position in the whole log.
    #[cfg_attr(feature = "utoipa", schema(value_type = u64))]
    position: Position,
    /// The thread it was written to: for an inherited event, the one it was inherited from.
    #[cfg_attr(feature = "utoipa", schema(value_type = String))]
    thread_id: ThreadId,
    #[cfg_attr(feature = "utoipa", schema(value_type = u64))]
    seq: Seq,
    /// The run that it belongs to.
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<u64>))]
    run_id: Option<RunId>,
    #[cfg_attr(feature = "utoipa", schema(value_type = String))]
    id: EventId,
    #[cfg_attr(feature = "utoipa", schema(value_type = String))]
    time: Time,
    /// Its documented name.
    #[serde(rename = "type")]
    name: &'static str,
    version: u16,
    #[cfg_attr(feature = "utoipa", schema(value_type = String))]
    trace_id: TraceId,
    /// The position of the record that led to it.
    #[cfg_attr(feature = "utoipa", schema(value_type = Option<u64>))]
    cause: Option<Position>,
    #[cfg_attr(feature = "utoipa", schema(value_type = String))]
    hash: Hash,
    #[cfg_attr(feature = "utoipa", schema(value_type = Object))]
    data: Data<'a>,
}

/// As [`RecordedEvent::to_json`].
impl Serialize for RecordedEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = &self.record;
        let whole = Whole {
            position: record.position,
            thread_id: record.thread,
            seq: record.seq,
            run_id: record.run,
            id: record.id(),
            time: record.recorded_at,
            name: self.name(),
            version: record.version,
            trace_id: record.trace,
            cause: record.cause,
            hash: record.hash,
            data: Data(&self.event),
        };
        whole.serialize(serializer)
    }
}

/// As [`RecordedEvent::to_json`].
#[cfg(feature = "utoipa")]
impl utoipa::PartialSchema for RecordedEvent {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        Whole::schema()
    }
}

#[cfg(feature = "utoipa")]
impl utoipa::ToSchema for RecordedEvent {
    fn name() -> std::borrow::Cow<'static, str> {
        "Event".into()
    }
}

/// Returns the events of a thread with these seqs that are in the log. Stops at an error. Blocks.
pub(crate) fn events(
    store: &dyn LogReader,
    thread: ThreadId,
    seqs: Range<Seq>,
) -> impl Iterator<Item = Result<RecordedEvent, ReadError>> {
    store.records(thread, seqs).map(|record| RecordedEvent::decode(record?))
}

/// Returns the event of a thread with that seq, if it has one. Blocks.
pub(crate) fn event(store: &dyn LogReader, thread: ThreadId, seq: Seq) -> Result<Option<RecordedEvent>, ReadError> {
    store.record(thread, seq)?.map(RecordedEvent::decode).transpose()
}

/// Returns the record to append for an event.
pub(crate) fn new_record(
    event: &Event,
    at: Time,
    cause: Option<Cause>,
    run: Option<RunId>,
) -> Result<NewRecord, rethread_events::codec::StoredError> {
    let kind = event.event_type();
    let payload = event.encode()?;
    Ok(NewRecord { kind: Kind(kind.code), version: kind.version, recorded_at: at, cause, run, payload })
}
