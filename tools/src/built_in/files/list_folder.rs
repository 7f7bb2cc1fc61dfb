//! `list_folder`: what is in a folder.

use rethread_events::fault::ExecutionError;
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::walk::{Entry, Kind, Options, Walk};
use crate::workspace::shown;
use crate::{Tool, ToolContext, ToolOutput};

/// How many entries one answer has.
const N_ENTRIES_MAX: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The folder, relative to the workspace; the workspace itself when left out.
    #[serde(default)]
    path: String,
    /// How deep to go; 1 lists the folder's own entries.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 16))]
    depth: usize,
    /// Also list what ignore files name.
    #[serde(default)]
    all: bool,
}

fn one() -> usize {
    1
}

/// The tool `list_folder`: the entries of a folder, at most 1000.
pub fn list_folder() -> Tool {
    Tool::from_blocking_fn(
        "list_folder",
        "Lists a folder of the workspace, sorted, one entry per line: folders end with `/`, files have their size in \
         bytes, links show where they point. Ignored files (.gitignore) are left out unless `all` is set.",
        |args: Args, cx| list(&args, &cx),
    )
    .recovery(Recovery::Safe)
    .timeout_ms(30_000)
}

fn list(args: &Args, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let place = cx.workspace.resolve(&args.path)?;
    let options = Options { depth_max: args.depth, all: args.all };
    let mut walk = Walk::new(&cx.workspace, &place, options)?;
    let mut text = String::new();
    let mut n_entries = 0;
    let mut n_more = 0_u64;
    for entry in walk.by_ref() {
        cx.check()?;
        if n_entries == N_ENTRIES_MAX {
            n_more = 1;
            break;
        }
        n_entries += 1;
        // The place is where the walk began, so every path begins with it.
        let path = shown(entry.path.strip_prefix(&place.relative).unwrap_or(&entry.path));
        text.push_str(&path);
        text.push_str(&detail(&entry));
        text.push('\n');
    }
    if n_entries == 0 {
        text.push_str("[the folder is empty]\n");
    }
    if n_more > 0 {
        text.push_str(&format!("[only the first {N_ENTRIES_MAX} entries; list a folder below, or less deep]\n"));
    }
    if walk.n_left_out > 0 {
        text.push_str(&format!("[{} entries of folders with too many left out]\n", walk.n_left_out));
    }
    if walk.n_unreadable > 0 {
        text.push_str(&format!("[{} entries cannot be read]\n", walk.n_unreadable));
    }
    Ok(ToolOutput::text(text))
}

fn detail(entry: &Entry) -> String {
    match entry.kind {
        Kind::Folder => "/".to_owned(),
        Kind::File => match entry.metadata() {
            Ok(metadata) => format!("  {}", metadata.len()),
            Err(_) => String::new(),
        },
        Kind::Link => match entry.target() {
            Ok(target) => format!(" -> {}", shown(&target)),
            Err(_) => " -> ?".to_owned(),
        },
        Kind::Other => "  (pipe, socket or device)".to_owned(),
    }
}

#[cfg(test)]
mod tests;
