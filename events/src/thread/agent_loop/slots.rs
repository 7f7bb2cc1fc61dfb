//! The tool calls of one answer: queued, asked about, running, ended.

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::super::calls::ToolRun;
use super::super::state::{Interaction, InteractionStage};
use super::super::{Env, ToolFacts, asks};
use super::{AgentLoop, Stage, TransitionError};
use crate::event::{
    AskedTool, Decision, Event, ToolCallOptions, ToolCallRef, ToolExecutionFailed, ToolExecutionRequest,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Seq, Time, ToolName};
use crate::json::Json;
use crate::message::{Message, Part, Role, ToolCall, ToolResult};
use crate::tool::{PersonRole, Recovery};

/// What holds for a tool that is not offered, which does not run, and for one of which nothing is known just now: it may
/// be there when it is to run.
const UNKNOWN_TOOL: ToolFacts = ToolFacts {
    recovery: Recovery::AtMostOnce,
    timeout_ms: 30_000,
    retries: 0,
    retry_delay_ms: 0,
    person: PersonRole::None,
};

/// One tool call of an answer, in the order the model asked.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Slot {
    /// Not begun: the limit of tools at once is reached, or its request is about to be written.
    Queued(ToolCall),
    /// A person is asked about it.
    Asking(Box<Interaction>),
    /// A person approved of it; its request is owed.
    Approved {
        /// The call, with the arguments to run with.
        tool: AskedTool,
        /// Whether they are not the model's.
        edited: bool,
    },
    /// Running.
    Open(ToolRun),
    /// Asked for, and not to be run: its failure is owed.
    Refused(ToolRun),
    /// Ended.
    Ended(ToolResult),
}

impl Slot {
    /// Whether its call or its question has no terminal event yet.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Asking(_) | Self::Open(_) | Self::Refused(_) => true,
            Self::Queued(_) | Self::Approved { .. } | Self::Ended(_) => false,
        }
    }

    pub(super) fn is_queued(&self, id: Option<&String>) -> bool {
        matches!(self, Self::Queued(call) if Some(&call.id) == id)
    }

    pub(super) fn question(&self) -> Option<&Interaction> {
        match self {
            Self::Asking(ask) => Some(ask),
            _ => None,
        }
    }

    /// The question about it, or the questions it asks itself while it runs.
    pub(super) fn questions(&self) -> &[Interaction] {
        match self {
            Self::Asking(ask) => std::slice::from_ref(ask),
            Self::Open(run) => &run.asks,
            Self::Queued(_) | Self::Approved { .. } | Self::Refused(_) | Self::Ended(_) => &[],
        }
    }

    pub(super) fn questions_mut(&mut self) -> &mut [Interaction] {
        match self {
            Self::Asking(ask) => std::slice::from_mut(ask),
            Self::Open(run) => &mut run.asks,
            Self::Queued(_) | Self::Approved { .. } | Self::Refused(_) | Self::Ended(_) => &mut [],
        }
    }

    fn run(&self) -> Option<&ToolRun> {
        match self {
            Self::Open(run) | Self::Refused(run) => Some(run),
            _ => None,
        }
    }

    /// The id and the name of the call, where it has not ended.
    fn call(&self) -> Option<(String, String)> {
        let asked = |tool: &AskedTool| (tool.tool_call_id.clone().unwrap_or_default(), tool.name.to_string());
        match self {
            Self::Queued(call) => Some((call.id.clone(), call.name.clone())),
            Self::Asking(ask) => ask.tool_call.as_ref().map(asked),
            Self::Approved { tool, .. } => Some(asked(tool)),
            Self::Open(run) | Self::Refused(run) => {
                Some((run.tool_call_id.clone().unwrap_or_default(), run.name.to_string()))
            }
            Self::Ended(_) => None,
        }
    }
}

