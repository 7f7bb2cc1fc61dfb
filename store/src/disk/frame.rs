//! Frames of the journal: one operation each, with all that is needed to do it again after a crash.
//!
//! ```text
//! header, 112 bytes: magic u32, body length u32, body crc u32, op u8, more u8, 2 × 0,
//!                   epoch u64, group u64, group start u64, position u64, hash before 32, trace 16, header crc u64 (upper half 0)
//! body:             by operation, see the encoders below
//! ```
//! The epoch says which life of the file a frame belongs to, so that bytes left from an earlier one are never
//! taken for a frame. The group says which write it was part of, and the group start where in the file that write
//! began: it began only after everything before it was acknowledged. `more` is 1 in a frame whose operation goes on in the
//! next frame: frames that belong together count only with the last of them.

use std::sync::Arc;

use bytes::Bytes;

use rethread_events::ids::{Hash, Position, RunId, Seq, ThreadId, Time, TraceId};

use crate::contract::{ForkPoint, Tag};
use crate::keys::{KEY_CHANGES_MAX, KeyChange};
use crate::plan::{APPEND_BYTES_MAX, Addition, Item};
use crate::record::{Cause, Kind};
use crate::wire::{Malformed, Put, Take};

pub(crate) const HEADER_BYTES: usize = 112;
const MAGIC: u32 = 0x4a52_5448;
/// The largest body: the largest append and the metadata of its records.
const BODY_BYTES_MAX: usize = APPEND_BYTES_MAX + (8 << 20);

/// An operation as the journal holds it.
#[derive(Debug)]
pub(crate) enum Entry {
    /// The first frame of a file.
    Begin,
    Append(Addition),
    /// No bytes: another owner of a blob that is there.
    Blob {
        owner: Option<ThreadId>,
        hash: Hash,
        bytes: Option<Arc<[u8]>>,
    },
    Value {
        name: String,
        value: Option<Vec<u8>>,
    },
    Delete {
        thread: ThreadId,
    },
    /// The store itself names the blob no longer.
    Release {
        hash: Hash,
    },
}

/// The location of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) epoch: u64,
    pub(crate) group: u64,
    /// Where in the file its group begins.
    pub(crate) group_start: u64,
    /// The position of its first record, or of the next record for an operation without any.
    pub(crate) position: Position,
    /// The hash that the first record of an append is chained to.
    pub(crate) before: Hash,
    /// The trace of the stream of an append.
    pub(crate) trace: TraceId,
    /// The cause of the first record of an append.
    pub(crate) cause: Option<Position>,
    /// Whether the operation continues in the next frame.
    pub(crate) more: bool,
}

/// The flag of a blob frame that takes the claim of the store away.
const RELEASED: u8 = 4;

/// The flag of an append that begins a fork.
const IS_FORK: u8 = 1;

/// The flag of an append that changes keys. Formats 1 to 3 had none.
const HAS_KEYS: u8 = 2;

/// The flag of a record whose run is known, beside the form of its cause.
const HAS_RUN: u8 = 8;

/// No cause, in the header of a frame.
const NO_CAUSE: u64 = u64::MAX;

/// The first bytes of every frame.
pub(crate) const MAGIC_BYTES: [u8; 4] = MAGIC.to_le_bytes();

/// Adds a frame to `out`; `body` adds its body.
fn write(op: u8, stamp: &Stamp, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    body(out);
    let bytes = &out[start + HEADER_BYTES..];
    let mut header = [0; HEADER_BYTES];
    let mut rest = &mut header[..];
    let mut put = |bytes: &[u8]| {
        let (head, tail) = std::mem::take(&mut rest).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        rest = tail;
    };
    put(&MAGIC_BYTES);
    put(&(bytes.len() as u32).to_le_bytes());
    put(&crc32fast::hash(bytes).to_le_bytes());
    put(&[op, u8::from(stamp.more), 0, 0]);
    put(&stamp.epoch.to_le_bytes());
    put(&stamp.group.to_le_bytes());
    put(&stamp.group_start.to_le_bytes());
    put(&stamp.position.0.to_le_bytes());
    put(stamp.before.as_bytes());
    put(stamp.trace.as_bytes());
    put(&stamp.cause.map_or(NO_CAUSE, |cause| cause.0).to_le_bytes());
    let crc = crc32fast::hash(&header[..HEADER_BYTES - 8]);
    header[HEADER_BYTES - 8..].copy_from_slice(&u64::from(crc).to_le_bytes());
    out[start..start + HEADER_BYTES].copy_from_slice(&header);
}

