//! The questions to people about tool calls and model calls.

use super::calls::approval_prompt;
use crate::client_tools;
use crate::event::{AskedTool, Event, InteractionFailure, OperationType, UserInteractionRequested};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, NodeId, Time};
use crate::json::Json;

/// The most characters of a call's arguments in the recorded question about it; `tool_call` has all of them.
const ARGUMENTS_CHARS_MAX: usize = 1_000;
/// Thirty days, as for every other wait.
const WAIT_MS_MAX: u64 = 30 * 24 * 3600 * 1000;

/// What is known of a tool call that a person decides about.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About<'a> {
    /// The guardrail that asks for it, and why.
    pub(super) stopped_by: Option<(&'a str, &'a str)>,
    /// Whether the tool runs in the client, which answers with its result.
    pub(super) is_of_client: bool,
}

impl About<'_> {
    fn metadata(self) -> Option<Json> {
        let mut metadata = serde_json::Map::new();
        if let Some((guardrail, reason)) = self.stopped_by {
            metadata.insert("guardrail".into(), guardrail.into());
            metadata.insert("reason".into(), reason.into());
        }
        if self.is_of_client {
            metadata.insert(client_tools::IS_CALL.into(), true.into());
        }
        (!metadata.is_empty()).then(|| serde_json::Value::Object(metadata).into())
    }
}

/// Whether a tool may run. People are shown [`super::Interaction::question`].
pub(super) fn approval(node: &NodeId, tool: AskedTool, about: About<'_>) -> Event {
    let arguments = tool.arguments.0.to_string();
    let mut shown: String = arguments.chars().take(ARGUMENTS_CHARS_MAX).collect();
    if shown.len() < arguments.len() {
        shown.push('…');
    }
    UserInteractionRequested {
        interaction_id: None,
        node_id: node.clone(),
        operation_type: OperationType::ApproveTool,
        prompt: Some(approval_prompt(&tool, &shown, about.is_of_client)),
        deadline: None,
        metadata: about.metadata(),
        tool_call: Some(tool),
        llm_call_id: None,
        tool_run_id: None,
        answer: None,
    }
    .into()
}

/// Whether an input or an answer may be used that a guardrail has stopped. It is shown whole: nobody approves of what they
/// have not seen.
pub(super) fn about_content(node: &NodeId, (guardrail, what): (&str, &str), reason: &str, text: &str) -> Event {
    UserInteractionRequested {
        interaction_id: None,
        node_id: node.clone(),
        operation_type: OperationType::ApproveContent,
        prompt: Some(format!("Guardrail `{guardrail}` stopped the {what}: {reason}\nMay it be used?\n\n{text}")),
        deadline: None,
        metadata: Some(serde_json::json!({ "guardrail": guardrail, "on": what }).into()),
        tool_call: None,
        llm_call_id: None,
        tool_run_id: None,
        answer: None,
    }
    .into()
}

/// The prompt of a model, for the person who answers for it. The prompt is the conversation: it is made when it
/// is shown.
pub(super) fn relay(node: &NodeId, call: CallId, timeout_ms: Option<u64>, now: Time) -> Event {
    UserInteractionRequested {
        interaction_id: None,
        node_id: node.clone(),
        operation_type: OperationType::RelayModel,
        prompt: None,
        deadline: timeout_ms.map(|ms| now.plus_ms(ms)),
        metadata: None,
        tool_call: None,
        llm_call_id: Some(call),
        tool_run_id: None,
        answer: None,
    }
    .into()
}

/// The call of a tool that a person gives the result of.
#[derive(Debug)]
pub(super) struct Question {
    text: String,
    choices: Option<Json>,
    timeout_ms: Option<u64>,
}

impl Question {
    /// Reads `question`, `choices` and `timeout_ms` out of the arguments.
    pub(super) fn of(tool: &AskedTool) -> Result<Self, ExecutionError> {
        let invalid = |why: &str| {
            Err(ExecutionError::new(ErrorKind::InvalidArguments, format!("`{}` was not asked: {why}", tool.name)))
        };
        let arguments = &tool.arguments.0;
        let Some(text) = arguments["question"].as_str().filter(|text| !text.trim().is_empty()) else {
            return invalid("`question` must be a text that is not empty");
        };
        let choices = match &arguments["choices"] {
            serde_json::Value::Null => None,
            serde_json::Value::Array(choices) if choices.iter().all(serde_json::Value::is_string) => {
                Some(Json::from(arguments["choices"].clone()))
            }
            _ => return invalid("`choices` must be a list of texts"),
        };
        let timeout_ms = match &arguments["timeout_ms"] {
            serde_json::Value::Null => None,
            given => match given.as_u64().filter(|ms| (1..=WAIT_MS_MAX).contains(ms)) {
                Some(ms) => Some(ms),
                None => return invalid("`timeout_ms` must be between 1 and 2592000000"),
            },
        };
        Ok(Self { text: text.into(), choices, timeout_ms })
    }

    /// The question. How long the call says that the person has goes before `timeout_ms`; with neither it waits for
    /// ever.
    pub(super) fn put(self, node: &NodeId, tool: AskedTool, timeout_ms: Option<u64>, now: Time) -> Event {
        UserInteractionRequested {
            interaction_id: None,
            node_id: node.clone(),
            operation_type: OperationType::AnswerTool,
            prompt: Some(self.text),
            deadline: self.timeout_ms.or(timeout_ms).map(|ms| now.plus_ms(ms)),
            metadata: self.choices.map(|choices| serde_json::json!({ "choices": choices }).into()),
            tool_call: Some(tool),
            llm_call_id: None,
            tool_run_id: None,
            answer: None,
        }
        .into()
    }
}

/// The error in place of an answer. A tool call without a decision is not approved.
pub(crate) fn unanswered(operation: OperationType, reason: InteractionFailure, detail: Option<&str>) -> ExecutionError {
    let mut error = failure(reason, detail);
    if operation.is_approval() && reason == InteractionFailure::Cancelled {
        error.kind = ErrorKind::Denied;
        error.message = "not approved: the question was cancelled".into();
    }
    error
}

/// The error of a node whose question was not answered.
fn failure(reason: InteractionFailure, detail: Option<&str>) -> ExecutionError {
    let (kind, message) = match reason {
        InteractionFailure::Timeout => (ErrorKind::Timeout, "no answer arrived in time"),
        InteractionFailure::Cancelled => (ErrorKind::Cancelled, "the question was cancelled"),
        InteractionFailure::HandlerError => (ErrorKind::Failed, "the handler of the question failed"),
        InteractionFailure::InvalidInput => (ErrorKind::InvalidArguments, "the answer is invalid"),
    };
    let error = ExecutionError::new(kind, message);
    match detail {
        Some(detail) => error.caused_by(detail),
        None => error,
    }
}
