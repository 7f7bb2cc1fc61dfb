//! Visible marks for characters that a reader cannot see, or that change the order or the place in which the rest is
//! drawn. Everything that a person reads or approves in a terminal or a log is written through [`marked`]; the page does
//! the same in `bin/src/serve/page/marks.mjs`. Both are tested on one table of cases, `events/tests/marks.json`.

use std::borrow::Cow;
use std::cmp::Ordering;

/// Characters that are marked: control characters but line feed and tab, characters that set the direction of text, and
/// those that Unicode calls default ignorable. In order, without overlap; each range includes both ends.
const HIDDEN: &[(u32, u32)] = &[
    (0x00, 0x08),
    (0x0b, 0x1f),
    (0x7f, 0x9f),
    (0xad, 0xad),
    (0x034f, 0x034f),
    (0x061c, 0x061c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xd800, 0xdfff),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0000, 0xe_0fff),
];

/// From here on, scripts and emoji need joiners and variation selectors to be written at all. Latin, Greek, Cyrillic and
/// all that a shell or a path is made of come before.
const JOINED_FROM: u32 = 0x0600;

/// Whether the character is marked wherever it does not join two that need it.
pub fn is_hidden(c: char) -> bool {
    let code = u32::from(c);
    HIDDEN
        .binary_search_by(|(first, last)| match (code < *first, code > *last) {
            (true, _) => Ordering::Greater,
            (_, true) => Ordering::Less,
            _ => Ordering::Equal,
        })
        .is_ok()
}

/// Whether the character is needed where it stands: a joiner between two characters of a script that has joiners, or a
/// variation selector after a character that has variants.
fn joins(before: Option<char>, c: char, after: Option<char>) -> bool {
    let needs = |c: Option<char>| c.is_some_and(|c| u32::from(c) >= JOINED_FROM && !is_hidden(c));
    match c {
        '\u{200c}' | '\u{200d}' => (needs(before) || before == Some('\u{fe0f}')) && needs(after),
        '\u{fe00}'..='\u{fe0f}' => needs(before),
        _ => false,
    }
}

/// The text with `mark` in the place of each hidden character. A line break of two characters becomes one.
pub fn replaced(text: &str, mark: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let after = chars.peek().copied();
        if !is_hidden(c) || joins(before, c, after) {
            shown.push(c);
        } else if !(c == '\r' && after == Some('\n')) {
            mark(c, &mut shown);
        }
        before = Some(c);
    }
    Cow::Owned(shown)
}

/// The text with a visible mark, such as `⟨U+202E⟩`, in the place of each hidden character.
pub fn marked(text: &str) -> Cow<'_, str> {
    replaced(text, |c, shown| shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(c))))
}

/// A JSON document that means the same, with an escape in the place of each hidden character.
pub fn marked_json(json: &str) -> Cow<'_, str> {
    replaced(json, |c, shown| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            shown.push_str(&format!("\\u{unit:04x}"));
        }
    })
}

#[cfg(test)]
mod tests;
