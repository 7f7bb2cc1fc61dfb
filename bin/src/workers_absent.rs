//! Replaces tools that workers run in a program without the feature `jetstream`.

use std::process::ExitCode;

use clap::Args;
use rethread::Tool;

use crate::config::Config;
use crate::exit::Failure;
use crate::open::OpenArgs;

pub(crate) const WHY: &str = "workers are not compiled in: build with the feature `jetstream`";

/// `[workers]`, which is an error.
pub(crate) type Settings = ();

/// Run tools for servers of rethread elsewhere, over NATS (not compiled in)
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The tools that it runs
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
}

pub(crate) async fn run(_: &OpenArgs, _: WorkerArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(2, WHY))
}

pub(crate) async fn look(_: Option<&str>, _: &Config) -> Option<Result<String, Failure>> {
    None
}

pub(crate) fn tools(_: Option<&str>, config: &Config) -> Result<Vec<Tool>, Failure> {
    config.workers.get()?;
    Ok(Vec::new())
}
