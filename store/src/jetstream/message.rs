//! The form of an operation in the stream: one message, or several if it is larger than one may be.
//!
//! ```text
//! message: version u8, flags u8, epoch u64, number u64, seen u64, cause var, body
//! body:    a part of the operation: frames of the journal, or an import; packed if that makes it smaller
//! ```

use std::sync::Arc;

use bytes::Bytes;
use rethread_events::ids::{Hash, Position, Seq, ThreadId, TraceId};

use super::import;
use super::subject::Subject;
use crate::contract::Import;
use crate::disk::frame::{self, Entry, Stamp};
use crate::disk::queue::Op;
use crate::record::Cause;
use crate::wire::{Malformed, Put, Take};

const VERSION: u8 = 1;
const MORE: u8 = 1;
const PACKED: u8 = 2;
const IS_IMPORT: u8 = 4;
const IS_VALUES: u8 = 8;

/// The most bytes of a message besides its body.
pub(super) const HEADER_BYTES_MAX: usize = 64;
/// Smaller bodies are not packed.
const PACK_BYTES_MIN: usize = 128;
/// The largest body, unpacked.
const BODY_BYTES_MAX: usize = 64 << 20;

/// What the body of a message is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    /// Frames of the journal.
    Frames,
    /// A stream that is imported.
    Import,
    /// The values of an import, in frames. They are not on the subject of the thread, because they outlive it.
    Values,
}

/// A message of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// The process that wrote it, by the sequence of the message with which it took the log over or joined.
    pub(super) epoch: u64,
    /// Counts the messages of an epoch from 1.
    pub(super) number: u64,
    /// The last message of the epoch whose result its sender knew: an append was decided without knowing later ones.
    pub(super) seen: u64,
    /// The cause of the first record of an append, as a seq of the same stream.
    pub(super) own: Option<Seq>,
    /// Whether the operation continues in the next message.
    pub(super) more: bool,
    pub(super) section: Section,
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let packed = (self.body.len() >= PACK_BYTES_MIN).then(|| lz4_flex::compress_prepend_size(&self.body));
        let packed = packed.filter(|packed| packed.len() < self.body.len());
        let mut out = Vec::with_capacity(HEADER_BYTES_MAX + self.body.len());
        let section = match self.section {
            Section::Frames => 0,
            Section::Import => IS_IMPORT,
            Section::Values => IS_VALUES,
        };
        out.u8(VERSION);
        out.u8(section | if self.more { MORE } else { 0 } | if packed.is_some() { PACKED } else { 0 });
        out.u64(self.epoch);
        out.u64(self.number);
        out.u64(self.seen);
        out.var(self.own.map_or(0, |seq| seq.0 + 1));
        out.bytes(packed.as_ref().unwrap_or(&self.body));
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take(bytes);
        let (version, flags) = (take.u8()?, take.u8()?);
        let section = match flags & !(MORE | PACKED) {
            0 => Section::Frames,
            IS_IMPORT => Section::Import,
            IS_VALUES => Section::Values,
            _ => return Err(Malformed),
        };
        if version != VERSION {
            return Err(Malformed);
        }
        let (epoch, number, seen) = (take.u64()?, take.u64()?, take.u64()?);
        let own = take.var()?.checked_sub(1).map(Seq);
        let rest = take.bytes(take.0.len())?;
        let body = if flags & PACKED == 0 { rest.to_vec() } else { unpack(rest)? };
        Ok(Self { epoch, number, seen, own, more: flags & MORE != 0, section, body })
    }
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let (n, packed) = lz4_flex::block::uncompressed_size(bytes).map_err(|_| Malformed)?;
    if n > BODY_BYTES_MAX {
        return Err(Malformed);
    }
    lz4_flex::decompress(packed, n).map_err(|_| Malformed)
}

/// An operation before it has numbers: its parts, in their order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) own: Option<Seq>,
    pub(super) parts: Vec<(Subject, Section, Vec<u8>)>,
}

