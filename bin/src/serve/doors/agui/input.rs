//! The body of a request: what is used, and what is refused because it would be lost. Members that the protocol does not
//! know are ignored, as it demands.

use std::collections::BTreeSet;

use rethread::runs::ConversationFormat;
use rethread::{Json, OrderedMap, State, Workflow};
use rethread_events::client_tools::VARIABLE;
use serde::Deserialize;
use serde_json::{Value, json};

use super::PROTOCOL_VERSION;
use super::shared_state::{OTHERS, is_shared};
use crate::serve::doors::client_tools::{self, ClientTools};
use crate::serve::doors::conversation::{Conversation, invalid};
use crate::serve::problem::Problem;

/// The longest id of a thread or run, in bytes.
const ID_BYTES_MAX: usize = 200;
/// The variables that receive `context` and `forwardedProps`.
const CONTEXT: &str = OTHERS[1];
const FORWARDED: &str = OTHERS[2];

/// `RunAgentInput`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Input {
    pub(super) thread_id: String,
    pub(super) run_id: String,
    protocol_version: Option<String>,
    pub(super) parent_run_id: Option<String>,
    messages: Vec<Value>,
    state: Option<Value>,
    #[serde(default)]
    tools: Vec<Tool>,
    /// The same, as they were checked.
    #[serde(skip)]
    pub(super) client_tools: ClientTools,
    #[serde(default)]
    context: Vec<Context>,
    forwarded_props: Option<Value>,
    #[serde(default)]
    pub(super) resume: Vec<Answer>,
    /// What was left out of the request.
    #[serde(skip)]
    pub(super) warnings: Vec<String>,
}

/// A tool that the client runs.
#[derive(Debug, Deserialize)]
struct Tool {
    name: String,
    description: Option<String>,
    parameters: Option<Value>,
}

/// Something that the client knows.
#[derive(Debug, Deserialize)]
struct Context {
    description: String,
    value: String,
}

/// The answer to an interrupt.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) interrupt_id: String,
    pub(super) status: AnswerStatus,
    #[serde(default)]
    pub(super) payload: Value,
}

/// Whether an interrupt was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerStatus {
    Resolved,
    Cancelled,
}

/// The text of the content of a message.
fn text_of(content: &Value) -> Value {
    match content {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<String>().into(),
        content => content.clone(),
    }
}

impl Input {
    /// Checks what needs no workflow.
    ///
    /// # Errors
    /// For ids that cannot be used, another protocol, and tools of the client that no model is offered.
    pub(super) fn check(mut self, configured: &BTreeSet<String>) -> Result<Self, Problem> {
        for (name, id) in [("threadId", &self.thread_id), ("runId", &self.run_id)] {
            if id.is_empty() || id.len() > ID_BYTES_MAX || id.contains(|c: char| c == ',' || c.is_control()) {
                let detail = format!("expected 1 to {ID_BYTES_MAX} bytes without commas and control characters");
                return Err(invalid(name, detail));
            }
        }
        if let Some(version) = &self.protocol_version {
            let major = version.split_once('.').and_then(|(major, _)| major.parse::<u32>().ok());
            match major {
                Some(1) if version == PROTOCOL_VERSION => {}
                Some(major) if major != 1 => {
                    let detail = format!("version {PROTOCOL_VERSION} of the protocol is spoken here");
                    return Err(invalid("protocolVersion", detail));
                }
                _ => self.warnings.push(format!("the protocol version is {PROTOCOL_VERSION}, not the requested one")),
            }
        }
        let tools = std::mem::take(&mut self.tools).into_iter();
        let tools = tools.map(|Tool { name, description, parameters }| {
            json!({ "name": name, "description": description, "parameters": parameters })
        });
        self.client_tools = ClientTools::read(tools.collect(), configured)?;
        Ok(self)
    }

