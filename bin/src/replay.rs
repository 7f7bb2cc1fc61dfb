//! `replay`: the state as it was.

use std::process::ExitCode;

use clap::Args;
use rethread::errors::ReadError;
use rethread::operate::FamilyMember;
use rethread::{Message, Role, Seq, State, Status, ThreadHandle};
use serde_json::json;

use crate::exit::Failure;
use crate::moment::seq_of;
use crate::open::{self, OpenArgs};
use crate::views::Member;
use crate::{output, threads};

/// Show the state of a thread, and of its branches, at a moment of its history. Folds events; calls no model and no
/// tool.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The thread: its id, a part of its id, or `last`
    thread: String,
    /// The moment: a seq, a checkpoint, `end`, the end of a run, or a time (RFC 3339 or `5m ago`) (default: the last event)
    #[arg(long, visible_alias = "at", value_name = "SEQ|LABEL|run:ID|TIME")]
    to: Option<String>,
    /// Print the whole state as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn replay(open: &OpenArgs, args: ReplayArgs) -> Result<ExitCode, Failure> {
    let runtime = open.open_to_read().await?;
    let thread = open::find(&runtime, &args.thread).await;
    let moment = match thread {
        Ok(thread) => moment(&thread, args.to.as_deref()).await,
        Err(failure) => Err(failure),
    };
    open::close(runtime).await?;
    let (state, family) = moment?;
    if args.json {
        let mut json = state.to_json();
        json["family"] = json!(family);
        output::print_json(&json)?;
    } else {
        output::print(threads::describe(&state, state.status()))?;
        for member in family.iter().filter(|member| member.owner.is_some()) {
            output::print(line(member))?;
        }
        let conversation = conversation(&state);
        if !conversation.is_empty() {
            output::print(conversation)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The state of a thread at a moment, and the states of its branches then.
async fn moment(thread: &ThreadHandle, to: Option<&str>) -> Result<(State, Vec<Member>), Failure> {
    let seq = match to {
        None => thread.summary().await?.last_seq,
        Some(moment) => seq_of(thread, moment).await?,
    };
    Ok((thread.state_at(seq).await?, family(thread, seq).await?))
}

/// The thread and all its branches that ran at a moment, each at its last event before that moment.
pub(crate) async fn family(thread: &ThreadHandle, seq: Seq) -> Result<Vec<Member>, ReadError> {
    let mut family = Vec::new();
    for at in thread.family_at(seq).await? {
        let (status, node) = match at.seq {
            Some(seq) => {
                let state = thread.sibling(at.thread).state_at(seq).await?;
                (state.status(), state.node_name().map(ToString::to_string))
            }
            None => (Status::Pending, None),
        };
        let FamilyMember { thread, parent, name, seq } = at;
        family.push(Member { thread_id: thread, owner: parent, name, seq, status, node });
    }
    Ok(family)
}

fn line(member: &Member) -> String {
    let name = output::sanitize(member.name.as_deref().unwrap_or_default(), 40);
    let at = member.seq.map_or_else(|| "not begun".to_owned(), |seq| format!("{} at seq {seq}", member.status));
    let node = member.node.as_ref().map(|node| format!(", node {}", output::sanitize(node, 80))).unwrap_or_default();
    format!("{:<12}{name:<24} {} {at}{node}", "branch", member.thread_id)
}

fn conversation(state: &State) -> String {
    let lines = state.conversation().in_force().map(|entry| {
        let (who, said) = said(&entry.message);
        format!("{:>6}  {who:<10}{said}", entry.seq)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Who says what, on one line.
pub(crate) fn said(message: &Message) -> (&'static str, String) {
    let who = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut parts = Vec::new();
    let text = message.joined_text();
    if !text.is_empty() {
        parts.push(output::sanitize(&text, 400));
    }
    for part in &message.content {
        match part {
            rethread::Part::ToolCall(call) => {
                let arguments = output::sanitize(&call.arguments.0.to_string(), 200);
                parts.push(format!("→ {} {arguments}", output::sanitize(&call.name, 80)));
            }
            rethread::Part::ToolResult(result) => {
                let text: String = result.content.iter().filter_map(|part| part.as_text()).collect();
                parts.push(output::sanitize(&text, 400));
            }
            _ => {}
        }
    }
    (who, parts.join(" "))
}
