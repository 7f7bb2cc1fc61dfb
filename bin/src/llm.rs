//! `rethread llm`: ask a model directly, without a workflow.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::call::CallArgs;
use self::count::CountArgs;
use self::target::TargetArgs;

mod call;
mod check;
mod count;
mod print;
mod read;
mod target;

/// Call a model without a workflow.
#[derive(Debug, Args)]
pub(crate) struct LlmArgs {
    #[command(subcommand)]
    command: LlmCommand,
}

#[derive(Debug, Subcommand)]
enum LlmCommand {
    /// Send one request and print the answer
    Call(CallArgs),
    /// Check that the provider answers and accepts the key, and print the time
    Check(TargetArgs),
    /// List the models of a provider; without a profile or provider, print the table of models
    Models(TargetArgs),
    /// Count the tokens of texts or of a request, or truncate a text
    Count(CountArgs),
}

/// Runs the command. Exit code 0 with an answer, 1 with an error of the call, 2 for a request file that cannot be
/// used, 3 for a configuration that cannot be used.
pub(crate) async fn run(args: LlmArgs) -> ExitCode {
    match args.command {
        LlmCommand::Call(args) => call::call(args).await,
        LlmCommand::Check(args) => check::check(args).await,
        LlmCommand::Models(args) => check::models(args).await,
        LlmCommand::Count(args) => count::count(args),
    }
}
