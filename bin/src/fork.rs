//! `fork`: another way on from a moment.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use rethread::{Faults, ForkChanges, ForkRequest, Json, RuntimeError, ThreadHandle};
use serde_json::json;

use crate::drive::{self, Form};
use crate::exit::{Failure, INVALID};
use crate::live::Story;
use crate::open::{self, OpenArgs, ToolArgs};
use crate::replay::seq_of;
use crate::{definition, interrupt, output};

/// Start a new thread that goes on from a moment of another, and run it. The other thread stays as it is.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The thread: its id, a part of it, or `last`
    thread: String,
    /// The last moment that is inherited: a seq, a checkpoint or a time; the last event unless given
    #[arg(long, value_name = "SEQ|LABEL|TIME")]
    at: Option<String>,
    /// Set a variable
    #[arg(long = "set", value_name = "VAR=JSON", value_parser = assignment)]
    variables: Vec<(String, Json)>,
    /// Give a node another prompt
    #[arg(long = "prompt", value_name = "NODE=TEXT", value_parser = prompt)]
    prompts: Vec<(String, String)>,
    /// Use this profile for every model call from there on
    #[arg(long)]
    profile: Option<String>,
    /// Go on with the workflow in this file; branches that have begun finish on the old one
    #[arg(long, value_name = "FILE")]
    workflow: Option<PathBuf>,
    /// Only make the thread: `rethread resume` runs it
    #[arg(long)]
    no_run: bool,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    form: Form,
}

fn split(text: &str) -> Result<(String, &str), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() { Err("the name before `=` is empty".into()) } else { Ok((name.to_owned(), value)) }
}

fn assignment(text: &str) -> Result<(String, Json), String> {
    let (name, value) = split(text)?;
    let value = serde_json::from_str::<serde_json::Value>(value)
        .map_err(|error| format!("the value is not JSON ({error}): quote texts, as in name='\"text\"'"))?;
    Ok((name, Json::from(value)))
}

fn prompt(text: &str) -> Result<(String, String), String> {
    split(text).map(|(name, value)| (name, value.to_owned()))
}

pub(crate) async fn fork(open: &OpenArgs, args: ForkArgs) -> Result<ExitCode, Failure> {
    interrupt::catch();
    let workflow = args.workflow.as_deref().map(definition::read).transpose()?;
    let runtime = if args.no_run { open.observe(&args.tools).await? } else { open.work(&args.tools).await? };
    let workflow = workflow.map(|file| file.checked(&runtime)).transpose()?.map(Arc::new);
    let parent = open::find(&runtime, &args.thread).await?;
    let at = match &args.at {
        Some(moment) => Some(seq_of(&parent, moment).await?),
        None => None,
    };
    let changes = ForkChanges {
        variables: args.variables.into_iter().collect(),
        prompts: args.prompts.into_iter().collect(),
        profile: args.profile.map(Into::into),
        ..ForkChanges::default()
    };
    let thread =
        parent.fork(ForkRequest { at, changes, workflow }).await.map_err(|error| match (error, &args.workflow) {
            (RuntimeError::Workflow(faults), Some(file)) => does_not_fit(&parent, file, &faults),
            (error, _) => error.into(),
        })?;
    if args.no_run {
        let id = thread.id();
        open::close(runtime).await?;
        if args.form.json || args.form.jsonl {
            output::print_json(&json!({ "thread_id": id, "forked_from": parent.id() }))?;
        } else {
            output::print(id)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let from = thread.first_own_seq().await?;
    let story = Story::begin(&runtime, &thread, from).await?;
    let driven = drive::drive(open, &runtime, &thread, story, args.form).await;
    drive::finish(open, runtime, &thread, driven, args.form).await
}

fn does_not_fit(thread: &ThreadHandle, file: &Path, faults: &Faults) -> Failure {
    let lines: Vec<_> = faults.0.iter().map(|fault| format!("\n- {fault}")).collect();
    let (id, file) = (thread.id(), file.display());
    Failure::new(INVALID, format!("thread {id} cannot go on with {file} from there:{}", lines.concat()))
}
