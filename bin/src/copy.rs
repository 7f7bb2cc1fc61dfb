//! `copy`: a log from a folder into a stream of NATS JetStream, or back.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rethread::errors::RuntimeError;
use rethread::operate::copy_log;
use rethread::store::{
    JetStreamOptions, JetStreamStore, LogReader, Options, SledStore, Store as _, StoreError, Verification,
};
use serde_json::json;

use crate::backup;
use crate::exit::{Failure, NOT_FOUND};
use crate::open::OpenArgs;
use crate::{output, stream};

/// Copy a log from a folder into a stream of NATS JetStream, or from a stream into a folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Stop what works on the log first, and let nothing work on both logs afterwards: their threads are the same.
A copy into a stream that was interrupted continues when the command is repeated.

Examples:
  rethread copy --from .rethread --to nats://127.0.0.1:4222/agents
  rethread copy --from nats://127.0.0.1:4222/agents --to copied")]
pub(crate) struct CopyArgs {
    /// The folder of the log, or its stream
    #[arg(long, value_name = "FOLDER|URL")]
    from: String,
    /// The stream, or the folder to create
    #[arg(long, value_name = "URL|FOLDER")]
    to: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Where a log is.
enum Place {
    Folder(PathBuf),
    Stream(Box<JetStreamOptions>),
}

impl Place {
    fn of(open: &OpenArgs, text: &str) -> Result<Self, Failure> {
        if !text.contains("://") {
            return Ok(Self::Folder(text.into()));
        }
        let options = stream::options(Some(text), open.config())?;
        options.map(|options| Self::Stream(Box::new(options))).ok_or_else(|| Failure::new(2, "no stream is named"))
    }
}

pub(crate) async fn copy(open: &OpenArgs, args: CopyArgs) -> Result<ExitCode, Failure> {
    open.only_here("a log is copied between a folder of this machine and a stream")?;
    let CopyArgs { from, to, json } = args;
    let (source, target) = (Place::of(open, &from)?, Place::of(open, &to)?);
    let label = format!("rethread {}", open.command);
    let work = move || match (source, target) {
        (Place::Folder(folder), Place::Stream(options)) => into_stream(&folder, *options, label),
        (Place::Stream(options), Place::Folder(folder)) => into_folder(*options, &folder, label),
        (Place::Folder(_), Place::Folder(_)) => {
            Err(Failure::new(2, "--to: `rethread backup` copies a log into another folder; name a stream here"))
        }
        (Place::Stream(_), Place::Stream(_)) => {
            Err(Failure::new(2, "--to: copy the stream into a folder first, and that one into the other stream"))
        }
    };
    let verified = tokio::task::spawn_blocking(work).await.map_err(Failure::other)??;
    let (n_threads, n_events) = (verified.n_streams, verified.n_records);
    if json {
        output::print_json(&json!({ "to": to, "threads": n_threads, "events": n_events }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(output::sanitize(&to, 400))?;
    if open.prints_messages() {
        let (threads, events) =
            (output::count(n_threads, "thread", "threads"), output::count(n_events, "event", "events"));
        output::print_message(&format!("{threads} with {events} copied and verified"));
    }
    Ok(ExitCode::SUCCESS)
}

fn into_stream(folder: &Path, options: JetStreamOptions, label: String) -> Result<Verification, Failure> {
    // Before a stream is created for it.
    if !SledStore::is_in(folder) {
        return Err(Failure::new(NOT_FOUND, format!("there is no log in {}", folder.display())));
    }
    let replica = tempfile::tempdir().map_err(Failure::other)?;
    let options = JetStreamOptions { replica: labelled(&label), ..options };
    let target = JetStreamStore::open(replica.path(), options).map_err(failed)?;
    let verified = copy_log(folder, labelled(&label), &target).and_then(|_| verified(&target));
    let closed = target.close();
    let verified = verified.map_err(failed)?;
    closed.map_err(failed)?;
    Ok(verified)
}

fn into_folder(options: JetStreamOptions, folder: &Path, label: String) -> Result<Verification, Failure> {
    let replica = tempfile::tempdir().map_err(Failure::other)?;
    let options = JetStreamOptions { create: false, replica: labelled(&label), ..options };
    let source = JetStreamStore::open(replica.path(), options).map_err(failed)?;
    let verified = verified(&source).map_err(failed)?;
    backup::write(&source.backup().map_err(failed)?, folder)?;
    source.close().map_err(failed)?;
    Ok(verified)
}

fn labelled(label: &str) -> Options {
    Options { label: label.into(), ..Options::default() }
}

fn verified(log: &dyn LogReader) -> Result<Verification, StoreError> {
    let verified = log.verify()?;
    match verified.faults.first() {
        None => Ok(verified),
        Some(fault) => Err(StoreError::Damaged(fault.clone())),
    }
}

fn failed(error: StoreError) -> Failure {
    RuntimeError::from(error).into()
}
