//! Chunks: how records lie on the disk for good. Sorted by stream and seq, so that reading one stream touches few chunks; what
//! is the same for a run of records is written once, what follows from the rest (event ids, hashes) not at all.
//!
//! ```text
//! chunk: crc u32, form u8 (0 plain, 1 lz4), [raw length u32], runs
//! run:   thread 16, flags, [trace 16], [hash before 32], first seq, n, first position, first time, records
//! ```

use bytes::Bytes;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use rethread_events::ids::{Hash, Position, RunId, Seq, ThreadId, Time, TraceId};

use super::limits::{CHUNK_BYTES_MAX, CHUNK_RAW_BYTES, INLINE_BYTES_MAX};
use crate::record::{Kind, Record};
use crate::wire::{Malformed, Put, Take};

/// A record on its way into a chunk, with the hash of the record before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link<'a> {
    pub(crate) record: &'a Record,
    pub(crate) before: Hash,
    /// The payload's hash, where it is stored as a blob.
    pub(crate) blob: Option<Hash>,
}

/// A record out of a chunk.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// With an empty payload when that is a blob.
    pub(crate) record: Record,
    pub(crate) before: Hash,
    pub(crate) blob: Option<Hash>,
}

/// The runs of one chunk, by stream and first seq.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) thread: ThreadId,
    pub(crate) first: Seq,
    pub(crate) n: u64,
}

/// Whether a payload goes into a blob.
pub(crate) fn is_blob(payload: &[u8]) -> bool {
    payload.len() > INLINE_BYTES_MAX
}

/// Packs links into chunks. Its buffers are used again and again.
#[derive(Default)]
pub(crate) struct Packer {
    raw: Vec<u8>,
    chunk: Vec<u8>,
    table: CompressTable,
}

