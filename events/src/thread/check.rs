//! Checks before something becomes an event: whether it can be stored, and whether models accept the resulting
//! conversation.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::input::{Rejected, Start};
use super::state::State;
use crate::codec::OrderedMap;
use crate::event::NodeContext;
use crate::fault::{ErrorKind, ExecutionError};
use crate::json::Json;
use crate::message::{FinishReason, Message, Part, ProviderTool, Role};
use crate::workflow::{Fault, Faults, Workflow, is_variable_name};

/// Names that are made from the conversation and cannot be set.
const MADE: [&str; 3] = ["messages", "llm_calls", "tool_calls"];

/// The most tool calls of one answer. An answer with more is taken for a fault of the model.
pub(super) const TOOL_CALLS_MAX: usize = 1_000;
/// The most characters of a refusal in an error.
const REFUSAL_CHARS_MAX: usize = 500;

/// A value from outside.
pub(super) fn value(value: &Json) -> Result<(), Rejected> {
    if value.is_too_deep() { Err(Rejected::Invalid(too_deep())) } else { Ok(()) }
}

/// Variables from outside.
pub(super) fn variables(variables: &OrderedMap<Json>) -> Result<(), Rejected> {
    for (name, given) in variables.iter() {
        if !is_variable_name(name) {
            return Err(Rejected::Invalid(format!(
                "`{}` cannot be a variable: letters, digits and _, not beginning with a digit, at most 200",
                name.chars().take(80).collect::<String>()
            )));
        }
        if MADE.contains(&name.as_str()) {
            return Err(Rejected::Invalid(format!("`{name}` is made from the conversation and cannot be set")));
        }
        value(given)?;
    }
    Ok(())
}

/// The most messages that a thread begins with.
pub const START_MESSAGES_MAX: usize = 100_000;

/// Checks the start of a thread, without its input.
pub(super) fn start(workflow: &Workflow, given: &Start) -> Result<(), Faults> {
    let mut faults = Vec::new();
    if let Err(Rejected::Invalid(why)) = variables(&given.variables) {
        faults.push(Fault::new("variables", why));
    }
    if given.messages.len() > START_MESSAGES_MAX {
        let why = format!("{} messages; the limit is {START_MESSAGES_MAX}", given.messages.len());
        faults.push(Fault::new("messages", why));
    } else if let Err(why) = check_past(&given.messages) {
        faults.push(Fault::new("messages", why));
    }
    if let Some(entry) = given.entry.as_ref().filter(|entry| workflow.main().node(entry).is_none()) {
        let known = workflow.main().nodes().map(|node| format!("`{}`", node.id)).take(20).collect::<Vec<_>>();
        let fault = Fault::new("entry", format!("the workflow has no node `{entry}` outside of its sub-workflows"));
        faults.push(fault.hint(format!("its nodes: {}", known.join(", "))));
    } else if let Some(entry) = given.entry.as_ref().filter(|entry| workflow.is_of_hook(entry)) {
        let fault = Fault::new("entry", format!("node `{entry}` belongs to a hook, which runs when a run is ending"));
        faults.push(fault.hint("name a node outside of `on_failed`, `on_cancel` and `finally`"));
    }
    if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
}

