//! Appends chunks to the packs.

use super::{ChunkLocation, End, FRAME_BYTES, MAGIC, Packs};
use crate::disk::files::{LogFile, failed};
use crate::error::StoreError;
use crate::wire::Put;

/// How much is gathered before it is written.
const BUFFER_BYTES: usize = 1 << 20;

/// The chunks of one seal. None of them counts until sled has its location, which may be written only after
/// [`PackWriter::finish`].
pub(crate) struct PackWriter<'a> {
    packs: &'a Packs,
    /// Of what is written.
    end: End,
    file: Option<LogFile>,
    buffer: Vec<u8>,
}

impl<'a> PackWriter<'a> {
    pub(super) fn new(packs: &'a Packs, end: End) -> Self {
        Self { packs, end, file: None, buffer: Vec::new() }
    }

    /// Adds a chunk and says where it lies.
    pub(crate) fn add(&mut self, chunk: &[u8]) -> Result<ChunkLocation, StoreError> {
        let frame = FRAME_BYTES + chunk.len() as u64;
        let offset = self.end.offset + self.buffer.len() as u64;
        if offset > 0 && offset + frame > self.packs.pack_bytes {
            self.sync()?;
            self.end = End { pack: self.end.pack + 1, offset: 0 };
            self.file = None;
        } else if self.buffer.len() >= BUFFER_BYTES {
            self.write()?;
        }
        let offset = self.end.offset + self.buffer.len() as u64 + FRAME_BYTES;
        self.buffer.bytes(&MAGIC);
        self.buffer.u32(chunk.len() as u32);
        self.buffer.bytes(chunk);
        Ok(ChunkLocation { pack: self.end.pack, offset, bytes: chunk.len() as u32 })
    }

    /// Everything that was added is on the disk when it returns; where the packs end now.
    pub(crate) fn finish(mut self) -> Result<End, StoreError> {
        self.sync()?;
        Ok(self.end)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.write()?;
        match &self.file {
            Some(file) => file.sync().map_err(|source| failed(file.path(), source)),
            None => Ok(()),
        }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => self.packs.open_or_make(self.end.pack)?,
        };
        let file = self.file.insert(file);
        file.write_at(&self.buffer, self.end.offset).map_err(|source| failed(file.path(), source))?;
        self.end.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
