//! Records: events with their place and time. The store does not know what a payload means.

use bytes::Bytes;
use rethread_events::ids::{EventId, Hash, Position, RunId, Seq, ThreadId, Time, TraceId};

/// The event type of a record: the code from the event table of `rethread-events`. Opaque here; filters compare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(pub u16);

/// An event to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The event type.
    pub kind: Kind,
    /// The version of the payload's shape.
    pub version: u16,
    /// The time it happened, by the caller's clock.
    pub recorded_at: Time,
    /// The record that led to it, if known.
    pub cause: Option<Cause>,
    /// The run of the thread that it belongs to, where that is known.
    pub run: Option<RunId>,
    /// The encoded event.
    pub payload: Vec<u8>,
}

/// The record that led to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A record that is already in the log.
    At(Position),
    /// The record at this index of the same append.
    SameAppend(u32),
    /// The record of the same stream with this seq: for the first record of an append that was queued before the
    /// caller knew the position of the one it follows from. Found when it is in one of the stream's last four
    /// appends; otherwise the record has no cause.
    Own(Seq),
}

/// An event in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place in the whole log.
    pub position: Position,
    /// The stream it was written to. A record that a fork inherits names the stream of its ancestor.
    pub thread: ThreadId,
    /// Its place in the stream.
    pub seq: Seq,
    /// The event type.
    pub kind: Kind,
    /// The version of the payload's shape.
    pub version: u16,
    /// The time it happened.
    pub recorded_at: Time,
    /// Ties together what a thread and its branches caused.
    pub trace: TraceId,
    /// The position that led to it.
    pub cause: Option<Position>,
    /// The run of the thread that it belongs to; the store does not need it.
    pub run: Option<RunId>,
    /// Chains it to the record before it in its stream, see [`Record::chain`].
    pub hash: Hash,
    /// The encoded event; a payload that was stored as a blob is already read back.
    pub payload: Bytes,
}

/// The input of a record's hash besides the payload.
const CHAIN_HEAD_BYTES: usize = 32 + 16 + 8 + 8 + 16 + 2 + 2;

/// Up to here it is hashed in one piece: one block tree leaf of blake3.
const CHAIN_ONCE_BYTES: usize = 1024;

impl Record {
    /// The worldwide id of the event.
    pub fn id(&self) -> EventId {
        EventId::derive(self.thread, self.seq, self.recorded_at)
    }

    /// The hash of a record: blake3 over the hash of the record before it in its stream ([`Hash::ZERO`] for the
    /// first one, the last inherited record's for the first one of a fork), thread, seq, time, trace, kind,
    /// version and payload. Position and cause are not in it, so that the hashes of an imported thread do not change.
    /// The run is not in it either: it follows from the events.
    #[allow(clippy::too_many_arguments)]
    pub fn chain(
        before: Hash,
        thread: ThreadId,
        seq: Seq,
        recorded_at: Time,
        trace: TraceId,
        kind: Kind,
        version: u16,
        payload: &[u8],
    ) -> Hash {
        let mut head = [0_u8; CHAIN_HEAD_BYTES];
        head[..32].copy_from_slice(before.as_bytes());
        head[32..48].copy_from_slice(thread.as_bytes());
        head[48..56].copy_from_slice(&seq.0.to_le_bytes());
        head[56..64].copy_from_slice(&recorded_at.unix_us().to_le_bytes());
        head[64..80].copy_from_slice(trace.as_bytes());
        head[80..82].copy_from_slice(&kind.0.to_le_bytes());
        head[82..84].copy_from_slice(&version.to_le_bytes());
        let n = CHAIN_HEAD_BYTES + payload.len();
        if n <= CHAIN_ONCE_BYTES {
            // In one piece it is hashed without the state that pieces need, which is larger than a small event.
            let mut whole = [0_u8; CHAIN_ONCE_BYTES];
            whole[..CHAIN_HEAD_BYTES].copy_from_slice(&head);
            whole[CHAIN_HEAD_BYTES..n].copy_from_slice(payload);
            return Hash::from_bytes(*blake3::hash(&whole[..n]).as_bytes());
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&head);
        hasher.update(payload);
        Hash::from_bytes(*hasher.finalize().as_bytes())
    }
}
