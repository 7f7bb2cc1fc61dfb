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

/// What a server does about other processes that have the log.
#[derive(Debug, Clone)]
pub(crate) enum Others {
    StandBy(Standby),
    Share,
}

/// A wait for a log in a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standby;

impl Standby {
    pub(crate) fn end(&self) {}

    pub(crate) fn is_holder_near(&self) -> bool {
        false
    }

    pub(crate) fn holder(&self) -> Option<String> {
        None
    }
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
    others: Option<&Others>,
    _reads: bool,
) -> Result<RuntimeBuilder, Failure> {
    match others {
        Some(Others::StandBy(_)) => return Err(Failure::new(2, format!("--standby: {WHY}"))),
        Some(Others::Share) => return Err(Failure::new(2, format!("--shared: {WHY}"))),
        None => {}
    }
    if url.is_some_and(|url| !url.is_empty()) {
        return Err(Failure::new(2, format!("--store: {WHY}")));
    }
    config.store.get()?;
    Ok(builder)
}
