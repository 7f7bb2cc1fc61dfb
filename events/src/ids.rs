//! Identifiers. Each is a type of its own, so that one cannot be passed for another.

use crate::text;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bincode::{Decode, Encode};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text that should have been an identifier and is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: expected {expected}")]
pub struct IdError {
    /// The expected id, for example `thread id`.
    pub what: &'static str,
    /// The form that is accepted.
    pub expected: &'static str,
    /// The given text, cut to 80 characters.
    pub text: String,
}

impl IdError {
    pub(crate) fn new(what: &'static str, expected: &'static str, text: &str) -> Self {
        Self { what, expected, text: text::head(text, 80).to_owned() }
    }
}

/// One agent's run, and the name of its stream of events. A UUIDv7, so ids sort by the time they were made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Deserialize)]
#[serde(try_from = "String")]
pub struct ThreadId([u8; 16]);

impl ThreadId {
    /// The id for a thread that begins at `unix_ms`, with 74 bits of the caller's randomness.
    pub fn new(unix_ms: u64, random: [u8; 10]) -> Self {
        Self(*uuid::Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid().as_bytes())
    }

    /// The id of the branch that event `seq` of `owner` starts at that time: the milliseconds of the time and 74 bits
    /// of the blake3 hash of owner and seq.
    pub fn of_branch(owner: Self, seq: Seq, at: Time) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"rethread branch").update(&owner.0).update(&seq.0.to_be_bytes());
        let mut random = [0; 10];
        random.copy_from_slice(&hasher.finalize().as_bytes()[..10]);
        Self::new(at.unix_us() / 1000, random)
    }

    /// The id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The sixteen bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Uuid::from_bytes(self.0), f)
    }
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ThreadId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let uuid = Uuid::parse_str(text).map_err(|_| IdError::new("thread id", "a UUID such as 019aa3b0-…", text))?;
        Ok(Self(*uuid.as_bytes()))
    }
}

impl TryFrom<String> for ThreadId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<ThreadId> for String {
    fn from(id: ThreadId) -> Self {
        id.to_string()
    }
}

impl Serialize for ThreadId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Uuid::from_bytes(self.0).hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }
}

/// Bytes in hexadecimal, without a text of their own on the heap: each exported event has several of them.
fn serialize_hex<const N: usize, S: serde::Serializer>(bytes: [u8; N], serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::Error;
    let mut buffer = [0; 64];
    let text = buffer.get_mut(..2 * N).ok_or_else(|| S::Error::custom("more than 32 bytes"))?;
    serializer.serialize_str(HEXLOWER.encode_mut_str(&bytes, text))
}

/// Reads exactly as many bytes as `into` has, of either case.
fn from_hex(text: &str, into: &mut [u8]) -> Option<()> {
    (text.len() == 2 * into.len()).then(|| HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), into).ok()).flatten()?;
    Some(())
}

/// One event, worldwide. A UUIDv7 that follows from when and where the event was recorded ([`EventId::derive`]),
/// so it needs no room in the log and an exported event has the same id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(Uuid);

impl EventId {
    /// The id of event `seq` of `thread`, recorded at `recorded_at`: the milliseconds of the time and 74 bits of
    /// the blake3 hash of thread and seq.
    pub fn derive(thread: ThreadId, seq: Seq, recorded_at: Time) -> Self {
        let mut input = [0; 24];
        input[..16].copy_from_slice(thread.as_bytes());
        input[16..].copy_from_slice(&seq.0.to_be_bytes());
        let hash = blake3::hash(&input);
        let mut random = [0; 10];
        random.copy_from_slice(&hash.as_bytes()[..10]);
        Self(uuid::Builder::from_unix_timestamp_millis(recorded_at.unix_us() / 1000, &random).into_uuid())
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for EventId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }
}

/// Ties together everything that one run caused, across threads and services (a W3C trace id). A thread that was
/// given none uses its own id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct TraceId([u8; 16]);