    /// Returns the results of tool calls that are the last messages, by the id of the call, as decisions in place of an
    /// approval. An error is a rejection, which the model reads as a failure.
    pub(super) fn tool_results(&self) -> Vec<(&str, Value)> {
        let results = self.messages.iter().rev().take_while(|message| message["role"] == "tool");
        let result = |message: &'_ Value| match message["error"].as_str() {
            Some(error) => client_tools::failure(error),
            None => client_tools::result(text_of(&message["content"])),
        };
        results.filter_map(|message| Some((message["toolCallId"].as_str()?, result(message)))).collect()
    }

    /// Returns the conversation that a new thread begins with and continues.
    pub(super) fn conversation(&mut self) -> Result<Conversation, Problem> {
        let messages = std::mem::take(&mut self.messages);
        self.read(messages.iter().enumerate())
    }

    /// Returns the last message, with the instructions. A thread has the other messages.
    pub(super) fn last_message(&mut self) -> Result<Conversation, Problem> {
        let messages = std::mem::take(&mut self.messages);
        let last = messages.len().saturating_sub(1);
        let is_wanted = |(at, message): &(usize, &Value)| {
            *at == last || matches!(message["role"].as_str(), Some("system" | "developer"))
        };
        self.read(messages.iter().enumerate().filter(is_wanted))
    }

    fn read<'a>(&mut self, messages: impl Iterator<Item = (usize, &'a Value)>) -> Result<Conversation, Problem> {
        let mut chat = Vec::new();
        for (at, message) in messages {
            chat.extend(self.chat_message(message, &format!("messages[{at}]"))?);
        }
        Conversation::read("messages", ConversationFormat::OpenaiChat, &Value::Array(chat))
    }

    /// Returns a message in the form of Chat Completions; `None` for what is no part of a conversation here.
    fn chat_message(&mut self, message: &Value, place: &str) -> Result<Option<Value>, Problem> {
        let content = &message["content"];
        let chat = match message["role"].as_str() {
            Some("system" | "developer") => json!({ "role": "system", "content": content }),
            Some("user") => json!({ "role": "user", "content": self.chat_content(content, place)? }),
            Some("assistant") => {
                let mut chat = json!({ "role": "assistant", "content": content });
                if let Some(calls) = message.get("toolCalls") {
                    chat["tool_calls"] = calls.clone();
                }
                chat
            }
            Some("tool") => {
                let error = message.get("error").filter(|_| content.as_str().is_none_or(str::is_empty));
                let content = error.map_or_else(|| self.chat_content(content, place), |error| Ok(error.clone()))?;
                json!({ "role": "tool", "tool_call_id": message["toolCallId"], "content": content })
            }
            // A signature of the provider is missing, and activities are for the client.
            Some("reasoning" | "activity") => return Ok(None),
            _ => {
                let detail = "expected the role `user`, `assistant`, `tool`, `system`, `developer`, `reasoning` or \
                              `activity`";
                return Err(invalid(place, detail));
            }
        };
        Ok(Some(chat))
    }

    /// Returns the content of a message, without the parts that no model here can use.
    fn chat_content(&mut self, content: &Value, place: &str) -> Result<Value, Problem> {
        let Some(parts) = content.as_array() else { return Ok(content.clone()) };
        let mut chat = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let source = &part["source"];
            let url = match (source["type"].as_str(), source["value"].as_str()) {
                (Some("data"), Some(data)) => {
                    let media_type = source["mimeType"].as_str().unwrap_or("application/octet-stream");
                    Some(format!("data:{media_type};base64,{data}"))
                }
                (Some("url"), Some(url)) => Some(url.to_owned()),
                _ => None,
            };
            match (part["type"].as_str(), url) {
                (Some("text"), _) => chat.push(json!({ "type": "text", "text": part["text"] })),
                (Some("image"), Some(url)) => chat.push(json!({ "type": "image_url", "image_url": { "url": url } })),
                (Some("document"), Some(url)) => chat.push(json!({ "type": "file", "file": { "file_data": url } })),
                (Some(kind @ ("image" | "document" | "audio" | "video")), _) => {
                    self.warnings
                        .push(format!("{place}.content[{at}]: the part `{kind}` cannot be used, and is left out"));
                }
                _ => {
                    let detail = "expected a part of the type `text`, `image`, `document`, `audio` or `video`";
                    return Err(invalid(&format!("{place}.content[{at}]"), detail));
                }
            }
        }
        Ok(Value::Array(chat))
    }

    /// Returns the variables that the request sets, besides its instructions: those that have another value in the thread.
    ///
    /// # Errors
    /// For what the workflow would ignore.
    pub(super) fn variables(&self, workflow: &Workflow, thread: Option<&State>) -> Result<OrderedMap<Json>, Problem> {
        let mut variables = OrderedMap::default();
        let spec = workflow.spec();
        let present = |name: &str| thread.map_or(&spec.variables, State::variables).get(name);
        let mut set = |name: &str, value: Value| {
            let value = Json::from(value);
            if present(name) != Some(&value) {
                variables.insert(name.to_owned(), value);
            }
        };
        let lacks = |field: &str, variable: &str| {
            let name = workflow.name();
            let detail = format!(
                "the workflow `{name}` has no variable `{variable}`, so this would be lost: leave it out, or declare it \
                 under `variables`"
            );
            invalid(field, detail)
        };
        let context = self.context.iter();
        let context: Vec<_> =
            context.map(|item| json!({ "description": item.description, "value": item.value })).collect();
        if spec.variables.contains_key(CONTEXT) {
            set(CONTEXT, Value::Array(context));
        } else if !context.is_empty() {
            return Err(lacks("context", CONTEXT));
        }
        if let Some(tools) = self.client_tools.value_for(workflow)? {
            set(VARIABLE, tools.into_value());
        }
        match &self.forwarded_props {
            Some(props) if spec.variables.contains_key(FORWARDED) => set(FORWARDED, props.clone()),
            Some(Value::Object(props)) if props.is_empty() => {}
            None => {}
            Some(_) => return Err(lacks("forwardedProps", FORWARDED)),
        }
        match &self.state {
            None => {}
            Some(Value::Object(state)) => {
                for (name, value) in state {
                    if !is_shared(workflow, name) {
                        return Err(lacks("state", name));
                    }
                    set(name, value.clone());
                }
            }
            Some(_) => return Err(invalid("state", "expected an object, whose members are variables of the workflow")),
        }
        Ok(variables)
    }
}
