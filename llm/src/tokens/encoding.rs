//! The encodings, and the one way texts are counted with them.

use serde::{Deserialize, Serialize};

#[cfg(feature = "tokens")]
mod exact;
#[cfg(not(feature = "tokens"))]
#[path = "encoding/bytes.rs"]
mod exact;

/// A way to cut text into tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Encoding {
    /// GPT-3.5 and GPT-4.
    #[serde(rename = "cl100k_base")]
    Cl100kBase,
    /// GPT-4o and everything since.
    #[serde(rename = "o200k_base")]
    O200kBase,
}

/// Texts are counted in pieces of about this many bytes, cut where no token can reach across.
const PIECE_BYTES: usize = 4 << 10;
/// A piece without such a place is cut anywhere at this length; the count may then be off by a token. Longer runs
/// of blanks would exhaust the backtracking of the regular expression of the encodings.
const PIECE_BYTES_MAX: usize = 128 << 10;

impl Encoding {
    /// The encoding of a model, by its name; the newest for a model that is not OpenAI's.
    pub fn of_model(model: &str) -> Self {
        exact::of_model(model.rsplit('/').next().unwrap_or(model))
    }

    /// The name that OpenAI gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cl100kBase => "cl100k_base",
            Self::O200kBase => "o200k_base",
        }
    }

    /// Whether the encoding is loaded.
    pub(super) fn is_loaded(self) -> bool {
        exact::is_loaded(self)
    }

    /// The tokens of a text, uncached. Loading an encoding takes a good 100 ms, once per process.
    pub fn count(self, text: &str) -> u64 {
        exact::count(self, text)
    }
}

/// The text in pieces that can be counted apart.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, tail) = rest.split_at(piece_end(rest));
        rest = tail;
        Some(piece)
    })
}

/// Where the first piece ends: after a line end that no blank follows, or before a single space between a visible
/// character and a letter. In both encodings a token holds blanks only in front, or is nothing but blanks, so none
/// reaches across such a place.
fn piece_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.len() <= PIECE_BYTES {
        return bytes.len();
    }
    let last = bytes.len().min(PIECE_BYTES_MAX);
    for at in PIECE_BYTES..last {
        let before = bytes[at - 1];
        let here = bytes[at];
        // Punctuation takes the following line ends into its token, and then any slashes (o200k_base).
        if before == b'\n' && here.is_ascii_graphic() && here != b'/' {
            return at;
        }
        if here == b' ' && before.is_ascii_graphic() && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic) {
            return at;
        }
    }
    text.floor_char_boundary(last)
}
