//! `run`: a workflow to its end.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rethread::operate::Labels;
use rethread::{Json, Seq, StartThread};
use serde_json::{Value, json};

use crate::agent::AgentArgs;
use crate::drive::{Form, drive, finish};
use crate::exit::{self, Failure};
use crate::label_args::LabelArgs;
use crate::live::Story;
use crate::open::OpenArgs;
use crate::past_args::{Past, PastArgs};
use crate::remote::Client;
use crate::toolset::ToolArgs;
use crate::{definition, interrupt};

/// The largest input, in bytes.
const INPUT_BYTES_MAX: usize = 16 << 20;

/// Run a workflow to its end, or with --task an agent that needs no workflow file.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The workflow file, YAML or JSON
    #[arg(value_name = "FILE", required_unless_present = "task")]
    file: Option<PathBuf>,
    /// A task for an agent, in place of a workflow file
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "given"], allow_hyphen_values = true)]
    task: Option<String>,
    #[command(flatten)]
    agent: AgentArgs,
    /// The input as plain text: the variable `input` of the workflow
    #[arg(long, short, value_name = "TEXT", group = "given")]
    input: Option<String>,
    /// The input as JSON
    #[arg(long, value_name = "JSON", group = "given")]
    input_json: Option<String>,
    /// The file with the input; `-` for stdin
    #[arg(long, value_name = "FILE", group = "given")]
    input_file: Option<PathBuf>,
    #[command(flatten)]
    past: PastArgs,
    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    form: Form,
}

pub(crate) async fn run(open: &OpenArgs, args: RunArgs) -> Result<ExitCode, Failure> {
    interrupt::catch();
    let file = match (&args.file, args.agent.first()) {
        (Some(_), Some(option)) => {
            return Err(Failure::new(2, format!("{option} is for --task: a workflow file says it itself")));
        }
        (Some(file), None) => definition::read(file)?,
        (None, _) => args.agent.definition(open, "task")?,
    };
    let (input, past, labels) = (input(&args)?, args.past.read()?, args.labels.all()?);
    if let Some(server) = open.server().await? {
        return run_there(open, server, &file, (input, past), labels, args).await;
    }
    let runtime = open.work(&args.tools).await?;
    let workflow = file.checked(&runtime)?;
    let input = input.unwrap_or_else(|| workflow.absent_input());
    let mut start = past.of(StartThread::new(workflow, input).labels(labels));
    if let Some(folder) = args.tools.folder() {
        start = start.workspace(folder);
    }
    let thread = runtime.start(start).await?;
    let story = Story::begin(&runtime, &thread, Seq(0)).await?;
    let driven = drive(open, &runtime, &thread, story, args.form).await;
    finish(open, runtime, &thread, driven, args.form).await
}

/// Has a server run it.
async fn run_there(
    open: &OpenArgs,
    server: &Client,
    file: &definition::File,
    (input, past): (Option<Json>, Past),
    labels: Labels,
    args: RunArgs,
) -> Result<ExitCode, Failure> {
    let folder = server.folder(&args.tools)?;
    server.can_run(open, &args.tools).await?;
    let mut body = json!({ "definition": file.text(), "workspace": folder, "labels": labels });
    if let Some(input) = input {
        body["input"] = json!(input);
    }
    past.tell(&mut body);
    let started = server.start(&body).await.map_err(|error| {
        let of_file = error.kind.as_deref() == Some("invalid-workflow");
        let mut failure = Failure::from(error);
        if of_file {
            let lines: Vec<_> = failure.message.lines().map(|line| format!("{}:{line}", file.name())).collect();
            failure.message = lines.join("\n");
        }
        failure
    })?;
    let runtime = open.look().await?;
    let thread = runtime.thread(started);
    let story = Story::begin(&runtime, &thread, Seq(0)).await?;
    let driven = drive(open, &runtime, &thread, story, args.form).await;
    finish(open, runtime, &thread, driven, args.form).await
}

fn input(args: &RunArgs) -> Result<Option<Json>, Failure> {
    if let Some(text) = args.task.as_ref().or(args.input.as_ref()) {
        return Ok(Some(Json::from(text.as_str())));
    }
    if let Some(text) = &args.input_json {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Failure::new(2, format!("--input-json is not JSON: {error}")))?;
        return Ok(Some(Json::from(value)));
    }
    if let Some(file) = &args.input_file {
        let bytes = definition::read_limited(file, INPUT_BYTES_MAX)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::new(exit::INVALID, format!("{} is not UTF-8 text", file.display())))?;
        return Ok(Some(Json::from(text)));
    }
    Ok(None)
}
