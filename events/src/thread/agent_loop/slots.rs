//! The tool calls of one answer: queued, asked about, running, ended.

use std::sync::Arc;

use super::super::calls::{CallKind, CallStage, OpenCall, OpenCalls, ToolRun};
use super::super::state::{AgentLoop, Slot, Stage};
use super::super::transition::{TransitionError, UNCHECKED};
use super::super::{asks, env::Env, env::ToolFacts};
use super::answers::error_text;
use crate::event::{
    AskedTool, Decision, Event, ToolCallOptions, ToolCallRef, ToolExecutionFailed, ToolExecutionRequest,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Seq, ThreadId, Time, ToolName};
use crate::json::Json;
use crate::message::{Message, Part, Role, ToolCall, ToolResult};
use crate::tool::{PersonRole, Recovery};

/// The result of a call that the output limit cut.
const CUT: &str = "the answer reached the output limit (`max_tokens`) before the arguments of this call were \
                              complete, so it did not run; call it again, with less in it";

/// The properties of a tool that is not offered, which does not run, and of one that is unknown now: it may be
/// available when it is to run.
const UNKNOWN_TOOL: ToolFacts = ToolFacts {
    recovery: Recovery::AtMostOnce,
    timeout_ms: 30_000,
    retries: 0,
    retry_delay_ms: 0,
    person: PersonRole::None,
};

impl AgentLoop {
    /// The next event of the tool calls: what does not run fails, then people are asked, then tools run.
    pub(super) fn next_tool(
        &self,
        slots: &[Slot],
        calls: &OpenCalls,
        next: (ThreadId, Seq),
        around: &Env<'_>,
    ) -> Option<Event> {
        let mut refused = slots.iter().filter(|slot| matches!(slot, Slot::Refused { .. }));
        if let Some(run) = refused.next().and_then(Slot::open).and_then(|id| calls.get(id)?.tool()) {
            return Some(self.refuse(run));
        }
        if let Some(call) = slots.iter().find_map(|slot| match slot {
            Slot::Cut(call) => Some(call),
            _ => None,
        }) {
            let AskedTool { tool_call_id, name, arguments } = asked_tool(call);
            return Some(request_tool(tool_call_id, name, arguments, &UNKNOWN_TOOL));
        }
        let asked = slots.iter().enumerate().find_map(|(place, slot)| self.question_due(place, slot, around.now));
        if let Some(question) = asked {
            return Some(question);
        }
        let n_open = slots.iter().filter(|slot| matches!(slot, Slot::Open(_))).count();
        if n_open >= self.request.concurrent_tools_max as usize {
            return None;
        }
        let asked = slots.iter().enumerate().find_map(|(place, slot)| match slot {
            Slot::Queued(call) if self.handoff(&call.name).is_some() => None,
            Slot::Queued(call) if self.is_talking(&call.name, calls) => None,
            Slot::Queued(call) => Some((place, asked_tool(call))),
            Slot::Approved { tool, .. } if self.is_talking(tool.name.as_str(), calls) => None,
            Slot::Approved { tool, .. } => Some((place, tool.clone())),
            Slot::Cut(_) | Slot::Asking(_) | Slot::Open(_) | Slot::Refused { .. } | Slot::Ended(_) => None,
        });
        let Some((place, asked)) = asked else {
            return self.hand_over(slots);
        };
        let agent = self.agent(asked.name.as_str());
        if agent.is_some_and(|agent| self.agent_fault(agent, &asked.arguments).is_none()) {
            return Some(self.start_agent(place, asked, next, around.now));
        }
        let AskedTool { tool_call_id, name, arguments } = asked;
        let is_tool = agent.is_none() && self.offers(name.as_str());
        let facts = around.tools.facts(name.as_str()).filter(|_| is_tool).unwrap_or(UNKNOWN_TOOL);
        Some(request_tool(tool_call_id, name, arguments, &facts))
    }

