//! The vector of a text, by which texts of similar meaning are found.

use data_encoding::BASE64;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most numbers of a vector.
pub const EMBEDDING_DIMENSIONS_MAX: usize = 8_192;

/// The vector of a text, as a model made it, of length 1. Vectors of different models cannot be compared.
///
/// In JSON, the numbers are one text: base64 of 32-bit floats, little-endian.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Embedding {
    model: String,
    #[serde(serialize_with = "written", deserialize_with = "read")]
    vector: Vec<f32>,
}

impl Embedding {
    /// The vector that this model made. `None` for one without a direction: no numbers, zeros alone, a number that is not
    /// finite, or more than [`EMBEDDING_DIMENSIONS_MAX`] numbers.
    pub fn new(model: impl Into<String>, vector: &[f32]) -> Option<Self> {
        let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        if vector.len() > EMBEDDING_DIMENSIONS_MAX || !length.is_finite() || length == 0.0 {
            return None;
        }
        #[allow(clippy::cast_possible_truncation)] // numbers of at most 1
        let vector = vector.iter().map(|x| (f64::from(*x) / length) as f32).collect();
        Some(Self { model: model.into(), vector })
    }

    /// How similar the meaning is, from -1 to 1: the cosine of the angle. `None` if the two cannot be compared.
    pub(super) fn similarity(&self, other: &Self) -> Option<f64> {
        if self.model != other.model || self.vector.len() != other.vector.len() {
            return None;
        }
        Some(self.vector.iter().zip(&other.vector).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum())
    }
}

fn written<S: Serializer>(vector: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    serializer.serialize_str(&BASE64.encode(&bytes))
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = BASE64.decode(text.as_bytes()).map_err(D::Error::custom)?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(D::Error::custom("a vector whose last number is cut"));
    }
    Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