/// A conversation from elsewhere.
fn check_past(messages: &[Arc<Message>]) -> Result<(), String> {
    context(messages).map_err(|error| error.message)?;
    for (i, message) in messages.iter().enumerate() {
        if message.role == Role::System {
            return Err(format!(
                "message {i} has the role system, and no model would read it: instructions are the `system_prompt` of a \
                 node, which can use a variable"
            ));
        }
        if message.content.is_empty() {
            return Err(format!("message {i} is empty"));
        }
        for part in &message.content {
            match part {
                Part::ToolResult(answer) => {
                    result(&answer.content, None).map_err(|error| format!("message {i}: {}", error.message))?;
                }
                Part::Image(media) | Part::Document(media) | Part::Audio(media)
                    if media.data.is_some() == media.url.is_some() =>
                {
                    return Err(format!("message {i} has a picture or document without one of `data` and `url`"));
                }
                Part::Reasoning(_) | Part::Refusal { .. } if message.role != Role::Assistant => {
                    return Err(format!("message {i} has reasoning or a refusal and not the role assistant"));
                }
                Part::Text { .. }
                | Part::Image(_)
                | Part::Document(_)
                | Part::Reasoning(_)
                | Part::ToolCall(_)
                | Part::Refusal { .. }
                | Part::Audio(_)
                | Part::ProviderTool(_)
                | Part::Opaque { .. } => {}
            }
        }
        let is_result = |part: &Part| matches!(part, Part::ToolResult(_));
        if message.role == Role::Tool && !message.content.iter().all(is_result) {
            return Err(format!("message {i} has the role tool and something that is no tool result"));
        }
    }
    Ok(())
}

/// A message of the application. Tool calls and their results belong to the agent loop, and instructions to the
/// node: neither would reach a model from here.
pub(super) fn added_message(message: &Message) -> Result<(), Rejected> {
    if !matches!(message.role, Role::User | Role::Assistant) {
        return Err(Rejected::Invalid("a message that is added has the role user or assistant".into()));
    }
    for part in &message.content {
        match part {
            Part::ToolCall(_) | Part::ToolResult(_) => {
                return Err(Rejected::Invalid("a message that is added has no tool call and no tool result".into()));
            }
            Part::Opaque { data, .. } | Part::ProviderTool(ProviderTool { data, .. }) => value(data)?,
            Part::Text { .. }
            | Part::Image(_)
            | Part::Document(_)
            | Part::Audio(_)
            | Part::Reasoning(_)
            | Part::Refusal { .. } => {}
        }
    }
    Ok(())
}

/// Returns why the answer of a model cannot be used: the model refused, or it ended before it wrote a text or requested
/// a tool. An answer that is empty because the model had nothing to say can be used.
pub(super) fn unusable(message: &Message, finish_reason: FinishReason) -> Option<ExecutionError> {
    let says = message.content.iter().any(|part| match part {
        Part::Text { text, .. } => !text.trim().is_empty(),
        Part::ToolCall(_) | Part::Image(_) | Part::Document(_) | Part::Audio(_) => true,
        Part::ToolResult(_)
        | Part::Reasoning(_)
        | Part::Refusal { .. }
        | Part::ProviderTool(_)
        | Part::Opaque { .. } => false,
    });
    let refusal = message.content.iter().find_map(|part| match part {
        Part::Refusal { text } if !text.trim().is_empty() => Some(text.trim()),
        _ => None,
    });
    match (finish_reason, refusal) {
        (FinishReason::Refusal, _) | (_, Some(_)) if finish_reason == FinishReason::Refusal || !says => {
            let text = message.joined_text();
            let why = refusal.unwrap_or_else(|| text.trim());
            let why = why.chars().take(REFUSAL_CHARS_MAX).collect::<String>();
            let what =
                if why.is_empty() { "the model refused to answer".into() } else { format!("the model refused: {why}") };
            Some(ExecutionError::new(ErrorKind::Denied, what))
        }
        (FinishReason::Length, None) if !says => {
            let what = "the model reached the limit of its answer before it wrote any text; raise `max_tokens`, or have \
                        it reason less";
            Some(ExecutionError::new(ErrorKind::Limit, what))
        }
        (FinishReason::Other, None) if !says => {
            let what = "the provider ended the answer for a reason of its own before there was any text";
            Some(ExecutionError::new(ErrorKind::MalformedResponse, what))
        }
        _ => None,
    }
}

