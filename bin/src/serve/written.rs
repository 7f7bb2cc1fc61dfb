//! Events as they are sent: as server-sent events, or as lines of JSON.

use std::io::Write as _;
use std::sync::OnceLock;

use bytes::Bytes;
use rethread::errors::ReadError;
use rethread::operate::CloudEvent;
use rethread::store::Record;
use rethread::{Position, RecordedEvent};

/// How many bytes of events are joined into one piece, not counting one larger event.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// The format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `text/event-stream`, with a CloudEvent 1.0 in each event.
    Sse,
    /// One JSON object on a line, as everywhere in scripts.
    Lines,
}

/// The text of some events that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// Empty where none was wanted.
    pub(crate) text: Bytes,
    /// The position of the last of them, or up to which the log was examined.
    pub(crate) last: Position,
}

impl Written {
    /// No text: nothing up to here is wanted but what was written.
    pub(crate) fn nothing_to(last: Position) -> Self {
        Self { text: Bytes::new(), last }
    }
}

/// An event that all followers share, with its serialized forms, which are created once for all.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) event: Result<RecordedEvent, ReadError>,
    sse: OnceLock<Bytes>,
    line: OnceLock<Bytes>,
}

impl Entry {
    pub(crate) fn new(record: Record) -> Self {
        Self { event: RecordedEvent::decode(record), sse: OnceLock::new(), line: OnceLock::new() }
    }

    /// The text of its event by itself.
    pub(crate) fn written(&self, event: &RecordedEvent, form: Form) -> Written {
        let kept = match form {
            Form::Sse => &self.sse,
            Form::Lines => &self.line,
        };
        let text = kept.get_or_init(|| {
            let mut text = Vec::with_capacity(1 << 10);
            form.write(event, &mut text);
            // Kept for as long as the event is, so without room to spare.
            text.into_boxed_slice().into()
        });
        Written { text: text.clone(), last: event.record.position }
    }
}

impl Form {
    /// Appends an event.
    pub(crate) fn write(self, event: &RecordedEvent, to: &mut Vec<u8>) {
        // Writing to memory does not fail, and nor does serialising what was read from the log: all keys are texts.
        let _ = match self {
            // JSON has no line breaks of its own, so one `data:` line holds it.
            Self::Sse => write!(to, "id: {}\nevent: {}\ndata: ", event.record.position, event.name())
                .and_then(|()| Ok(serde_json::to_writer(&mut *to, &CloudEvent::new(event))?))
                .and_then(|()| to.write_all(b"\n\n")),
            Self::Lines => {
                serde_json::to_writer(&mut *to, event).map_err(std::io::Error::from).and_then(|()| to.write_all(b"\n"))
            }
        };
    }

    /// These events, in pieces.
    pub(crate) fn pieces(self, events: &[RecordedEvent]) -> Vec<Written> {
        let (mut pieces, mut text) = (Vec::new(), Vec::new());
        for (place, event) in events.iter().enumerate() {
            if text.capacity() == 0 {
                text.reserve_exact(PIECE_BYTES + PIECE_BYTES / 8);
            }
            self.write(event, &mut text);
            if text.len() >= PIECE_BYTES || place + 1 == events.len() {
                pieces.push(Written { text: std::mem::take(&mut text).into(), last: event.record.position });
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests;
