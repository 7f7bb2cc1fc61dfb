//! `runs` and `send`: a thread as a conversation.

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use rethread::runs::{OnMessage, RunRequest};
use rethread::{Json, Runtime, ThreadHandle};
use rethread_events::trace_context::TraceParent;
use serde_json::json;

use crate::definition::File;
use crate::drive::{Form, drive, finish};
use crate::exit::Failure;
use crate::interrupt;
use crate::live::ShownRun;
use crate::open::{self, OpenArgs};
use crate::output;
use crate::remote::Client;
use crate::resume;
use crate::run;
use crate::toolset::ToolArgs;
use crate::views::Runs;

/// How much of an input is shown in the list.
const INPUT_CHARS_MAX: usize = 60;

/// List the runs of a thread, the last one first, and those that wait.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// List at most this many runs, the last ones
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Send a thread its next message: the thread begins its next run. A run in progress is not disturbed, unless --on-message says so.
#[derive(Debug, Args)]
#[command(override_usage = "rethread send [OPTIONS] <THREAD> <TEXT|--value <JSON>>", group(ArgGroup::new("what").required(true)))]
pub(crate) struct SendArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// The message
    #[arg(group = "what", allow_hyphen_values = true)]
    text: Option<String>,
    /// The input as JSON, in place of a message
    #[arg(long, value_name = "JSON", group = "what", allow_hyphen_values = true, value_parser = value)]
    value: Option<Json>,
    /// What happens if a run is in progress: queue, steer, interrupt or reject (default: as the workflow says)
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    on_message: Option<OnMessage>,
    /// Keep the definition of the last run; otherwise the run takes the newest of that name
    #[arg(long)]
    pin: bool,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    form: Form,
}

fn value(text: &str) -> Result<Json, String> {
    serde_json::from_str::<serde_json::Value>(text).map(Json::from).map_err(|error| format!("not JSON: {error}"))
}

fn policy(text: &str) -> Result<OnMessage, String> {
    serde_json::from_value(text.into()).map_err(|_| "expected queue, steer, interrupt or reject".into())
}

pub(crate) async fn list(open: &OpenArgs, args: RunsArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_read().await?;
    let thread = open::find(&runtime, &args.thread).await?;
    let runs = Runs::of(&thread, None, args.limit as usize).await;
    open::close(runtime).await?;
    let runs = runs?;
    if args.json {
        output::print_json(&json!(runs))?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = |input: &serde_json::Value| {
        output::sanitize(&input.as_str().map_or_else(|| input.to_string(), str::to_owned), INPUT_CHARS_MAX)
    };
    let waits =
        runs.queued.iter().rev().map(|run| {
            vec![run.run_id.to_string(), String::new(), "queued".to_owned(), String::new(), shown(&run.input)]
        });
    let begun = runs.runs.iter().map(|run| {
        let number = run.number.to_string();
        vec![run.run_id.to_string(), number, run.status.to_string(), run.started_at.to_string(), shown(&run.input)]
    });
    output::print(output::table(&["RUN", "NUMBER", "STATUS", "STARTED", "INPUT"], waits.chain(begun)))?;
    if runs.next.is_some() && open.prints_messages() {
        output::print_message(&output::dim("there are earlier runs: see them with --limit"));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn send(open: &OpenArgs, args: SendArgs) -> Result<ExitCode, Failure> {
    interrupt::catch();
    let server = open.server().await?;
    let runtime = resume::runtime(open, server, &args.tools).await?;
    let thread = open::find(&runtime, &args.thread).await?;
    let last = thread.summary().await?.last_seq;
    let story = ShownRun::begin(&runtime, &thread, last.next()).await?;
    let form = args.form;
    let input = args.value.or_else(|| args.text.map(Json::from)).unwrap_or_default();
    let next = NextRun { input, on_message: args.on_message, pin: args.pin, definition: None, caller: run::caller() };
    start_next_run(server, &runtime, &thread, next).await?;
    let driven = drive(open, &runtime, &thread, story, form).await;
    finish(open, runtime, &thread, driven, form).await
}

/// The next run of a thread.
pub(crate) struct NextRun {
    pub(crate) input: Json,
    pub(crate) on_message: Option<OnMessage>,
    /// Whether it keeps the definition of the last run.
    pub(crate) pin: bool,
    /// The definition that it is to have.
    pub(crate) definition: Option<File>,
    /// The span that the run is part of.
    pub(crate) caller: Option<TraceParent>,
}

/// Starts the next run of a thread, here or at the server.
pub(crate) async fn start_next_run(
    server: Option<&Client>,
    runtime: &Runtime,
    thread: &ThreadHandle,
    next: NextRun,
) -> Result<(), Failure> {
    let NextRun { input, on_message, pin, definition, caller } = next;
    if let Some(server) = server {
        let text = definition.as_ref().map(File::text);
        let body = json!({ "input": input, "on_message": on_message, "pin": pin, "definition": text });
        return server.with_caller(caller).run(thread.id(), &body).await.map_err(|error| match &definition {
            Some(file) => file.refused(error),
            None => error.into(),
        });
    }
    let mut request = RunRequest::new(input).traceparent(caller);
    if let Some(policy) = on_message {
        request = request.on_message(policy);
    }
    if pin {
        request = request.pin();
    }
    if let Some(file) = definition {
        request = request.workflow(file.checked(runtime)?);
    }
    thread.run(request).await?;
    Ok(())
}
