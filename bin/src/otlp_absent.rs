//! Replaces the export to OpenTelemetry in a program without the feature `otlp`.

use std::process::ExitCode;

use clap::Args;
use rethread::operate::TraceContext;
use rethread::{Runtime, ThreadId};

use crate::config::Config;
use crate::exit::Failure;
use crate::open::OpenArgs;

/// `[telemetry]`, which is an error.
pub(crate) type Table = ();

/// The arguments for the export.
#[derive(Debug, Args)]
pub(crate) struct OtlpArgs {}

impl OtlpArgs {
    pub(crate) const fn is_given(&self) -> bool {
        false
    }
}

pub(crate) async fn export(
    _: &OpenArgs,
    _: &Runtime,
    _: &OtlpArgs,
    _: &[ThreadId],
    _: Option<u64>,
) -> Result<ExitCode, Failure> {
    Ok(ExitCode::SUCCESS)
}

/// The runs of a command that are to be sent: none.
#[derive(Debug, Default)]
pub(crate) struct AtExit;

impl AtExit {
    pub(crate) async fn begin(&self, _: &OpenArgs, _: &Runtime) -> Result<(), Failure> {
        Ok(())
    }

    pub(crate) async fn read(&self, _: &Runtime) {}

    pub(crate) async fn send(&self) {}
}

/// What calls pass on: nothing.
pub(crate) fn trace_context(_: &Config) -> Result<TraceContext, Failure> {
    Ok(TraceContext::Off)
}
