//! `bisect`: finds the first event after which an expression is true.

use std::process::ExitCode;

use clap::Args;
use rethread::Seq;
use rethread::operate::Bisected;
use rethread::runs::RunId;
use rethread_events::expression;
use rethread_events::thread::LOOKING_BACK;
use serde_json::{Value, json};

use crate::events::print_event;
use crate::exit::{FAILED, Failure};
use crate::open::{self, OpenArgs};
use crate::output;

/// Find the first event after which an expression is true.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct BisectArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// The expression, as in workflows, over the thread's variables and its state
    #[arg(long, value_name = "EXPR")]
    when: String,
    /// Search only the events of this run, up to the one before the next run
    #[arg(long, value_name = "ID")]
    run: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn help() -> String {
    let names: Vec<_> = LOOKING_BACK.iter().map(|(name, what)| format!("  {name:<16}{what}")).collect();
    format!(
        "The expression sees the thread's variables and these names, which describe the thread after each event. A variable\n\
         of the same name hides one of these; `thread.NAME` is never hidden. A name that is not set yet counts as false.\n\
         {}\n\nExit codes: 0 found, 1 never true, 2 the expression cannot be parsed\n\n\
         Examples:\n  rethread bisect last --when \"tokens > 10000\"\n  \
         rethread bisect last --when \"'refund' in last_message and score is defined\"",
        names.join("\n")
    )
}

pub(crate) async fn bisect(open: &OpenArgs, args: BisectArgs) -> Result<ExitCode, Failure> {
    expression::check(&args.when).map_err(|error| Failure::new(2, format!("--when: {error}")))?;
    let runtime = open.open_to_read().await?;
    let found = match open::find(&runtime, &args.thread).await {
        Ok(thread) => match args.run {
            Some(run) => thread.bisect_run(RunId(Seq(run)), &args.when).await.map_err(Failure::from),
            None => thread.bisect(&args.when).await.map_err(Failure::from),
        },
        Err(failure) => Err(failure),
    };
    open::close(runtime).await?;
    let found = found?;
    if args.json {
        output::print_json(&json(&found))?;
    } else if let Some(event) = &found.first {
        print_event(event, false)?;
    }
    if found.first.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    let Bisected { first: _, n_events, n_not_evaluated, why_not } = found;
    let often = format!("it holds after none of the {n_events} events");
    output::print_message(&match why_not {
        Some(why) if n_not_evaluated == n_events => {
            output::sanitize(&format!("{often}, and could not be evaluated after any: {why}"), 600)
        }
        Some(why) => output::sanitize(
            &format!("{often}; after {n_not_evaluated} of them it could not be evaluated, the last time: {why}"),
            600,
        ),
        None => often,
    });
    Ok(ExitCode::from(FAILED))
}

/// What was found, as one JSON object.
pub(crate) fn json(found: &Bisected) -> Value {
    let Bisected { first, n_events, n_not_evaluated, why_not } = found;
    json!({
        "seq": first.as_ref().map(|event| event.record.seq),
        "event": first.as_ref().map(rethread::RecordedEvent::to_json),
        "events_looked_at": n_events,
        "not_evaluated": n_not_evaluated,
        "why_not": why_not,
    })
}
