//! `replay`: the state as it was.

use std::process::ExitCode;

use clap::Args;
use rethread::{FamilyMember, Role, Runtime, Seq, State, Status, ThreadHandle, Time};
use serde_json::{Value, json};

use crate::exit::{Failure, NOT_FOUND};
use crate::open::{self, OpenArgs};
use crate::{output, threads};

/// Show the state of a thread as it was, and where its branches stood at that moment. Folds events: calls no model and
/// no tool.
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
    let thread = open::find(&runtime, &args.thread).await;
    let moment = match thread {
        Ok(thread) => moment(&runtime, &thread, args.to.as_deref()).await,
        Err(failure) => Err(failure),
    };
    open::close(runtime).await?;
    let (state, family) = moment?;
    if args.json {
        let mut json = state.to_json();
        json["family"] = family.iter().map(Member::to_json).collect();
        output::print_json(&json)?;
    } else {
        output::print(threads::describe(&state))?;
        for member in family.iter().filter(|member| member.at.owner.is_some()) {
            output::print(member.line())?;
        }
        let conversation = conversation(&state);
        if !conversation.is_empty() {
            output::print(conversation)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The state of a thread at a moment, and where its branches stood then.
async fn moment(runtime: &Runtime, thread: &ThreadHandle, to: Option<&str>) -> Result<(State, Vec<Member>), Failure> {
    let seq = match to {
        None => thread.summary().await?.last_seq,
        Some(moment) => seq_of(thread, moment).await?,
    };
    let state = thread.state_at(seq).await?;
    let mut family = Vec::new();
    for at in thread.family_at(seq).await? {
        let (status, node) = match at.seq {
            Some(seq) if at.owner.is_some() => {
                let state = runtime.thread(at.thread).state_at(seq).await?;
                (state.status(), state.node_name().map(ToString::to_string))
            }
            Some(_) => (state.status(), state.node_name().map(ToString::to_string)),
            None => (Status::Pending, None),
        };
        family.push(Member { at, status, node });
    }
    Ok((state, family))
}

/// A thread of the family at the moment that is looked at.
struct Member {
    at: FamilyMember,
    status: Status,
    node: Option<String>,
}

impl Member {
    fn to_json(&self) -> Value {
        let FamilyMember { thread, owner, name, seq } = &self.at;
        json!({
            "thread_id": thread, "owner": owner, "name": name, "seq": seq, "status": self.status, "node": self.node,
        })
    }

    fn line(&self) -> String {
        let name = output::tame(self.at.name.as_deref().unwrap_or_default(), 40);
        let at = self.at.seq.map_or_else(|| "not begun".to_owned(), |seq| format!("{} at seq {seq}", self.status));
        let node = self.node.as_ref().map(|node| format!(", node {}", output::tame(node, 80))).unwrap_or_default();
        format!("{:<12}{name:<24} {} {at}{node}", "branch", self.at.thread)
    }
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
