//! How keys and small values are written.

use rethread_events::ids::{Position, Seq, ThreadId};

use crate::disk::packs::{ChunkLocation, End, SPOT_BYTES};
use crate::wire::{Malformed, Put, Take};

/// How far sled holds the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Watermark {
    /// The last life of a journal file that is all in sled.
    pub(crate) epoch: u64,
    /// The first position that is not in sled.
    pub(crate) position: Position,
    /// The last group that is in sled.
    pub(crate) group: u64,
    /// Where the packs end.
    pub(crate) packs: End,
}

pub(crate) fn write_watermark(watermark: &Watermark) -> Vec<u8> {
    let mut out = Vec::with_capacity(36);
    out.u64(watermark.epoch);
    out.u64(watermark.position.0);
    out.u64(watermark.group);
    out.u32(watermark.packs.pack);
    out.u64(watermark.packs.offset);
    out
}

pub(super) fn read_watermark(bytes: &[u8]) -> Result<Watermark, Malformed> {
    let mut take = Take(bytes);
    let (epoch, position, group) = (take.u64()?, Position(take.u64()?), take.u64()?);
    let packs = End { pack: take.u32()?, offset: take.u64()? };
    take.end()?;
    Ok(Watermark { epoch, position, group, packs })
}

/// An unreferenced chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) spot: ChunkLocation,
    /// Whose it was.
    pub(crate) seal: Position,
    pub(crate) chunk: u32,
}

pub(crate) fn write_dead(dead: &Dead) -> ([u8; SPOT_BYTES], [u8; 12]) {
    (dead.spot.write(), chunk_key(dead.seal, dead.chunk))
}

pub(super) fn read_dead(key: &[u8], value: &[u8]) -> Result<Dead, Malformed> {
    let (seal, chunk) = read_chunk_key(value)?;
    Ok(Dead { spot: ChunkLocation::read(key)?, seal, chunk })
}

pub(super) fn read_chunk_key(key: &[u8]) -> Result<(Position, u32), Malformed> {
    let (seal, chunk) = key.split_at_checked(8).ok_or(Malformed)?;
    let seal = u64::from_be_bytes(seal.try_into().map_err(|_| Malformed)?);
    Ok((Position(seal), u32::from_be_bytes(chunk.try_into().map_err(|_| Malformed)?)))
}

/// A place of a run of records of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) first: Seq,
    pub(crate) seal: Position,
    pub(crate) chunk: u32,
    pub(crate) n: u64,
}

pub(crate) fn run_key(thread: ThreadId, seq: Seq) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(thread.as_bytes());
    key[16..].copy_from_slice(&seq.0.to_be_bytes());
    key
}

/// The prefix of the pieces of a value; names contain no zero byte.
pub(crate) fn value_key(name: &str) -> Vec<u8> {
    pair_key(name.as_bytes(), &[0])
}

pub(crate) fn chunk_key(seal: Position, chunk: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&seal.0.to_be_bytes());
    key[8..].copy_from_slice(&chunk.to_be_bytes());
    key
}

/// Two ids after each other: a fork, an owner's blob.
pub(crate) fn pair_key(first: &[u8], second: &[u8]) -> Vec<u8> {
    [first, second].concat()
}

pub(crate) fn write_place(place: &Place) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.var(place.seal.0);
    out.var(place.chunk.into());
    out.var(place.n);
    out
}

pub(super) fn read_run(key: &[u8], value: &[u8]) -> Result<Place, Malformed> {
    let mut take = Take(key);
    take.bytes(16)?;
    let first = Seq(u64::from_be_bytes(take.array()?));
    let mut take = Take(value);
    let place = Place { first, seal: Position(take.var()?), chunk: take.narrow()?, n: take.var()? };
    take.end()?;
    Ok(place)
}

pub(crate) fn write_seal(end: Position, n_chunks: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(12);
    out.var(end.0);
    out.var(n_chunks.into());
    out
}

pub(super) fn read_seal(key: &[u8], value: &[u8]) -> Result<(Position, Position, u32), Malformed> {
    let seal = Position(u64::from_be_bytes(key.try_into().map_err(|_| Malformed)?));
    let mut take = Take(value);
    let found = (seal, Position(take.var()?), take.narrow()?);
    take.end()?;
    Ok(found)
}
