//! `search_text`: lines that match a pattern.

use std::io::{self, Read};
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::walk::{Kind, Options, Walk};
use crate::workspace::shown;
use crate::{Tool, ToolContext, ToolOutput};

/// The default number of matching lines in an answer.
const N_MATCHES_DEFAULT: usize = 200;
/// How many matching lines one answer has at most.
const N_MATCHES_MAX: usize = 2_000;
/// The bytes of text in one answer.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// The bytes of one line that are shown.
const LINE_BYTES_MAX: usize = 500;
/// The bytes of one file that are searched.
const FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// The memory for one line; a file with a longer one is given up.
const HEAP_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The memory of the compiled pattern.
const PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// A regular expression, as of ripgrep: no look-around, no back references.
    #[schemars(length(min = 1, max = 10_000))]
    pattern: String,
    /// The folder or file to search, relative to the workspace; all of it when left out.
    #[serde(default)]
    path: String,
    /// Only files whose path fits this pattern, for example `*.rs` or `src/**/*.ts`.
    #[serde(default)]
    #[schemars(length(max = 1_000))]
    glob: Option<String>,
    /// Take the pattern as plain text.
    #[serde(default)]
    literal: bool,
    /// Take upper and lower case as the same.
    #[serde(default)]
    ignore_case: bool,
    /// How many lines to show around each match.
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: usize,
    /// How many matching lines to show.
    #[serde(default = "n_matches_default")]
    #[schemars(range(min = 1, max = N_MATCHES_MAX))]
    limit: usize,
    /// Also search what ignore files name.
    #[serde(default)]
    all: bool,
}

fn n_matches_default() -> usize {
    N_MATCHES_DEFAULT
}

/// The tool `search_text`: matching lines of the files in a folder, ignore files respected, binary files passed over.
/// What does not fit into the limits is said at the end of the answer.
pub fn search_text() -> Tool {
    Tool::from_blocking_fn(
        "search_text",
        "Searches the text files of the workspace for a regular expression. Each matching line is shown as \
         `path:line:text`, lines around it as `path-line-text`. Binary and ignored files are passed over.",
        |args: Args, cx| search(&args, &cx),
    )
    .recovery(Recovery::Safe)
    .timeout_ms(60_000)
    .concurrency_max(4)
    .output_bytes_max(2 * TEXT_BYTES_MAX)
}

fn search(args: &Args, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build(&args.pattern)
        .map_err(|error| invalid_pattern("pattern", error))?;
    let glob = args.glob.as_deref().map(|glob| file_pattern("glob", glob)).transpose()?;
    let place = cx.workspace.resolve(&args.path)?;

    let mut search = Search {
        matcher,
        searcher: SearcherBuilder::new()
            .line_number(true)
            .before_context(args.context)
            .after_context(args.context)
            .heap_limit(Some(HEAP_BYTES_MAX))
            .binary_detection(BinaryDetection::quit(0))
            .build(),
        cancel: cx.cancel.clone(),
        found: Found { n_left: args.limit, ..Found::default() },
    };
    let is_file = place.exists && cx.workspace.dir().metadata(place.as_path()).is_ok_and(|metadata| !metadata.is_dir());
    if is_file {
        let (file, _) = cx.workspace.open_file(&place)?;
        search.file(file, &place.relative);
        cx.check()?;
    } else {
        let options = Options { depth_max: usize::MAX, all: args.all };
        let mut walk = Walk::new(&cx.workspace, &place, options)?;
        for entry in walk.by_ref() {
            cx.check()?;
            if entry.kind != Kind::File {
                continue;
            }
            let below = entry.path.strip_prefix(&place.relative).unwrap_or(&entry.path);
            if glob.as_ref().is_some_and(|glob| !fits(glob, below)) {
                continue;
            }
            match entry.open() {
                Ok((file, _)) => search.file(file, &entry.path),
                Err(_) => search.found.n_unreadable += 1,
            }
            if search.found.is_full {
                break;
            }
        }
        search.found.n_unreadable += walk.n_unreadable + walk.n_left_out;
    }
    cx.check()?;
    Ok(search.found.into_output(args.limit))
}

