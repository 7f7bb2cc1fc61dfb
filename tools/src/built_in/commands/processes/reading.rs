//! `read_process`: what is new in the output of a background process.

use std::time::Duration;

use regex::bytes::{Regex, RegexBuilder};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::json::Json;
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;

use super::value;
use crate::process::State;
use crate::{Processes, Tool, ToolContext, ToolOutput};

/// The bytes of output that one call searches.
const BYTES_MAX: usize = 64 * 1024;
/// How long a call may wait for output.
const WAIT_MS_MAX: u64 = 120_000;
/// The memory of the compiled pattern.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The id that start_process gave.
    id: String,
    /// Show only lines that match this regular expression. The others count as read too.
    #[serde(default)]
    #[schemars(length(min = 1, max = 10_000))]
    filter: Option<String>,
    /// How long to wait, in milliseconds, when there is nothing new yet; with a filter, until a line matches.
    #[serde(default)]
    #[schemars(range(max = WAIT_MS_MAX))]
    wait_ms: u64,
}

/// The tool `read_process`: what a background process printed since the last call, standard output and error as they
/// came.
///
/// It is `idempotent`: a call that is repeated under its key because its answer was lost reads the same again.
pub fn read_process(processes: &Processes) -> Tool {
    let processes = processes.clone();
    Tool::from_fn(
        "read_process",
        "Reads what a background process has printed since it was last read, and says whether it is still running.",
        move |args: Args, cx| {
            let processes = processes.clone();
            async move { read(&processes, &args, &cx).await }
        },
    )
    .recovery(Recovery::Idempotent)
    .timeout_ms(WAIT_MS_MAX + 30_000)
    .output_bytes_max(BYTES_MAX + 1024)
}

async fn read(processes: &Processes, args: &Args, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let filter = args.filter.as_deref().map(pattern).transpose()?;
    let entry = processes.find(&args.id, cx)?;
    let enough = |bytes: &[u8]| match &filter {
        Some(filter) => whole_lines(bytes).split(|byte| *byte == b'\n').any(|line| filter.is_match(line)),
        None => !bytes.is_empty(),
    };
    // A call with a filter need not wait for an empty line.
    let enough = |bytes: &[u8]| !bytes.is_empty() && enough(bytes);
    let wait = Duration::from_millis(args.wait_ms);
    let (start, mut new, state) = tokio::select! {
        new = entry.new_output(&cx.key, BYTES_MAX, wait, enough) => new,
        () = cx.cancel.cancelled() => {
            return Err(ExecutionError::new(ErrorKind::Cancelled, "the call was cancelled; nothing was read"));
        }
    };

    let n_seen = new.bytes.len();
    if state == State::Running && n_seen < BYTES_MAX {
        // A line or a character that is still being printed is left to the next call.
        let n_whole = match &filter {
            Some(_) => whole_lines(&new.bytes).len(),
            None => whole_characters(&new.bytes).len(),
        };
        new.end -= (n_seen - n_whole) as u64;
        new.bytes.truncate(n_whole);
    }
    let mut printed = String::new();
    match &filter {
        Some(filter) => {
            for line in new.bytes.strip_suffix(b"\n").unwrap_or(&new.bytes).split(|byte| *byte == b'\n') {
                if filter.is_match(line) {
                    printed.push_str(&String::from_utf8_lossy(line));
                    printed.push('\n');
                }
            }
        }
        None => printed.push_str(&String::from_utf8_lossy(&new.bytes)),
    }
    let mut text = String::new();
    if new.n_lost > 0 {
        text.push_str(&format!("[{} bytes were not read in time and are gone]\n", new.n_lost));
    }
    text.push_str(&printed);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    entry.mark_read(&cx.key, start, new.end);
    let n_unread = entry.n_unread(new.end);
    if n_seen == BYTES_MAX && n_unread > 0 {
        text.push_str(&format!("[{n_unread} bytes more to read]\n"));
    }
    text.push_str(&format!("[{}]\n", state.words()));
    let mut value = value(&entry, state);
    value["output"] = printed.into();
    value["bytes_lost"] = new.n_lost.into();
    value["bytes_left"] = n_unread.into();
    Ok(ToolOutput { text, value: Some(Json::from(value)), ..ToolOutput::default() })
}

fn pattern(text: &str) -> Result<Regex, ExecutionError> {
    RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| ExecutionError::new(ErrorKind::InvalidArguments, format!("`filter` cannot be used: {error}")))
}

/// The bytes up to the last line end.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    &bytes[..end]
}

/// The bytes without a character at the end that has not come whole.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    // Searched from near the end: earlier bytes do not matter.
    let from = bytes.len().saturating_sub(3);
    let begun = (from..bytes.len()).rev().find(|place| bytes[*place] >= 0xc0);
    match begun.map(|place| (place, std::str::from_utf8(&bytes[place..]))) {
        Some((place, Err(error))) if error.valid_up_to() == 0 && error.error_len().is_none() => &bytes[..place],
        _ => bytes,
    }
}