    /// Returns the question to a person before or in place of the call.
    fn question_due(&self, place: usize, slot: &Slot, now: Time) -> Option<Event> {
        let Slot::Queued(call) = slot else {
            return None;
        };
        let asked = || asked_tool(call);
        match self.role(place, &call.name) {
            // No decision is needed for what does not run.
            _ if !self.offers(&call.name) => None,
            PersonRole::None => None,
            PersonRole::Approves => {
                let stopped_by = self.stopped_by(place).map(|it| (it.guardrail.as_str(), it.reason.as_str()));
                let about = asks::About { stopped_by, is_of_client: self.is_of_client(&call.name) };
                Some(asks::approval(&self.request.node_id, asked(), about))
            }
            PersonRole::Answers => {
                let asked = asked();
                let question = asks::Question::of(&asked).ok()?;
                Some(question.put(&self.request.node_id, asked, None, now))
            }
        }
    }

    /// What a person has to do with the tool call with this index.
    fn role(&self, place: usize, tool: &str) -> PersonRole {
        if self.is_answered_by_person(tool) {
            PersonRole::Answers
        } else if self.is_of_client(tool)
            || self.request.approve_tools.iter().any(|name| name == tool)
            || self.stopped_by(place).is_some()
        {
            PersonRole::Approves
        } else {
            PersonRole::None
        }
    }

    fn is_answered_by_person(&self, tool: &str) -> bool {
        self.request.person_tools.iter().any(|name| name == tool)
    }

    /// Whether the client runs the tool: it answers the question in place of an approval.
    fn is_of_client(&self, tool: &str) -> bool {
        self.request.client_tools.iter().any(|offered| offered.name == tool)
    }

    fn offers(&self, tool: &str) -> bool {
        self.request.tools.iter().any(|offered| offered == tool)
            || self.agent(tool).is_some()
            || self.is_of_client(tool)
    }

    /// Returns the failure to record for a call that does not run.
    pub(in super::super) fn refuse(&self, run: &ToolRun) -> Event {
        let asked = AskedTool {
            tool_call_id: run.tool_call_id.clone(),
            name: run.name.clone(),
            arguments: run.arguments.clone(),
        };
        let agent = self.agent(run.name.as_str()).and_then(|agent| self.agent_fault(agent, &run.arguments));
        let is_cut = |slot: &Slot| matches!(slot, Slot::Refused { call, is_cut: true } if *call == run.call);
        let error = match (agent, asks::Question::of(&asked)) {
            _ if self.slots().iter().any(is_cut) => ExecutionError::new(ErrorKind::Limit, CUT),
            (Some(error), _) => error,
            (None, Err(error)) if self.is_answered_by_person(run.name.as_str()) => error,
            _ if self.is_of_client(run.name.as_str()) => {
                let message = format!(
                    "`{}` runs in the client: answer the call with its result in place of approving it",
                    run.name
                );
                ExecutionError::new(ErrorKind::Configuration, message)
            }
            _ => {
                let agents = self.request.agents.iter().map(|agent| agent.name.as_str());
                let handoffs = self.request.handoffs.iter().map(|handoff| handoff.name.as_str());
                let of_client = self.request.client_tools.iter().map(|tool| tool.name.as_str());
                let tools = self.request.tools.iter().map(String::as_str);
                let tools: Vec<_> = tools.chain(agents).chain(handoffs).chain(of_client).collect();
                let offered = match tools.as_slice() {
                    [] => "no tool is offered".to_owned(),
                    tools => format!("offered are {}", tools.join(", ")),
                };
                ExecutionError::new(ErrorKind::UnknownTool, format!("there is no tool `{}`: {offered}", run.name))
            }
        };
        let (tool_call_id, not_started) = (run.tool_call_id.clone(), true);
        ToolExecutionFailed { node_id: None, call_id: run.call, tool_call_id, error, duration_ms: 0, not_started }
            .into()
    }

