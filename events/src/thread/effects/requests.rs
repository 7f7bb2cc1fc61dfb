//! The requests of open model calls.

use std::sync::Arc;

use super::super::calls::{CallKind, OpenCall};
use super::super::listing;
use super::super::messages::Messages;
use super::super::request::{ModelRequest, instructions};
use super::super::state::{AgentLoop, Asked, Judging, State, Wants, Work};
use crate::event::{LlmExecutionRequest, ToolMode};
use crate::ids::CallId;
use crate::message::{Message, Role, ToolChoice};

impl State {
    /// Returns the request of the first open model call; `None` if none is open. It is the same for every attempt of a
    /// call: messages that the application added after the first request are in the next call. Costs one pointer per
    /// message.
    pub fn model_request(&self) -> Option<ModelRequest> {
        self.model_request_of(self.calls.iter().find_map(OpenCall::model)?.call)
    }

    /// Returns the request of this open model call, as [`State::model_request`].
    pub fn model_request_of(&self, call: CallId) -> Option<ModelRequest> {
        match &self.calls.get(call)?.kind {
            CallKind::Judge(_) => match self.guardrail_judging() {
                Some(judging) => Some(request_without_conversation(judging)),
                None => self.judging_request(self.judging()?),
            },
            CallKind::Summary(_) => self.summary_request(),
            CallKind::Model(_) => {
                let Work::Llm(agent_loop) = &self.node_run()?.work else {
                    return None;
                };
                let Some(panel) = agent_loop.panel() else {
                    return Some(self.request_over(
                        agent_loop,
                        self.conversation.end_before(call),
                        agent_loop.iteration,
                    ));
                };
                let n_read = self.conversation.end_before(panel.first_call()?);
                panel.request(call, agent_loop, self.request_over(agent_loop, n_read, 1))
            }
            // The question replaces the model call.
            CallKind::Question(ask) => self.model_request_of(ask.llm_call?),
            CallKind::Tool(_)
            | CallKind::Processor(_)
            | CallKind::Strategy(_)
            | CallKind::Guardrail(_)
            | CallKind::Timer(_)
            | CallKind::Signal(_)
            | CallKind::Branch(_)
            | CallKind::Child(_)
            | CallKind::Awaited(_) => None,
        }
    }

    /// A request with the first `n` messages of the conversation.
    fn request_over(&self, agent_loop: &AgentLoop, n: usize, iteration: u32) -> ModelRequest {
        let execution = agent_loop.request.clone();
        let turn_from = usize::try_from(self.conversation.turn_from).unwrap_or(usize::MAX);
        let (n_before, messages) = (n.min(turn_from), Messages::of(&self.conversation, n));
        let is_first = iteration == agent_loop.leg.from + 1;
        let tool_choice = match (execution.tool_mode, &execution.model.tool_choice) {
            _ if execution.tools.is_empty() && execution.tools_beside().next().is_none() => None,
            (ToolMode::None, _) => None,
            // They are named all the same: a provider wants to know the tools of the calls in the conversation.
            _ if agent_loop.leg.wants != Wants::Anything => Some(ToolChoice::None),
            (_, Some(ToolChoice::None)) => Some(ToolChoice::None),
            (_, Some(choice)) if is_first => Some(choice.clone()),
            (mode, None) if is_first && mode.requires_one() => Some(ToolChoice::Required),
            (ToolMode::Auto | ToolMode::Required | ToolMode::Enforced, _) => Some(ToolChoice::Auto),
        };
        let (offers, form) = (self.conversation.offers(), agent_loop.answer_form());
        ModelRequest { execution, messages, offers, n_before, tool_choice, iteration, form }
    }

    /// Returns the request of an open judgement: the conversation, then the instructions and the question of the judge.
    fn judging_request(&self, judging: &Judging) -> Option<ModelRequest> {
        let call = judging.open_call()?;
        let execution = judging.request.clone();
        let mut messages = Messages::of(&self.conversation, self.conversation.end_before(call));
        let n_before = messages.len();
        instructions(&execution).into_iter().for_each(|message| messages.push(message));
        messages.push(Arc::new(Message::text(Role::User, &execution.prompt)));
        let offers = self.conversation.offers();
        Some(ModelRequest { execution, messages, offers, n_before, tool_choice: None, iteration: 1, form: None })
    }

    /// Returns the request of an open summary.
    fn summary_request(&self) -> Option<ModelRequest> {
        let open = self.summarizing()?;
        let Asked { from, to, .. } = open.asking.as_ref()?;
        let range = usize::try_from(*from).ok()?..usize::try_from(*to).ok()?;
        if range.end > self.conversation.entries.len() {
            return None;
        }
        let prompt = listing::prompt(&self.conversation.entries.range(range));
        let instructions = Arc::new(Message::text(Role::System, listing::INSTRUCTIONS));
        let messages = vec![instructions, Arc::new(Message::text(Role::User, &prompt))].into();
        let execution = Arc::new(LlmExecutionRequest { prompt, ..(*open.request).clone() });
        Some(ModelRequest::alone(execution, messages))
    }
}

/// The request of a condition that is judged without the conversation.
fn request_without_conversation(judging: &Judging) -> ModelRequest {
    let execution = judging.request.clone();
    let question = Arc::new(Message::text(Role::User, &execution.prompt));
    let messages = instructions(&execution).into_iter().chain([question]).collect();
    ModelRequest::alone(execution, messages)
}
