//! `find_files`: files by their names.

use rethread_events::fault::ExecutionError;
use rethread_events::tool::Recovery;
use schemars::JsonSchema;
use serde::Deserialize;

use super::search_text::{file_pattern, fits};
use crate::walk::{Kind, Options, Walk};
use crate::workspace::shown;
use crate::{Tool, ToolContext, ToolOutput};

/// The default number of files in an answer.
const N_FILES_DEFAULT: usize = 200;
/// How many files one answer names at most.
const N_FILES_MAX: usize = 5_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// A pattern such as `*.rs`, `src/**/*.ts` or `Cargo.{toml,lock}`. Without a `/` it is about the name alone.
    #[schemars(length(min = 1, max = 1_000))]
    pattern: String,
    /// The folder to look in, relative to the workspace; all of it when left out.
    #[serde(default)]
    path: String,
    /// How many files to name.
    #[serde(default = "n_files_default")]
    #[schemars(range(min = 1, max = N_FILES_MAX))]
    limit: usize,
    /// Also find what ignore files name.
    #[serde(default)]
    all: bool,
}

fn n_files_default() -> usize {
    N_FILES_DEFAULT
}

/// The tool `find_files`: the files of a folder, at any depth, whose path fits a pattern; sorted, ignore files
/// respected, links not followed.
pub fn find_files() -> Tool {
    Tool::from_blocking_fn(
        "find_files",
        "Finds files of the workspace by a pattern of their path, at any depth. One path per line, sorted. Ignored \
         files (.gitignore) are left out unless `all` is set.",
        |args: Args, cx| find(&args, &cx),
    )
    .recovery(Recovery::Safe)
    .timeout_ms(60_000)
    .concurrency_max(4)
}

fn find(args: &Args, cx: &ToolContext) -> Result<ToolOutput, ExecutionError> {
    let pattern = file_pattern("pattern", &args.pattern)?;
    let place = cx.workspace.resolve(&args.path)?;
    let mut walk = Walk::new(&cx.workspace, &place, Options { depth_max: usize::MAX, all: args.all })?;
    let mut text = String::new();
    let mut n_files = 0;
    let mut is_cut = false;
    for entry in walk.by_ref() {
        cx.check()?;
        let below = entry.path.strip_prefix(&place.relative).unwrap_or(&entry.path);
        if entry.kind == Kind::Folder || !fits(&pattern, below) {
            continue;
        }
        if n_files == args.limit {
            is_cut = true;
            break;
        }
        n_files += 1;
        text.push_str(&shown(&entry.path));
        text.push('\n');
    }
    if n_files == 0 {
        text.push_str("[nothing found]\n");
    }
    if is_cut {
        text.push_str(&format!("[only the first {n_files}; narrow the pattern or the path]\n"));
    }
    if walk.n_unreadable + walk.n_left_out > 0 {
        let n = walk.n_unreadable + walk.n_left_out;
        text.push_str(&format!("[{n} files or folders cannot be read]\n"));
    }
    Ok(ToolOutput::text(text))
}

#[cfg(test)]
mod tests;
