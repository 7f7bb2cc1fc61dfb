//! `read_file` with `raw`: the text of some lines exactly as it is in the file.

use std::io::{BufRead, Read as _};

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::json::Json;

use super::Args;
use crate::{ToolContext, ToolOutput};

/// The most bytes of one raw text. A text that a workflow continues with is complete or an error.
const RAW_BYTES_MAX: usize = 1024 * 1024;

/// The lines that the arguments ask for, as text and as value. The value is whole also where the registry cuts the text.
///
/// # Errors
/// `too_large` over [`RAW_BYTES_MAX`] bytes, `invalid_arguments` when the text is not UTF-8 or begins after the end.
pub(super) fn read(
    args: &Args,
    file: &mut impl BufRead,
    path: &str,
    cx: &ToolContext,
) -> Result<ToolOutput, ExecutionError> {
    let failed =
        |error: std::io::Error| ExecutionError::new(ErrorKind::Failed, format!("`{path}` cannot be read: {error}"));
    let mut n_lines = 0;
    while n_lines + 1 < args.offset {
        cx.check()?;
        // Over bytes that are not UTF-8, too, and in pieces: a line has any length.
        if !skip_line(file, cx).map_err(failed)? {
            break;
        }
        n_lines += 1;
    }
    if args.offset > 1 && (n_lines + 1 < args.offset || file.fill_buf().map_err(failed)?.is_empty()) {
        let message = format!("`{path}` has {n_lines} lines; offset {} is after its end", args.offset);
        return Err(ExecutionError::new(ErrorKind::InvalidArguments, message));
    }

    let mut bytes = Vec::new();
    let mut n_taken = 0;
    while args.limit.is_none_or(|limit| n_taken < limit) {
        cx.check()?;
        let room = (RAW_BYTES_MAX + 1 - bytes.len()) as u64;
        if file.by_ref().take(room).read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
            break;
        }
        n_taken += 1;
        if bytes.len() > RAW_BYTES_MAX {
            let message = format!(
                "the raw text of `{path}` from line {} on is longer than {RAW_BYTES_MAX} bytes: read it in pieces, with \
                 `offset` and `limit`",
                args.offset
            );
            return Err(ExecutionError::new(ErrorKind::TooLarge, message));
        }
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let message = format!(
            "`{path}` is not valid UTF-8 at byte {place} of the text that was asked for: read it without `raw`"
        );
        ExecutionError::new(ErrorKind::InvalidArguments, message)
    })?;
    Ok(ToolOutput { value: Some(Json::from(text.as_str())), ..ToolOutput::text(text) })
}

/// Reads over one line. False at the end of the file.
fn skip_line(file: &mut impl BufRead, cx: &ToolContext) -> std::io::Result<bool> {
    let mut begun = false;
    while !cx.cancel.is_cancelled() {
        let buffer = file.fill_buf()?;
        if buffer.is_empty() {
            return Ok(begun);
        }
        begun = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let n_used = end.map_or(buffer.len(), |end| end + 1);
        file.consume(n_used);
        if end.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
