//! `read_file`: some lines of a text file.

mod raw;

use std::io::{BufRead, BufReader, Read};

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::workspace::shown;
use crate::{Tool, ToolContext, ToolOutput};

/// The default number of lines in an answer.
const N_LINES_DEFAULT: u64 = 2_000;
/// How many lines one answer has at most.
const N_LINES_MAX: u64 = 20_000;
/// The bytes of text in one answer.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// The bytes of one line that are shown.
const LINE_BYTES_MAX: usize = 4_000;
/// How far into a file lines are counted.
const SCAN_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How much of the beginning is read to distinguish text from binary files.
const SNIFF_BYTES: usize = 8 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The file, relative to the workspace.
    path: String,
    /// The first line to read; 1 is the first of the file.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    offset: u64,
    /// How many lines to read; 2000 when left out, with `raw` all of them.
    #[serde(default)]
    #[schemars(range(min = 1, max = N_LINES_MAX))]
    limit: Option<u64>,
    /// The text exactly as it is in the file, without line numbers and notes. It is an error when it is longer than
    /// 1 MiB or not UTF-8.
    #[serde(default)]
    raw: bool,
}

fn one() -> u64 {
    1
}

/// The tool `read_file`: lines of a text file with their numbers, or as they are in the file (`raw`). Reads no more of
/// the file than it shows and what comes before it, at most 256 MiB.
pub fn read_file() -> Tool {
    Tool::from_blocking_fn(
        "read_file",
        "Reads a text file of the workspace. Every line is shown as its number, a tab and its text. Long files are \
         read in pieces: the last line of the answer says where to go on. With `raw` the text is as in the file, without \
         numbers.",
        |args: Args, cx| read(&args, &cx),
    )
    .recovery(Recovery::Safe)
    .timeout_ms(30_000)
    .output_bytes_max(2 * TEXT_BYTES_MAX)
}

/// Lines of a file in the workspace of the context.
pub(crate) fn read_file_of(
    path: &str,
    offset: u64,
    limit: u64,
    cx: &ToolContext,
) -> Result<ToolOutput, ExecutionError> {
    read(&Args { path: path.to_owned(), offset, limit: Some(limit), raw: false }, cx)
}

fn read(args: &Args, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let place = cx.workspace.resolve(&args.path)?;
    let (file, metadata) = cx.workspace.open_file(&place)?;
    let path = shown(&place.relative);
    let failed =
        |error: std::io::Error| ExecutionError::new(ErrorKind::Failed, format!("`{path}` cannot be read: {error}"));
    let mut file = BufReader::with_capacity(64 * 1024, file.take(SCAN_BYTES_MAX));
    let is_empty = metadata.len() == 0 && file.fill_buf().map_err(failed)?.is_empty();
    if is_empty && !args.raw {
        return Ok(ToolOutput::text("[the file is empty]"));
    }
    let beginning = file.fill_buf().map_err(failed)?;
    if let Some(what) = not_text(&beginning[..beginning.len().min(SNIFF_BYTES)]) {
        return Err(ExecutionError::new(
            ErrorKind::InvalidArguments,
            format!("`{path}` is {what}, {} bytes, and cannot be read as text", metadata.len()),
        ));
    }

    if args.raw {
        let answer = raw::read(args, &mut file, &path, cx);
        if file.get_ref().limit() == 0 {
            let message = format!("`{path}` is longer than {SCAN_BYTES_MAX} bytes, the limit of this tool");
            return Err(ExecutionError::new(ErrorKind::TooLarge, message));
        }
        return answer;
    }
    let limit = args.limit.unwrap_or(N_LINES_DEFAULT);
    let mut answer = Answer::default();
    let mut line = Line::default();
    let mut number = 0;
    let end = loop {
        cx.check()?;
        if !line.read(&mut file, cx).map_err(failed)? {
            break End::OfFile;
        }
        number += 1;
        if number < args.offset {
            continue;
        }
        if number - args.offset == limit || !answer.add(number, &line) {
            break End::OfAnswer;
        }
    };
    let scanned_all = file.get_ref().limit() > 0;
    cx.check()?;

    match end {
        End::OfAnswer => {
            answer.note(&format!("the file goes on; continue with offset {number}"));
        }
        End::OfFile if !scanned_all => {
            if answer.n_lines == 0 {
                return Err(ExecutionError::new(
                    ErrorKind::TooLarge,
                    format!(
                        "line {} of `{path}` is beyond the first {SCAN_BYTES_MAX} bytes, the limit of this \
                         tool; look for what you need with search_text",
                        args.offset
                    ),
                ));
            }
            answer.note(&format!("the file goes on after {SCAN_BYTES_MAX} bytes, too far for this tool"));
        }
        End::OfFile if answer.n_lines == 0 => {
            return Err(ExecutionError::new(
                ErrorKind::InvalidArguments,
                format!("`{path}` has {number} lines; offset {} is after its end", args.offset),
            ));
        }
        End::OfFile => {}
    }
    if answer.n_lines_cut > 0 {
        answer.note(&format!("{} lines are longer than {LINE_BYTES_MAX} bytes and were cut", answer.n_lines_cut));
    }
    if answer.n_invalid > 0 {
        answer.note(&format!("{} lines are not valid UTF-8; what is not is shown as \u{fffd}", answer.n_invalid));
    }
    Ok(ToolOutput::text(answer.text))
}

