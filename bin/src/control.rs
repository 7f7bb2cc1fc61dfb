//! `cancel`, `pause` and `reschedule`.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use rethread::Time;
use serde_json::json;

use crate::exit::{CONFLICT, Failure};
use crate::moment;
use crate::open::{self, OpenArgs};
use crate::output;

/// Cancel a thread. Each open call gets a terminal event.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// The reason, which the event records
    #[arg(long)]
    reason: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Pause a thread. It begins no new work until it is resumed.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// The reason, which the event records
    #[arg(long)]
    reason: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Change when a wait of a thread ends. The thread waits in a node of the kind `wait`.
#[derive(Debug, Args)]
pub(crate) struct RescheduleArgs {
    /// The thread that waits, which can be a branch: its id, a part of its id, or `last`
    thread: String,
    #[command(flatten)]
    to: To,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// When a wait ends.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct To {
    /// End the wait at this time, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// End the wait this long from now: `90s`, `12h`, `3 days`
    #[arg(long = "in", value_name = "DURATION", value_parser = from_now)]
    after: Option<Time>,
    /// End the wait now
    #[arg(long)]
    now: bool,
}

fn from_now(text: &str) -> Result<Time, String> {
    moment::from_now(text, Timestamp::now()).ok_or_else(|| "expected a duration such as 90s, 12h or `3 days`".into())
}

pub(crate) async fn reschedule(open: &OpenArgs, args: RescheduleArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_change().await?;
    let thread = open::find(&runtime, &args.thread).await?;
    let state = thread.state().await?;
    let Some(wait) = state.timer().map(|run| run.id) else {
        let message = format!(
            "{} does not wait for a time: its status is {}. Branches that do are listed by `rethread tree {0}`",
            thread.id(),
            state.status()
        );
        return Err(Failure::new(CONFLICT, message));
    };
    let until = args.to.until.or(args.to.after).unwrap_or_else(|| runtime.now());
    match open.holder() {
        Some(server) => server.change_wait(thread.id(), wait, until).await?,
        None => thread.change_wait(wait, until).await?,
    }
    open::close(runtime).await?;
    if args.json {
        output::print_json(&json!({ "thread_id": thread.id(), "wait_id": wait, "until": until }))?;
    } else {
        output::print(format!("{} waits until {until}", thread.id()))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn cancel(open: &OpenArgs, args: CancelArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_change().await?;
    let thread = open::find(&runtime, &args.thread).await?;
    let state = match open.holder() {
        Some(server) => {
            server.cancel(thread.id(), args.reason).await?;
            // A command that ran the thread may end with it, before the next answer.
            thread.state().await.ok()
        }
        None => {
            thread.cancel(args.reason).await?;
            Some(thread.state().await?)
        }
    };
    let is_held = open.holder().is_some();
    let Some((state, hooks)) = state.as_ref().and_then(|state| Some((state, state.hooks()?))) else {
        return done(runtime, thread.id(), "cancelled", args.json).await;
    };
    open::close(runtime).await?;
    let (id, hook) = (thread.id(), hooks.hook);
    if args.json {
        output::print_json(&json!({ "thread_id": id, "status": state.status(), "hook": hook }))?;
    } else if is_held {
        output::print(format!("{id} cancelled; it ends after its hook {hook}"))?;
    } else {
        output::print(format!("{id} cancelled; its hook {hook} runs with: rethread resume {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn pause(open: &OpenArgs, args: PauseArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_change().await?;
    let thread = open::find(&runtime, &args.thread).await?;
    match open.holder() {
        Some(server) => server.pause(thread.id(), args.reason).await?,
        None => thread.pause(args.reason).await?,
    }
    done(runtime, thread.id(), "paused", args.json).await
}

async fn done(
    runtime: rethread::Runtime,
    id: rethread::ThreadId,
    status: &str,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    open::close(runtime).await?;
    if as_json {
        output::print_json(&json!({ "thread_id": id, "status": status }))?;
    } else {
        output::print(format!("{id} {status}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
