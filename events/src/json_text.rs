//! JSON text from outside, which may hold half of a surrogate pair (`"\ud83d"`): no Rust text can. A half is read as
//! U+FFFD.

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
    match with_halves(&text, |_| "\\ufffd".to_owned()) {
        Some(mended) => Some(mended),
        None if unmarked.len() == bytes.len() && matches!(text, Cow::Borrowed(_)) => None,
        None => Some(text.into_owned()),
    }
}

/// The text with something else in the place of each half, made of its four digits; `None` if there is no half.
pub fn with_halves(text: &str, made: impl Fn(&str) -> String) -> Option<String> {
    let mut out = String::new();
    let mut from = 0;
    for at in halves(text) {
        out.push_str(&text[from..at]);
        out.push_str(&made(&text[at + 2..at + ESCAPE_BYTES]));
        from = at + ESCAPE_BYTES;
    }
    (from > 0).then(|| out + &text[from..])
}

/// The length of `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// The places of the escapes that are half of a pair, without the other half beside them.
fn halves(text: &str) -> impl Iterator<Item = usize> {
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
                0xd800..=0xdfff => return Some(at),
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