enum End {
    OfFile,
    OfAnswer,
}

#[derive(Default)]
struct Answer {
    text: String,
    n_lines: u64,
    n_lines_cut: u64,
    n_invalid: u64,
}

impl Answer {
    /// Adds a line, unless there is no room for it.
    fn add(&mut self, number: u64, line: &Line) -> bool {
        let bytes = line.bytes.strip_suffix(b"\r").unwrap_or(&line.bytes);
        // A character that was cut in two is no fault of the file.
        let bytes = if line.is_cut { whole_characters(bytes) } else { bytes };
        if self.n_lines > 0 && self.text.len() + bytes.len() > TEXT_BYTES_MAX {
            return false;
        }
        let text = String::from_utf8_lossy(bytes);
        self.n_invalid += u64::from(matches!(text, std::borrow::Cow::Owned(_)));
        self.n_lines += 1;
        self.n_lines_cut += u64::from(line.is_cut);
        self.text.push_str(&format!("{number}\t{text}{}\n", if line.is_cut { "…" } else { "" }));
        true
    }

    fn note(&mut self, note: &str) {
        self.text.push_str(&format!("[{note}]\n"));
    }
}

/// The bytes without a character at the end that has lost its last part.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// The beginning of a line of any length.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Line {
    /// Reads to the end of the line, and stores its first bytes. Returns false at the end of the file. Stops in the
    /// middle when the call is cancelled.
    fn read(&mut self, file: &mut impl BufRead, cx: &ToolContext) -> std::io::Result<bool> {
        self.bytes.clear();
        self.is_cut = false;
        let mut begun = false;
        while !cx.cancel.is_cancelled() {
            let buffer = file.fill_buf()?;
            if buffer.is_empty() {
                return Ok(begun);
            }
            begun = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            let room = LINE_BYTES_MAX - self.bytes.len();
            self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            self.is_cut |= piece.len() > room;
            let n_used = end.map_or(buffer.len(), |end| end + 1);
            file.consume(n_used);
            if end.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the file type, if its beginning shows that it is no text.
fn not_text(beginning: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 9] = [
        (b"\xff\xfe", "UTF-16 text"),
        (b"\xfe\xff", "UTF-16 text"),
        (b"\x89PNG", "a PNG picture"),
        (b"\xff\xd8\xff", "a JPEG picture"),
        (b"GIF8", "a GIF picture"),
        (b"%PDF-", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"\x7fELF", "a program"),
    ];
    let known = KINDS.iter().find(|(magic, _)| beginning.starts_with(magic)).map(|(_, what)| *what);
    known.or_else(|| beginning.contains(&0).then_some("a binary file"))
}

#[cfg(test)]
mod tests;
