//! `run` and `resume`: threads at work.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use futures::{StreamExt, stream};
use rethread::{Json, Outcome, Runtime, Seq, StartThread, Status, ThreadFilter, ThreadHandle};
use serde_json::Value;

use crate::exit::{self, Failure, INTERRUPTED};
use crate::interrupt::interrupted;
use crate::live::{View, Watch};
use crate::open::{self, OpenArgs, ToolArgs};
use crate::{definition, interrupt, live, output};

/// How many threads `resume --all` runs at once.
const AT_ONCE: usize = 256;
/// The largest input, in bytes.
const INPUT_BYTES_MAX: usize = 16 << 20;

/// Run a workflow to its end.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The workflow file, YAML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The input, plain text: the variable `input` of the workflow
    #[arg(long, short, value_name = "TEXT", group = "given")]
    input: Option<String>,
    /// The input, JSON
    #[arg(long, value_name = "JSON", group = "given")]
    input_json: Option<String>,
    /// The input, from a file; `-` for stdin
    #[arg(long, value_name = "FILE", group = "given")]
    input_file: Option<PathBuf>,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    form: Form,
}

/// Go on with a thread that was paused, or that a crash or Ctrl-C left unfinished.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The thread: its id, a part of it, or `last`
    #[arg(required_unless_present = "all")]
    thread: Option<String>,
    /// Every thread that has not ended
    #[arg(long, conflicts_with = "thread")]
    all: bool,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    form: Form,
}

/// What is printed.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "What is printed")]
pub(crate) struct Form {
    /// Print one JSON object at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Print each event as one JSON object on a line, and the outcome as the last
    #[arg(long, conflicts_with = "json")]
    pub(crate) jsonl: bool,
    /// Never ask on the terminal: stop with exit code 4 when a person is needed
    #[arg(long)]
    pub(crate) no_input: bool,
}

pub(crate) async fn run(open: &OpenArgs, args: RunArgs) -> Result<ExitCode, Failure> {
    interrupt::catch();
    let file = definition::read(&args.file)?;
    let input = input(&args)?;
    let runtime = open.work(&args.tools).await?;
    let workflow = file.checked(&runtime)?;
    let folder = match &args.tools.workspace {
        Some(folder) => folder.canonicalize(),
        None => std::env::current_dir(),
    };
    let mut start = StartThread::new(workflow, input);
    if let Ok(folder) = folder
        && let Some(folder) = folder.to_str()
    {
        start = start.workspace(folder);
    }
    let thread = runtime.start(start).await?;
    let driven = drive(open, &thread, Seq(0), args.form).await;
    finish(open, runtime, &thread, driven, args.form).await
}

fn input(args: &RunArgs) -> Result<Json, Failure> {
    if let Some(text) = &args.input {
        return Ok(Json::from(text.as_str()));
    }
    if let Some(text) = &args.input_json {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Failure::new(2, format!("--input-json is not JSON: {error}")))?;
        return Ok(Json::from(value));
    }
    if let Some(file) = &args.input_file {
        let bytes = definition::read_limited(file, INPUT_BYTES_MAX)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::new(exit::INVALID, format!("{} is not UTF-8 text", file.display())))?;
        return Ok(Json::from(text));
    }
    Ok(Json::from(""))
}

pub(crate) async fn resume(open: &OpenArgs, args: ResumeArgs) -> Result<ExitCode, Failure> {
    interrupt::catch();
    if let Some(name) = &args.thread {
        let runtime = open.work(&args.tools).await?;
        let thread = open::find(&runtime, name).await?;
        let summary = thread.summary().await?;
        if summary.status.is_ended() {
            let message = format!(
                "thread {} has ended ({}): fork it to go on from one of its moments",
                thread.id(),
                summary.status
            );
            return Err(Failure::new(exit::CONFLICT, message));
        }
        if summary.status == Status::Paused {
            thread.resume().await?;
        }
        let driven = drive(open, &thread, summary.last_seq.next(), args.form).await;
        return finish(open, runtime, &thread, driven, args.form).await;
    }
    if !open.data_dir.is_dir() {
        // Nothing was ever run here, so nothing is unfinished.
        return all_done(open, &[], args.form);
    }
    let runtime = open.work(&args.tools).await?;
    let open_status = Status::ALL.into_iter().filter(|status| !status.is_ended()).collect();
    let unfinished = runtime.threads(ThreadFilter { status: open_status, ..ThreadFilter::default() }).await?;
    let all = stream::iter(unfinished).map(|summary| {
        let thread = runtime.thread(summary.thread_id);
        async move {
            if summary.status == Status::Paused {
                thread.resume().await?;
            }
            thread.at_rest().await
        }
    });
    let outcomes = tokio::select! {
        outcomes = all.buffer_unordered(AT_ONCE).collect::<Vec<_>>() => outcomes,
        () = interrupted() => {
            open::close(runtime).await?;
            output::say("interrupted; go on with: rethread resume --all");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    open::close(runtime).await?;
    let mut done = Vec::new();
    let mut failure = None;
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => done.push(outcome),
            Err(error) => {
                let error = Failure::from(error);
                output::say(&format!("{}: {}", output::red("error"), error.message));
                failure = Some(error.code);
            }
        }
    }
    let code = all_done(open, &done, args.form)?;
    Ok(failure.map_or(code, ExitCode::from))
}

