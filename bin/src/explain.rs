//! `explain`: shows what happened, the duration and cost of each step, and why the thread failed.

pub(crate) mod lines;
mod spending;
pub(crate) mod tree;
mod why;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
use rethread::errors::RunError;
use rethread::runs::RunId;
use rethread::steps::StepOutcome;
use rethread::{Runtime, Seq, State, Status, ThreadHandle};
use rethread_events::text;
use serde_json::json;

use crate::exit::Failure;
use crate::open::{self, OpenArgs};
use crate::output;
use crate::views::Explanation;
use tree::ExplainedThread;
pub(crate) use why::Cause;

/// How many lines of steps a terminal gets unless all are requested: this many at the beginning, twice as many at the
/// end, and between them each step that failed.
const LINES_MAX: usize = 60;
/// As wide as a line becomes where no terminal has to take it.
const WHOLE: usize = 1 << 20;
/// As wide as a line becomes for a program that reads text.
#[cfg(feature = "server")]
const WIDE: usize = 300;

/// Explain what a thread did: a line for each step, with its branches; where time and money went; why it failed, or what
/// it waits for. Reads the log; calls no model and no tool.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// Explain only this run: its steps, its times, what it used, and the branches that began in it
    #[arg(long, value_name = "ID", conflicts_with = "at")]
    run: Option<u64>,
    /// Explain the thread as it was at this moment: a seq, a checkpoint, the end of a run or a time
    #[arg(long, value_name = "SEQ|LABEL|run:ID|TIME")]
    at: Option<String>,
    /// Print every step of a long thread on a terminal; a pipe and a file always get every step
    #[arg(long)]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn explain(open: &OpenArgs, args: ExplainArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_read().await?;
    let explained = read_at(&runtime, &args).await;
    open::close(runtime).await?;
    let (state, explained) = explained?;
    if args.json {
        output::print_json(&json!(view(&state, explained)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = width();
    output::print(text_of(&state, &explained, width, args.all || width == WHOLE))?;
    Ok(ExitCode::SUCCESS)
}

/// The explanation of a thread as it was after event `seq`, or of a run of it, its branches as they are now.
#[cfg(feature = "server")]
pub(crate) async fn explanation(runtime: &Runtime, thread: &ThreadHandle, what: What) -> Result<Explanation, RunError> {
    let (state, explained) = read(runtime, thread, what).await?;
    Ok(view(&state, explained))
}

/// The explanation as text, with all steps or the first, the last and the failed ones.
#[cfg(feature = "server")]
pub(crate) async fn in_words(
    runtime: &Runtime,
    thread: &ThreadHandle,
    what: What,
    all: bool,
) -> Result<String, RunError> {
    let (state, explained) = read(runtime, thread, what).await?;
    Ok(text_of(&state, &explained, WIDE, all))
}

fn text_of(state: &State, explained: &ExplainedThread, width: usize, all: bool) -> String {
    let mut parts = vec![head(state, explained)];
    let (header, steps) = lines::of(explained, width);
    if !steps.is_empty() {
        let lines = if all { lines::all(&steps) } else { lines::shortened(&steps, LINES_MAX) };
        parts.push(format!("\n{header}\n{}", lines.join("\n")));
    }
    parts.push(format!("\n{}", spending::in_words(state, explained, width)));
    let why = why::in_words(state, explained, width);
    if !why.is_empty() {
        parts.push(format!("\n{why}"));
    }
    parts.join("\n")
}

/// The part of a thread to explain.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    /// The thread, up to this event.
    To(Seq),
    /// A run, up to its end or to now.
    Run(RunId),
}

async fn read(runtime: &Runtime, thread: &ThreadHandle, what: What) -> Result<(State, ExplainedThread), RunError> {
    let (steps, run) = match what {
        What::To(seq) => (thread.steps_at(seq).await?, None),
        What::Run(run) => (thread.run_steps(run).await?, Some(run)),
    };
    let state = thread.state_at(steps.last_seq).await?;
    let mut explained = tree::of(runtime, thread.id(), steps).await?;
    explained.run = run;
    Ok((state, explained))
}

/// How far the thread is, or the run that is explained: another one may follow it at once.
fn status(state: &State, explained: &ExplainedThread) -> Status {
    match explained.steps.outcome {
        _ if explained.run.is_none() => state.status(),
        StepOutcome::Completed => Status::Completed,
        StepOutcome::Failed => Status::Error,
        StepOutcome::Cancelled => Status::Cancelled,
        StepOutcome::Open => state.status(),
    }
}

fn view(state: &State, explained: ExplainedThread) -> Explanation {
    let tops = |tops: Vec<spending::Top<'_>>| tops.iter().map(spending::Top::view).collect();
    let (longest, most_expensive) = (tops(spending::longest(&explained)), tops(spending::most_expensive(&explained)));
    let (causes, branches_left_out, run_id) = (why::chain(&explained), explained.n_left_out, explained.run);
    let status = status(state, &explained);
    let (steps, branches) = explained.into_steps();
    Explanation {
        thread_id: state.thread(),
        run_id,
        status,
        workflow: state.workflow().map(|workflow| workflow.name.clone()),
        seq: state.last_seq(),
        error: state.error(),
        usage: if run_id.is_some() { state.run_usage() } else { state.usage() },
        steps,
        branches,
        branches_left_out,
        longest,
        dearest: most_expensive,
        causes,
    }
}

/// The columns of the terminal, 80 where it does not say; a pipe and a file take whole lines.
fn width() -> usize {
    if !std::io::stdout().is_terminal() {
        return WHOLE;
    }
    terminal_size::terminal_size_of(std::io::stdout()).map_or(80, |(width, _)| usize::from(width.0).max(60))
}

async fn read_at(runtime: &Runtime, args: &ExplainArgs) -> Result<(State, ExplainedThread), Failure> {
    let thread: ThreadHandle = open::find(runtime, &args.thread).await?;
    let what = match (args.run, &args.at) {
        (Some(run), _) => What::Run(RunId(Seq(run))),
        (None, Some(moment)) => What::To(crate::moment::seq_of(&thread, moment).await?),
        (None, None) => What::To(thread.summary().await?.last_seq),
    };
    Ok(read(runtime, &thread, what).await?)
}

fn head(state: &State, explained: &ExplainedThread) -> String {
    let workflow = state.workflow().map(|workflow| output::sanitize(&workflow.name, 200)).unwrap_or_default();
    let took = explained.steps.began.map_or(0, |began| explained.steps.last_at.ms_since(began));
    let how = match status(state, explained) {
        Status::Completed => "completed in",
        Status::Error => "failed after",
        Status::Cancelled => "was cancelled after",
        Status::Waiting => "waits for a person after",
        Status::Queued => "waits in a queue after",
        Status::Suspended => "waits for a time, a signal or a thread after",
        Status::Paused => "is paused after",
        Status::Running | Status::Pending | Status::Interrupted => "has not ended after",
    };
    let run = explained.run.map(|run| format!("run {run} ")).unwrap_or_default();
    let mut head = format!("{} {workflow}\n{run}{how} {}", state.thread(), output::duration(took));
    if let Some(began) = explained.steps.began {
        head.push_str(&format!(", begun {began}"));
    }
    for (parent, seq) in &explained.steps.forked_from {
        head.push_str(&format!("\nforked from {parent} at {seq}"));
    }
    for (seq, workflow) in &explained.steps.migrated {
        let hash = workflow.hash.to_string();
        let name = output::sanitize(&workflow.name, 200);
        head.push_str(&format!("\nmigrated at {seq} to {name} ({})", text::head(&hash, 12)));
    }
    if explained.steps.n_dropped > 0 {
        head.push_str(&format!("\n{} nodes before the first step below are left out", explained.steps.n_dropped));
    }
    head
}
