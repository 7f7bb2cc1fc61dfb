//! The upcaster of a version that exists in these tests only: version 0 of THREAD_PAUSED, which had no `by`, and whose
//! `reason` was called `why`.

use bincode::{Decode, Encode};
use serde_json::{Value, json};

use super::Older;
use crate::codec::{self, StoredError};
use crate::event::{Event, EventError, ThreadPaused};

#[derive(Encode, Decode)]
struct ThreadPausedV0 {
    why: Option<String>,
}

pub(super) const THREAD_PAUSED_V0: Older = Older { code: 3, version: 0, decode, encode, upcast };

fn decode(bytes: &[u8]) -> Result<Event, StoredError> {
    codec::decode(bytes).map(|ThreadPausedV0 { why }| ThreadPaused { reason: why, by: None }.into())
}

fn encode(event: &Event) -> Result<Vec<u8>, StoredError> {
    let Event::ThreadPaused(event) = event else { panic!("{event:?}") };
    codec::encode(&ThreadPausedV0 { why: event.reason.clone() })
}

fn upcast(data: &mut Value) {
    let Value::Object(fields) = data else { return };
    if let Some(why) = fields.remove("why") {
        fields.insert("reason".into(), why);
    }
    fields.insert("by".into(), Value::Null);
}

fn paused() -> Event {
    ThreadPaused { reason: Some("lunch".into()), by: None }.into()
}

#[test]
fn older_version_is_read_and_written_unchanged() {
    let stored = codec::encode(&ThreadPausedV0 { why: Some("lunch".into()) }).unwrap();
    assert_ne!(stored, paused().encode().unwrap());
    assert_eq!(Event::decode(3, 0, &stored).unwrap(), paused());
    assert_eq!(paused().encode_as(0).unwrap(), stored);
    assert!(matches!(Event::decode(3, 0, &stored[1..]), Err(EventError::Malformed { name: "THREAD_PAUSED", .. })));
}

#[test]
fn exported_data_of_an_older_version_is_converted() {
    let data = json!({ "why": "lunch" });
    assert_eq!(Event::from_data_of("THREAD_PAUSED", 0, data.clone()).unwrap(), paused());
    let present = Event::from_data_of("THREAD_PAUSED", 1, data).unwrap();
    assert_eq!(present, ThreadPaused { reason: None, by: None }.into(), "the present version has no `why`");
}

#[test]
fn unknown_versions_are_refused() {
    let unknown = |error: EventError| matches!(error, EventError::UnknownVersion { newest: 1, .. });
    let stored = paused().encode().unwrap();
    assert!(unknown(Event::decode(3, 2, &stored).unwrap_err()));
    assert!(unknown(paused().encode_as(2).unwrap_err()));
    assert!(unknown(Event::from_data_of("THREAD_PAUSED", 2, Value::Null).unwrap_err()));
    assert!(unknown(Event::from_data_of("THREAD_RESUMED", 0, Value::Null).unwrap_err()));
}