pub(crate) fn write_begin(stamp: &Stamp, out: &mut Vec<u8>) {
    write(0, stamp, out, |_| {});
}

pub(crate) fn write_append(addition: &Addition, stamp: &Stamp, out: &mut Vec<u8>) {
    write(1, stamp, out, |out| {
        out.bytes(addition.thread.as_bytes());
        out.var(addition.expected.0);
        out.u8(addition.tag.0);
        let is_fork = if addition.fork_of.is_some() { IS_FORK } else { 0 };
        out.u8(is_fork | if addition.keys.is_empty() { 0 } else { HAS_KEYS });
        if let Some(point) = addition.fork_of {
            out.bytes(point.parent.as_bytes());
            out.var(point.seq.0);
        }
        if !addition.keys.is_empty() {
            out.var(addition.keys.len() as u64);
        }
        for change in &addition.keys {
            out.u8(u8::from(matches!(change, KeyChange::Add(_))));
            out.sized(change.key());
        }
        out.var(addition.n_records());
        for item in &addition.items {
            out.var(item.kind.0.into());
            out.var(item.version.into());
            out.var(item.recorded_at.unix_us());
            let has_run = if item.run.is_some() { HAS_RUN } else { 0 };
            match item.cause {
                None => out.u8(has_run),
                Some(Cause::At(position)) => {
                    out.u8(has_run | 1);
                    out.var(position.0);
                }
                Some(Cause::SameAppend(index)) => {
                    out.u8(has_run | 2);
                    out.var(index.into());
                }
                // Its position is found by the writer and is in the header.
                Some(Cause::Own(_)) => out.u8(has_run | 3),
            }
            if let Some(RunId(run)) = item.run {
                out.var(run.0);
            }
            out.sized(&item.payload);
        }
    });
}

pub(crate) fn write_blob(owner: Option<ThreadId>, hash: Hash, bytes: Option<&[u8]>, stamp: &Stamp, out: &mut Vec<u8>) {
    write(2, stamp, out, |out| {
        out.u8(u8::from(owner.is_some()) | u8::from(bytes.is_some()) << 1);
        if let Some(owner) = owner {
            out.bytes(owner.as_bytes());
        }
        out.bytes(hash.as_bytes());
        out.bytes(bytes.unwrap_or_default());
    });
}

/// Writes a blob frame with a flag of its own.
pub(crate) fn write_release(hash: Hash, stamp: &Stamp, out: &mut Vec<u8>) {
    write(2, stamp, out, |out| {
        out.u8(RELEASED);
        out.bytes(hash.as_bytes());
    });
}

pub(crate) fn write_value(name: &str, value: Option<&[u8]>, stamp: &Stamp, out: &mut Vec<u8>) {
    write(3, stamp, out, |out| {
        out.u8(u8::from(value.is_some()));
        out.sized(name.as_bytes());
        out.bytes(value.unwrap_or_default());
    });
}

pub(crate) fn write_delete(thread: ThreadId, stamp: &Stamp, out: &mut Vec<u8>) {
    write(4, stamp, out, |out| out.bytes(thread.as_bytes()));
}

/// A frame's header that was found whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) stamp: Stamp,
    op: u8,
    body_bytes: usize,
    body_crc: u32,
}

/// The header at the front of these bytes, if there is a whole one.
pub(crate) fn header(bytes: &[u8]) -> Option<Header> {
    let bytes = bytes.get(..HEADER_BYTES)?;
    if bytes[..4] != MAGIC.to_le_bytes() {
        return None;
    }
    read_header(bytes).ok()
}

fn read_header(bytes: &[u8]) -> Result<Header, Malformed> {
    let mut take = Take(bytes);
    take.u32()?;
    let body_bytes = take.u32()? as usize;
    let body_crc = take.u32()?;
    let [op, more, ..] = take.array::<4>()?;
    let stamp = Stamp {
        epoch: take.u64()?,
        group: take.u64()?,
        group_start: take.u64()?,
        position: Position(take.u64()?),
        before: Hash::from_bytes(take.array()?),
        trace: TraceId::from_bytes(take.array()?),
        cause: Some(take.u64()?).filter(|cause| *cause != NO_CAUSE).map(Position),
        more: more != 0,
    };
    let crc = take.u64()?;
    if crc != u64::from(crc32fast::hash(&bytes[..HEADER_BYTES - 8])) || body_bytes > BODY_BYTES_MAX {
        return Err(Malformed);
    }
    Ok(Header { stamp, op, body_bytes, body_crc })
}

