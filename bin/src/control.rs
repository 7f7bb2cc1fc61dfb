//! `cancel` and `pause`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::exit::Failure;
use crate::open::{self, OpenArgs};
use crate::output;

/// Cancel a thread. Each open call gets a terminal event.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// The reason, which the event records
    #[arg(long)]
    reason: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Pause a thread. It begins no new work until it is resumed.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// The reason, which the event records
    #[arg(long)]
    reason: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn cancel(open: &OpenArgs, args: CancelArgs) -> Result<ExitCode, Failure> {
    let runtime = open.look().await?;
    let thread = open::find(&runtime, &args.thread).await?;
    match open.holder() {
        Some(server) => server.cancel(thread.id(), args.reason).await?,
        None => thread.cancel(args.reason).await?,
    }
    done(runtime, thread.id(), "cancelled", args.json).await
}

pub(crate) async fn pause(open: &OpenArgs, args: PauseArgs) -> Result<ExitCode, Failure> {
    let runtime = open.look().await?;
    let thread = open::find(&runtime, &args.thread).await?;
    match open.holder() {
        Some(server) => server.pause(thread.id(), args.reason).await?,
        None => thread.pause(args.reason).await?,
    }
    done(runtime, thread.id(), "paused", args.json).await
}

async fn done(
    runtime: rethread::Runtime,
    id: rethread::ThreadId,
    status: &str,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    open::close(runtime).await?;
    if as_json {
        output::print_json(&json!({ "thread_id": id, "status": status }))?;
    } else {
        output::print(format!("{id} {status}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