    /// A tool is running: the call.
    pub(in super::super) fn tool_requested(
        &mut self,
        seq: Seq,
        at: Time,
        event: &ToolExecutionRequest,
    ) -> Result<OpenCall, TransitionError> {
        let Stage::Tools(slots) = &self.stage else {
            return Err(TransitionError("no tool call is due"));
        };
        let id = event.tool_call_id.as_ref();
        let due = slots.iter().position(|slot| match slot {
            Slot::Approved { tool, .. } => tool.tool_call_id.as_ref() == id,
            Slot::Cut(call) => Some(&call.id) == id,
            slot => slot.is_queued(id),
        });
        let Some(place) = due else {
            return Err(TransitionError("the model made no such tool call"));
        };
        let is_cut = matches!(slots[place], Slot::Cut(_));
        if !is_cut && self.is_unchecked(place, event.name.as_str()) {
            return Err(UNCHECKED);
        }
        let (offered, role) = (self.offers(event.name.as_str()), self.role(place, event.name.as_str()));
        let is_agent = self.agent(event.name.as_str()).is_some();
        let (call_id, mut run) = (CallId(seq), ToolRun::new(CallId(seq), at, event));
        let stage = match (&slots[place], role) {
            _ if is_cut => CallStage::Refused,
            // Its arguments do not fit, or it is nested too deep.
            _ if is_agent => CallStage::Refused,
            // A person approved of it, but only its client can run it.
            _ if self.is_of_client(event.name.as_str()) => CallStage::Refused,
            // What was approved of was offered, but for logs of old: there it ran all the same, as a safe one.
            (Slot::Approved { edited, .. }, _) if offered || run.recovery == Recovery::Safe => {
                run.edited = *edited;
                CallStage::Wanted
            }
            (_, PersonRole::Approves) if offered => return Err(TransitionError("the tool call was not approved")),
            (_, PersonRole::None) if offered => CallStage::Wanted,
            (_, PersonRole::None | PersonRole::Answers | PersonRole::Approves) => CallStage::Refused,
        };
        let slot =
            if stage == CallStage::Wanted { Slot::Open(call_id) } else { Slot::Refused { call: call_id, is_cut } };
        self.slots_mut()[place] = slot;
        let (tool_call_id, name) = (event.tool_call_id.clone(), event.name.clone());
        Arc::make_mut(&mut self.tool_calls).push(ToolCallRef { call_id, tool_call_id, name });
        Ok(OpenCall {
            place: u32::try_from(place).unwrap_or(u32::MAX),
            ..OpenCall::new(CallKind::Tool(Box::new(run)), stage)
        })
    }

    /// A person decided about a tool call: `asked` is the question. What joins the conversation is as for
    /// [`AgentLoop::tool_ended`].
    pub(in super::super) fn decided(
        &mut self,
        asked: OpenCall,
        decision: &Decision,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        let (text, is_error) = match decision {
            Decision::Approve {} => return self.approved(asked, None),
            Decision::Edit { arguments } => return self.approved(asked, Some(arguments)),
            Decision::Reject { .. } | Decision::Answer { .. } => match decided_without(decision) {
                Ok(text) => (text, false),
                Err(error) => (error_text(&error), true),
            },
        };
        self.settle(asked, vec![Part::text(text)], is_error)
    }

    fn approved(&mut self, asked: OpenCall, edited: Option<&Json>) -> Result<Vec<Arc<Message>>, TransitionError> {
        let slot = self.slot_of(asked.id())?;
        let CallKind::Question(ask) = asked.kind else {
            return Err(TransitionError("no such question is open"));
        };
        let Some(mut tool) = ask.tool_call else {
            return Err(TransitionError("the question is not about a tool call"));
        };
        if let Some(arguments) = edited {
            tool.arguments = arguments.clone();
        }
        *slot = Slot::Approved { tool, edited: edited.is_some() };
        if edited.is_some() {
            // What a person wrote is checked as well.
            self.guarding.calls.remove(&asked.place);
        }
        Ok(Vec::new())
    }

    fn slot_of(&mut self, id: CallId) -> Result<&mut Slot, TransitionError> {
        let Stage::Tools(slots) = &mut self.stage else {
            return Err(TransitionError("no tool is running"));
        };
        slots.iter_mut().find(|slot| slot.open() == Some(id)).ok_or(TransitionError("no such tool call is open"))
    }

