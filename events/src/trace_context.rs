//! The places of spans in traces: ids that follow from thread, run and call, and the header `traceparent` of W3C Trace
//! Context. The same run has the same trace and the same spans whenever and wherever they are computed.

use std::fmt;
use std::str::FromStr;

use bincode::{Decode, Encode};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::{CallId, IdError, RunId, Seq, ThreadId, TraceId};

/// The id of a span.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct SpanId([u8; 8]);

impl SpanId {
    /// The id with these bytes; not all of them are 0.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    /// The eight bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }

    /// The span of a run.
    pub fn of_run(thread: ThreadId, run: RunId) -> Self {
        Self::derive("run", thread, run.0)
    }

    /// The span of a node that was entered with this event.
    pub fn of_node(thread: ThreadId, entered: Seq) -> Self {
        Self::derive("node", thread, entered)
    }

    /// The span of a call of a thread, all tries together.
    pub fn of_call(thread: ThreadId, call: CallId) -> Self {
        Self::derive("call", thread, call.0)
    }

    /// The span of a try of a node or a call, from 1.
    pub fn of_try(of: Self, number: u32) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"rethread try").update(&of.0).update(&number.to_be_bytes());
        Self::of_hash(&hasher)
    }

    /// The span of a branch.
    pub fn of_branch(branch: ThreadId) -> Self {
        Self::derive("branch", branch, Seq(0))
    }

    /// The first eight bytes of the blake3 hash of kind, thread and seq.
    fn derive(kind: &str, thread: ThreadId, seq: Seq) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"rethread span ").update(kind.as_bytes()).update(thread.as_bytes()).update(&seq.0.to_be_bytes());
        Self::of_hash(&hasher)
    }

    fn of_hash(hasher: &blake3::Hasher) -> Self {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        // An id of zeros is none.
        if bytes == [0; 8] { Self([1; 8]) } else { Self(bytes) }
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The trace of a run that was given none: that of its thread for the first run, and one of its own for each later run.
pub fn trace_of_run(thread: TraceId, run: RunId) -> TraceId {
    if run == RunId(Seq(0)) {
        return thread;
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"rethread trace").update(thread.as_bytes()).update(&run.0.0.to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    TraceId::from_bytes(bytes)
}

/// A span in a trace, as the header `traceparent` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// The flags; the lowest bit says that the caller records the trace.
    pub flags: u8,
}

impl TraceParent {
    /// A span whose trace is recorded.
    pub const fn sampled(trace: TraceId, span: SpanId) -> Self {
        Self { trace, span, flags: 1 }
    }

    /// Whether the caller records the trace.
    pub const fn is_sampled(self) -> bool {
        self.flags & 1 == 1
    }
}

/// As the header has it: `00-` trace id `-` span id `-` flags.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// Reads the header. Of a later version, what this one has is read.
impl FromStr for TraceParent {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        read(text).ok_or_else(|| {
            IdError::new(
                "traceparent",
                "`00-`, 32 hexadecimal digits, `-`, 16 hexadecimal digits, `-` and 2 more",
                text,
            )
        })
    }
}

fn read(text: &str) -> Option<TraceParent> {
    fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
        let is_lower = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_lower || text.len() != 2 * N {
            return None;
        }
        HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
    }
    let mut parts = text.split('-');
    let [version] = bytes::<1>(parts.next()?)?;
    let trace = bytes::<16>(parts.next()?)?;
    let span = bytes::<8>(parts.next()?)?;
    let [flags] = bytes::<1>(parts.next()?)?;
    let is_known = version == 0 && parts.next().is_none();
    let is_later = version != 0 && version != 0xff;
    let is_set = trace != [0; 16] && span != [0; 8];
    let found = TraceParent { trace: TraceId::from_bytes(trace), span: SpanId(span), flags };
    ((is_known || is_later) && is_set).then_some(found)
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