/// Encodes an operation into parts of at most `part_bytes`. `None` for what is no operation of the log.
pub(super) fn encode(op: &Op, part_bytes: usize) -> Option<Outgoing> {
    let mut own = None;
    let mut sections = Vec::new();
    match op {
        Op::Append { addition, blobs } => {
            let mut out = Vec::new();
            for bytes in blobs {
                frame::write_blob(Some(addition.thread), Hash::of(bytes), Some(bytes), &stamp(None), &mut out);
            }
            let trace = addition.trace.unwrap_or(addition.thread.into());
            frame::write_append(addition, &stamp(Some(trace)), &mut out);
            own = match addition.items.first().and_then(|item| item.cause) {
                Some(Cause::Own(seq)) => Some(seq),
                _ => None,
            };
            sections.push((Subject::Thread(addition.thread), Section::Frames, out));
        }
        Op::Import(import) => {
            let thread = import.records.first()?.thread;
            sections.push((Subject::Thread(thread), Section::Import, import::encode(import)));
            let mut values = Vec::new();
            for (name, value) in &import.values {
                frame::write_value(name, Some(value), &stamp(None), &mut values);
            }
            if !values.is_empty() {
                sections.push((Subject::Other, Section::Values, values));
            }
        }
        Op::Blob { owner, hash, bytes } => {
            let mut out = Vec::new();
            frame::write_blob(*owner, *hash, Some(bytes), &stamp(None), &mut out);
            let subject = owner.map_or(Subject::Blob(*hash), Subject::Thread);
            sections.push((subject, Section::Frames, out));
        }
        Op::Value { name, value } => {
            let mut out = Vec::new();
            frame::write_value(name, value.as_deref(), &stamp(None), &mut out);
            // A removal stays when the values before it leave the stream.
            let subject = if value.is_some() { Subject::value(name) } else { Subject::Other };
            sections.push((subject, Section::Frames, out));
        }
        Op::Delete { threads } => {
            let mut out = Vec::new();
            for thread in threads {
                frame::write_delete(*thread, &stamp(None), &mut out);
            }
            sections.push((Subject::Other, Section::Frames, out));
        }
        Op::Release { hashes, values } => {
            let mut out = Vec::new();
            for (name, value) in values {
                frame::write_value(name, value.as_deref(), &stamp(None), &mut out);
            }
            for hash in hashes {
                frame::write_release(*hash, &stamp(None), &mut out);
            }
            sections.push((Subject::Other, Section::Frames, out));
        }
        Op::Skip { .. } | Op::Scrub => return None,
    }
    let cut = sections.into_iter().flat_map(|(subject, section, bytes)| {
        let parts: Vec<Vec<u8>> = bytes.chunks(part_bytes).map(<[u8]>::to_vec).collect();
        // An operation on nothing is one as well.
        let parts = if parts.is_empty() { vec![Vec::new()] } else { parts };
        parts.into_iter().map(move |part| (subject, section, part))
    });
    Some(Outgoing { own, parts: cut.collect() })
}

/// Decodes an operation from all its parts, once they are there. `cause` is the position of the first record's cause, if
/// that was named by its seq.
pub(super) fn decode(parts: &[(Section, Vec<u8>)], cause: Option<Position>) -> Result<Op, Malformed> {
    let join = |wanted: Section| -> Vec<u8> {
        let of_section = parts.iter().filter(|(section, _)| *section == wanted);
        of_section.flat_map(|(_, bytes)| bytes.iter().copied()).collect()
    };
    let values = values(entries(&join(Section::Values), None)?)?;
    if parts.iter().any(|(section, _)| *section == Section::Import) {
        let import = import::decode(&join(Section::Import))?;
        let values = values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        return Ok(Op::Import(Import { values, ..import }));
    }
    if parts.iter().all(|(section, _)| *section == Section::Values) {
        // The import is gone with its thread.
        return Ok(Op::Release { hashes: Vec::new(), values });
    }
    op(entries(&join(Section::Frames), cause)?)
}

/// Values by their names; those that are removed have none.
type Values = Vec<(String, Option<Vec<u8>>)>;

fn values(entries: Vec<Entry>) -> Result<Values, Malformed> {
    let value = |entry| match entry {
        Entry::Value { name, value } => Ok((name, value)),
        _ => Err(Malformed),
    };
    entries.into_iter().map(value).collect()
}

fn entries(mut bytes: &[u8], cause: Option<Position>) -> Result<Vec<Entry>, Malformed> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let mut header = frame::header(bytes).ok_or(Malformed)?;
        header.stamp.cause = cause;
        entries.push(header.entry(bytes).ok_or(Malformed)?);
        bytes = bytes.get(header.frame_bytes()..).ok_or(Malformed)?;
    }
    Ok(entries)
}

