//! The end of a stream: what the next append is checked against.

use rethread_events::ids::{Hash, Position, Seq, ThreadId, Time, TraceId};

use crate::contract::{ForkPoint, StreamInfo, Tag};
use crate::wire::{Malformed, Put, Take};

/// The metadata of a stream besides its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) last_seq: Seq,
    pub(crate) last_position: Position,
    pub(crate) hash: Hash,
    pub(crate) tag: Tag,
    pub(crate) first_at: Time,
    pub(crate) last_at: Time,
    pub(crate) fork_of: Option<ForkPoint>,
    pub(crate) trace: TraceId,
}

impl Head {
    /// The seq of the first record that is its own and not inherited.
    pub(crate) fn first_own(&self) -> Seq {
        self.fork_of.map_or(Seq(0), |point| point.seq.next())
    }

    pub(crate) fn info(&self, thread: ThreadId) -> StreamInfo {
        StreamInfo {
            thread,
            last_seq: self.last_seq,
            last_position: self.last_position,
            hash: self.hash,
            tag: self.tag,
            first_at: self.first_at,
            last_at: self.last_at,
            fork_of: self.fork_of,
        }
    }

    /// The stored form; the trace is left out when it is the thread's own id.
    pub(crate) fn encode(&self, thread: ThreadId) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        let own_trace = self.trace == TraceId::from(thread);
        out.u8(u8::from(self.fork_of.is_some()) | u8::from(own_trace) << 1);
        out.u8(self.tag.0);
        out.bytes(self.hash.as_bytes());
        out.var(self.last_seq.0);
        out.var(self.last_position.0);
        out.var(self.last_at.unix_us());
        out.delta(self.last_at.unix_us(), self.first_at.unix_us());
        if let Some(point) = self.fork_of {
            out.bytes(point.parent.as_bytes());
            out.var(point.seq.0);
        }
        if !own_trace {
            out.bytes(self.trace.as_bytes());
        }
        out
    }

    pub(crate) fn decode(thread: ThreadId, bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take(bytes);
        let flags = take.u8()?;
        let tag = Tag(take.u8()?);
        let hash = Hash::from_bytes(take.array()?);
        let last_seq = Seq(take.var()?);
        let last_position = Position(take.var()?);
        let last_us = take.var()?;
        let first_us = take.delta(last_us)?;
        let fork_of = match flags & 1 {
            0 => None,
            _ => Some(ForkPoint { parent: ThreadId::from_bytes(take.array()?), seq: Seq(take.var()?) }),
        };
        let trace = match flags & 2 {
            0 => TraceId::from_bytes(take.array()?),
            _ => TraceId::from(thread),
        };
        take.end()?;
        Ok(Self {
            last_seq,
            last_position,
            hash,
            tag,
            first_at: Time::from_unix_us(first_us),
            last_at: Time::from_unix_us(last_us),
            fork_of,
            trace,
        })
    }
}