impl Packer {
    /// Packs links, sorted by stream and seq, into chunks; `each` is given the bytes and the runs of every one.
    pub(crate) fn pack<E>(
        &mut self,
        links: &[Link<'_>],
        mut each: impl FnMut(&[u8], Vec<Run>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = links;
        while !rest.is_empty() {
            let (runs, n) = gather(rest, CHUNK_RAW_BYTES, &mut self.raw);
            each(self.seal(), runs)?;
            rest = &rest[n..];
        }
        Ok(())
    }

    /// One chunk of all these links, which were part of one before.
    pub(crate) fn pack_one(&mut self, links: &[Link<'_>]) -> &[u8] {
        gather(links, usize::MAX / 2, &mut self.raw);
        self.seal()
    }

    fn seal(&mut self) -> &[u8] {
        let (raw, out) = (&self.raw, &mut self.chunk);
        out.clear();
        out.resize(PACKED_AT + get_maximum_output_size(raw.len()), 0);
        match compress_into_with_table(raw, &mut out[PACKED_AT..], &mut self.table) {
            Ok(n) if n + 4 < raw.len() => {
                out[4] = 1;
                out[5..PACKED_AT].copy_from_slice(&(raw.len() as u32).to_le_bytes());
                out.truncate(PACKED_AT + n);
            }
            _ => {
                out.truncate(4);
                out.u8(0);
                out.bytes(raw);
            }
        }
        let crc = crc32fast::hash(&out[4..]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }
}

/// The offset of the compressed part: after the checksum, the form and the length.
const PACKED_AT: usize = 9;

/// As many records as fit, at least one, written to `out`; their runs, and how many they are.
fn gather(links: &[Link<'_>], bytes_max: usize, out: &mut Vec<u8>) -> (Vec<Run>, usize) {
    out.clear();
    let mut runs: Vec<Run> = Vec::new();
    let mut n = 0;
    while let Some(first) = links.get(n) {
        let mut bytes = out.len() + RUN_BYTES_MAX;
        let fits = |link: &&Link<'_>| {
            let is_same = link.record.thread == first.record.thread && link.record.trace == first.record.trace;
            bytes += size_bound(link);
            is_same && bytes <= bytes_max
        };
        let n_fit = links[n..].iter().take_while(fits).count();
        let n_run = if n == 0 { n_fit.max(1) } else { n_fit };
        if n_run == 0 {
            break;
        }
        write_run(&links[n..n + n_run], out);
        n += n_run;
        runs.push(Run { thread: first.record.thread, first: first.record.seq, n: n_run as u64 });
    }
    (runs, n)
}

/// An upper bound of what a run takes besides its records.
const RUN_BYTES_MAX: usize = 112;

/// An upper bound of what a record takes.
fn size_bound(link: &Link<'_>) -> usize {
    54 + if link.blob.is_some() { 64 } else { link.record.payload.len() }
}

fn write_run(run: &[Link<'_>], out: &mut Vec<u8>) {
    let first = &run[0];
    let Record { thread, trace, .. } = *first.record;
    let own_trace = trace == TraceId::from(thread);
    let from_nothing = first.before == Hash::ZERO;
    out.bytes(thread.as_bytes());
    out.u8(u8::from(own_trace) | u8::from(from_nothing) << 1);
    if !own_trace {
        out.bytes(trace.as_bytes());
    }
    if !from_nothing {
        out.bytes(first.before.as_bytes());
    }
    out.var(first.record.seq.0);
    out.var(run.len() as u64);
    let (mut position, mut time) = (first.record.position.0, first.record.recorded_at.unix_us());
    out.var(position);
    out.var(time);
    let mut run_id = None;
    for link in run {
        let record = link.record;
        let has_cause = u8::from(record.cause.is_some());
        let is_next_run = record.run != run_id;
        out.u8(has_cause | u8::from(link.blob.is_some()) << 1 | u8::from(is_next_run) << 2);
        if is_next_run {
            // 0 for none.
            out.var(record.run.map_or(0, |RunId(seq)| seq.0.wrapping_add(1)));
            run_id = record.run;
        }
        out.var(record.kind.0.into());
        out.var(record.version.into());
        out.delta(position, record.position.0);
        out.delta(time, record.recorded_at.unix_us());
        (position, time) = (record.position.0, record.recorded_at.unix_us());
        if let Some(cause) = record.cause {
            out.delta(position, cause.0);
        }
        match link.blob {
            Some(blob) => {
                out.bytes(blob.as_bytes());
                out.bytes(record.hash.as_bytes());
            }
            None => out.sized(&record.payload),
        }
    }
}

/// The records of a chunk, by stream and seq.
pub(crate) fn unpack(bytes: &[u8]) -> Result<Vec<Row>, Malformed> {
    let mut take = Take(bytes);
    if take.u32()? != crc32fast::hash(take.0) {
        return Err(Malformed);
    }
    match take.u8()? {
        0 => rows(&Bytes::copy_from_slice(take.0)),
        1 => {
            let n = take.u32()? as usize;
            if n > CHUNK_BYTES_MAX {
                return Err(Malformed);
            }
            let raw = lz4_flex::block::decompress(take.0, n).map_err(|_| Malformed)?;
            rows(&raw.into())
        }
        _ => Err(Malformed),
    }
}

fn rows(raw: &Bytes) -> Result<Vec<Row>, Malformed> {
    let mut take = Take(raw);
    let mut rows = Vec::with_capacity(take.0.len() / 64);
    while !take.0.is_empty() {
        read_run(raw, &mut take, &mut rows)?;
    }
    Ok(rows)
}

/// Payloads are parts of `raw`, which stays in memory as long as one of them: it is at most a chunk.
fn read_run(raw: &Bytes, take: &mut Take<'_>, rows: &mut Vec<Row>) -> Result<(), Malformed> {
    let thread = ThreadId::from_bytes(take.array()?);
    let flags = take.u8()?;
    let trace = match flags & 1 {
        0 => TraceId::from_bytes(take.array()?),
        _ => TraceId::from(thread),
    };
    let mut before = match flags & 2 {
        0 => Hash::from_bytes(take.array()?),
        _ => Hash::ZERO,
    };
    let first = take.var()?;
    let n = take.var()?;
    let (mut position, mut time) = (take.var()?, take.var()?);
    let mut run = None;
    for index in 0..n {
        let flags = take.u8()?;
        if flags & 4 != 0 {
            run = take.var()?.checked_sub(1).map(|seq| RunId(Seq(seq)));
        }
        let kind = Kind(take.narrow()?);
        let version = take.narrow()?;
        position = take.delta(position)?;
        time = take.delta(time)?;
        let cause = match flags & 1 {
            0 => None,
            _ => Some(Position(take.delta(position)?)),
        };
        let (seq, recorded_at) = (Seq(first.wrapping_add(index)), Time::from_unix_us(time));
        let (blob, payload, hash) = match flags & 2 {
            0 => {
                let payload = take.sized()?;
                let hash = Record::chain(before, thread, seq, recorded_at, trace, kind, version, payload);
                (None, raw.slice_ref(payload), hash)
            }
            _ => {
                let blob = Hash::from_bytes(take.array()?);
                (Some(blob), Bytes::new(), Hash::from_bytes(take.array()?))
            }
        };
        let record = Record {
            position: Position(position),
            thread,
            seq,
            kind,
            version,
            recorded_at,
            trace,
            cause,
            run,
            hash,
            payload,
        };
        rows.push(Row { record, before, blob });
        before = hash;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