fn all_done(open: &OpenArgs, outcomes: &[Outcome], form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        output::print_json(&outcomes.iter().map(Outcome::to_json).collect())?;
    } else {
        for outcome in outcomes {
            if form.jsonl {
                output::print_line(&outcome.to_json())?;
            } else {
                output::print(format!("{} {}", outcome.thread_id, outcome.status))?;
            }
        }
    }
    if outcomes.is_empty() && open.talks() {
        output::say("no thread is unfinished");
    }
    let any = |wanted: &dyn Fn(Status) -> bool| outcomes.iter().any(|outcome| wanted(outcome.status));
    Ok(if any(&|status| matches!(status, Status::Error | Status::Cancelled)) {
        ExitCode::from(exit::FAILED)
    } else if any(&|status| !status.is_ended()) {
        ExitCode::from(exit::WAITING)
    } else {
        ExitCode::SUCCESS
    })
}

/// What became of a thread that was driven.
pub(crate) enum Driven {
    AtRest(Box<Outcome>),
    Interrupted,
}

/// Shows the thread at work until it has ended or waits for somebody who is not here.
pub(crate) async fn drive(open: &OpenArgs, thread: &ThreadHandle, from: Seq, form: Form) -> Result<Driven, Failure> {
    let mut from = from;
    loop {
        let view = View::choose(open, form);
        let watching = view.map(|view| Watch::begin(view, thread.clone(), from));
        let at_rest = tokio::select! {
            outcome = thread.at_rest() => Some(outcome),
            () = interrupted() => None,
        };
        let Some(outcome) = at_rest else {
            if let Some(watching) = watching {
                watching.stop().await;
            }
            if open.talks() {
                output::say("stopping: what runs may end in the next two seconds; Ctrl-C again ends at once");
            }
            return Ok(Driven::Interrupted);
        };
        let outcome = outcome?;
        from = outcome.state.next_seq();
        if let Some(watching) = watching {
            watching.finish(from).await?;
        }
        match outcome.state.interaction() {
            Some(ask) if outcome.status == Status::Waiting && live::may_ask(form) => {
                let prompt = ask.prompt.clone();
                let answer = tokio::select! {
                    answer = live::ask(prompt) => answer,
                    // Its time was up before an answer came.
                    _ = thread.outcome() => {
                        live::end_line();
                        continue;
                    }
                    () = interrupted() => {
                        live::end_line();
                        return Ok(Driven::Interrupted);
                    }
                };
                let Some(answer) = answer else {
                    live::end_line();
                    return Ok(Driven::AtRest(Box::new(outcome)));
                };
                match thread.respond(ask.id, answer).await {
                    Ok(()) => {}
                    Err(error) => output::say(&format!("{}: {error}", output::red("error"))),
                }
            }
            _ => return Ok(Driven::AtRest(Box::new(outcome))),
        }
    }
}

/// Stops the runtime and says what became of the thread.
pub(crate) async fn finish(
    open: &OpenArgs,
    runtime: Runtime,
    thread: &ThreadHandle,
    driven: Result<Driven, Failure>,
    form: Form,
) -> Result<ExitCode, Failure> {
    let id = thread.id();
    let closed = open::close(runtime).await;
    let outcome = match driven? {
        Driven::AtRest(outcome) => outcome,
        Driven::Interrupted => {
            closed?;
            output::say(&format!("interrupted; go on with: rethread resume {id}"));
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    closed?;
    if form.json {
        output::print_json(&outcome.to_json())?;
    } else if form.jsonl {
        output::print_line(&outcome.to_json())?;
    } else if let Some(text) = &outcome.output
        && outcome.success()
    {
        output::print_text(&text.as_str().map_or_else(|| format!("{text:#}"), str::to_owned))?;
    }
    if let Some(error) = &outcome.error {
        let message = output::tame_lines(&error.message);
        output::say(&format!("{}: {}: {message}", output::red("error"), error.kind));
    }
    if !open.talks() {
        return Ok(exit::of_outcome(&outcome));
    }
    if let Some(ask) = outcome.state.interaction().filter(|_| outcome.status == Status::Waiting) {
        let key = ask.id.key(id);
        let prompt = ask.prompt.as_deref().map(|prompt| output::tame(prompt, 400)).unwrap_or_default();
        output::say(&format!("waiting for a person: {prompt}"));
        output::say(&format!("answer it:  rethread respond {key} --text ANSWER\nthen:       rethread resume {id}"));
    }
    if outcome.status == Status::Paused {
        output::say(&format!("paused; go on with: rethread resume {id}"));
    }
    if outcome.status.is_ended() && !form.json && !form.jsonl {
        output::say(&output::dim(format!("look at it with: rethread show {id}")));
    }
    Ok(exit::of_outcome(&outcome))
}
