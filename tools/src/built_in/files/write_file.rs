//! `write_file`: a whole file.

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Tool, ToolContext, ToolOutput};

/// The bytes of a file that is written.
pub(super) const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The file, relative to the workspace. Folders on the way are made.
    path: String,
    /// All of what shall be in it.
    content: String,
}

/// The tool `write_file`: makes a file or replaces it, all of it at once, durably.
///
/// It is `idempotent`: written again, the same content gives the same file. What another program wrote there between a
/// crash and the second attempt is replaced, as it would have been by a single, later attempt.
pub fn write_file() -> Tool {
    Tool::from_blocking_fn(
        "write_file",
        "Writes a whole file of the workspace; what was in it before is gone. To change a part of a file use \
         edit_file.",
        |args: Args, cx| write(&args, &cx),
    )
    .recovery(Recovery::Idempotent)
    .timeout_ms(60_000)
}

fn write(args: &Args, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let bytes = args.content.len();
    if bytes > FILE_BYTES_MAX {
        return Err(ExecutionError::new(
            ErrorKind::TooLarge,
            format!("the content has {bytes} bytes, the limit is {FILE_BYTES_MAX}; write it in several files"),
        ));
    }
    let place = cx.workspace.resolve(&args.path)?;
    let _writing = super::edit_file::lock_for_write(&cx.workspace, cx)?;
    let was_there = cx.workspace.write(&place, args.content.as_bytes(), cx)?;
    let what = if was_there { "replaced" } else { "new file" };
    Ok(ToolOutput::text(format!("wrote {bytes} bytes to `{}` ({what})", place.shown())))
}

#[cfg(test)]
mod tests;
