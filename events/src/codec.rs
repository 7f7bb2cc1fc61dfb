//! The stored form: bincode with the `legacy` configuration (little endian, fixed width), whose bytes equal those
//! of bincode 1.3, so that the format outlives the crate.

mod shared_list;

#[cfg(test)]
mod tests;

use std::ops::{Deref, DerefMut};

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::shared_list::SharedList;

/// The most bytes one stored value may have. A hostile length in damaged bytes would otherwise ask for memory
/// without end.
pub const BYTES_MAX: usize = 64 << 20;

/// Why bytes are not a stored value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    /// The bytes do not have the expected shape.
    #[error("not a stored value: {0}")]
    Malformed(String),
    /// There are bytes left over.
    #[error("{0} bytes left over after a stored value")]
    Trailing(usize),
    /// The value is larger than [`BYTES_MAX`].
    #[error("a value over {BYTES_MAX} bytes")]
    TooLarge,
}

fn config() -> impl bincode::config::Config {
    bincode::config::legacy().with_limit::<BYTES_MAX>()
}

/// The stored form of a value.
pub fn encode<T: Encode>(value: &T) -> Result<Vec<u8>, StoredError> {
    // The limit of the configuration guards decoding only.
    let bytes = bincode::encode_to_vec(value, config()).map_err(|e| StoredError::Malformed(e.to_string()))?;
    if bytes.len() > BYTES_MAX { Err(StoredError::TooLarge) } else { Ok(bytes) }
}

/// The bytes of the stored form of a value, counted without storing it; `usize::MAX` if it cannot be stored.
pub(crate) fn stored_bytes<T: Encode>(value: &T) -> usize {
    let mut encoder = bincode::enc::EncoderImpl::new(bincode::enc::write::SizeWriter::default(), config());
    value.encode(&mut encoder).map_or(usize::MAX, |()| encoder.into_writer().bytes_written)
}

/// Decodes a stored value; every byte must be used.
pub fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T, StoredError> {
    let (value, used) =
        bincode::decode_from_slice(bytes, config()).map_err(|e| StoredError::Malformed(e.to_string()))?;
    if used == bytes.len() { Ok(value) } else { Err(StoredError::Trailing(bytes.len() - used)) }
}

/// Values by name, in the order in which they were given. Stored as a list of pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct OrderedMap<T>(pub IndexMap<String, T>);

impl<T> OrderedMap<T> {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for OrderedMap<T> {
    fn default() -> Self {
        Self(IndexMap::new())
    }
}

impl<T> Deref for OrderedMap<T> {
    type Target = IndexMap<String, T>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> DerefMut for OrderedMap<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<T> FromIterator<(String, T)> for OrderedMap<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl<T: Encode> Encode for OrderedMap<T> {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        (self.0.len() as u64).encode(encoder)?;
        for (name, value) in &self.0 {
            name.encode(encoder)?;
            value.encode(encoder)?;
        }
        Ok(())
    }
}

impl<C, T: Decode<C>> Decode<C> for OrderedMap<T> {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        // Not collected with the length as capacity: the length may be a lie.
        let n = u64::decode(decoder)?;
        let mut map = IndexMap::new();
        for _ in 0..n {
            let name = String::decode(decoder)?;
            map.insert(name, T::decode(decoder)?);
        }
        Ok(Self(map))
    }
}

impl<'de, C, T: Decode<C>> bincode::BorrowDecode<'de, C> for OrderedMap<T> {
    fn borrow_decode<D: bincode::de::BorrowDecoder<'de, Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Self::decode(decoder)
    }
}
