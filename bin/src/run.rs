//! `run`: a workflow to its end.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rethread::operate::Labels;
use rethread::{Json, Runtime, Seq, StartThread, ThreadHandle, ThreadId};
use rethread_events::trace_context::TraceParent;
use serde_json::{Value, json};

use crate::agent::AgentArgs;
use crate::definition::{self, File};
use crate::drive::{Form, drive, finish};
use crate::exit::{self, Failure};
use crate::interrupt;
use crate::label_args::LabelArgs;
use crate::live::ShownRun;
use crate::open::OpenArgs;
use crate::past_args::{Past, PastArgs};
use crate::remote::Client;
use crate::toolset::ToolArgs;

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
    #[arg(long, short, value_name = "TEXT", group = "given", allow_hyphen_values = true)]
    input: Option<String>,
    /// The input as JSON
    #[arg(long, value_name = "JSON", group = "given", allow_hyphen_values = true)]
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
            return Err(Failure::new(2, format!("{option} is for --task: set it in the workflow file instead")));
        }
        (Some(file), None) => definition::read(file)?,
        (None, _) => args.agent.definition(open, "task")?,
    };
    let (past, labels) = (args.past.read()?, args.labels.all()?);
    let begin = Beginning { id: None, input: input(&args)?, past, labels, caller: caller() };
    let server = open.server().await?;
    let runtime = runtime(open, server, &args.tools).await?;
    let thread = start(server, &runtime, file, begin, &args.tools).await?;
    let story = ShownRun::begin(&runtime, &thread, Seq(0)).await?;
    let driven = drive(open, &runtime, &thread, story, args.form).await;
    finish(open, runtime, &thread, driven, args.form).await
}

/// A runtime that starts threads, or reads those that a server starts.
pub(crate) async fn runtime(open: &OpenArgs, server: Option<&Client>, tools: &ToolArgs) -> Result<Runtime, Failure> {
    match server {
        Some(server) => {
            server.can_run(open, tools).await?;
            open.open_to_change().await
        }
        None => {
            let runtime = open.work(tools).await?;
            open.traces.begin(open, &runtime).await?;
            Ok(runtime)
        }
    }
}

/// The start of a thread.
pub(crate) struct Beginning {
    /// Its id, if it is chosen; a server chooses another one.
    pub(crate) id: Option<ThreadId>,
    pub(crate) input: Option<Json>,
    pub(crate) past: Past,
    pub(crate) labels: Labels,
    /// The span that the run is part of.
    pub(crate) caller: Option<TraceParent>,
}

/// Starts a thread, here or at a server.
pub(crate) async fn start(
    server: Option<&Client>,
    runtime: &Runtime,
    file: File,
    begin: Beginning,
    tools: &ToolArgs,
) -> Result<ThreadHandle, Failure> {
    let Beginning { id, input, past, labels, caller } = begin;
    if let Some(server) = server {
        let folder = server.folder(tools)?;
        let mut body = json!({ "definition": file.text(), "workspace": folder, "labels": labels });
        if let Some(input) = input {
            body["input"] = json!(input);
        }
        past.add_to_body(&mut body);
        return match server.with_caller(caller).start(&body).await {
            Ok(started) => Ok(runtime.thread(started)),
            Err(error) => Err(file.refused(error)),
        };
    }
    let workflow = file.checked(runtime)?;
    let input = input.unwrap_or_else(|| workflow.absent_input());
    let mut start = past.of(StartThread::new(workflow, input).labels(labels).traceparent(caller));
    if let Some(id) = id {
        start = start.id(id);
    }
    if let Some(folder) = tools.folder() {
        start = start.workspace(folder);
    }
    Ok(runtime.start(start).await?)
}

/// The span in which the command runs, as OpenTelemetry passes it on in the environment. A variable that cannot be read
/// counts as none, as the header of that name does.
pub(crate) fn caller() -> Option<TraceParent> {
    std::env::var("TRACEPARENT").ok()?.trim().parse().ok()
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
