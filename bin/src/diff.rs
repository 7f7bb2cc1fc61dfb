//! `diff`: what is different between two moments.

pub(crate) mod changes;

use std::process::ExitCode;

use clap::Args;
use rethread::{Runtime, State};

use crate::exit::Failure;
use crate::moment;
use crate::open::{self, OpenArgs};
use crate::output;
use changes::Change;

/// Show the changes of state and messages between two moments of one thread or of two.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The first moment: a thread, `@`, and a seq, a checkpoint, `end`, a time, or `run:ID`, the end of that run; without `@` the end of the thread
    #[arg(value_name = "THREAD@MOMENT")]
    from: String,
    /// The second moment; `@MOMENT` for the same thread
    #[arg(value_name = "THREAD@MOMENT")]
    to: String,
    /// Print a JSON Patch (RFC 6902) between the two states, which are those of `replay --json` without `family`
    #[arg(long)]
    json_patch: bool,
}

pub(crate) async fn diff(open: &OpenArgs, args: DiffArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_read().await?;
    let states = states(&runtime, &args).await;
    open::close(runtime).await?;
    let (from, to) = states?;
    if args.json_patch {
        let patch = json_patch::diff(&from.to_json(), &to.to_json());
        output::print_json(&serde_json::to_value(patch).unwrap_or_default())?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(in_words(&from, &to))?;
    Ok(ExitCode::SUCCESS)
}

/// The two moments, and a line for each change.
pub(crate) fn in_words(from: &State, to: &State) -> String {
    let head = [('-', from), ('+', to)].map(|(sign, state)| {
        let (thread, status) = (state.thread(), state.status());
        let seq = state.last_seq().map(|seq| seq.to_string()).unwrap_or_default();
        format!("{sign} {thread} at seq {seq}, {status}\n")
    });
    let lines: Vec<_> = changes::between(from, to).iter().map(Change::line).collect();
    let lines = if lines.is_empty() { "no difference".to_owned() } else { lines.join("\n") };
    format!("{}\n{lines}", head.concat())
}

async fn states(runtime: &Runtime, args: &DiffArgs) -> Result<(State, State), Failure> {
    let (first, from) = moment::find(runtime, &args.from, None).await?;
    let (second, to) = moment::find(runtime, &args.to, Some(&first)).await?;
    Ok((first.state_at(from).await?, second.state_at(to).await?))
}
