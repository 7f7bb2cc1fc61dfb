//! Replaces the agent of editors in a program without the feature `acp`.

use std::process::ExitCode;

use clap::Args;

use crate::exit::Failure;
use crate::open::OpenArgs;

/// The arguments for the agent of an editor.
#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    #[arg(hide = true, allow_hyphen_values = true, trailing_var_arg = true)]
    _words: Vec<String>,
}

pub(crate) async fn acp(_: &OpenArgs, _: AcpArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(2, "the agent of editors is not compiled in: build with the feature `acp`"))
}