impl Header {
    pub(crate) fn frame_bytes(&self) -> usize {
        HEADER_BYTES + self.body_bytes
    }

    pub(crate) fn is_begin(&self) -> bool {
        self.op == 0
    }

    /// The operation, from the bytes that begin with this header. `None` when they end too early or are changed.
    pub(crate) fn entry(&self, bytes: &[u8]) -> Option<Entry> {
        let body = bytes.get(HEADER_BYTES..self.frame_bytes())?;
        if crc32fast::hash(body) != self.body_crc {
            return None;
        }
        self.read(body).ok()
    }

    fn read(&self, body: &[u8]) -> Result<Entry, Malformed> {
        let mut take = Take(body);
        let entry = match self.op {
            0 => Entry::Begin,
            1 => Entry::Append(read_append(&mut take, &self.stamp)?),
            2 => {
                let flags = take.u8()?;
                let owner = match flags & 1 {
                    0 => None,
                    _ => Some(ThreadId::from_bytes(take.array()?)),
                };
                let hash = Hash::from_bytes(take.array()?);
                let rest = take.bytes(take.0.len())?;
                match flags {
                    RELEASED => Entry::Release { hash },
                    _ => Entry::Blob { owner, hash, bytes: (flags & 2 != 0).then(|| Arc::from(rest)) },
                }
            }
            3 => {
                let is_there = take.u8()? != 0;
                let name = String::from_utf8(take.sized()?.to_vec()).map_err(|_| Malformed)?;
                let rest = take.bytes(take.0.len())?;
                Entry::Value { name, value: is_there.then(|| rest.to_vec()) }
            }
            4 => Entry::Delete { thread: ThreadId::from_bytes(take.array()?) },
            _ => return Err(Malformed),
        };
        take.end()?;
        Ok(entry)
    }
}

fn read_append(take: &mut Take<'_>, stamp: &Stamp) -> Result<Addition, Malformed> {
    let thread = ThreadId::from_bytes(take.array()?);
    let expected = Seq(take.var()?);
    let tag = Tag(take.u8()?);
    let flags = take.u8()?;
    let fork_of = match flags & IS_FORK {
        0 => None,
        _ => Some(ForkPoint { parent: ThreadId::from_bytes(take.array()?), seq: Seq(take.var()?) }),
    };
    let keys = match flags & !IS_FORK {
        0 => Vec::new(),
        HAS_KEYS => read_keys(take)?,
        _ => return Err(Malformed),
    };
    let n: usize = take.narrow()?;
    // Each record takes at least five bytes: a length that cannot be is not trusted with memory.
    if n == 0 || n > take.0.len() / 5 {
        return Err(Malformed);
    }
    let mut items = Vec::with_capacity(n);
    for _ in 0..n {
        let kind = Kind(take.narrow()?);
        let version = take.narrow()?;
        let recorded_at = Time::from_unix_us(take.var()?);
        let form = take.u8()?;
        let cause = match form & !HAS_RUN {
            0 => None,
            1 => Some(Cause::At(Position(take.var()?))),
            2 => Some(Cause::SameAppend(take.narrow()?)),
            3 => stamp.cause.map(Cause::At),
            _ => return Err(Malformed),
        };
        let run = match form & HAS_RUN {
            0 => None,
            _ => Some(RunId(Seq(take.var()?))),
        };
        let payload = Bytes::copy_from_slice(take.sized()?);
        items.push(Item { kind, version, recorded_at, cause, run, payload });
    }
    Ok(Addition { thread, expected, fork_of, trace: Some(stamp.trace), tag, items, keys })
}

fn read_keys(take: &mut Take<'_>) -> Result<Vec<KeyChange>, Malformed> {
    let n: usize = take.narrow()?;
    if n > KEY_CHANGES_MAX {
        return Err(Malformed);
    }
    let mut keys = Vec::with_capacity(n);
    for _ in 0..n {
        let change = match take.u8()? {
            0 => KeyChange::Remove,
            1 => KeyChange::Add,
            _ => return Err(Malformed),
        };
        keys.push(change(take.sized()?.to_vec()));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
