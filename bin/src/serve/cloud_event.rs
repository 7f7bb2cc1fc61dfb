//! An event as a CloudEvent 1.0, and its place in a stream of server-sent events.

use rethread::RecordedEvent;
use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// An event as CloudEvents 1.0 wants it. Names of its own attributes are lower-case letters, as the specification
/// demands; numbers that may grow beyond 31 bits are texts of constant length, so that they sort.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CloudEvent<'a>(pub(crate) &'a RecordedEvent);

impl Serialize for CloudEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (event, record) = (self.0, &self.0.record);
        let mut attributes = serializer.serialize_map(None)?;
        attributes.serialize_entry("specversion", "1.0")?;
        attributes.serialize_entry("id", &format_args!("{}/{}", record.thread, record.seq))?;
        attributes.serialize_entry("source", &format_args!("/v1/threads/{}", record.thread))?;
        attributes.serialize_entry("type", &format_args!("rethread.{}.v{}", event.name(), record.version))?;
        attributes.serialize_entry("time", &record.recorded_at)?;
        attributes.serialize_entry("datacontenttype", "application/json")?;
        attributes.serialize_entry("threadid", &record.thread)?;
        attributes.serialize_entry("eventid", &record.id())?;
        attributes.serialize_entry("sequence", &format_args!("{:020}", record.seq.0))?;
        if let Some(run) = record.run {
            attributes.serialize_entry("runid", &format_args!("{:020}", run.0.0))?;
        }
        attributes.serialize_entry("position", &format_args!("{:020}", record.position.0))?;
        attributes.serialize_entry("traceid", &record.trace)?;
        attributes.serialize_entry("hash", &record.hash)?;
        if let Some(cause) = record.cause {
            attributes.serialize_entry("cause", &format_args!("{:020}", cause.0))?;
        }
        attributes.serialize_entry("data", &event.data())?;
        attributes.end()
    }
}

#[cfg(test)]
pub(super) mod tests;