impl AgentLoop {
    /// The next event of the tool calls: what does not run fails, then people are asked, then tools run.
    pub(super) fn next_tool(&self, slots: &[Slot], around: &Env<'_>) -> Option<Event> {
        if let Some(failure) = self.refusals().next() {
            return Some(failure);
        }
        if let Some(question) = slots.iter().find_map(|slot| self.question_due(slot, around.now)) {
            return Some(question);
        }
        let n_open = slots.iter().filter(|slot| matches!(slot, Slot::Open(_))).count();
        if n_open >= self.request.concurrent_tools_max as usize {
            return None;
        }
        let (id, name, arguments) = slots.iter().find_map(|slot| match slot {
            Slot::Queued(call) => Some((Some(call.id.clone()), call.name.as_str().into(), &call.arguments)),
            Slot::Approved { tool, .. } => Some((tool.tool_call_id.clone(), tool.name.clone(), &tool.arguments)),
            Slot::Asking(_) | Slot::Open(_) | Slot::Refused(_) | Slot::Ended(_) => None,
        })?;
        let facts = around.tools.facts(name.as_str()).filter(|_| self.offers(name.as_str())).unwrap_or(UNKNOWN_TOOL);
        Some(request_tool(id, name, arguments.clone(), &facts))
    }

    /// What a person is asked before or in place of the call.
    fn question_due(&self, slot: &Slot, now: Time) -> Option<Event> {
        let Slot::Queued(call) = slot else {
            return None;
        };
        let asked = || AskedTool {
            tool_call_id: Some(call.id.clone()),
            name: call.name.as_str().into(),
            arguments: call.arguments.clone(),
        };
        match self.role(&call.name) {
            // Nobody need decide about what does not run.
            _ if !self.offers(&call.name) => None,
            PersonRole::None => None,
            PersonRole::Approves => Some(asks::approval(&self.request.node_id, asked())),
            PersonRole::Answers => {
                let asked = asked();
                let question = asks::Question::of(&asked).ok()?;
                Some(question.put(&self.request.node_id, asked, None, now))
            }
        }
    }

    fn role(&self, tool: &str) -> PersonRole {
        let among = |names: &[String]| names.iter().any(|name| name == tool);
        if among(&self.request.person_tools) {
            PersonRole::Answers
        } else if among(&self.request.approve_tools) {
            PersonRole::Approves
        } else {
            PersonRole::None
        }
    }

    fn offers(&self, tool: &str) -> bool {
        self.request.tools.iter().any(|offered| offered == tool)
    }

    fn refuse(&self, run: &ToolRun) -> Event {
        let asked = AskedTool {
            tool_call_id: run.tool_call_id.clone(),
            name: run.name.clone(),
            arguments: run.arguments.clone(),
        };
        let error = match asks::Question::of(&asked) {
            Err(error) if self.role(run.name.as_str()) == PersonRole::Answers => error,
            _ => {
                let offered = match self.request.tools.as_slice() {
                    [] => "no tool is offered".to_owned(),
                    tools => format!("offered are {}", tools.join(", ")),
                };
                ExecutionError::new(ErrorKind::UnknownTool, format!("there is no tool `{}`: {offered}", run.name))
            }
        };
        let (tool_call_id, not_started) = (run.tool_call_id.clone(), Some(true));
        ToolExecutionFailed { node_id: None, call_id: run.call, tool_call_id, error, duration_ms: 0, not_started }
            .into()
    }

