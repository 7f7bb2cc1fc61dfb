//! `edit_file`: a part of a file, found by its text.

mod candidates;

use std::io::Read;
use std::time::Duration;

use memchr::memmem;
use parking_lot::MutexGuard;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;

use super::write_file::FILE_BYTES_MAX;
use crate::{Tool, ToolContext, ToolOutput, Workspace, WorkspaceError};

/// How many places are replaced at once.
const N_PLACES_MAX: usize = 10_000;
/// How many line numbers of replaced text an answer names.
const N_LINES_SHOWN_MAX: usize = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The file, relative to the workspace.
    path: String,
    /// The text to replace, exactly as it is in the file, white space included, without line numbers.
    #[schemars(length(min = 1))]
    old_text: String,
    /// What comes in its place; nothing to delete it.
    new_text: String,
    /// How often `old_text` is in the file. All of them are replaced, and only if the number is right.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = N_PLACES_MAX))]
    count: usize,
}

fn one() -> usize {
    1
}

/// The tool `edit_file`: replaces a text that is in a file exactly once, or exactly as often as was said. Otherwise
/// nothing is changed, and the error shows the places that could have been meant. Edits of one workspace take turns,
/// so that none is lost.
pub fn edit_file() -> Tool {
    Tool::from_blocking_fn(
        "edit_file",
        "Replaces a text in a file of the workspace. `old_text` must be in the file exactly once, or exactly `count` \
         times; give enough of the lines around it to make it unique.",
        |args: Args, cx| edit(&args, &cx),
    )
    .recovery(Recovery::AtMostOnce)
    .timeout_ms(60_000)
}

/// Waits for the turn to write in the workspace.
pub(super) fn lock_for_write<'a>(
    workspace: &'a Workspace,
    cx: &ToolContext,
) -> Result<MutexGuard<'a, ()>, ExecutionError> {
    loop {
        cx.check()?;
        if let Some(turn) = workspace.writing.try_lock_for(Duration::from_millis(20)) {
            return Ok(turn);
        }
    }
}

fn edit(args: &Args, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    if args.old_text == args.new_text {
        return Err(ExecutionError::new(
            ErrorKind::InvalidArguments,
            "old_text and new_text are the same; nothing would change",
        ));
    }
    let place = cx.workspace.resolve(&args.path)?;
    let path = place.shown();
    let _writing = lock_for_write(&cx.workspace, cx)?;
    let before = read(cx, &place)?;

    let (mut old, mut new) = (args.old_text.clone(), args.new_text.clone());
    if has_only_crlf(&before) && !old.contains('\r') {
        // read_file shows lines without their ends, so a model cannot know.
        old = old.replace('\n', "\r\n");
        new = new.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    // Counted before they are kept: in a large file there may be millions.
    let n_places = memmem::find_iter(&before, old.as_bytes()).count();
    if n_places != args.count {
        let message = candidates::wrong_count(&path, &before, &old, n_places, args.count);
        return Err(ExecutionError::new(ErrorKind::Conflict, message));
    }
    let places: Vec<usize> = memmem::find_iter(&before, old.as_bytes()).collect();

    let length = before.len() - places.len() * old.len() + places.len().saturating_mul(new.len());
    if length > FILE_BYTES_MAX {
        return Err(ExecutionError::new(
            ErrorKind::TooLarge,
            format!("`{path}` would have {length} bytes, the limit is {FILE_BYTES_MAX}"),
        ));
    }
    let mut after = Vec::with_capacity(length);
    let mut end = 0;
    for place in &places {
        after.extend_from_slice(&before[end..*place]);
        after.extend_from_slice(new.as_bytes());
        end = place + old.len();
    }
    after.extend_from_slice(&before[end..]);
    cx.workspace.write(&place, &after, cx)?;

    let lines = candidates::line_numbers(&before, &places);
    let shown: Vec<_> = lines.iter().take(N_LINES_SHOWN_MAX).map(u64::to_string).collect();
    let more = if lines.len() > N_LINES_SHOWN_MAX { ", …" } else { "" };
    let (n, s) = (places.len(), if places.len() == 1 { "" } else { "s" });
    Ok(ToolOutput::text(format!("replaced {n} place{s} in `{path}`, line{s} {}{more}", shown.join(", "))))
}

/// All of a file that is text and not too large.
fn read(cx: &ToolContext, place: &crate::Resolved) -> Result<Vec<u8>, ExecutionError> {
    let (file, metadata) = cx.workspace.open_file(place)?;
    let path = place.shown();
    let too_large = |bytes: u64| {
        ExecutionError::new(
            ErrorKind::TooLarge,
            format!("`{path}` has {bytes} bytes, the limit of this tool is {FILE_BYTES_MAX}"),
        )
    };
    if metadata.len() > FILE_BYTES_MAX as u64 {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| WorkspaceError::io(&place.relative, source))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(too_large(bytes.len() as u64));
    }
    if bytes.contains(&0) {
        return Err(ExecutionError::new(
            ErrorKind::InvalidArguments,
            format!("`{path}` is a binary file and cannot be edited as text"),
        ));
    }
    Ok(bytes)
}

/// Whether every line of the file ends with CR LF, and there is one.
fn has_only_crlf(bytes: &[u8]) -> bool {
    let mut n_lines = 0;
    for place in memchr::memchr_iter(b'\n', bytes) {
        if place == 0 || bytes[place - 1] != b'\r' {
            return false;
        }
        n_lines += 1;
    }
    n_lines > 0
}

#[cfg(test)]
mod tests;
