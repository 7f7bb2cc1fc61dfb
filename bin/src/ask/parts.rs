//! A long text in parts that fit a screen, so that no line of it leaves the screen unread.

/// The lines that stay free: for what is asked below a part, and what is typed.
const LINES_FREE: usize = 4;
/// From here on, a character may take two columns.
const WIDE_FROM: char = '\u{1100}';
/// The columns between stops of tabs.
const TAB: usize = 8;

/// Splits the text for a terminal of this size into parts, at least one. Joined they are the text.
pub(super) fn of(text: &str, columns: usize, lines: usize) -> Vec<&str> {
    let (columns, lines_max) = (columns.max(TAB), lines.saturating_sub(LINES_FREE).max(1));
    let (mut parts, mut begin, mut line, mut column) = (Vec::new(), 0, 0, 0);
    for (at, c) in text.char_indices() {
        let width = match c {
            '\t' => TAB,
            c if c >= WIDE_FROM => 2,
            _ => 1,
        };
        if column + width > columns {
            (line, column) = (line + 1, 0);
        }
        if line == lines_max {
            parts.push(&text[begin..at]);
            (begin, line) = (at, 0);
        }
        if c == '\n' {
            (line, column) = (line + 1, 0);
        } else {
            column += width;
        }
    }
    parts.push(&text[begin..]);
    parts
}

#[cfg(test)]
mod tests;
