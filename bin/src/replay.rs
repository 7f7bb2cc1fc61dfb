//! `replay`: the state as it was.

use std::process::ExitCode;

use clap::Args;
use rethread::{Role, Seq, State, ThreadHandle, Time};

use crate::exit::{Failure, NOT_FOUND};
use crate::open::{self, OpenArgs};
use crate::{output, threads};

/// Show the state of a thread as it was. Folds its events: calls no model and no tool.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The thread: its id, a part of it, or `last`
    thread: String,
    /// A seq, the name of a checkpoint, or an RFC 3339 time; the last event unless given
    #[arg(long, value_name = "SEQ|LABEL|TIME")]
    to: Option<String>,
    /// Print the whole state as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn replay(open: &OpenArgs, args: ReplayArgs) -> Result<ExitCode, Failure> {
    let runtime = open.look().await?;
    let state = state_at(&open::find(&runtime, &args.thread).await?, args.to.as_deref()).await;
    open::close(runtime).await?;
    let state = state?;
    if args.json {
        output::print_json(&state.to_json())?;
    } else {
        output::print(threads::describe(&state))?;
        output::print(conversation(&state))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn state_at(thread: &ThreadHandle, to: Option<&str>) -> Result<State, Failure> {
    Ok(match to {
        None => thread.state().await?,
        Some(moment) => thread.state_at(seq_of(thread, moment).await?).await?,
    })
}

/// The seq that a person named: a number, a checkpoint, or the last event before a time.
pub(crate) async fn seq_of(thread: &ThreadHandle, moment: &str) -> Result<Seq, Failure> {
    if let Ok(seq) = moment.parse() {
        return Ok(Seq(seq));
    }
    if let Some(seq) = thread.checkpoint_seq(moment).await? {
        return Ok(seq);
    }
    if let Ok(time) = moment.parse::<Time>() {
        let events = thread.recorded_events(Seq(0)).await?;
        let before = events.iter().rev().find(|event| event.record.recorded_at <= time);
        return before.map(|event| event.record.seq).ok_or_else(|| {
            Failure::new(NOT_FOUND, format!("thread {} has no event at or before {time}", thread.id()))
        });
    }
    let state = thread.state().await?;
    let labels: Vec<_> = state.checkpoints().iter().map(|checkpoint| checkpoint.label.as_str()).collect();
    let known =
        if labels.is_empty() { "it has no checkpoints".to_owned() } else { format!("it has {}", labels.join(", ")) };
    let moment = output::tame(moment, 80);
    Err(Failure::new(NOT_FOUND, format!("`{moment}` is no seq, time or checkpoint of thread {}: {known}", thread.id())))
}

fn conversation(state: &State) -> String {
    let mut lines = Vec::new();
    for entry in &state.conversation().entries {
        let who = match entry.message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        let mut parts = Vec::new();
        let text = entry.message.joined_text();
        if !text.is_empty() {
            parts.push(output::tame(&text, 400));
        }
        for part in &entry.message.content {
            match part {
                rethread::Part::ToolCall(call) => {
                    parts.push(format!(
                        "→ {} {}",
                        output::tame(&call.name, 80),
                        output::tame(&call.arguments.0.to_string(), 200)
                    ));
                }
                rethread::Part::ToolResult(result) => {
                    let text: String = result.content.iter().filter_map(|part| part.as_text()).collect();
                    parts.push(output::tame(&text, 400));
                }
                _ => {}
            }
        }
        lines.push(format!("{:>6}  {who:<10}{}", entry.seq, parts.join(" ")));
    }
    lines.join("\n")
}
