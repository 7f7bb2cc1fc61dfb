//! `delete`: all that the log has of a thread, or of the threads with some labels.

use std::process::ExitCode;

use clap::Args;
use rethread::ThreadFilter;
use rethread::operate::Labels;
use serde_json::json;

use crate::exit::{CONFLICT, Failure};
use crate::gc::{self, GcArgs};
use crate::label_args::LabelArgs;
use crate::open::{self, OpenArgs};
use crate::output;

/// Delete a thread or all threads with a label, and erase them from every file of the log. Nothing is deleted if one of
/// them has not ended. With --label, also deletes the memories, schedules and kept signals with these labels, and definitions
/// that no thread runs on, except the newest of each name. Empties the answer cache.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rethread delete 3f2a91
  rethread delete --label user=42")]
pub(crate) struct DeleteArgs {
    /// The thread: its id, a part of its id, or `last`
    #[arg(conflicts_with = "labels")]
    thread: Option<String>,
    #[command(flatten)]
    labels: LabelArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn delete(open: &OpenArgs, args: DeleteArgs) -> Result<ExitCode, Failure> {
    if let Some(thread) = &args.thread {
        return delete_thread(open, thread, args.json).await;
    }
    let labels = args.labels.all()?;
    if labels.is_empty() {
        return Err(Failure::new(2, "name the threads: THREAD, or --label KEY=VALUE"));
    }
    none_is_open(open, &labels, "cancel it first; nothing was deleted").await?;
    let done = gc::gc(open, GcArgs::erasing(args.labels, args.json)).await?;
    // One may have begun meanwhile.
    none_is_open(open, &labels, "it has started meanwhile: cancel it, and delete again").await?;
    Ok(done)
}

async fn delete_thread(open: &OpenArgs, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_change().await?;
    let found = open::find(&runtime, name).await.map(|thread| thread.id());
    open::close(runtime).await?;
    let id = found?;
    match open.server().await? {
        Some(server) => {
            server.delete(id).await?;
            server.post("/v1/log/compact", &json!(null)).await.map_err(|error| not_erased("thread", error.into()))?;
        }
        None => {
            let runtime = open.start_to_delete().await?;
            let done = async {
                runtime.thread(id).delete().await?;
                runtime.compact().await.map_err(|error| not_erased("thread", error.into()))?;
                Ok::<_, Failure>(())
            };
            let done = done.await;
            open::close(runtime).await?;
            done?;
        }
    }
    if json {
        output::print_json(&json!({ "thread_id": id, "status": "deleted" }))?;
    } else {
        output::print(format!("{id} deleted"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The thread or memory is deleted, so the command cannot be run again.
pub(crate) fn not_erased(what: &str, failure: Failure) -> Failure {
    let message = format!(
        "the {what} is deleted, but the index was not rewritten, and files may contain bytes of it: have an operator run \
         rethread gc --older-than 1000w --compact ({})",
        failure.message
    );
    Failure::new(failure.code, message)
}

async fn none_is_open(open: &OpenArgs, labels: &Labels, advice: &str) -> Result<(), Failure> {
    let runtime = open.open_to_change().await?;
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
