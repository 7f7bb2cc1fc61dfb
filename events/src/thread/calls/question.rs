//! A question to a person.

use std::borrow::Cow;

use bincode::{Decode, Encode};

use crate::client_tools;
use crate::event::{AnswerType, AskedTool, OperationType, UserInteractionRequested};
use crate::ids::{CallId, Time};
use crate::json::Json;

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Interaction {
    /// Its id in the thread.
    pub id: CallId,
    /// How the answer is used.
    pub operation_type: OperationType,
    /// The question.
    pub prompt: Option<String>,
    /// When it was asked.
    pub requested_at: Time,
    /// Until when it can be answered.
    pub deadline: Option<Time>,
    /// Data for the application.
    pub metadata: Option<Json>,
    /// The tool call of the question.
    pub tool_call: Option<AskedTool>,
    /// The model call that a person answers.
    pub llm_call: Option<CallId>,
    /// The tool call that runs and asks.
    pub tool_run: Option<CallId>,
    /// The type of the answer; any JSON value when absent.
    pub answer_type: Option<AnswerType>,
}

impl Interaction {
    /// The question that an event asks.
    pub(in crate::thread) fn new(id: CallId, at: Time, e: &UserInteractionRequested) -> Self {
        Self {
            id,
            operation_type: e.operation_type,
            prompt: e.prompt.clone(),
            requested_at: at,
            deadline: e.deadline,
            metadata: e.metadata.clone(),
            tool_call: e.tool_call.clone(),
            llm_call: e.llm_call_id,
            tool_run: e.tool_run_id,
            answer_type: e.answer.clone(),
        }
    }

    /// Returns the question as a person reads it. That about a tool call which is to be approved holds all of its
    /// arguments; the recorded [`prompt`](Self::prompt) holds their beginning.
    pub fn question(&self) -> Option<Cow<'_, str>> {
        match &self.tool_call {
            Some(tool) if self.operation_type == OperationType::ApproveTool => {
                let asked =
                    approval_prompt(tool, &tool.arguments.0.to_string(), client_tools::is_call(self.metadata.as_ref()));
                Some(format!("{}{asked}", self.stopped_by()).into())
            }
            _ => self.prompt.as_deref().map(Cow::from),
        }
    }
}

impl Interaction {
    /// The guardrail that asks for the approval, and why, in a line.
    fn stopped_by(&self) -> String {
        let text = |key: &str| Some(self.metadata.as_ref()?.0.get(key)?.as_str()?.to_owned());
        match (text("guardrail"), text("reason")) {
            (Some(guardrail), Some(reason)) => format!("Guardrail `{guardrail}` stopped this call: {reason}\n"),
            _ => String::new(),
        }
    }
}

/// The question whether a tool may run with these arguments, or what it has returned in the client.
pub(in crate::thread) fn approval_prompt(tool: &AskedTool, arguments: &str, is_of_client: bool) -> String {
    let name = &tool.name;
    if is_of_client {
        format!("The client runs the tool `{name}` with {arguments}: answer with its result")
    } else {
        format!("May the tool `{name}` run with {arguments}?")
    }
}

/// The hash by which an answer is known again.
pub(in crate::thread) fn answer_hash(answer: &Json) -> crate::ids::Hash {
    crate::ids::Hash::of(answer.0.to_string().as_bytes())
}
