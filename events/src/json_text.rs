//! JSON text from outside, which may hold half of a surrogate pair (`"\ud83d"`): no Rust text can. Halves of one pair in
//! neighbouring pieces of a stream are joined; any other half is read as U+FFFD.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// Reads JSON. Halves of surrogate pairs and bytes that are no UTF-8 are read as U+FFFD; a byte order mark is skipped.
///
/// # Errors
/// The text is not JSON, or does not fit the type.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(bytes).or_else(|error| match mended(bytes) {
        Some(text) => serde_json::from_str(&text),
        None => Err(error),
    })
}

/// The text with U+FFFD in the place of each half; `None` if nothing has to be replaced.
pub fn mended(bytes: &[u8]) -> Option<String> {
    let unmarked = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let text = String::from_utf8_lossy(unmarked);
    let halves: Vec<Half> = halves(&text).collect();
    if halves.is_empty() && unmarked.len() == bytes.len() && matches!(text, Cow::Borrowed(_)) {
        return None;
    }
    let mut text = text.into_owned();
    for half in halves {
        text.replace_range(half.at..half.at + ESCAPE_BYTES, "\\ufffd");
    }
    Some(text)
}

/// Whether a string of the text ends with the first half of a pair, so that the second half may be in the next piece.
pub fn ends_in_a_pair(text: &str) -> bool {
    halves(text).any(|half| half.is_at_end(text))
}

/// Moves the first half of a pair from the end of a string of one piece to the beginning of a string of the next piece, if
/// that begins with the second half.
pub fn join(piece: &mut String, next: &mut String) {
    let first = halves(piece).find(|half| half.is_at_end(piece));
    let second = halves(next).find(|half| !half.is_first && next[..half.at].ends_with('"'));
    if let (Some(first), Some(second)) = (first, second) {
        let escape: String = piece.drain(first.at..first.at + ESCAPE_BYTES).collect();
        next.insert_str(second.at, &escape);
    }
}

/// The length of `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// An escape that is half of a pair, without the other half beside it.
#[derive(Debug, Clone, Copy)]
struct Half {
    at: usize,
    is_first: bool,
}

impl Half {
    fn is_at_end(self, text: &str) -> bool {
        self.is_first && text[self.at + ESCAPE_BYTES..].starts_with('"')
    }
}

fn halves(text: &str) -> impl Iterator<Item = Half> {
    let mut from = 0;
    std::iter::from_fn(move || {
        while let Some(at) = text[from..].find('\\').map(|at| from + at) {
            let Some(code) = escaped(text, at) else {
                // An escape of two characters, of which the second may be a backslash. Cut text has one.
                from = at + 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8);
                continue;
            };
            from = at + ESCAPE_BYTES;
            match code {
                0xd800..=0xdbff if matches!(escaped(text, from), Some(0xdc00..=0xdfff)) => from += ESCAPE_BYTES,
                0xd800..=0xdfff => return Some(Half { at, is_first: code < 0xdc00 }),
                _ => {}
            }
        }
        None
    })
}

/// The code of the escape `\uXXXX` at a place.
fn escaped(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + ESCAPE_BYTES)?.strip_prefix("\\u")?;
    // A sign is no digit.
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}
