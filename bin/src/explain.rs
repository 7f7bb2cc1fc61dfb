//! `explain`: what happened, where the time and the money went, and why it failed.

pub(crate) mod lines;
mod spending;
pub(crate) mod tree;
mod why;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
#[cfg(feature = "server")]
use rethread::Seq;
use rethread::{Runtime, State, Status, ThreadHandle};
use serde_json::json;

use crate::exit::Failure;
use crate::open::{self, OpenArgs};
use crate::output;
use crate::views::Explanation;
use tree::Told;
pub(crate) use why::Cause;

/// How many lines of steps a terminal gets unless all are asked for: so many at the beginning, twice as many at the end,
/// and between them each step that failed.
const LINES_MAX: usize = 60;
/// As wide as a line becomes where no terminal has to take it.
const WHOLE: usize = 1 << 20;

/// Explain what a thread did: a line for each step, with its branches; where time and money went; why it failed, or what
/// it waits for. Reads the log; calls no model and no tool.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// Explain the thread as it was at this moment: a seq, a checkpoint or a time
    #[arg(long, value_name = "SEQ|LABEL|TIME")]
    at: Option<String>,
    /// Print every step of a long thread on a terminal; a pipe and a file always get every step
    #[arg(long)]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn explain(open: &OpenArgs, args: ExplainArgs) -> Result<ExitCode, Failure> {
    let runtime = open.look().await?;
    let told = tell(&runtime, &args).await;
    open::close(runtime).await?;
    let (state, told) = told?;
    if args.json {
        output::print_json(&json!(view(&state, told)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = width();
    output::print(head(&state, &told))?;
    let (header, steps) = lines::of(&told, width);
    if !steps.is_empty() {
        output::print(format!("\n{header}"))?;
        let lines = if args.all || width == WHOLE { lines::all(&steps) } else { lines::shortened(&steps, LINES_MAX) };
        output::print(lines.join("\n"))?;
    }
    output::print(format!("\n{}", spending::in_words(&state, &told, width)))?;
    let why = why::in_words(&state, &told, width);
    if !why.is_empty() {
        output::print(format!("\n{why}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The explanation of a thread as it was after event `seq`, its branches as they are now.
#[cfg(feature = "server")]
pub(crate) async fn explanation(
    runtime: &Runtime,
    thread: &ThreadHandle,
    seq: Seq,
) -> Result<Explanation, rethread::errors::ReadError> {
    let state = thread.state_at(seq).await?;
    let told = tree::of(runtime, thread, seq).await?;
    Ok(view(&state, told))
}

fn view(state: &State, told: Told) -> Explanation {
    let tops = |tops: Vec<spending::Top<'_>>| tops.iter().map(spending::Top::view).collect();
    let (longest, dearest) = (tops(spending::longest(&told)), tops(spending::dearest(&told)));
    let (causes, branches_left_out) = (why::chain(&told), told.n_left_out);
    let (steps, branches) = told.into_steps();
    Explanation {
        thread_id: state.thread(),
        status: state.status(),
        workflow: state.workflow().map(|workflow| workflow.name.clone()),
        seq: state.last_seq(),
        error: state.error(),
        usage: state.usage(),
        steps,
        branches,
        branches_left_out,
        longest,
        dearest,
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

async fn tell(runtime: &Runtime, args: &ExplainArgs) -> Result<(State, Told), Failure> {
    let thread: ThreadHandle = open::find(runtime, &args.thread).await?;
    let seq = match &args.at {
        Some(moment) => crate::moment::seq_of(&thread, moment).await?,
        None => thread.summary().await?.last_seq,
    };
    let state = thread.state_at(seq).await?;
    let told = tree::of(runtime, &thread, seq).await?;
    Ok((state, told))
}

fn head(state: &State, told: &Told) -> String {
    let workflow = state.workflow().map(|workflow| output::tame(&workflow.name, 200)).unwrap_or_default();
    let took = told.steps.began.map_or(0, |began| told.steps.last_at.ms_since(began));
    let how = match state.status() {
        Status::Completed => "completed in",
        Status::Error => "failed after",
        Status::Cancelled => "was cancelled after",
        Status::Waiting => "waits for a person after",
        Status::Suspended => "waits for a time after",
        Status::Paused => "is paused after",
        Status::Running | Status::Pending | Status::Interrupted => "has not ended after",
    };
    let mut head = format!("{} {workflow}\n{how} {}", state.thread(), output::duration(took));
    if let Some(began) = told.steps.began {
        head.push_str(&format!(", begun {began}"));
    }
    for (parent, seq) in &told.steps.forked_from {
        head.push_str(&format!("\nforked from {parent} at {seq}"));
    }
    if told.steps.n_dropped > 0 {
        head.push_str(&format!("\n{} nodes before the first step below are left out", told.steps.n_dropped));
    }
    head
}
