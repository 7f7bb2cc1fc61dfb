//! `delete`: all that the log has of the threads with some labels.

use std::process::ExitCode;

use clap::Args;
use rethread::ThreadFilter;
use rethread::operate::Labels;

use crate::exit::{CONFLICT, Failure};
use crate::gc::{self, GcArgs};
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::output;

/// Delete all threads with a label, and erase them from every file of the log. Nothing is deleted if one of them has not
/// ended. Also deletes definitions that no thread runs on, except the newest of each name.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rethread delete --label user=42")]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    labels: LabelArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn delete(open: &OpenArgs, args: DeleteArgs) -> Result<ExitCode, Failure> {
    let labels = args.labels.all()?;
    if labels.is_empty() {
        return Err(Failure::new(2, "say which threads: --label KEY=VALUE"));
    }
    none_is_open(open, &labels, "cancel it first; nothing was deleted").await?;
    let done = gc::gc(open, GcArgs::erasing(args.labels, args.json)).await?;
    // One may have begun meanwhile.
    none_is_open(open, &labels, "it began meanwhile: cancel it, and delete again").await?;
    Ok(done)
}

async fn none_is_open(open: &OpenArgs, labels: &Labels, advice: &str) -> Result<(), Failure> {
    let runtime = open.look().await?;
    let threads = runtime.threads(ThreadFilter { labels: labels.clone(), ..ThreadFilter::default() }).await;
    open::close(runtime).await?;
    let threads = threads?;
    match threads.iter().find(|thread| !thread.status.is_ended()) {
        None => Ok(()),
        Some(thread) => {
            let n = output::count(threads.len(), "thread has", "threads have");
            let message = format!("{n} these labels, and {} is {}: {advice}", thread.thread_id, thread.status);
            Err(Failure::new(CONFLICT, message))
        }
    }
}