fn op(entries: Vec<Entry>) -> Result<Op, Malformed> {
    let (mut blobs, mut values, mut deletes, mut releases) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut append = None;
    for entry in entries {
        match entry {
            Entry::Append(addition) if append.is_none() => append = Some(addition),
            Entry::Blob { owner, hash, bytes: Some(bytes) } => blobs.push((owner, hash, bytes)),
            Entry::Value { name, value } => values.push((name, value)),
            Entry::Delete { thread } => deletes.push(thread),
            Entry::Release { hash } => releases.push(hash),
            Entry::Begin | Entry::Append(_) | Entry::Blob { bytes: None, .. } => return Err(Malformed),
        }
    }
    let n_kinds = usize::from(append.is_some())
        + usize::from(append.is_none() && !blobs.is_empty())
        + usize::from(!values.is_empty() || !releases.is_empty())
        + usize::from(!deletes.is_empty());
    if n_kinds > 1 {
        return Err(Malformed);
    }
    if let Some(addition) = append {
        let blobs = blobs.into_iter().map(|(_, _, bytes): (_, _, Arc<[u8]>)| bytes.to_vec()).collect();
        return Ok(Op::Append { addition, blobs });
    }
    if let Some((owner, hash, bytes)) = blobs.pop() {
        return if blobs.is_empty() { Ok(Op::Blob { owner, hash, bytes }) } else { Err(Malformed) };
    }
    if !deletes.is_empty() {
        return Ok(Op::Delete { threads: deletes });
    }
    if releases.is_empty()
        && values.len() == 1
        && let Some((name, value)) = values.pop()
    {
        return Ok(Op::Value { name, value });
    }
    Ok(Op::Release { hashes: releases, values })
}

/// The stamp of a frame that is not in a journal.
fn stamp(trace: Option<TraceId>) -> Stamp {
    Stamp {
        epoch: 0,
        group: 0,
        group_start: 0,
        position: Position(0),
        before: Hash::ZERO,
        trace: trace.unwrap_or_else(|| TraceId::from_bytes([0; 16])),
        cause: None,
        more: false,
    }
}

/// A change of the processes that write the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// Of this change alone. That of a process that takes the log over or joins is of this opening of the log.
    pub(super) id: [u8; 16],
    pub(super) kind: ChangeKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// A process writes the log alone from here on.
    TakeOver {
        /// The name of the process, for people.
        holder: String,
    },
    /// A process writes the log beside others.
    Join {
        /// The id of its replica: whoever has locked that folder replaces an earlier process there.
        replica: [u8; 16],
        holder: String,
    },
    /// A process writes no more.
    Leave { epoch: u64 },
    /// A process gives slots to another one.
    Give { from: u64, to: u64, slots: Vec<u8> },
}

const TAKE_OVER: u8 = 0;
const JOIN: u8 = 1;
const LEAVE: u8 = 2;
const GIVE: u8 = 3;

impl Change {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        out.bytes(&self.id);
        match &self.kind {
            ChangeKind::TakeOver { holder } => {
                out.u8(TAKE_OVER);
                out.sized(holder.as_bytes());
            }
            ChangeKind::Join { replica, holder } => {
                out.u8(JOIN);
                out.bytes(replica);
                out.sized(holder.as_bytes());
            }
            ChangeKind::Leave { epoch } => {
                out.u8(LEAVE);
                out.u64(*epoch);
            }
            ChangeKind::Give { from, to, slots } => {
                out.u8(GIVE);
                out.u64(*from);
                out.u64(*to);
                out.sized(slots);
            }
        }
        out.into()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take(bytes);
        if take.u8()? != VERSION {
            return Err(Malformed);
        }
        let id = take.array()?;
        let text = |take: &mut Take<'_>| Ok::<_, Malformed>(String::from_utf8_lossy(take.sized()?).into_owned());
        let kind = match take.u8()? {
            TAKE_OVER => ChangeKind::TakeOver { holder: text(&mut take)? },
            JOIN => ChangeKind::Join { replica: take.array()?, holder: text(&mut take)? },
            LEAVE => ChangeKind::Leave { epoch: take.u64()? },
            GIVE => ChangeKind::Give { from: take.u64()?, to: take.u64()?, slots: take.sized()?.to_vec() },
            _ => return Err(Malformed),
        };
        take.end()?;
        Ok(Self { id, kind })
    }
}

/// The thread that an operation is about, and how many records it adds.
pub(super) fn adds(op: &Op) -> Option<(ThreadId, Seq, u64)> {
    match op {
        Op::Append { addition, .. } => Some((addition.thread, addition.expected, addition.n_records())),
        Op::Import(import) => {
            let first = import.records.first()?;
            Some((first.thread, first.seq, import.records.len() as u64))
        }
        Op::Blob { .. } | Op::Value { .. } | Op::Delete { .. } | Op::Release { .. } | Op::Skip { .. } | Op::Scrub => {
            None
        }
    }
}

#[cfg(test)]
mod tests;
