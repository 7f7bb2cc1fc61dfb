//! The form of an import in the stream.

use rethread_events::ids::{Hash, Position, RunId, Seq, ThreadId, Time, TraceId};

use crate::contract::{ForkPoint, Import, Tag};
use crate::keys::KEYS_MAX;
use crate::record::{Kind, Record};
use crate::wire::{Malformed, Put, Take};

/// Without its values. It must have a record.
pub(super) fn encode(import: &Import) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(first) = import.records.first() else { return out };
    out.bytes(first.thread.as_bytes());
    out.u8(import.tag.0);
    out.u8(u8::from(import.fork_of.is_some()));
    if let Some(point) = import.fork_of {
        out.bytes(point.parent.as_bytes());
        out.var(point.seq.0);
    }
    out.var(import.keys.len() as u64);
    import.keys.iter().for_each(|key| out.sized(key));
    out.var(import.blobs.len() as u64);
    import.blobs.iter().for_each(|blob| out.sized(blob));
    out.var(import.records.len() as u64);
    for record in &import.records {
        // Nothing is left out that the check of an import compares.
        out.bytes(record.thread.as_bytes());
        out.bytes(record.trace.as_bytes());
        out.bytes(record.hash.as_bytes());
        out.var(record.position.0);
        out.var(record.seq.0);
        out.var(record.kind.0.into());
        out.var(record.version.into());
        out.var(record.recorded_at.unix_us());
        out.var(record.cause.map_or(0, |cause| cause.0 + 1));
        out.var(record.run.map_or(0, |RunId(run)| run.0 + 1));
        out.sized(&record.payload);
    }
    out
}

pub(super) fn decode(bytes: &[u8]) -> Result<Import, Malformed> {
    let mut take = Take(bytes);
    let thread = ThreadId::from_bytes(take.array()?);
    let tag = Tag(take.u8()?);
    let fork_of = match take.u8()? {
        0 => None,
        1 => Some(ForkPoint { parent: ThreadId::from_bytes(take.array()?), seq: Seq(take.var()?) }),
        _ => return Err(Malformed),
    };
    let n_keys: usize = take.narrow()?;
    if n_keys > KEYS_MAX {
        return Err(Malformed);
    }
    let mut keys = Vec::with_capacity(n_keys);
    for _ in 0..n_keys {
        keys.push(take.sized()?.to_vec());
    }
    // Numbers that cannot be are not trusted with memory.
    let n_blobs: usize = take.narrow()?;
    let mut blobs = Vec::with_capacity(n_blobs.min(take.0.len()));
    for _ in 0..n_blobs {
        blobs.push(take.sized()?.to_vec());
    }
    let n: usize = take.narrow()?;
    let mut records = Vec::with_capacity(n.min(take.0.len() / 70));
    for _ in 0..n {
        records.push(record(&mut take)?);
    }
    take.end()?;
    if records.first().is_none_or(|first| first.thread != thread) {
        return Err(Malformed);
    }
    Ok(Import { fork_of, tag, records, blobs, keys, values: Vec::new() })
}

fn record(take: &mut Take<'_>) -> Result<Record, Malformed> {
    Ok(Record {
        thread: ThreadId::from_bytes(take.array()?),
        trace: TraceId::from_bytes(take.array()?),
        hash: Hash::from_bytes(take.array()?),
        position: Position(take.var()?),
        seq: Seq(take.var()?),
        kind: Kind(take.narrow()?),
        version: take.narrow()?,
        recorded_at: Time::from_unix_us(take.var()?),
        cause: take.var()?.checked_sub(1).map(Position),
        run: take.var()?.checked_sub(1).map(|run| RunId(Seq(run))),
        payload: bytes::Bytes::copy_from_slice(take.sized()?),
    })
}
