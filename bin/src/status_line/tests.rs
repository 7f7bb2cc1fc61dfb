//! What is left on a terminal.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

const COLUMNS: usize = 30;

/// A terminal that wraps, and knows what the line uses.
#[derive(Default)]
struct Terminal {
    rows: Vec<Vec<char>>,
}

impl Terminal {
    fn obey(&mut self, text: &str) {
        if self.rows.is_empty() {
            self.rows.push(Vec::new());
        }
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let Some(row) = self.rows.last_mut() else { return };
            match c {
                '\n' => self.rows.push(Vec::new()),
                // Always followed by what clears the row.
                '\r' => {}
                '\x1b' => {
                    assert_eq!(chars.by_ref().take(3).collect::<String>(), "[2K");
                    row.clear();
                }
                c => {
                    // A wide character takes two columns.
                    let width = c.width().unwrap_or(0);
                    let has_room = row.len() + width <= COLUMNS;
                    let row = if has_room { row } else { self.rows.push_mut(Vec::new()) };
                    row.push(c);
                    row.extend((1..width).map(|_| '\0'));
                }
            }
        }
    }

    fn shown(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.iter().filter(|c| **c != '\0').collect()).collect()
    }
}

struct Pipe(Sender<String>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(String::from_utf8_lossy(bytes).into_owned()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn screen() -> (Screen, Receiver<String>) {
    let (sender, written) = channel();
    (Screen::new(Box::new(Pipe(sender)), || COLUMNS), written)
}

#[test]
fn long_status_takes_one_line_and_is_removed() {
    for text in [", waiting for the model and for some more", "  漢字漢字漢字漢字漢字漢字漢字", ", short"]
    {
        let (mut screen, written) = screen();
        let mut terminal = Terminal::default();
        screen.text = text.to_owned();
        screen.draw("");
        screen.draw("first\n");
        screen.draw("");
        terminal.obey(&written.try_iter().collect::<String>());
        assert_eq!(terminal.shown().len(), 2, "{:?}", terminal.shown());
        assert!(terminal.shown()[1].starts_with("⠹ 0 s"), "{:?}", terminal.shown());
        screen.clear();
        screen.draw("last\n");
        terminal.obey(&written.try_iter().collect::<String>());
        assert_eq!(terminal.shown(), ["first", "last", ""]);
    }
}

#[test]
fn interrupt_mark_is_cleared_with_the_line() {
    let (mut screen, written) = screen();
    let mut terminal = Terminal::default();
    screen.text = ", waiting for the model and for some more".to_owned();
    screen.draw("");
    terminal.obey(&written.try_iter().collect::<String>());
    terminal.obey("^C");
    screen.clear();
    terminal.obey(&written.try_iter().collect::<String>());
    assert_eq!(terminal.shown(), [""]);
}

#[test]
fn text_is_cut_to_the_columns_it_takes() {
    assert_eq!(fit("abc", 3), "abc");
    assert_eq!(fit("abcd", 3), "ab…");
    assert_eq!(fit("漢字漢字", 8), "漢字漢字");
    assert_eq!(fit("漢字漢字", 7), "漢字漢…");
    assert_eq!(fit("漢字漢字", 6), "漢字…");
    assert_eq!(fit("abc", 1), "…");
    assert_eq!(fit("abc", 0), "");
}