    /// A tool is running.
    pub(in super::super) fn tool_requested(
        &mut self,
        seq: Seq,
        at: Time,
        event: &ToolExecutionRequest,
    ) -> Result<(), TransitionError> {
        let (offered, role) = (self.offers(event.name.as_str()), self.role(event.name.as_str()));
        let Stage::Tools(slots) = &mut self.stage else {
            return Err(TransitionError("no tool call is due"));
        };
        let id = event.tool_call_id.as_ref();
        let due = slots.iter_mut().find(|slot| match slot {
            Slot::Approved { tool, .. } => tool.tool_call_id.as_ref() == id,
            slot => slot.is_queued(id),
        });
        let Some(slot) = due else {
            return Err(TransitionError("the model made no such tool call"));
        };
        let mut run = ToolRun::new(CallId(seq), at, event);
        *slot = match (&*slot, role) {
            // What was approved of was offered, but for logs of old: there it ran all the same, as a safe one.
            (Slot::Approved { edited, .. }, _) if offered || run.recovery == Recovery::Safe => {
                run.edited = *edited;
                Slot::Open(run)
            }
            (_, PersonRole::Approves) if offered => return Err(TransitionError("nobody approved of the tool call")),
            (_, PersonRole::None) if offered => Slot::Open(run),
            (_, PersonRole::None | PersonRole::Answers | PersonRole::Approves) => Slot::Refused(run),
        };
        let (call_id, tool_call_id, name) = (CallId(seq), event.tool_call_id.clone(), event.name.clone());
        Arc::make_mut(&mut self.tool_calls).push(ToolCallRef { call_id, tool_call_id, name });
        Ok(())
    }

    /// A person decided about a tool call.
    pub(super) fn decided(&mut self, id: CallId, decision: &Decision) -> Result<Vec<Arc<Message>>, TransitionError> {
        let asked = self.slots_mut().iter_mut().find(|slot| slot.question().is_some_and(|ask| ask.id == id));
        let Some(slot) = asked else {
            return Err(TransitionError("no such question is open"));
        };
        let tool = match slot {
            Slot::Asking(ask) if matches!(ask.stage, InteractionStage::Responded { .. }) => ask.tool_call.take(),
            _ => return Err(TransitionError("the question was not answered")),
        };
        let Some(tool) = tool else {
            return Err(TransitionError("the question is not about a tool call"));
        };
        match decision {
            Decision::Approve {} => *slot = Slot::Approved { tool, edited: false },
            Decision::Edit { arguments } => {
                *slot = Slot::Approved { tool: AskedTool { arguments: arguments.clone(), ..tool }, edited: true };
            }
            Decision::Reject { .. } | Decision::Answer { .. } => {
                if let Slot::Asking(ask) = slot {
                    ask.tool_call = Some(tool);
                }
                let (text, is_error) = match decided_without(decision) {
                    Ok(text) => (text, false),
                    Err(error) => (super::error_text(&error), true),
                };
                return self.settle(id, vec![Part::text(text)], is_error);
            }
        }
        Ok(Vec::new())
    }

    /// The tool call that is open or refused under this id.
    pub(in super::super) fn tool_run(&self, call: CallId) -> Option<&ToolRun> {
        self.slots().iter().filter_map(Slot::run).find(|run| run.call == call)
    }

    /// The failures that are owed for calls that do not run.
    pub(in super::super) fn refusals(&self) -> impl Iterator<Item = Event> {
        self.slots().iter().filter_map(|slot| match slot {
            Slot::Refused(run) => Some(self.refuse(run)),
            _ => None,
        })
    }

    /// The tool calls of the last answer, while they run.
    pub fn slots(&self) -> &[Slot] {
        match &self.stage {
            Stage::Tools(slots) => slots,
            _ => &[],
        }
    }

    pub(super) fn slots_mut(&mut self) -> &mut [Slot] {
        match &mut self.stage {
            Stage::Tools(slots) => slots,
            _ => &mut [],
        }
    }

    /// The tool calls that run.
    pub fn open_tools(&self) -> impl Iterator<Item = &ToolRun> {
        self.slots().iter().filter_map(|slot| match slot {
            Slot::Open(run) => Some(run),
            _ => None,
        })
    }

    pub(in super::super) fn open_tools_mut(&mut self) -> impl Iterator<Item = &mut ToolRun> {
        self.slots_mut().iter_mut().filter_map(|slot| match slot {
            Slot::Open(run) => Some(run),
            _ => None,
        })
    }

