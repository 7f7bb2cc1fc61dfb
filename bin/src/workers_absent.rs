//! Replaces tools that workers run in a program without the feature `jetstream`.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use rethread::{RuntimeBuilder, Tool};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::definition;
use crate::exit::{Failure, INVALID};
use crate::open::OpenArgs;

#[derive(Debug, Deserialize)]
struct File {
    workers: Option<IgnoredAny>,
}

const WHY: &str = "workers are not compiled in: build with the feature `jetstream`";

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

pub(crate) fn check(file: &Path) -> Result<(), Failure> {
    match definition::read_toml::<File>(file)?.workers {
        Some(_) => Err(Failure::new(INVALID, format!("{}: workers: {WHY}", file.display()))),
        None => Ok(()),
    }
}

pub(crate) async fn look(_: Option<&str>, _: Option<&Path>) -> Option<Result<String, Failure>> {
    None
}

pub(crate) fn tools(_: Option<&str>, file: Option<&Path>) -> Result<Vec<Tool>, Failure> {
    file.map_or(Ok(()), check)?;
    Ok(Vec::new())
}

pub(crate) fn add_models(
    builder: RuntimeBuilder,
    _: Option<&str>,
    file: Option<&Path>,
) -> Result<RuntimeBuilder, Failure> {
    file.map_or(Ok(()), check)?;
    Ok(builder)
}

pub(crate) fn names_of_models(_: Option<&str>, file: Option<&Path>) -> Result<Vec<String>, Failure> {
    file.map_or(Ok(()), check)?;
    Ok(Vec::new())
}
