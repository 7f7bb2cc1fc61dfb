//! `graph`: a workflow as a picture, in the text that Mermaid reads.

mod mermaid;
pub(crate) mod picture;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::definition;
use crate::exit::Failure;
use crate::output;
use picture::Picture;

/// Print a workflow as a flowchart: its nodes, the conditions on its edges, its branches, loops and sub-workflows.
/// Short forms are expanded, as a thread runs them.
#[derive(Debug, Args)]
#[command(after_help = "\
GitHub, GitLab and most editors draw Mermaid in a ```mermaid block.

Solid edges lead to the next node, dashed ones are taken on an error, thick ones lead into a sub-workflow.
A node with a double or thick border ends the workflow.")]
pub(crate) struct GraphArgs {
    /// The workflow file, YAML or JSON; `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn graph(args: &GraphArgs) -> Result<ExitCode, Failure> {
    let file = definition::read(&args.file)?;
    let picture = Picture::of(file.workflow());
    let text = mermaid::text(&picture);
    output::print_text(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