    /// A tool call ended. When it was the last one, the results join the conversation, in the order the model asked.
    pub(in super::super) fn tool_ended(
        &mut self,
        call: CallId,
        mut content: Vec<Part>,
        is_error: bool,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        // The model's own message says what it asked for, and goes back to the provider as it is: what ran instead
        // can be said only here.
        if let Some(run) = self.tool_run(call).filter(|run| run.edited) {
            let note = format!("(a person changed the arguments of this call to {})\n", run.arguments.0);
            content.insert(0, Part::text(note));
        }
        self.settle(call, content, is_error)
    }

    /// The result of the tool call that runs, or is asked about, under this id.
    pub(super) fn settle(
        &mut self,
        id: CallId,
        content: Vec<Part>,
        is_error: bool,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        let Stage::Tools(slots) = &mut self.stage else {
            return Err(TransitionError("no tool is running"));
        };
        let open = slots.iter_mut().find(|slot| {
            slot.run().is_some_and(|run| run.call == id) || slot.question().is_some_and(|ask| ask.id == id)
        });
        let Some((slot, (tool_call_id, name))) = open.and_then(|slot| slot.call().map(|call| (slot, call))) else {
            return Err(TransitionError("no such tool call is open"));
        };
        *slot = Slot::Ended(ToolResult { tool_call_id, name: Some(name), content, is_error });
        self.n_tool_calls += 1;
        if slots.iter().all(|slot| matches!(slot, Slot::Ended(_))) {
            self.turned();
            return Ok(self.results_of_all());
        }
        Ok(Vec::new())
    }

    /// All tool calls have ended: their results, and the model may be called again.
    pub(super) fn results_of_all(&mut self) -> Vec<Arc<Message>> {
        self.take_results(Stage::ToAsk, "")
    }

    /// The loop is over. Calls of the last answer that never ran are answered with the error, so that no tool call
    /// is left without a result, whoever goes on with this conversation.
    pub(in super::super) fn give_up(&mut self, error: &ExecutionError) -> Vec<Arc<Message>> {
        let text = format!("not run: {}", error.message);
        self.take_results(Stage::Failed(error.clone()), &text)
    }

    fn take_results(&mut self, next: Stage, not_run: &str) -> Vec<Arc<Message>> {
        let Stage::Tools(slots) = std::mem::replace(&mut self.stage, next) else {
            return Vec::new();
        };
        let fill = |(tool_call_id, name): (String, String)| ToolResult {
            tool_call_id,
            name: Some(name),
            content: vec![Part::text(not_run)],
            is_error: true,
        };
        slots
            .into_iter()
            .filter_map(|slot| match slot {
                Slot::Ended(result) => Some(result),
                slot => slot.call().map(fill),
            })
            .map(|result| Arc::new(Message { role: Role::Tool, content: vec![Part::ToolResult(result)] }))
            .collect()
    }
}

/// What a decision by which nothing runs makes of the call: its result as a text, or its error.
pub(in super::super) fn decided_without(decision: &Decision) -> Result<String, ExecutionError> {
    match decision {
        Decision::Answer { content } => Ok(text_of(content)),
        Decision::Reject { reason: Some(reason) } if !reason.trim().is_empty() => {
            Err(ExecutionError::new(ErrorKind::Denied, format!("a person refused this call: {reason}")))
        }
        Decision::Reject { .. } | Decision::Approve {} | Decision::Edit { .. } => {
            Err(ExecutionError::new(ErrorKind::Denied, "a person refused this call"))
        }
    }
}

fn text_of(value: &Json) -> String {
    value.0.as_str().map_or_else(|| value.0.to_string(), str::to_owned)
}

/// The request of a tool call.
pub(in super::super) fn request_tool(
    tool_call_id: Option<String>,
    name: ToolName,
    arguments: Json,
    facts: &ToolFacts,
) -> Event {
    ToolExecutionRequest {
        node_id: None,
        tool_call_id,
        name,
        arguments,
        recovery: facts.recovery,
        options: ToolCallOptions {
            timeout_ms: facts.timeout_ms,
            retries: facts.retries,
            retry_delay_ms: facts.retry_delay_ms,
        },
    }
    .into()
}
