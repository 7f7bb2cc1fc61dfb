//! `read_output`: reads more of an output that was too long to be shown.

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::Hash;
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Tool, ToolContext, ToolOutput};

/// The default size of one answer in bytes.
const BYTES_DEFAULT: usize = 16 * 1024;
/// The bytes of one answer at most.
const BYTES_MAX: usize = 64 * 1024;
/// The bytes that the note at the end takes.
const NOTE_BYTES_MAX: usize = 256;

/// Where whole outputs are kept of which a model saw head and tail.
pub trait OutputStore: Send + Sync {
    /// Some bytes of the output that was kept under this id. Blocks.
    ///
    /// The implementation must check permissions: an id is the hash of the content, which anyone who knows the content
    /// can compute.
    ///
    /// # Errors
    /// `not_found` when there is no such output, or it is not for the one who asks.
    fn read(&self, id: Hash, offset: u64, limit: usize) -> Result<OutputPart, ExecutionError>;
}

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPart {
    /// The bytes from the offset on, at most as many as were asked for; none after the end.
    pub bytes: Vec<u8>,
    /// How long the whole output is, in bytes.
    pub n_bytes: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The id that the shortened answer names.
    #[schemars(length(min = 64, max = 64))]
    id: String,
    /// The first byte to read; 0 is the first of the output.
    #[serde(default)]
    offset: u64,
    /// How many bytes to read.
    #[serde(default = "bytes_default")]
    #[schemars(range(min = 4, max = BYTES_MAX))]
    limit: usize,
}

fn bytes_default() -> usize {
    BYTES_DEFAULT
}

/// The tool `read_output`: a part of an answer that was too long to be shown, from [`crate::ToolContext::outputs`].
pub fn read_output() -> Tool {
    Tool::from_blocking_fn(
        "read_output",
        "Reads more of a tool's answer that was too long to be shown whole. The shortened answer names the id and the \
         offset.",
        |args: Args, cx| read(&args, &cx),
    )
    .recovery(Recovery::Safe)
    .timeout_ms(30_000)
    .output_bytes_max(BYTES_MAX + NOTE_BYTES_MAX)
}

fn read(args: &Args, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let id: Hash = args
        .id
        .parse()
        .map_err(|_| ExecutionError::new(ErrorKind::InvalidArguments, "an id has 64 hexadecimal digits"))?;
    let Some(outputs) = &cx.outputs else {
        return Err(ExecutionError::new(ErrorKind::NotFound, "outputs are not stored here; request less at a time"));
    };
    let part = outputs.read(id, args.offset, args.limit)?;
    let n_bytes = part.n_bytes;
    if args.offset >= n_bytes {
        let message = format!("the output has {n_bytes} bytes; offset {} is after its end", args.offset);
        return Err(ExecutionError::new(ErrorKind::InvalidArguments, message));
    }
    let mut bytes = part.bytes.as_slice();
    // A character that begins here and ends in the next part is left to it.
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
        && error.valid_up_to() > 0
    {
        bytes = &bytes[..error.valid_up_to()];
    }
    let end = args.offset + bytes.len() as u64;
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&match end < n_bytes && !bytes.is_empty() {
        true => format!("[bytes {} to {end} of {n_bytes}; continue with offset {end}]\n", args.offset),
        false => format!("[bytes {} to {end} of {n_bytes}; this is the end]\n", args.offset),
    });
    Ok(ToolOutput::text(text))
}

#[cfg(test)]
pub(crate) mod tests;
