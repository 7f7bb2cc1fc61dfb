//! The conversation of a thread as updates, for a client that loads the session.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use agent_client_protocol::v1::schema::{ContentChunk, MessageId, SessionUpdate, ToolCallStatus};
use rethread::{Part, Role, State};

use super::calls::{self, Shown};
use super::made;
use super::translate::{changed, id_of_call, ids_of_calls};

/// What is told of a conversation.
pub(super) struct Replay {
    pub(super) updates: Vec<SessionUpdate>,
    /// The calls of the last answer, if they have no results yet, by the ids that the model gave them.
    pub(super) open: HashMap<String, String>,
}

/// Returns the conversation of a thread, without instructions.
pub(super) fn of(state: &State, folder: &Path) -> Replay {
    let mut replay = Replay { updates: Vec::new(), open: HashMap::new() };
    let mut changes = HashSet::new();
    for entry in state.conversation().entries.iter() {
        let message = &entry.message;
        let id = MessageId::new(format!("{}-{}", state.thread(), entry.seq));
        let chunk = || ContentChunk::new(message.joined_text().into()).message_id(id.clone());
        match message.role {
            Role::System => {}
            Role::User => replay.updates.push(SessionUpdate::UserMessageChunk(chunk())),
            Role::Assistant => {
                if !message.joined_text().is_empty() {
                    replay.updates.push(SessionUpdate::AgentMessageChunk(chunk()));
                }
                for content in made::content(message, state.thread(), entry.seq) {
                    let chunk = ContentChunk::new(content).message_id(id.clone());
                    replay.updates.push(SessionUpdate::AgentMessageChunk(chunk));
                }
                replay.open = ids_of_calls(entry.seq, message);
                for (place, call) in message.tool_calls().enumerate() {
                    let (id, shown) = (id_of_call(entry.seq, place), Shown::of(&call.name, &call.arguments.0, folder));
                    if shown.has_change() {
                        changes.insert(id.clone());
                    }
                    replay.updates.push(SessionUpdate::ToolCall(shown.call(id, ToolCallStatus::Pending)));
                }
            }
            Role::Tool => {
                for part in &message.content {
                    let Part::ToolResult(result) = part else { continue };
                    let Some(id) = replay.open.remove(&result.tool_call_id) else { continue };
                    let status = if result.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
                    let text: String = result.content.iter().filter_map(Part::as_text).collect();
                    let keeps = changes.contains(&id) && !result.is_error;
                    let content = if keeps { Vec::new() } else { calls::content(&text) };
                    replay.updates.push(changed(id, status, content));
                }
            }
        }
    }
    replay
}
