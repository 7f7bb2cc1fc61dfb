//! Shortening a text to a number of tokens: head and tail stay, the middle goes, no character is cut.

use super::encoding::{Encoding, pieces};

/// A text that was shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncated {
    /// The text, with a mark where something is missing.
    pub text: String,
    /// How many bytes were left out; 0 when nothing was.
    pub bytes_left_out: usize,
}

/// The tokens kept for the mark.
const MARK_TOKENS: u64 = 16;

/// Shortens `text` to about `tokens_max` tokens, never more, keeping as much of the end as of the beginning. A limit
/// too small for the mark gives the beginning alone.
pub fn truncate(encoding: Encoding, text: &str, tokens_max: u64) -> Truncated {
    // No token is longer than its text, so a short text needs no counting.
    if text.len() as u64 <= tokens_max || encoding.count(text) <= tokens_max {
        return Truncated { text: text.to_owned(), bytes_left_out: 0 };
    }
    if tokens_max <= MARK_TOKENS * 2 {
        let head = head_end(encoding, text, tokens_max);
        return Truncated { text: text[..head].to_owned(), bytes_left_out: text.len() - head };
    }
    // A token at each cut may come out as two.
    let room = tokens_max - MARK_TOKENS - 2;
    let head = head_end(encoding, text, room - room / 2);
    let tail = tail_start(encoding, &text[head..], room / 2) + head;
    let bytes_left_out = tail - head;
    let text = format!("{}\n[… {bytes_left_out} bytes left out …]\n{}", &text[..head], &text[tail..]);
    Truncated { text, bytes_left_out }
}

/// The longest beginning of at most `tokens_max` tokens.
fn head_end(encoding: Encoding, text: &str, tokens_max: u64) -> usize {
    let mut left = tokens_max;
    let mut end = 0;
    for piece in pieces(text) {
        let count = encoding.count(piece);
        if count > left {
            return end
                + longest(piece.len(), |n| {
                    let n = piece.floor_char_boundary(n);
                    (encoding.count(&piece[..n]) <= left).then_some(n)
                });
        }
        left -= count;
        end += piece.len();
    }
    end
}

/// The start of the longest end of at most `tokens_max` tokens.
fn tail_start(encoding: Encoding, text: &str, tokens_max: u64) -> usize {
    let mut left = tokens_max;
    let mut start = text.len();
    let all: Vec<&str> = pieces(text).collect();
    for piece in all.into_iter().rev() {
        let count = encoding.count(piece);
        if count > left {
            return start
                - longest(piece.len(), |n| {
                    let from = piece.ceil_char_boundary(piece.len() - n);
                    (encoding.count(&piece[from..]) <= left).then_some(piece.len() - from)
                });
        }
        left -= count;
        start -= piece.len();
    }
    start
}

/// The greatest length up to `max` that `fits` accepts, by halving; `fits` gives the length that was really tried.
fn longest(max: usize, fits: impl Fn(usize) -> Option<usize>) -> usize {
    let (mut good, mut bad) = (0, max);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match fits(middle) {
            Some(length) if length > good => good = length,
            // Nothing between the last good length and here but the inside of a character.
            Some(_) => return good,
            None => bad = middle,
        }
    }
    good
}
