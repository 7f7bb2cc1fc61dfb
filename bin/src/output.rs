//! Printing: data to stdout, talk to stderr, colours only where a person sees them.

use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use comfy_table::{ContentArrangement, Table, presets};
use rethread_events::marks::{marked, marked_json};
use serde_json::Value;
use tokio::sync::Notify;

use crate::exit::Failure;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

static COLOR: OnceLock<bool> = OnceLock::new();

/// Settles whether stderr is coloured. Called once, before anything is printed.
pub(crate) fn set_color(color: Color) {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let on = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto if set("NO_COLOR") => false,
        Color::Auto => set("CLICOLOR_FORCE") || io::stderr().is_terminal(),
    };
    let _ = COLOR.set(on);
}

/// Whether stderr is a terminal or a pipe. A file and the journal of the system can be read later, also by tools.
pub(crate) fn stderr_is_terminal_or_pipe() -> bool {
    let stderr = io::stderr();
    let is_pipe = || {
        let file = File::from(stderr.as_fd().try_clone_to_owned()?);
        Ok::<_, io::Error>(file.metadata()?.file_type().is_fifo())
    };
    stderr.is_terminal() || is_pipe().unwrap_or(false)
}

fn styled(style: Style, text: impl Display) -> String {
    if *COLOR.get().unwrap_or(&false) { format!("{style}{text}{style:#}") } else { text.to_string() }
}

pub(crate) fn red(text: impl Display) -> String {
    styled(AnsiColor::Red.on_default().bold(), text)
}

pub(crate) fn green(text: impl Display) -> String {
    styled(AnsiColor::Green.on_default(), text)
}

pub(crate) fn yellow(text: impl Display) -> String {
    styled(AnsiColor::Yellow.on_default(), text)
}

pub(crate) fn cyan(text: impl Display) -> String {
    styled(AnsiColor::Cyan.on_default(), text)
}

pub(crate) fn dim(text: impl Display) -> String {
    styled(Style::new().dimmed(), text)
}

pub(crate) fn bold(text: impl Display) -> String {
    styled(Style::new().bold(), text)
}

/// The columns and lines of the terminal that talk goes to; 80 and 24 where it does not say.
pub(crate) fn screen() -> (usize, usize) {
    match terminal_size::terminal_size_of(io::stderr()) {
        Some((width, height)) if width.0 > 0 && height.0 > 0 => (usize::from(width.0), usize::from(height.0)),
        _ => (80, 24),
    }
}

/// A line of talk.
pub(crate) fn print_message(text: &str) {
    // If stderr is closed, there is no other place to report it.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints an error to stderr, line by line.
pub(crate) fn print_error(message: &str) {
    print_message(&format!("{}: {}", red("error"), sanitize_lines(message)));
}

/// Notified when stdout was closed.
static STDOUT_CLOSED: Notify = Notify::const_new();

static HAS_PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether any data was printed.
pub(crate) fn has_printed() -> bool {
    HAS_PRINTED.load(Ordering::Relaxed)
}

/// A line of data. A reader that went away, as `head` does, ends the command without a word.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    put(format_args!("{text}\n"))
}

fn put(text: fmt::Arguments<'_>) -> Result<(), Failure> {
    HAS_PRINTED.store(true, Ordering::Relaxed);
    match io::stdout().write_fmt(text).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            STDOUT_CLOSED.notify_one();
            Err(Failure::stdout_closed(0))
        }
        other => Ok(other?),
    }
}

/// Waits until a line could not be printed because stdout was closed.
pub(crate) async fn stdout_closed() {
    STDOUT_CLOSED.notified().await;
}

/// One JSON document for people and scripts.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    if io::stdout().is_terminal() { print(marked_json(&format!("{value:#}"))) } else { print(value) }
}

/// One JSON document on a line of its own.
pub(crate) fn print_line(value: &Value) -> Result<(), Failure> {
    if io::stdout().is_terminal() { print(marked_json(&value.to_string())) } else { print(value) }
}

/// Text that is data: as it is for a program, with visible marks for hidden characters on a terminal.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { print(marked(text)) } else { print(text) }
}

/// Where JSON documents are written one on a line. On a terminal hidden characters are escapes in equal documents.
pub(crate) fn json_lines() -> Box<dyn Write + Send> {
    let stdout = BufWriter::new(io::stdout());
    if io::stdout().is_terminal() { Box::new(MarkedLines { to: stdout, line: Vec::new() }) } else { Box::new(stdout) }
}

/// Marks hidden characters line by line.
struct MarkedLines<W> {
    to: W,
    /// The line that has not ended.
    line: Vec<u8>,
}

impl<W: Write> Write for MarkedLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.to.write_all(marked_json(&String::from_utf8_lossy(&line)).as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A piece of a text, as it comes, with visible marks for hidden characters on a terminal.
pub(crate) fn print_piece(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { put(format_args!("{}", marked(text))) } else { put(format_args!("{text}")) }
}

/// Text from outside (a model, a tool, a file) on one line, with visible marks for hidden characters, cut to
/// `chars_max`.
pub(crate) fn sanitize(text: &str, chars_max: usize) -> String {
    let n_read = text.char_indices().nth(chars_max).map_or(text.len(), |(at, _)| at);
    // A run of blanks is counted whole.
    let n_read = text.len() - text[n_read..].trim_start().len();
    let mut tamed = String::new();
    let mut n = 0;
    for c in marked(&text[..n_read]).chars().map(|c| if c.is_whitespace() { ' ' } else { c }) {
        if c == ' ' && tamed.ends_with(' ') {
            continue;
        }
        if n == chars_max {
            tamed.push('…');
            return tamed;
        }
        tamed.push(c);
        n += 1;
    }
    if n_read < text.len() {
        tamed.push('…');
    }
    tamed
}

/// The same with the spaces that it begins with.
pub(crate) fn sanitize_indented(text: &str, chars_max: usize) -> String {
    let inner = text.trim_start_matches(' ');
    let n_spaces = text.len() - inner.len();
    format!("{:n_spaces$}{}", "", sanitize(inner, chars_max.saturating_sub(n_spaces).max(1)))
}

/// Text from outside for a terminal, line by line, with visible marks for hidden characters.
pub(crate) fn sanitize_lines(text: &str) -> String {
    marked(text).into_owned()
}

/// A number of things, in words: `1 thread`, `2 threads`.
pub(crate) fn count(n: impl TryInto<u64>, one: &str, many: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Columns under a head, without frames.
pub(crate) fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.to_vec());
    for row in rows {
        table.add_row(row);
    }
    table.to_string().lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

/// A duration as people say it.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}
