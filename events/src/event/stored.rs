//! Stored and exported events of any version: older ones are converted to the present one.

use super::older;
use super::table::{Event, EventError, EventType, event_type, event_type_named};

impl Event {
    /// The event with that documented name and data, as `export` wrote it in this version.
    ///
    /// # Errors
    /// As [`Event::from_data`], and [`EventError::UnknownVersion`] for a version that this program does not know.
    pub fn from_data_of(name: &str, version: u16, mut data: serde_json::Value) -> Result<Self, EventError> {
        if let Some(&EventType { code, name, version: newest, .. }) = event_type_named(name)
            && version != newest
        {
            older::upcast(code, version, &mut data).ok_or(EventError::UnknownVersion { name, version, newest })?;
        }
        Self::from_data(name, data)
    }

    /// The stored form of an older version, of an event that was read from that version: the bytes are those that
    /// it was read from.
    ///
    /// # Errors
    /// [`EventError::UnknownVersion`] for a version that this program does not know.
    pub fn encode_as(&self, version: u16) -> Result<Vec<u8>, EventError> {
        let EventType { name, version: newest, .. } = self.event_type();
        let bytes = if version == newest { Some(self.encode()) } else { older::encode(self, version) };
        bytes
            .ok_or(EventError::UnknownVersion { name, version, newest })?
            .map_err(|source| EventError::Malformed { name, source })
    }

    /// Decodes the stored form of an event; older versions are converted to the present one.
    pub fn decode(code: u16, version: u16, bytes: &[u8]) -> Result<Self, EventError> {
        let EventType { name, version: newest, .. } = *event_type(code).ok_or(EventError::UnknownCode(code))?;
        if version == newest {
            return Self::decode_present(code, bytes);
        }
        older::decode(code, version, bytes)
            .ok_or(EventError::UnknownVersion { name, version, newest })?
            .map_err(|source| EventError::Malformed { name, source })
    }
}
