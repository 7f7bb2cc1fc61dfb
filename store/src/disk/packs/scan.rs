//! Finding chunks without sled.

use super::{ChunkLocation, FRAME_BYTES, MAGIC, Packs};
use crate::disk::files::{LogFile, failed};
use crate::disk::limits::CHUNK_BYTES_MAX;
use crate::error::StoreError;

/// How much is looked through at a time for where the next frame begins.
const BLOCK_BYTES: u64 = 1 << 20;

impl Packs {
    /// Reads all packs and gives `each` what may be a chunk, from old to new; it answers whether it is one.
    pub(crate) fn scan(
        &self,
        mut each: impl FnMut(ChunkLocation, &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        for pack in self.numbers()? {
            let path = self.path(pack);
            let io = |source| failed(&path, source);
            let (file, n) = (self.files.find(&path).map_err(io)?, self.bytes(pack)?);
            let mut at = 0;
            while let Some((spot, bytes)) = next_frame(&file, pack, at, n).map_err(io)? {
                let is_chunk = each(spot, &bytes)?;
                at = if is_chunk { spot.end().offset } else { spot.begin().offset + MAGIC.len() as u64 };
            }
        }
        Ok(())
    }
}

/// The first frame of a chunk at or after this offset.
fn next_frame(file: &LogFile, pack: u32, mut at: u64, end: u64) -> std::io::Result<Option<(ChunkLocation, Vec<u8>)>> {
    while at + FRAME_BYTES <= end {
        let frame = file.read_at(at, FRAME_BYTES as usize)?;
        let (magic, length) = frame.split_at(MAGIC.len());
        let bytes = length.try_into().map_or(0, u32::from_le_bytes);
        let offset = at + FRAME_BYTES;
        let fits = bytes as usize <= CHUNK_BYTES_MAX && offset + u64::from(bytes) <= end;
        if magic == MAGIC && fits {
            return Ok(Some((ChunkLocation { pack, offset, bytes }, file.read_at(offset, bytes as usize)?)));
        }
        // After the end of the data: a hole, or damage.
        let from = at + 1;
        let block = file.read_at(from, BLOCK_BYTES.min(end - from) as usize)?;
        at = match block.windows(MAGIC.len()).position(|window| window == MAGIC) {
            Some(found) => from + found as u64,
            // One may begin in this block and end in the next.
            None => from + (block.len() as u64).saturating_sub(MAGIC.len() as u64 - 1).max(1),
        };
    }
    Ok(None)
}
