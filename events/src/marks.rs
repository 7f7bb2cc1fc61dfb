//! Visible marks for characters that a reader cannot see, or that change the order or the place in which the rest is
//! drawn, and for long runs of blanks, which move what follows them out of sight. Everything that a person reads or approves in a terminal or a log is written through [`marked`]; the page does
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

/// Scripts beyond that which have no joiners: Chinese, Japanese, Korean, and the wide forms of others. In order, without
/// overlap; each range includes both ends.
const UNJOINED: &[(u32, u32)] = &[
    (0x1100, 0x11ff),
    (0x2e80, 0xa4cf),
    (0xa960, 0xa97f),
    (0xac00, 0xd7ff),
    (0xf900, 0xfaff),
    (0xff00, 0xffef),
    (0x2_0000, 0x3_ffff),
];

/// Blanks within a line, or line breaks, that are shown as they are; more are counted.
const BLANKS_MAX: usize = 8;
/// The same at the beginning of a line.
const INDENT_MAX: usize = 40;

/// Whether the character is marked wherever it does not join two that need it.
pub fn is_hidden(c: char) -> bool {
    is_in(HIDDEN, c)
}

fn is_in(ranges: &[(u32, u32)], c: char) -> bool {
    let code = u32::from(c);
    let place = |(first, last): &(u32, u32)| match (code < *first, code > *last) {
        (true, _) => Ordering::Greater,
        (_, true) => Ordering::Less,
        _ => Ordering::Equal,
    };
    ranges.binary_search_by(place).is_ok()
}

/// Whether the character is needed at its place: a joiner between two characters of a script that has joiners, or a
/// variation selector after a character that has variants.
fn joins(before: Option<char>, c: char, after: Option<char>) -> bool {
    let needs = |c: Option<char>| c.is_some_and(|c| u32::from(c) >= JOINED_FROM && !is_hidden(c));
    match c {
        '\u{200c}' | '\u{200d}' => {
            let joined = |c: Option<char>| needs(c) && c.is_some_and(|c| !is_in(UNJOINED, c));
            (joined(before) || before == Some('\u{fe0f}')) && joined(after)
        }
        '\u{fe00}'..='\u{fe0f}' => needs(before),
        _ => false,
    }
}

/// Whether the character is seen as nothing but room. One among other characters is shown as it is.
fn is_blank(c: char) -> bool {
    (c.is_whitespace() && !is_hidden(c)) || c == '\u{2800}'
}

fn needs_marks(text: &str) -> bool {
    let mut n_blanks = 0;
    text.chars().any(|c| {
        n_blanks = if is_blank(c) { n_blanks + 1 } else { 0 };
        n_blanks > BLANKS_MAX || is_hidden(c)
    })
}

/// How runs of what a reader cannot see are written.
trait Marks {
    /// A hidden character that is repeated `n` times.
    fn hidden(c: char, n: usize, shown: &mut String);
    /// All blanks between two other characters; `begins` where they begin the text.
    fn blanks(run: &str, begins: bool, shown: &mut String);
}

/// The text with marks. A line break of two characters becomes one.
fn replaced<M: Marks>(text: &str) -> Cow<'_, str> {
    if !needs_marks(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let (mut blanks, mut hidden) = (String::new(), None);
    let flush = |blanks: &mut String, hidden: &mut Option<(char, usize)>, shown: &mut String| {
        if !blanks.is_empty() {
            M::blanks(blanks, shown.is_empty(), shown);
            blanks.clear();
        }
        if let Some((c, n)) = hidden.take() {
            M::hidden(c, n, shown);
        }
    };
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let after = chars.peek().copied();
        let before = before.replace(c);
        if is_blank(c) {
            if hidden.is_some() {
                flush(&mut blanks, &mut hidden, &mut shown);
            }
            blanks.push(c);
        } else if !is_hidden(c) || joins(before, c, after) {
            flush(&mut blanks, &mut hidden, &mut shown);
            shown.push(c);
        } else if !(c == '\r' && after == Some('\n')) {
            let n = match hidden {
                Some((known, n)) if known == c => n,
                _ => {
                    flush(&mut blanks, &mut hidden, &mut shown);
                    0
                }
            };
            hidden = Some((c, n + 1));
        }
    }
    flush(&mut blanks, &mut hidden, &mut shown);
    Cow::Owned(shown)
}

/// Marks for people.
struct Visible;

impl Marks for Visible {
    fn hidden(c: char, n: usize, shown: &mut String) {
        let code = u32::from(c);
        shown.push_str(&if n == 1 { format!("⟨U+{code:04X}⟩") } else { format!("⟨{n}×U+{code:04X}⟩") });
    }

    fn blanks(run: &str, begins: bool, shown: &mut String) {
        let first_max = if begins { INDENT_MAX } else { BLANKS_MAX };
        let (Some(first), Some(last)) = (run.find('\n'), run.rfind('\n')) else {
            return within(run, first_max, shown);
        };
        within(&run[..first], first_max, shown);
        let breaks = &run[first..=last];
        if breaks.matches('\n').count() > BLANKS_MAX {
            shown.push_str(&counted(breaks));
            shown.push('\n');
        } else {
            for line in breaks.split_inclusive('\n') {
                within(line.trim_end_matches('\n'), INDENT_MAX, shown);
                shown.push('\n');
            }
        }
        within(&run[last + 1..], INDENT_MAX, shown);
    }
}

fn within(blanks: &str, n_max: usize, shown: &mut String) {
    if blanks.chars().count() > n_max {
        shown.push_str(&counted(blanks));
    } else {
        shown.push_str(blanks);
    }
}

/// The mark of a run of blanks.
fn counted(blanks: &str) -> String {
    let n = blanks.chars().count();
    let first = blanks.chars().next().filter(|first| blanks.chars().all(|c| c == *first));
    match first {
        Some(' ') => format!("⟨{n} spaces⟩"),
        Some('\t') => format!("⟨{n} tabs⟩"),
        Some('\n') => format!("⟨{n} newlines⟩"),
        Some(other) => format!("⟨{n}×U+{:04X}⟩", u32::from(other)),
        None => format!("⟨{n} blanks⟩"),
    }
}

/// Marks that leave JSON the same JSON.
struct Escapes;

impl Marks for Escapes {
    fn hidden(c: char, n: usize, shown: &mut String) {
        for _ in 0..n {
            escape(c, shown);
        }
    }

    /// A line break separates values; within a text it is shown inside a line.
    fn blanks(run: &str, _begins: bool, shown: &mut String) {
        if run.contains('\n') || run.chars().count() <= BLANKS_MAX {
            shown.push_str(run);
        } else {
            run.chars().for_each(|c| escape(c, shown));
        }
    }
}

fn escape(c: char, shown: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        shown.push_str(&format!("\\u{unit:04x}"));
    }
}

/// Returns the text with a visible mark for each run of a hidden character, such as `⟨U+202E⟩` or `⟨3×U+200B⟩`, and for
/// each long run of blanks, such as `⟨3000 spaces⟩`.
pub fn marked(text: &str) -> Cow<'_, str> {
    replaced::<Visible>(text)
}

/// Returns a value in which all texts and names are [`marked`].
pub fn marked_value(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => marked(text).into(),
        Value::Array(items) => items.iter().map(marked_value).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(name, value)| (marked(name).into_owned(), marked_value(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Returns an equivalent JSON document, with escapes for hidden characters and for long runs of blanks. Line breaks are
/// only between its values, as JSON is written.
pub fn marked_json(json: &str) -> Cow<'_, str> {
    replaced::<Escapes>(json)
}

#[cfg(test)]
mod tests;
