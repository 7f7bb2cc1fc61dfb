//! Places in the packs.

use super::FRAME_BYTES;
use crate::disk::limits::CHUNK_BYTES_MAX;
use crate::wire::{Malformed, Put, Take};

/// Where a chunk lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChunkLocation {
    pub(crate) pack: u32,
    /// Of the chunk itself, after its frame.
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

/// Where the next chunk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct End {
    pub(crate) pack: u32,
    pub(crate) offset: u64,
}

/// The bytes of a location in a row of sled.
pub(crate) const SPOT_BYTES: usize = 16;

impl ChunkLocation {
    pub(crate) fn write(self) -> [u8; SPOT_BYTES] {
        let mut out = Vec::with_capacity(SPOT_BYTES);
        out.u32(self.pack);
        out.u64(self.offset);
        out.u32(self.bytes);
        out.try_into().unwrap_or_default()
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take(bytes);
        let spot = Self { pack: take.u32()?, offset: take.u64()?, bytes: take.u32()? };
        take.end()?;
        // So that a damaged length costs no memory.
        if spot.bytes as usize > CHUNK_BYTES_MAX || spot.offset < FRAME_BYTES { Err(Malformed) } else { Ok(spot) }
    }

    pub(super) fn begin(self) -> End {
        End { pack: self.pack, offset: self.offset - FRAME_BYTES }
    }

    pub(super) fn end(self) -> End {
        End { pack: self.pack, offset: self.offset + u64::from(self.bytes) }
    }
}