impl TraceId {
    /// The trace with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The sixteen bytes of the trace id.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl From<ThreadId> for TraceId {
    fn from(thread: ThreadId) -> Self {
        Self(thread.0)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TraceId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut bytes = [0; 16];
        from_hex(text, &mut bytes).ok_or_else(|| IdError::new("trace id", "32 hexadecimal digits", text))?;
        Ok(Self(bytes))
    }
}

impl Serialize for TraceId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_hex(self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for TraceId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

macro_rules! ordinal {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default,
            Encode, Decode, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after this.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

ordinal! {
    /// The place of an event in its thread's stream: 0, 1, 2 … without gaps.
    Seq
}
ordinal! {
    /// The place of an event in the whole log: 0, 1, 2 … without gaps.
    Position
}

/// A moment: microseconds since 1970-01-01 UTC. Shown as RFC 3339 with microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode)]
pub struct Time(u64);

impl Time {
    /// The latest moment that RFC 3339 can name, 9999-12-30.
    const MAX_US: u64 = 253_402_207_200_999_999;

    /// The moment that many microseconds after 1970; later than the year 9999 is cut to that year.
    pub const fn from_unix_us(unix_us: u64) -> Self {
        Self(if unix_us > Self::MAX_US { Self::MAX_US } else { unix_us })
    }

    /// Microseconds since 1970.
    pub const fn unix_us(self) -> u64 {
        self.0
    }

    /// This moment and `ms` milliseconds.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self::from_unix_us(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    /// Milliseconds from `earlier` to this moment, 0 when it is not earlier.
    pub const fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1000
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0 as i64) {
            Ok(timestamp) => write!(f, "{timestamp:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Time {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let timestamp: jiff::Timestamp =
            text.parse().map_err(|_| IdError::new("time", "RFC 3339, such as 2026-11-21T10:00:00Z", text))?;
        u64::try_from(timestamp.as_microsecond())
            .map(Self::from_unix_us)
            .map_err(|_| IdError::new("time", "a moment after 1970", text))
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A blake3 hash: of a record and all before it in its stream, of a workflow, of a blob. 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash that the first record of a stream is chained to.
    pub const ZERO: Self = Self([0; 32]);

    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The hash with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The thirty-two bytes of the hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Its first eight bytes as a number, the most significant one first.
    pub const fn number(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0[..6]))
    }
}

impl FromStr for Hash {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut bytes = [0; 32];
        from_hex(text, &mut bytes).ok_or_else(|| IdError::new("hash", "64 hexadecimal digits", text))?;
        Ok(Self(bytes))
    }
}

impl Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_hex(self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// The name of a node, unique in its workflow, written by a person.
    NodeId
}
name! {
    /// The name of a tool, unique in a registry.
    ToolName
}
name! {
    /// A named provider + model + parameters.
    ProfileId
}

/// One pass of a thread through its workflow: the seq of the event with its input, which is THREAD_STARTED for the
/// first one, and RUN_STARTED, RUN_QUEUED or MESSAGE_ADDED for a later one. A fork has the runs that it inherits under
/// the same ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Seq);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One outstanding question to a model or a tool: the seq of the event that first asked it. With the thread's id
/// it is unique worldwide, see [`CallId::key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub Seq);

impl CallId {
    /// Returns the idempotency key for a tool: the same for every attempt of this call, different for any other.
    pub fn key(self, thread: ThreadId) -> String {
        format!("{thread}-{}", self.0)
    }

    /// Parses a [`CallId::key`].
    pub fn parse_key(key: &str) -> Result<(ThreadId, Self), IdError> {
        let wrong = || IdError::new("call id", "a thread id, a hyphen and a seq", key);
        let (thread, seq) = key.rsplit_once('-').ok_or_else(wrong)?;
        let thread = thread.parse().map_err(|_| wrong())?;
        Ok((thread, Self(Seq(seq.parse().map_err(|_| wrong())?))))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
