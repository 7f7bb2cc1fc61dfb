//! Tool calls, and their results.

use std::collections::{BTreeMap, BTreeSet};

use rethread::event::AskedTool;
use rethread::{CallId, ExecutionError, Message, Part, ThreadId};
use rethread_events::event::{
    BranchEnded, Decision, ToolExecutionCompleted, ToolExecutionRequest, UserInteractionFailed,
    UserInteractionProcessed,
};
use serde_json::{Value, json};

use super::super::event::Event as AguiEvent;

/// Returns the names by which clients know the tool calls of an answer, by the id that the model gave them. A model may give
/// an id again, so a name has the number of the model call as well: no other call of the thread has it, and every stream
/// uses the same. An id that the answer has twice names no call.
pub(in super::super) fn names(answer: &Message, call: CallId) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let mut twice = BTreeSet::new();
    for tool in answer.tool_calls() {
        if names.insert(tool.id.clone(), format!("{}#{call}", tool.id)).is_some() {
            twice.insert(&tool.id);
        }
    }
    names.retain(|id, _| !twice.contains(id));
    names
}

/// The tool calls of a stream that were announced, in this stream or in one before, by the names that clients know them by.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    /// The names of the calls of the last answer, see [`names`].
    of_answer: BTreeMap<String, String>,
    running: BTreeMap<CallId, String>,
    /// The calls about which a person is asked.
    asked: BTreeMap<CallId, String>,
    agents: BTreeMap<ThreadId, String>,
}

impl ToolCalls {
    /// Announces the calls of an answer.
    pub(super) fn announce(
        &mut self,
        answer: &Message,
        message: &str,
        call: CallId,
    ) -> impl Iterator<Item = AguiEvent> {
        self.of_answer = names(answer, call);
        answer.tool_calls().enumerate().flat_map(move |(at, tool)| {
            let id = self.of_answer.get(&tool.id).cloned();
            let id = id.unwrap_or_else(|| format!("{}#{call}.{at}", tool.id));
            let arguments = tool.arguments_raw.clone().unwrap_or_else(|| tool.arguments.0.to_string());
            call_events(id, &tool.name, arguments, Some(message.to_owned()))
        })
    }

    /// The calls of an answer were announced in a stream before.
    pub(super) fn goes_on(&mut self, answer: &Message, call: CallId) {
        self.of_answer = names(answer, call);
    }

    /// The calls that come next are not announced.
    pub(super) fn forget(&mut self) {
        self.of_answer.clear();
    }

    /// Announces the call of a node, which no model made.
    pub(super) fn of_node(
        &mut self,
        thread: ThreadId,
        call: CallId,
        request: &ToolExecutionRequest,
    ) -> impl Iterator<Item = AguiEvent> {
        let id = call.key(thread);
        self.running.insert(call, id.clone());
        call_events(id, request.name.as_str(), request.arguments.0.to_string(), None)
    }

    /// The call of a node runs, which was announced in a stream before.
    pub(super) fn node_runs(&mut self, thread: ThreadId, call: CallId) {
        self.running.insert(call, call.key(thread));
    }

    /// A call of a model runs.
    pub(super) fn runs(&mut self, call: CallId, id: &str) {
        if let Some(name) = self.of_answer.get(id) {
            self.running.insert(call, name.clone());
        }
    }

    /// The name of a call that runs.
    pub(super) fn running(&self, call: CallId) -> Option<&String> {
        self.running.get(&call)
    }

    /// A call runs an agent. Returns its name; `None` if it was not announced.
    pub(super) fn agent_runs(&mut self, child: ThreadId, id: &str) -> Option<String> {
        let name = self.of_answer.get(id)?;
        self.agents.insert(child, name.clone());
        Some(name.clone())
    }

    /// A person is asked about a call.
    pub(super) fn asks(&mut self, question: CallId, tool: &AskedTool) {
        if let Some(name) = tool.tool_call_id.as_ref().and_then(|id| self.of_answer.get(id)) {
            self.asked.insert(question, name.clone());
        }
    }

    /// The name of the call about which a person is asked.
    pub(super) fn asked(&self, question: CallId) -> Option<&String> {
        self.asked.get(&question)
    }

