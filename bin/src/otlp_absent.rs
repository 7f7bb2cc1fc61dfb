//! Replaces the export to OpenTelemetry in a program without the feature `otlp`.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use rethread::operate::TraceContext;
use rethread::{Runtime, ThreadId};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::definition;
use crate::exit::{Failure, INVALID};
use crate::open::OpenArgs;

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

#[derive(Deserialize)]
struct File {
    telemetry: Option<IgnoredAny>,
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
pub(crate) fn trace_context(_: Option<&Path>) -> Result<TraceContext, Failure> {
    Ok(TraceContext::Off)
}

/// Refuses the table `telemetry`.
pub(crate) fn check(file: &Path) -> Result<(), Failure> {
    match definition::read_toml::<File>(file)?.telemetry {
        None => Ok(()),
        Some(_) => {
            let why = "telemetry: OpenTelemetry is not compiled in: build with the feature `otlp`";
            Err(Failure::new(INVALID, format!("{}: {why}", file.display())))
        }
    }
}