/// The answer of a model.
pub(super) fn answer(message: &Message) -> Result<(), ExecutionError> {
    let malformed = |what: String| Err(ExecutionError::retryable(ErrorKind::MalformedResponse, what));
    if message.role != Role::Assistant {
        return malformed("the answer does not have the role assistant".into());
    }
    let n_calls = message.tool_calls().count();
    if n_calls > TOOL_CALLS_MAX {
        return malformed(format!("the answer has {n_calls} tool calls, the limit is {TOOL_CALLS_MAX}"));
    }
    let mut ids = BTreeSet::new();
    if let Some(call) = message.tool_calls().find(|call| !ids.insert(call.id.as_str())) {
        return malformed(format!("the answer has two tool calls with the id `{}`", call.id));
    }
    for part in &message.content {
        match part {
            Part::ToolResult(_) => return malformed("the answer has a tool result".into()),
            Part::ToolCall(call) if call.arguments.is_too_deep() => return malformed(too_deep()),
            Part::Opaque { data, .. } if data.is_too_deep() => return malformed(too_deep()),
            _ => {}
        }
    }
    Ok(())
}

/// Checks the result of a tool.
pub(super) fn result(content: &[Part], value: Option<&Json>) -> Result<(), ExecutionError> {
    let malformed = |what: String| Err(ExecutionError::new(ErrorKind::MalformedResponse, what));
    if value.is_some_and(Json::is_too_deep) {
        return malformed(too_deep());
    }
    let fits = |part: &Part| matches!(part, Part::Text { .. } | Part::Image(_) | Part::Document(_) | Part::Audio(_));
    if content.iter().all(fits) {
        Ok(())
    } else {
        malformed("the tool answered with something that is neither text nor a picture nor a document".into())
    }
}

/// A conversation that a context processor made: no model accepts one in which a tool call has no result right after
/// it, or a result no call.
pub(super) fn context(messages: &[Arc<Message>]) -> Result<(), ExecutionError> {
    let malformed = |what: String| Err(ExecutionError::new(ErrorKind::MalformedResponse, what));
    let mut open: VecDeque<&str> = VecDeque::new();
    for (i, message) in messages.iter().enumerate() {
        let mut asks = Vec::new();
        for part in &message.content {
            match part {
                Part::ToolResult(result) => {
                    if message.role != Role::Tool {
                        return malformed(format!("message {i} has a tool result and does not have the role tool"));
                    }
                    if open.front() != Some(&result.tool_call_id.as_str()) {
                        return malformed(format!(
                            "message {i} is the result of `{}`, which is not the next call without a result",
                            result.tool_call_id
                        ));
                    }
                    open.pop_front();
                }
                Part::ToolCall(call) => {
                    if message.role != Role::Assistant {
                        return malformed(format!("message {i} has a tool call and does not have the role assistant"));
                    }
                    if call.arguments.is_too_deep() {
                        return malformed(too_deep());
                    }
                    asks.push(call.id.as_str());
                }
                Part::Opaque { data, .. } if data.is_too_deep() => return malformed(too_deep()),
                _ if !open.is_empty() => return dangling(&open),
                _ => {}
            }
        }
        if !asks.is_empty() && !open.is_empty() {
            return dangling(&open);
        }
        open.extend(asks);
    }
    if open.is_empty() { Ok(()) } else { dangling(&open) }
}

fn dangling(open: &VecDeque<&str>) -> Result<(), ExecutionError> {
    let ids: Vec<_> = open.iter().take(20).copied().collect();
    let message = format!("tool calls without a result directly after them: {}", ids.join(", "));
    Err(ExecutionError::new(ErrorKind::MalformedResponse, message))
}

fn too_deep() -> String {
    format!("a value is nested deeper than {} levels", Json::DEPTH_MAX)
}

/// A conversation that is kept by name is that of one node or sub-workflow at a time.
pub(super) fn conversation_is_free(state: &State, context: &NodeContext) -> Result<(), ExecutionError> {
    match context.name().filter(|name| state.is_in_conversation(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!(
                "conversation `{name}` is open in a sub-workflow or agent around this node: give it another name"
            );
            Err(ExecutionError::new(ErrorKind::Configuration, message))
        }
    }
}
