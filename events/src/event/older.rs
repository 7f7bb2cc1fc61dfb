//! Older versions of events. A stored event of an older version is decoded in its old shape and converted to the present
//! shape. It can be encoded in its old shape again, byte for byte: an import keeps the hashes of the log that it was
//! exported from.
//!
//! To change an event, raise its version in the table of `event/table.rs` and add its old version to [`OLDER`]. If two
//! older versions are known, each of them is converted to the present shape directly. `older/tests.rs` has an example.

use serde_json::Value;

use super::table::Event;
use crate::codec::StoredError;

/// An older version of an event: how it is read and written.
struct Older {
    code: u16,
    version: u16,
    /// Decodes the old shape, and converts it to the present event.
    decode: fn(&[u8]) -> Result<Event, StoredError>,
    /// Encodes an event that was read from this version in the old shape.
    encode: fn(&Event) -> Result<Vec<u8>, StoredError>,
    /// Converts the exported data of the old version to that of the present one.
    upcast: fn(&mut Value),
}

/// The older versions that this program reads. There are none before release 0.1.0: all events have version 1. Tests
/// read a version 0 of THREAD_PAUSED.
const OLDER: &[Older] = &[
    #[cfg(test)]
    tests::THREAD_PAUSED_V0,
];

fn older(code: u16, version: u16) -> Option<&'static Older> {
    OLDER.iter().find(|older| older.code == code && older.version == version)
}

/// Decodes an event of an older version; `None` if this program does not know the version.
pub(super) fn decode(code: u16, version: u16, bytes: &[u8]) -> Option<Result<Event, StoredError>> {
    older(code, version).map(|older| (older.decode)(bytes))
}

/// Encodes an event in the shape of an older version; `None` if this program does not know the version.
pub(super) fn encode(event: &Event, version: u16) -> Option<Result<Vec<u8>, StoredError>> {
    older(event.event_type().code, version).map(|older| (older.encode)(event))
}

/// Converts the exported data of an older version to that of the present one; `None` if this program does not know the
/// version.
pub(super) fn upcast(code: u16, version: u16, data: &mut Value) -> Option<()> {
    older(code, version).map(|older| (older.upcast)(data))
}

#[cfg(test)]
mod tests;
