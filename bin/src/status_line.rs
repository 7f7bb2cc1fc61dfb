//! The line at the bottom of a terminal that shows the progress, while other lines are printed above it.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;
use unicode_width::UnicodeWidthChar;

use crate::output;

/// How often the line is redrawn.
const TICK: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// To the begin of the line, and nothing on it.
const CLEAR: &str = "\r\x1b[2K";
/// Columns that stay free: a terminal writes `^C` after the line, which must not begin another one, because only one
/// is cleared.
const FREE: usize = 4;
/// The columns of a terminal that does not say how many it has.
const USUAL: usize = 80;

/// The line that is shown, for code that exits the process.
static SHOWN: Mutex<Weak<Mutex<Screen>>> = Mutex::new(Weak::new());

/// A line that stays at the bottom until this is dropped. One at a time.
pub(crate) struct StatusLine {
    screen: Arc<Mutex<Screen>>,
    ticking: AbortHandle,
}

struct Screen {
    out: Box<dyn Write + Send>,
    columns: fn() -> usize,
    since: Instant,
    n_drawn: usize,
    text: String,
    is_shown: bool,
}

impl StatusLine {
    /// Shows the line on stderr, in an async runtime.
    pub(crate) fn show() -> Self {
        let screen = Arc::new(Mutex::new(Screen::new(Box::new(io::stderr()), columns_of_stderr)));
        *lock(&SHOWN) = Arc::downgrade(&screen);
        let drawn = screen.clone();
        let ticking = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(TICK);
            loop {
                ticks.tick().await;
                lock(&drawn).draw("");
            }
        });
        Self { screen, ticking: ticking.abort_handle() }
    }

    /// Prints a line above it.
    pub(crate) fn print(&self, line: &str) {
        lock(&self.screen).draw(&format!("{line}\n"));
    }

    /// Sets the text that is drawn after the time. Without line breaks and control characters.
    pub(crate) fn set(&self, text: String) {
        lock(&self.screen).text = text;
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.ticking.abort();
        lock(&self.screen).clear();
    }
}

/// Clears the line, if one is shown: the program ends, or prints something else.
pub(crate) fn clear() {
    let shown = lock(&SHOWN).upgrade();
    if let Some(screen) = shown {
        lock(&screen).clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn columns_of_stderr() -> usize {
    terminal_size::terminal_size_of(io::stderr()).map_or(USUAL, |(width, _)| usize::from(width.0))
}

impl Screen {
    fn new(out: Box<dyn Write + Send>, columns: fn() -> usize) -> Self {
        Self { out, columns, since: Instant::now(), n_drawn: 0, text: String::new(), is_shown: true }
    }

    /// Draws `above`, then the line below it, in one write, so that it is never half visible.
    fn draw(&mut self, above: &str) {
        if !self.is_shown {
            return self.write(above);
        }
        let frame = FRAMES[self.n_drawn % FRAMES.len()];
        self.n_drawn += 1;
        let seconds = self.since.elapsed().as_secs();
        let elapsed = if seconds < 60 { format!("{seconds} s") } else { output::duration(seconds * 1_000) };
        let line = format!("{frame} {elapsed}{}", self.text);
        let line = fit(&line, (self.columns)().saturating_sub(FREE));
        self.write(&format!("{CLEAR}{above}{line}"));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.write(CLEAR);
        }
    }

    fn write(&mut self, text: &str) {
        // If the terminal is closed, there is no other place to report it.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

/// Returns the part of the text that fits this many columns.
fn fit(text: &str, columns: usize) -> String {
    let width = |c: char| c.width().unwrap_or(0);
    if text.chars().map(width).sum::<usize>() <= columns {
        return text.to_owned();
    }
    let mut taken = 0;
    let mut fitting: String = text
        .chars()
        .take_while(|c| {
            taken += width(*c);
            taken < columns
        })
        .collect();
    if columns > 0 {
        fitting.push('…');
    }
    fitting
}

#[cfg(test)]
mod tests;
