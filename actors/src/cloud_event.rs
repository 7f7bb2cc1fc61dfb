//! An event as a CloudEvent 1.0.

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use crate::recorded::RecordedEvent;

/// An event as [CloudEvents 1.0](https://cloudevents.io) has it, to be written as JSON. Names of its own attributes are
/// lower-case letters, as the specification demands; numbers that may grow beyond 31 bits are texts of constant length, so
/// that they sort.
#[derive(Debug, Clone, Copy)]
pub struct CloudEvent<'a> {
    event: &'a RecordedEvent,
    has_data: bool,
}

impl<'a> CloudEvent<'a> {
    /// An event with its data.
    pub fn new(event: &'a RecordedEvent) -> Self {
        Self { event, has_data: true }
    }

    /// An event with `dataref`, the path of the event at a server of rethread, in place of `data`.
    #[cfg(feature = "jetstream")]
    pub(crate) fn by_reference(event: &'a RecordedEvent) -> Self {
        Self { event, has_data: false }
    }
}

impl Serialize for CloudEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (event, record) = (self.event, &self.event.record);
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
        if self.has_data {
            attributes.serialize_entry("data", &event.data())?;
        } else {
            let at = format_args!("/v1/threads/{}/events?from_seq={}&limit=1", record.thread, record.seq);
            attributes.serialize_entry("dataref", &at)?;
        }
        attributes.end()
    }
}
