//! Bytes of any size in sled: cut into pieces that are small enough for it.
//!
//! Piece 0 begins with the whole length and a checksum of the whole. It is written last and removed first, so that
//! a concurrent reader finds all or nothing.

use super::limits::PIECE_BYTES;
use crate::wire::{Malformed, Put, Take};

fn piece_key(key: &[u8], piece: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 4);
    out.bytes(key);
    out.bytes(&piece.to_be_bytes());
    out
}

/// Writes `bytes` under `key`, in place of what was there.
pub(crate) fn write(tree: &sled::Tree, key: &[u8], bytes: &[u8]) -> sled::Result<()> {
    remove(tree, key)?;
    let mut head = Vec::with_capacity(12 + bytes.len().min(PIECE_BYTES));
    head.u64(bytes.len() as u64);
    head.u32(crc32fast::hash(bytes));
    let (first, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES));
    head.bytes(first);
    for (index, piece) in rest.chunks(PIECE_BYTES).enumerate() {
        tree.insert(piece_key(key, index as u32 + 1), piece)?;
    }
    tree.insert(piece_key(key, 0), head)?;
    Ok(())
}

/// Reads the value that was written under `key`.
pub(crate) fn read(tree: &sled::Tree, key: &[u8]) -> sled::Result<Result<Option<Vec<u8>>, Malformed>> {
    let Some(head) = tree.get(piece_key(key, 0))? else { return Ok(Ok(None)) };
    let begin = || {
        let mut take = Take(&head);
        Ok::<_, Malformed>((take.u64()? as usize, take.u32()?, take.0))
    };
    let Ok((n, crc, first)) = begin() else { return Ok(Err(Malformed)) };
    let mut bytes = first.to_vec();
    for piece in 1..=n.saturating_sub(1) / PIECE_BYTES {
        match tree.get(piece_key(key, piece as u32))? {
            Some(more) => bytes.extend_from_slice(&more),
            None => return Ok(Err(Malformed)),
        }
    }
    let whole = bytes.len() == n && crc32fast::hash(&bytes) == crc;
    Ok(if whole { Ok(Some(bytes)) } else { Err(Malformed) })
}

pub(crate) fn is_there(tree: &sled::Tree, key: &[u8]) -> sled::Result<bool> {
    tree.contains_key(piece_key(key, 0))
}

/// Removes the value under `key`.
pub(crate) fn remove(tree: &sled::Tree, key: &[u8]) -> sled::Result<()> {
    let range = piece_key(key, 0)..=piece_key(key, u32::MAX);
    for row in tree.range(range).keys() {
        tree.remove(row?)?;
    }
    Ok(())
}
