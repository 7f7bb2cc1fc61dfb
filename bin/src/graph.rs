//! `graph`: a workflow as a picture, in the text that Mermaid and Graphviz read.

mod dot;
mod mermaid;
pub(crate) mod picture;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::definition;
use crate::exit::Failure;
use crate::output;
use picture::Picture;

/// Print a workflow as a flowchart: its nodes, the conditions on its edges, its branches, loops and sub-workflows.
/// Short forms are expanded, as a thread runs them.
#[derive(Debug, Args)]
#[command(after_help = "\
GitHub, GitLab and most editors draw Mermaid in a ```mermaid block. Graphviz draws DOT:
  rethread graph FILE --format dot | dot -Tsvg > workflow.svg

Solid edges lead to the next node, dashed ones are taken on an error, thick ones lead into a sub-workflow.
A node with a double or thick border ends the workflow.")]
pub(crate) struct GraphArgs {
    /// The workflow file, YAML or JSON; `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The format of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// The text of a picture.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Format {
    /// A Mermaid flowchart
    #[default]
    Mermaid,
    /// A Graphviz digraph
    Dot,
}

pub(crate) fn graph(args: &GraphArgs) -> Result<ExitCode, Failure> {
    let file = definition::read(&args.file)?;
    let picture = Picture::of(file.workflow());
    let text = match args.format {
        Format::Mermaid => mermaid::text(&picture),
        Format::Dot => dot::text(&picture),
    };
    output::print_text(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
