//! Events as they stand in the log, and their JSON.

use rethread_events::event::{Event, EventError, event_type};
use rethread_events::ids::{Position, Seq, ThreadId, Time, TraceId};
use rethread_store::{Cause, Kind, NewRecord, Record};
use serde_json::{Value, json};

use crate::error::RuntimeError;

/// An event with its place and time.
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
        /// What it should be.
        expected: &'static str,
    },
    /// The data is not that of such an event.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The event cannot be stored.
    #[error(transparent)]
    Stored(#[from] rethread_events::bin::StoredError),
}

impl RecordedEvent {
    /// The event in a record.
    pub fn decode(record: Record) -> Result<Self, RuntimeError> {
        let event = Event::decode(record.kind.0, record.version, &record.payload)
            .map_err(|source| RuntimeError::Event { thread: record.thread, seq: record.seq, source })?;
        Ok(Self { record, event })
    }

    /// The documented name.
    pub fn name(&self) -> &'static str {
        event_type(self.record.kind.0).map_or("UNKNOWN", |t| t.name)
    }

    /// The one JSON object that scripts rely on: `position`, `thread_id`, `seq`, `id`, `time`, `type`, `version`,
    /// `trace_id`, `cause`, `hash`, `data`.
    pub fn to_json(&self) -> Value {
        let record = &self.record;
        json!({
            "position": record.position,
            "thread_id": record.thread,
            "seq": record.seq,
            "id": record.id(),
            "time": record.recorded_at,
            "type": self.name(),
            "version": record.version,
            "trace_id": record.trace,
            "cause": record.cause,
            "hash": record.hash,
            "data": self.event.data().unwrap_or(Value::Null),
        })
    }

    /// The record behind the JSON that [`RecordedEvent::to_json`] gave. Position and cause are those of the log it
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
        let event = Event::from_data(&name, data)?;
        let kind = event.event_type();
        let version: u16 = field(value, "version", "a number")?;
        if version != kind.version {
            return Err(EventError::UnknownVersion { name: kind.name, version, newest: kind.version }.into());
        }
        Ok(Record {
            position: field::<Position>(value, "position", "a number")?,
            thread: field::<ThreadId>(value, "thread_id", "a thread id")?,
            seq: field::<Seq>(value, "seq", "a number")?,
            kind: Kind(kind.code),
            version,
            recorded_at: field::<Time>(value, "time", "an RFC 3339 time")?,
            trace: field::<TraceId>(value, "trace_id", "32 hexadecimal digits")?,
            cause: field::<Option<Position>>(value, "cause", "a position or null")?,
            hash: field(value, "hash", "64 hexadecimal digits")?,
            payload: event.encode()?.into(),
        })
    }
}

/// What is appended for an event.
pub(crate) fn new_record(
    event: &Event,
    at: Time,
    cause: Option<Cause>,
) -> Result<NewRecord, rethread_events::bin::StoredError> {
    let kind = event.event_type();
    Ok(NewRecord { kind: Kind(kind.code), version: kind.version, recorded_at: at, cause, payload: event.encode()? })
}