    /// A call has an answer.
    pub(super) fn completed(&mut self, thread: ThreadId, ended: &ToolExecutionCompleted) -> Option<AguiEvent> {
        let name = self.running.remove(&ended.call_id)?;
        Some(result(ended.call_id.key(thread), name, content(&ended.content)))
    }

    /// A call failed.
    pub(super) fn failed(&mut self, thread: ThreadId, call: CallId, error: &ExecutionError) -> Option<AguiEvent> {
        let name = self.running.remove(&call)?;
        Some(result(call.key(thread), name, error_content(error)))
    }

    /// An agent has ended that a call ran. Returns the result of the call.
    pub(super) fn agent_ended(&mut self, ended: &BranchEnded) -> Option<AguiEvent> {
        let name = self.agents.remove(&ended.child)?;
        let content = match (&ended.error, &ended.output) {
            (Some(error), _) => error_content(error),
            (None, Some(output)) => text_of(&output.0),
            (None, None) => json!(""),
        };
        Some(result(ended.child.to_string(), name, content))
    }

    /// A person has decided about a call. Returns the result if that is one.
    pub(super) fn decided(&mut self, thread: ThreadId, processed: &UserInteractionProcessed) -> Option<AguiEvent> {
        let name = self.asked.remove(&processed.interaction_id)?;
        let content = match processed.results.decision.as_ref()? {
            Decision::Approve {} | Decision::Edit { .. } => return None,
            Decision::Reject { reason } => {
                json!(format!("rejected{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()))
            }
            Decision::Answer { content } => text_of(&content.0),
        };
        Some(result(processed.interaction_id.key(thread), name, content))
    }

    /// The question about a call has no answer.
    pub(super) fn not_decided(&mut self, thread: ThreadId, failed: &UserInteractionFailed) -> Option<AguiEvent> {
        let name = self.asked.remove(&failed.interaction_id)?;
        let detail = failed.detail.clone().unwrap_or_else(|| "nobody answered".to_owned());
        Some(result(failed.interaction_id.key(thread), name, json!(detail)))
    }
}

fn call_events(
    tool_call_id: String,
    name: &str,
    arguments: String,
    parent: Option<String>,
) -> impl Iterator<Item = AguiEvent> {
    [
        AguiEvent::ToolCallStart {
            tool_call_id: tool_call_id.clone(),
            tool_call_name: name.to_owned(),
            parent_message_id: parent,
        },
        AguiEvent::ToolCallArgs { tool_call_id: tool_call_id.clone(), delta: arguments },
        AguiEvent::ToolCallEnd { tool_call_id },
    ]
    .into_iter()
}

fn result(key: String, tool_call_id: String, content: Value) -> AguiEvent {
    AguiEvent::ToolCallResult { message_id: format!("{key}-result"), tool_call_id, content, role: "tool" }
}

fn error_content(error: &ExecutionError) -> Value {
    json!(format!("{}: {}", error.kind, error.message))
}

/// The content of a result is a text.
fn text_of(value: &Value) -> Value {
    if value.is_string() { value.clone() } else { json!(value.to_string()) }
}

/// The answer of a tool: a text, or parts if it has images.
fn content(parts: &[Part]) -> Value {
    let part = |part: &Part| match part {
        Part::Text { text, .. } | Part::Refusal { text } => Some(json!({ "type": "text", "text": text })),
        Part::Image(media) => source(media).map(|source| json!({ "type": "image", "source": source })),
        Part::Document(media) => source(media).map(|source| json!({ "type": "document", "source": source })),
        Part::Audio(media) => source(media).map(|source| json!({ "type": "audio", "source": source })),
        Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) | Part::ProviderTool(_) | Part::Opaque { .. } => {
            None
        }
    };
    if parts.iter().all(|part| part.as_text().is_some()) {
        return json!(parts.iter().filter_map(Part::as_text).collect::<String>());
    }
    Value::Array(parts.iter().filter_map(part).collect())
}

fn source(media: &rethread_events::message::Media) -> Option<Value> {
    let mut source = match (&media.data, &media.url) {
        (Some(data), _) => json!({ "type": "data", "value": data, "mimeType": "application/octet-stream" }),
        (None, Some(url)) => json!({ "type": "url", "value": url }),
        (None, None) => return None,
    };
    if let Some(media_type) = &media.media_type {
        source["mimeType"] = json!(media_type);
    }
    Some(source)
}
