//! What expressions see: the variables of all scopes that are open here, innermost first, and those that are made when they
//! are used: `messages` (the whole conversation), `llm_calls` and `tool_calls` (of the model node that ran last),
//! `workspace`, and in hooks `ending`.

pub(super) mod looking_back;

use std::borrow::Cow;
use std::sync::Arc;

use minijinja::Value;
use serde::{Serialize, Serializer};

use super::conversation::{Conversation, Entry};
use super::state::{HookRun, State};
use crate::codec::OrderedMap;
use crate::expression::{Context, Variables};
use crate::ids::Seq;
use crate::json::Json;
use crate::message::{Part, Role};
use crate::workflow::CHECKED;

/// The names that are made from the conversation.
const MADE: [&str; 3] = ["messages", "llm_calls", "tool_calls"];

#[derive(Debug)]
struct View {
    /// Innermost first.
    scopes: Vec<Arc<OrderedMap<Json>>>,
    conversation: Arc<Conversation>,
    /// A name, and the value that replaces the variable.
    shadow: Option<(&'static str, Json)>,
    workspace: Option<String>,
    hooks: Option<Arc<HookRun>>,
}

impl State {
    /// The variables as expressions see them. Cheap: shares the state's own.
    pub fn context(&self) -> Context {
        self.context_of(None)
    }

    /// The same with the answer of a person as `input`.
    pub(super) fn context_with_input(&self, input: Json) -> Context {
        self.context_of(Some(("input", input)))
    }

    /// The same with this value as `output`.
    pub(super) fn context_with_output(&self, output: Json) -> Context {
        self.context_of(Some(("output", output)))
    }

    /// The same with what a guardrail checks as `checked`.
    pub(super) fn context_with_checked(&self, checked: Json) -> Context {
        self.context_of(Some((CHECKED, checked)))
    }

    fn context_of(&self, shadow: Option<(&'static str, Json)>) -> Context {
        Context::new(self.view(shadow))
    }

    fn view(&self, shadow: Option<(&'static str, Json)>) -> View {
        View {
            scopes: self.scopes(),
            conversation: self.conversation.clone(),
            shadow,
            workspace: self.workspace().map(str::to_owned),
            hooks: self.hooks.clone(),
        }
    }

    /// The model calls of the model node that ran last: `{tool_calls}` per answer.
    pub fn llm_calls(&self) -> serde_json::Value {
        serde_json::to_value(self.llm_calls_json()).unwrap_or_default()
    }

    /// The same, to be written.
    pub(super) fn llm_calls_json(&self) -> impl Serialize + '_ {
        LlmCalls(self.conversation.turn())
    }

    /// The tool calls of the model node that ran last: `{id, name, arguments, success}` in the order the model asked.
    pub fn tool_calls(&self) -> serde_json::Value {
        serde_json::to_value(self.tool_calls_json()).unwrap_or_default()
    }

    /// The same, to be written.
    pub(super) fn tool_calls_json(&self) -> impl Serialize + '_ {
        ToolCalls(self.conversation.turn())
    }
}

impl Variables for View {
    fn variable(&self, name: &str) -> Option<Value> {
        if let Some((_, value)) = self.shadow.as_ref().filter(|(shadowed, _)| *shadowed == name) {
            return Some(value_of(&value.0));
        }
        if let Some(value) = self.scopes.iter().find_map(|scope| scope.get(name)) {
            return Some(value_of(&value.0));
        }
        match name {
            "messages" => {
                let messages: Vec<_> = self.conversation.in_force().map(|entry| &entry.message).collect();
                Some(value_of(messages))
            }
            "llm_calls" => Some(value_of(LlmCalls(self.conversation.turn()))),
            "tool_calls" => Some(value_of(ToolCalls(self.conversation.turn()))),
            "ending" => self.hooks.as_ref().map(|hooks| value_of(hooks.variable())),
            "workspace" => self.workspace.as_deref().map(Value::from),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        let names: std::collections::BTreeSet<_> = self.scopes.iter().flat_map(|scope| scope.keys()).collect();
        let ending = self.hooks.is_some().then_some("ending");
        names.into_iter().cloned().chain(MADE.into_iter().chain(ending).map(str::to_owned)).collect()
    }
}

fn value_of(value: impl serde::Serialize) -> Value {
    minijinja::value::Serde(value).into()
}

/// What a turn asked of models. Written from where it lies: a turn may be as long as its thread.
struct LlmCalls<'a>(Cow<'a, [Entry]>);

#[derive(Serialize)]
struct LlmCall<'a> {
    seq: Seq,
    content: String,
    tool_calls: Vec<&'a str>,
}

impl Serialize for LlmCalls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let answers = self.0.iter().filter(|entry| entry.message.role == Role::Assistant);
        serializer.collect_seq(answers.map(|entry| LlmCall {
            seq: entry.seq,
            content: entry.message.joined_text(),
            tool_calls: entry.message.tool_calls().map(|call| call.name.as_str()).collect(),
        }))
    }
}

/// What a turn asked of tools, likewise.
struct ToolCalls<'a>(Cow<'a, [Entry]>);

#[derive(Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a Json,
    success: Option<bool>,
}

impl Serialize for ToolCalls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = self.0.iter().flat_map(|entry| &entry.message.content);
        let results: indexmap::IndexMap<&str, bool> = parts
            .filter_map(|part| match part {
                Part::ToolResult(result) => Some((result.tool_call_id.as_str(), !result.is_error)),
                _ => None,
            })
            .collect();
        let calls = self.0.iter().flat_map(|entry| entry.message.tool_calls());
        serializer.collect_seq(calls.map(|call| ToolCall {
            id: &call.id,
            name: &call.name,
            arguments: &call.arguments,
            success: results.get(call.id.as_str()).copied(),
        }))
    }
}