fn invalid_pattern(what: &str, error: impl std::fmt::Display) -> ExecutionError {
    ExecutionError::new(ErrorKind::InvalidArguments, format!("`{what}` cannot be used: {error}"))
}

/// A pattern of file names as people write them: `*` stays within a name, `**` does not.
pub(super) fn file_pattern(name: &str, pattern: &str) -> Result<GlobMatcher, ExecutionError> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).empty_alternates(true).build();
    Ok(glob.map_err(|error| invalid_pattern(name, error))?.compile_matcher())
}

/// A pattern without a `/` speaks of the name alone, wherever the file is.
pub(super) fn fits(glob: &GlobMatcher, path: &Path) -> bool {
    if glob.glob().glob().contains('/') {
        return glob.is_match(path);
    }
    path.file_name().is_some_and(|name| glob.is_match(Path::new(name)))
}

struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
    cancel: CancellationToken,
    found: Found,
}

impl Search {
    fn file(&mut self, file: impl Read, path: &Path) {
        let file = Guarded { file, n_left: FILE_BYTES_MAX, cancel: &self.cancel };
        let mut lines = Lines { found: &mut self.found, path: shown(path) };
        if self.searcher.search_reader(&self.matcher, file, &mut lines).is_err() {
            self.found.n_given_up += 1;
        }
    }
}

/// The matches so far.
#[derive(Default)]
struct Found {
    text: String,
    /// How many matching lines there is room for.
    n_left: usize,
    /// No room for more: there may be more.
    is_full: bool,
    n_unreadable: u64,
    /// Files that were searched in part.
    n_given_up: u64,
}

impl Found {
    fn line(&mut self, path: &str, mark: char, number: Option<u64>, bytes: &[u8]) {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let is_cut = bytes.len() > LINE_BYTES_MAX;
        let line = String::from_utf8_lossy(&bytes[..bytes.len().min(LINE_BYTES_MAX)]);
        let line = if is_cut { line.trim_end_matches('\u{fffd}') } else { &line };
        let number = number.unwrap_or(0);
        self.text.push_str(&format!("{path}{mark}{number}{mark}{line}"));
        self.text.push_str(if is_cut { "…\n" } else { "\n" });
        if self.text.len() > TEXT_BYTES_MAX {
            self.is_full = true;
        }
    }

    fn into_output(self, n_matches_max: usize) -> ToolOutput {
        let mut text = self.text;
        if text.is_empty() {
            text.push_str("[nothing found]\n");
        }
        if self.is_full {
            text.push_str(&format!(
                "[stopped at {} matching lines; there may be more: narrow the pattern, path or glob]\n",
                n_matches_max - self.n_left
            ));
        }
        if self.n_given_up > 0 {
            text.push_str(&format!(
                "[{} files were searched in part: a line over {HEAP_BYTES_MAX} bytes, or a file over \
                 {FILE_BYTES_MAX}]\n",
                self.n_given_up
            ));
        }
        if self.n_unreadable > 0 {
            text.push_str(&format!("[{} files or folders cannot be read]\n", self.n_unreadable));
        }
        ToolOutput::text(text)
    }
}

/// Takes what the searcher finds in one file.
struct Lines<'a> {
    found: &'a mut Found,
    path: String,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.found.n_left == 0 {
            self.found.is_full = true;
            return Ok(false);
        }
        self.found.n_left -= 1;
        self.found.line(&self.path, ':', found.line_number(), found.bytes());
        Ok(!self.found.is_full)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.found.line(&self.path, '-', context.line_number(), context.bytes());
        Ok(!self.found.is_full)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.found.text.push_str("--\n");
        Ok(true)
    }
}

/// A file whose read ends when the call is cancelled and fails when it is too long.
struct Guarded<'a, R> {
    file: R,
    n_left: u64,
    cancel: &'a CancellationToken,
}

impl<R: Read> Read for Guarded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Ok(0);
        }
        let n_read = self.file.read(buffer)?;
        self.n_left =
            self.n_left.checked_sub(n_read as u64).ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        Ok(n_read)
    }
}

#[cfg(test)]
mod tests;
