//! An event as a CloudEvent 1.0, and its place in a stream of server-sent events.

use rethread::RecordedEvent;
use serde_json::{Value, json};

/// The event as CloudEvents 1.0 wants it. Names of its own attributes are lower-case letters, as the specification
/// demands; numbers that may grow beyond 31 bits are texts of constant length, so that they sort.
pub(crate) fn cloud_event(event: &RecordedEvent) -> Value {
    let record = &event.record;
    let mut cloud_event = json!({
        "specversion": "1.0",
        "id": format!("{}/{}", record.thread, record.seq),
        "source": format!("/v1/threads/{}", record.thread),
        "type": format!("rethread.{}.v{}", event.name(), record.version),
        "time": record.recorded_at,
        "datacontenttype": "application/json",
        "threadid": record.thread,
        "eventid": record.id(),
        "sequence": format!("{:020}", record.seq.0),
        "position": format!("{:020}", record.position.0),
        "traceid": record.trace,
        "hash": record.hash,
        "data": event.event.data().unwrap_or(Value::Null),
    });
    if let Some(cause) = record.cause {
        cloud_event["cause"] = format!("{:020}", cause.0).into();
    }
    cloud_event
}

/// The event as a block of `text/event-stream`. JSON has no line breaks of its own, so one `data:` line holds it.
pub(crate) fn sse(event: &RecordedEvent) -> String {
    format!("id: {}\nevent: {}\ndata: {}\n\n", event.record.position, event.name(), cloud_event(event))
}

#[cfg(test)]
mod tests;
