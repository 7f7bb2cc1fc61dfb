//! Replaces the log in a stream in a program without the feature `jetstream`.

use std::process::ExitCode;

use clap::Args;
use rethread::RuntimeBuilder;

use crate::config::Config;
use crate::exit::Failure;
use crate::open::OpenArgs;

pub(crate) const WHY: &str = "a log in a stream is not compiled in: build with the feature `jetstream`";

/// `[store]`, which is an error.
pub(crate) type Settings = ();

/// Copy a log from a folder into a stream of NATS JetStream, or back (not compiled in)
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {}

pub(crate) async fn copy(_: &OpenArgs, _: CopyArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(2, WHY))
}

/// Show the servers of a log in a stream, and the processes that have it open (not compiled in)
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {}

pub(crate) async fn cluster(_: &OpenArgs, _: ClusterArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(2, WHY))
}

pub(crate) async fn look(_: Option<&str>, _: &Config) -> Option<Result<String, Failure>> {
    None
}

pub(crate) async fn is_written(_: Option<&str>, _: &Config) -> Result<bool, Failure> {
    Ok(false)
}

pub(crate) fn is_configured(_: &Config) -> bool {
    false
}

pub(crate) fn place(
    builder: RuntimeBuilder,
    url: Option<&str>,
    config: &Config,
    _create: bool,
    is_shared: bool,
    _reads: bool,
) -> Result<RuntimeBuilder, Failure> {
    if is_shared {
        return Err(Failure::new(2, format!("--shared: {WHY}")));
    }
    if url.is_some_and(|url| !url.is_empty()) {
        return Err(Failure::new(2, format!("--store: {WHY}")));
    }
    config.store.get()?;
    Ok(builder)
}
