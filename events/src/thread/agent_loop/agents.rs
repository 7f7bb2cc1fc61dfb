//! The agents that the model of a loop calls: each call is a branch of the thread. And the node that it hands over to.

use std::sync::Arc;

use super::super::calls::{AgentCall, BranchRun, CallKind, CallStage, OpenCall, OpenCalls};
use super::super::state::{AgentLoop, SUB_WORKFLOWS_DEPTH_MAX, Slot, Stage, Totals};
use super::super::transition::{TransitionError, UNCHECKED};
use super::answers::error_text;
use super::slots::text_of;
use crate::event::{AgentStarted, AgentTool, AskedTool, BranchEnded, Event, Handoff, ToolCallRef};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Seq, ThreadId, Time};
use crate::json::Json;
use crate::message::{FinishReason, Message, Part, ToolResult};
use crate::schema;
use crate::workflow::handoff_tool;

impl AgentLoop {
    /// The end of the loop by the first handoff among the calls, when all others have ended.
    pub(super) fn hand_over(&self, slots: &[Slot]) -> Option<Event> {
        let mut first = None;
        for slot in slots {
            match slot {
                Slot::Ended(_) => {}
                Slot::Queued(call) => first = first.or(Some((call, self.handoff(&call.name)?))),
                Slot::Cut(_) | Slot::Approved { .. } | Slot::Asking(_) | Slot::Open(_) | Slot::Refused { .. } => {
                    return None;
                }
            }
        }
        let (call, handoff) = first?;
        let handoff =
            Handoff { to: handoff.node_id.clone(), tool_call_id: call.id.clone(), arguments: call.arguments.clone() };
        Some(self.completed(String::new(), FinishReason::ToolCalls, None, Some(handoff)).into())
    }

    /// The model hands over: the results of its calls.
    pub(in super::super) fn handed_over(&mut self, handoff: &Handoff) -> Result<Vec<Arc<Message>>, TransitionError> {
        let due = |slot: &Slot| match slot {
            Slot::Queued(call) => call.id == handoff.tool_call_id && self.handoff(&call.name).is_some(),
            _ => false,
        };
        let place = self.slots().iter().position(due).ok_or(TransitionError("no handoff is due"))?;
        if self.is_unchecked(place, &handoff_tool(&handoff.to)) {
            return Err(UNCHECKED);
        }
        if self.hand_over(self.slots()).is_none() {
            return Err(TransitionError("a tool call is still open"));
        }
        let text = format!("handed over to `{}`", handoff.to);
        if let Some(slot) = self.slots_mut().get_mut(place)
            && let Some(result) = slot.clone().left_out(&text)
        {
            *slot = Slot::Ended(ToolResult { is_error: false, ..result });
        }
        self.n_tool_calls += 1;
        Ok(self.take_results(Stage::ToAsk, &format!("not run: the conversation was {text}")))
    }

    /// Whether this is an agent whose conversation has a name, and one with this conversation runs: it begins when that has
    /// ended, and goes on from what was said.
    pub(in super::super) fn is_talking(&self, agent: &str, calls: &OpenCalls) -> bool {
        let conversation_of = |agent: &str| self.agent(agent)?.context.name();
        let Some(conversation) = conversation_of(agent) else { return false };
        let of_run = |run: &BranchRun| conversation_of(&run.agent.as_ref()?.name);
        calls.iter().filter_map(OpenCall::branch).any(|run| of_run(run) == Some(conversation))
    }

    /// Why a call of an agent does not run.
    pub(super) fn agent_fault(&self, agent: &AgentTool, arguments: &Json) -> Option<ExecutionError> {
        let name = &agent.name;
        if agent.is_too_deep {
            let message = format!(
                "agent `{name}` is not run: sub-workflows and agents are nested {SUB_WORKFLOWS_DEPTH_MAX} deep here, \
                 which is the limit"
            );
            return Some(ExecutionError::new(ErrorKind::Limit, message));
        }
        let unfit = |why: String| {
            let message = format!("the arguments do not fit the schema of agent `{name}`: {why}");
            ExecutionError::new(ErrorKind::InvalidArguments, message)
        };
        let unknown = arguments.0.as_object().and_then(|given| given.keys().find(|name| !agent.takes(name)));
        if let Some(unknown) = unknown {
            return Some(unfit(format!("it has no argument `{unknown}`")));
        }
        match schema::compile(&agent.input_schema.0) {
            Ok(validator) => schema::check(&validator, &arguments.0, "arguments").err().map(unfit),
            Err(mismatch) => Some(unfit(mismatch.message)),
        }
    }

    /// The beginning of a call of an agent: the event at `next`.
    pub(super) fn start_agent(&self, place: usize, asked: AskedTool, next: (ThreadId, Seq), now: Time) -> Event {
        let AskedTool { tool_call_id, name, arguments } = asked;
        AgentStarted {
            node_id: self.request.node_id.clone(),
            index: u32::try_from(place).unwrap_or(u32::MAX),
            child: ThreadId::of_branch(next.0, next.1, now),
            tool_call_id,
            agent: name.to_string(),
            arguments,
        }
        .into()
    }

    /// An agent runs: the call.
    pub(in super::super) fn agent_started(
        &mut self,
        seq: Seq,
        owner: ThreadId,
        event: &AgentStarted,
    ) -> Result<OpenCall, TransitionError> {
        if self.agent(&event.agent).is_none() {
            return Err(TransitionError("no such agent is offered"));
        }
        let place = event.index as usize;
        if self.is_unchecked(place, &event.agent) {
            return Err(UNCHECKED);
        }
        let needs_approval = self.request.approve_tools.contains(&event.agent) || self.stopped_by(place).is_some();
        let Stage::Tools(slots) = &mut self.stage else {
            return Err(TransitionError("no tool call is due"));
        };
        let slot = slots.get_mut(place);
        let slot = slot.ok_or(TransitionError("the model made no such tool call"))?;
        let edited = match slot {
            Slot::Queued(call) if Some(&call.id) == event.tool_call_id.as_ref() && !needs_approval => false,
            Slot::Approved { tool, edited } if tool.tool_call_id == event.tool_call_id => *edited,
            _ => return Err(TransitionError("the model made no such tool call, or it was not approved")),
        };
        let call = CallId(seq);
        *slot = Slot::Open(call);
        let AgentStarted { index, child, tool_call_id, agent, arguments, .. } = event.clone();
        let name = agent.as_str().into();
        Arc::make_mut(&mut self.tool_calls).push(ToolCallRef {
            call_id: call,
            tool_call_id: tool_call_id.clone(),
            name,
        });
        let run = BranchRun {
            spent: Totals::default(),
            call,
            index,
            child,
            from: (owner, seq),
            inherits: Vec::new(),
            globals: Arc::default(),
            agent: Some(AgentCall { name: agent, tool_call_id, arguments, edited }),
        };
        Ok(OpenCall { place: index, ..OpenCall::new(CallKind::Branch(Box::new(run)), CallStage::Wanted) })
    }

    /// An agent ended. What joins the conversation is as for [`AgentLoop::tool_ended`].
    pub(in super::super) fn agent_ended(
        &mut self,
        ended: OpenCall,
        event: &BranchEnded,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        let text = match (&event.error, &event.output) {
            (Some(error), _) => error_text(error),
            (None, None) => "(no output)".to_owned(),
            (None, Some(output)) => text_of(output),
        };
        self.tool_ended(ended, vec![Part::text(text)], event.error.is_some())
    }
}