    /// A tool call ended. When it was the last one, the results join the conversation, in the order the model asked.
    pub(in super::super) fn tool_ended(
        &mut self,
        ended: OpenCall,
        mut content: Vec<Part>,
        is_error: bool,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        // The model's own message contains its request, and is sent back to the provider unchanged: only the result can
        // name the call that ran instead.
        let of_tool = ended.tool().map(|run| (run.edited, &run.arguments));
        let of_agent = || Some(ended.branch()?.agent.as_ref()?).map(|agent| (agent.edited, &agent.arguments));
        let note = match of_tool.or_else(of_agent) {
            Some((_, arguments)) if self.is_replaced(ended.place) => Some(("a guardrail", arguments)),
            Some((true, arguments)) => Some(("a person", arguments)),
            Some((false, _)) | None => None,
        };
        if let Some((who, arguments)) = note {
            let note = format!("({who} changed the arguments of this call to {})\n", arguments.0);
            content.insert(0, Part::text(note));
        }
        self.settle(ended, content, is_error)
    }

    /// The result of the tool call that ran, or was asked about.
    pub(in super::super) fn settle(
        &mut self,
        ended: OpenCall,
        content: Vec<Part>,
        is_error: bool,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        let slot = self.slot_of(ended.id())?;
        let (id, name) = match ended.kind {
            CallKind::Tool(run) => (run.tool_call_id, run.name),
            CallKind::Branch(run) => match run.agent {
                Some(agent) => (agent.tool_call_id, agent.name.as_str().into()),
                None => return Err(TransitionError("the branch is not the call of a model")),
            },
            CallKind::Question(ask) => match ask.tool_call {
                Some(tool) => (tool.tool_call_id, tool.name),
                None => return Err(TransitionError("the question is not about a tool call")),
            },
            _ => return Err(TransitionError("no such tool call is open")),
        };
        let (tool_call_id, name) = (id.unwrap_or_default(), Some(name.to_string()));
        *slot = Slot::Ended(ToolResult { tool_call_id, name, content, is_error });
        self.n_tool_calls += 1;
        if self.slots().iter().all(|slot| matches!(slot, Slot::Ended(_))) {
            self.turned();
            return Ok(self.results_of_all());
        }
        Ok(Vec::new())
    }

    /// The tool calls that have not begun do not, and end with this text. What joins the conversation is as for
    /// [`AgentLoop::tool_ended`].
    pub(in super::super) fn leave_out_queued(&mut self, why: &str) -> Vec<Arc<Message>> {
        for slot in self.slots_mut() {
            if let Slot::Queued(_) | Slot::Cut(_) | Slot::Approved { .. } = slot
                && let Some(result) = slot.clone().left_out(why)
            {
                *slot = Slot::Ended(result);
            }
        }
        let slots = self.slots();
        if slots.is_empty() || !slots.iter().all(|slot| matches!(slot, Slot::Ended(_))) {
            return Vec::new();
        }
        self.turned();
        self.results_of_all()
    }

    /// All tool calls have ended: their results, and the model may be called again.
    pub(super) fn results_of_all(&mut self) -> Vec<Arc<Message>> {
        self.take_results(Stage::ToAsk, "")
    }

    /// The loop is over. Calls of the last answer that never ran are answered with the error, so that no tool call
    /// is left without a result in this conversation.
    pub(in super::super) fn give_up(&mut self, error: &ExecutionError) -> Vec<Arc<Message>> {
        let text = format!("not run: {}", error.message);
        self.take_results(Stage::Failed(error.clone()), &text)
    }

    pub(super) fn take_results(&mut self, next: Stage, not_run: &str) -> Vec<Arc<Message>> {
        let Stage::Tools(slots) = std::mem::replace(&mut self.stage, next) else {
            return Vec::new();
        };
        slots
            .into_iter()
            .filter_map(|slot| slot.left_out(not_run))
            .map(|result| Arc::new(Message { role: Role::Tool, content: vec![Part::ToolResult(result)] }))
            .collect()
    }
}

/// The call as a person is asked about it.
fn asked_tool(call: &ToolCall) -> AskedTool {
    AskedTool {
        tool_call_id: Some(call.id.clone()),
        name: call.name.as_str().into(),
        arguments: call.arguments.clone(),
    }
}

/// Returns the result of a call that a decision keeps from running: its text, or its error.
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

pub(super) fn text_of(value: &Json) -> String {
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
