//! Replaces the encodings in a program without the feature `tokens`.

use super::Encoding;

pub(super) fn of_model(_: &str) -> Encoding {
    Encoding::O200kBase
}

pub(super) fn is_loaded(_: Encoding) -> bool {
    true
}

/// The most that it can be: a token has a byte at least. Limits that rest on it hold, and are reached early.
pub(super) fn count(_: Encoding, text: &str) -> u64 {
    text.len() as u64
}
