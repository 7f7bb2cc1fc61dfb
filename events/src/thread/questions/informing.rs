//! Questions of a running tool to a person. The question belongs to the call and ends with it at the latest: no other
//! call could receive the answer.

use serde_json::{Map, Value, json};

use super::super::calls::{Interaction, OpenCall};
use super::super::check;
use super::super::input::{Rejected, ToolQuestion};
use super::super::permits::Permits;
use super::super::state::State;
use crate::event::{
    AskedTool, Decision, Event, InteractionFailure, OperationType, UserInteractionFailed, UserInteractionRequested,
};
use crate::ids::CallId;
use crate::json::Json;

/// How many questions of one call may be open at once.
const OPEN_MAX: usize = 16;
/// The longest question, in characters.
const MESSAGE_CHARS_MAX: usize = 10_000;
/// The longest name of who asks, and the longest address of a page.
const NAME_CHARS_MAX: usize = 2_000;
/// How much JSON a form may be, in bytes.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// The valid forms of an answer, for an error.
const FORMS: &str = r#"answer {"decision": "answer", "content": …}, or {"decision": "reject"} to give none"#;

/// The question of a tool that runs.
pub(in super::super) fn ask(
    state: &State,
    key: (CallId, u32),
    question: ToolQuestion,
    permits: &dyn Permits,
) -> Result<Vec<Event>, Rejected> {
    let invalid = |why: &str| Err(Rejected::Invalid(why.to_owned()));
    let (call, attempt) = key;
    let run = state.calls.get(call).filter(|open| open.is_wanted()).and_then(OpenCall::tool);
    let (Some(run), Some(node)) = (run.filter(|run| run.attempt == attempt), state.node_run()) else {
        return invalid("the tool call that asks has ended");
    };
    if state.calls.children(call).count() >= OPEN_MAX {
        return invalid("too many questions of this tool call are open");
    }
    let ToolQuestion { from, message, schema, url } = question;
    if let Some(schema) = &schema {
        check::value(schema)?;
        if !schema.0.is_object() || schema.0.to_string().len() > SCHEMA_BYTES_MAX {
            return invalid("the form of an answer must be a JSON Schema of at most 64 KiB");
        }
    }
    let cut = |text: String, n_chars: usize| text.chars().take(n_chars).collect::<String>();
    let metadata = json!({
        "from": cut(from, NAME_CHARS_MAX),
        "schema": schema,
        "url": url.map(|url| cut(url, NAME_CHARS_MAX)),
    });
    let asked = UserInteractionRequested {
        interaction_id: None,
        node_id: node.node.clone(),
        operation_type: OperationType::InformTool,
        prompt: Some(cut(message, MESSAGE_CHARS_MAX)),
        deadline: permits.moved(run.call, run.attempt, run.deadline),
        metadata: Some(metadata.into()),
        tool_call: Some(AskedTool {
            tool_call_id: run.tool_call_id.clone(),
            name: run.name.clone(),
            arguments: run.arguments.clone(),
        }),
        llm_call_id: None,
        tool_run_id: Some(run.call),
        answer: None,
    };
    Ok(vec![asked.into()])
}

/// The ends of the open questions of a call.
pub(in super::super) fn left_by(state: &State, call: CallId, why: &str) -> Vec<Event> {
    let closed = |ask: &OpenCall| {
        let (reason, detail) = (InteractionFailure::Cancelled, Some(why.to_owned()));
        UserInteractionFailed { node_id: None, interaction_id: ask.id(), reason, detail, by: None }.into()
    };
    state.calls.children(call).map(closed).collect()
}

/// The reply to the tool: a valid answer, or that the person gives none.
pub(super) fn read(ask: &Interaction, input: &Json) -> Result<Decision, String> {
    let said = &*input.0;
    let schema = ask.metadata.as_ref().and_then(|metadata| metadata.0["schema"].as_object());
    let fields = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let is_decision = said["decision"].is_string() && fields.is_none_or(|fields| !fields.contains_key("decision"));
    let given = if is_decision {
        match serde_json::from_value(said.clone()) {
            Ok(Decision::Answer { content }) => content.into_value(),
            Ok(decision @ Decision::Reject { .. }) => return Ok(decision),
            Ok(Decision::Approve {}) if schema.is_none() => Value::Bool(true),
            Ok(Decision::Approve {} | Decision::Edit { .. }) => return Err(format!("not an answer: {FORMS}")),
            Err(error) => return Err(format!("not an answer ({error}): {FORMS}")),
        }
    } else {
        said.clone()
    };
    let Some(schema) = schema else {
        // A page was to be opened: there is nothing to fill in.
        return match yes_or_no(&given) {
            Some(true) => Ok(Decision::Answer { content: Json::from(Value::Null) }),
            Some(false) => Ok(Decision::Reject { reason: None }),
            None => Err(format!("answer yes or no, or {FORMS}")),
        };
    };
    let content = match (given, fields.and_then(only_name)) {
        (Value::Object(content), _) => content,
        // A form of one field may be answered by its value alone.
        (value, Some(field)) => Map::from_iter([(field.clone(), value)]),
        (_, None) => return Err(format!("the answer must be an object with the fields of the form; {FORMS}")),
    };
    check_form(schema, fields, &content)?;
    Ok(Decision::Answer { content: Value::Object(content).into() })
}

fn yes_or_no(given: &Value) -> Option<bool> {
    match given {
        Value::Bool(said) => Some(*said),
        Value::String(word) => match word.trim().to_lowercase().as_str() {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        },
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn only_name(fields: &Map<String, Value>) -> Option<&String> {
    let mut names = fields.keys();
    names.next().filter(|_| names.next().is_none())
}

/// Whether the answer fits the form. Forms have simple fields only; what else a schema says is the tool's to check.
fn check_form(
    schema: &Map<String, Value>,
    fields: Option<&Map<String, Value>>,
    content: &Map<String, Value>,
) -> Result<(), String> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(missing) = required.filter_map(Value::as_str).find(|name| !content.contains_key(*name)) {
        return Err(format!("the field `{missing}` is missing"));
    }
    for (name, value) in content {
        let Some(field) = fields.and_then(|fields| fields.get(name)) else {
            return Err(format!("the form has no field `{name}`"));
        };
        let is_type = match field["type"].as_str() {
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some("array") => value.is_array(),
            _ => true,
        };
        if !is_type {
            return Err(format!("the field `{name}` must be of the type {}", field["type"]));
        }
        if let Some(choices) = field["enum"].as_array()
            && !choices.contains(value)
        {
            return Err(format!("the field `{name}` must be one of {}", field["enum"]));
        }
    }
    Ok(())
}
