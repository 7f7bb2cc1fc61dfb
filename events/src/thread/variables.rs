//! What expressions see: the variables of all scopes that are open here, innermost first, and four that are made from its conversation when they are used:
//! `messages` (all of it), `llm_calls` and `tool_calls` (of the model node that ran last), `workspace`.

mod looking_back;

use std::sync::Arc;

use minijinja::Value;

pub use self::looking_back::LOOKING_BACK;

use super::conversation::{Conversation, Entry};
use super::state::State;
use crate::bin::Ordered;
use crate::expression::{Context, Variables};
use crate::json::Json;
use crate::message::{Part, Role};

/// The names that are made from the conversation.
const MADE: [&str; 3] = ["messages", "llm_calls", "tool_calls"];

#[derive(Debug)]
struct View {
    /// Innermost first.
    scopes: Vec<Arc<Ordered<Json>>>,
    conversation: Arc<Conversation>,
    input: Option<Json>,
    workspace: Option<String>,
}

impl State {
    /// The variables as expressions see them. Cheap: shares the state's own.
    pub fn context(&self) -> Context {
        self.context_of(None)
    }

    /// The same with the answer of a person as `input`.
    pub(super) fn context_with_input(&self, input: Json) -> Context {
        self.context_of(Some(input))
    }

    fn context_of(&self, input: Option<Json>) -> Context {
        Context::new(self.view(input))
    }

    fn view(&self, input: Option<Json>) -> View {
        View {
            scopes: self.scopes(),
            conversation: self.conversation.clone(),
            input,
            workspace: self.workspace().map(str::to_owned),
        }
    }

    /// The model calls of the model node that ran last: `{tool_calls}` per answer.
    pub fn llm_calls(&self) -> serde_json::Value {
        llm_calls(self.conversation.turn())
    }

    /// The tool calls of the model node that ran last: `{id, name, arguments, success}` in the order the model asked.
    pub fn tool_calls(&self) -> serde_json::Value {
        tool_calls(self.conversation.turn())
    }
}

impl Variables for View {
    fn variable(&self, name: &str) -> Option<Value> {
        if name == "input"
            && let Some(input) = &self.input
        {
            return Some(value_of(&input.0));
        }
        if let Some(value) = self.scopes.iter().find_map(|scope| scope.get(name)) {
            return Some(value_of(&value.0));
        }
        match name {
            "messages" => {
                let messages: Vec<_> = self.conversation.entries.iter().map(|entry| &entry.message).collect();
                Some(value_of(messages))
            }
            "llm_calls" => Some(value_of(llm_calls(self.conversation.turn()))),
            "tool_calls" => Some(value_of(tool_calls(self.conversation.turn()))),
            "workspace" => self.workspace.as_deref().map(Value::from),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        let names: std::collections::BTreeSet<_> = self.scopes.iter().flat_map(|scope| scope.keys()).collect();
        names.into_iter().cloned().chain(MADE.iter().map(ToString::to_string)).collect()
    }
}

fn value_of(value: impl serde::Serialize) -> Value {
    minijinja::value::Serde(value).into()
}

fn llm_calls(turn: &[Entry]) -> serde_json::Value {
    let answers = turn.iter().filter(|entry| entry.message.role == Role::Assistant);
    answers
        .map(|entry| {
            let calls: Vec<_> = entry.message.tool_calls().map(|call| call.name.as_str()).collect();
            serde_json::json!({ "seq": entry.seq, "content": entry.message.joined_text(), "tool_calls": calls })
        })
        .collect()
}

fn tool_calls(turn: &[Entry]) -> serde_json::Value {
    let results: std::collections::BTreeMap<&str, bool> = turn
        .iter()
        .flat_map(|entry| &entry.message.content)
        .filter_map(|part| match part {
            Part::ToolResult(result) => Some((result.tool_call_id.as_str(), !result.is_error)),
            _ => None,
        })
        .collect();
    turn.iter()
        .flat_map(|entry| entry.message.tool_calls())
        .map(|call| {
            serde_json::json!({
                "id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "success": results.get(call.id.as_str()),
            })
        })
        .collect()
}
