//! `resume`: resumes threads.

use std::process::ExitCode;

use clap::Args;
use futures::{StreamExt, stream};
use rethread::event::LimitRaised;
use rethread::workflow::nanousd;
use rethread::{Outcome, Runtime, Status, ThreadFilter, ThreadHandle};

use crate::drive::{Form, drive, finish};
use crate::exit::{self, Failure, INTERRUPTED};
use crate::family;
use crate::interrupt::{self, interrupted};
use crate::live::ShownRun;
use crate::open::{self, OpenArgs};
use crate::output;
use crate::remote::Client;
use crate::run;
use crate::toolset::ToolArgs;
use crate::waits;

/// How many threads `resume --all` runs at once.
const AT_ONCE: usize = 256;

/// Resume a thread that was paused, or that a crash or Ctrl-C left unfinished.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The thread: its id, a part of its id, or `last`
    #[arg(required_unless_present = "all")]
    thread: Option<String>,
    /// Resume every thread that has not ended
    #[arg(long, conflicts_with = "thread")]
    all: bool,
    /// Raise the budget to this total of tokens
    #[arg(long, value_name = "N", conflicts_with = "all", value_parser = clap::value_parser!(u64).range(1..))]
    budget_tokens: Option<u64>,
    /// Raise the budget to this total of US dollars, such as 0.25
    #[arg(long, value_name = "AMOUNT", conflicts_with = "all", value_parser = amount)]
    budget_usd: Option<u64>,
    /// Allow the agent loop, or the thread, this many more iterations
    #[arg(long, value_name = "N", conflicts_with = "all", value_parser = clap::value_parser!(u32).range(1..))]
    more: Option<u32>,
    /// Allow later model calls without a known price; a budget in money does not count them
    #[arg(long, conflicts_with = "all")]
    allow_unpriced: bool,
    #[command(flatten)]
    tools: ToolArgs,
    #[command(flatten)]
    form: Form,
}

fn amount(text: &str) -> Result<u64, String> {
    nanousd(text).ok_or_else(|| "not an amount in US dollars, such as 0.25".into())
}

pub(crate) async fn resume(open: &OpenArgs, args: ResumeArgs) -> Result<ExitCode, Failure> {
    interrupt::catch();
    if let Some(name) = &args.thread {
        let server = open.server().await?;
        let runtime = runtime(open, server, &args.tools).await?;
        let named = open::find(&runtime, name).await?;
        let thread = family::root_of(&runtime, &named).await?;
        if thread.id() != named.id() && open.prints_messages() {
            output::print_message(&format!("{} is a branch of {}, which is resumed", named.id(), thread.id()));
        }
        let summary = thread.summary().await?;
        if summary.status.is_ended() {
            let message = format!(
                "thread {} has ended ({}): fork it to continue from one of its moments",
                thread.id(),
                summary.status
            );
            return Err(Failure::new(exit::CONFLICT, message));
        }
        let story = ShownRun::begin(&runtime, &thread, summary.last_seq.next()).await?;
        let raised = LimitRaised {
            tokens: args.budget_tokens,
            cost_nanousd: args.budget_usd,
            iterations: args.more,
            allow_unpriced: args.allow_unpriced,
            by: None,
        };
        if raised != LimitRaised::default() {
            // A branch may have been named because it alone is to make more iterations.
            resume_thread(server, &named, &raised).await?;
        } else if summary.status == Status::Paused {
            resume_thread(server, &thread, &raised).await?;
        }
        let driven = drive(open, &runtime, &thread, story, args.form).await;
        return finish(open, runtime, &thread, driven, args.form).await;
    }
    let server = open.server().await?;
    if server.is_none() && !open.data_dir.is_dir() {
        // Nothing was ever run here, so nothing is unfinished.
        return all_done(open, &[], args.form).map(ExitCode::from);
    }
    let runtime = runtime(open, server, &args.tools).await?;
    let open_status = Status::ALL.into_iter().filter(|status| !status.is_ended()).collect();
    let unfinished = runtime.threads(ThreadFilter { status: open_status, ..ThreadFilter::default() }).await?;
    // Branches run with the thread whose branches they are.
    let roots = unfinished.into_iter().filter(|summary| summary.branch_of.is_none());
    let all = stream::iter(roots).map(|summary| {
        let thread = runtime.thread(summary.thread_id);
        open.driven.add(summary.thread_id);
        async move {
            if summary.status == Status::Paused {
                resume_thread(server, &thread, &LimitRaised::default()).await?;
            }
            match server {
                Some(server) => {
                    server.at_rest(&thread).await?;
                    Ok(thread.present().await?)
                }
                None => Ok::<_, Failure>(thread.at_rest().await?),
            }
        }
    });
    let outcomes = tokio::select! {
        outcomes = all.buffer_unordered(AT_ONCE).collect::<Vec<_>>() => outcomes,
        () = interrupted() => {
            open.end_work(&runtime).await;
            open::close(runtime).await?;
            output::print_message("interrupted; continue with: rethread resume --all");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    open.end_work(&runtime).await;
    let (mut done, mut open_waits) = (Vec::new(), Vec::new());
    let mut failure = None;
    for outcome in outcomes {
        let outcome = match outcome {
            Ok(outcome) => {
                if open.prints_messages() && !outcome.status.is_ended() {
                    open_waits.extend(waits::of(&runtime, outcome.thread_id).await.unwrap_or_default());
                }
                family::is_at_limit(&runtime, &outcome).await.map(|at| (outcome, at)).map_err(Failure::from)
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(outcome) => done.push(outcome),
            Err(error) => {
                output::print_error(&error.message);
                failure = Some(error.code);
            }
        }
    }
    open::close(runtime).await?;
    let code = all_done(open, &done, args.form)?;
    waits::print_each(&open_waits);
    Ok(ExitCode::from(failure.unwrap_or(code)))
}

/// A runtime that runs threads, or reads those that a server runs.
pub(crate) async fn runtime(open: &OpenArgs, server: Option<&Client>, tools: &ToolArgs) -> Result<Runtime, Failure> {
    let runtime = run::runtime(open, server, tools).await?;
    if let Some(server) = server {
        server.can_continue(tools)?;
    }
    Ok(runtime)
}

/// Ends the pauses of a thread and its branches, with higher limits where some are given.
async fn resume_thread(server: Option<&Client>, thread: &ThreadHandle, raised: &LimitRaised) -> Result<(), Failure> {
    match server {
        Some(server) => Ok(server.resume(thread.id(), raised).await?),
        None => Ok(thread.resume_tree(raised.clone()).await?),
    }
}

/// Prints the outcomes of threads, each with whether it is paused at a limit, and returns the exit code.
fn all_done(open: &OpenArgs, outcomes: &[(Outcome, bool)], form: Form) -> Result<u8, Failure> {
    if form.json {
        output::print_json(&outcomes.iter().map(|(outcome, _)| outcome.to_json()).collect())?;
    } else {
        for (outcome, _) in outcomes {
            if form.jsonl {
                output::print_line(&outcome.to_json())?;
            } else {
                output::print(format!("{} {}", outcome.thread_id, outcome.status))?;
            }
        }
    }
    if outcomes.is_empty() && open.prints_messages() {
        output::print_message("no thread is unfinished");
    }
    Ok(exit::of_outcomes(outcomes.iter().map(|(outcome, is_at_limit)| (outcome, *is_at_limit))))
}
