//! The agent loop: call the model, run the tools it asks for, call it again, until it asks for none (ReAct: Yao et
//! al., 2022). A machine of its own, with no word on nodes, edges or branches.
//!
//! ```text
//! (Summarizing ─▶)
//! ToAsk ─▶ Asking ─▶ Answered
//!   ▲         └────▶ Tools ─┐
//!   └───────────────────────┘      any ─▶ Failed
//! ```
//!
//! Where several models are asked, `Panel` comes first. Whenever nothing is open, the strategy may put something in between: a step of a plan,
//! a decision of the application.

mod agents;
mod answers;
mod custom;
mod gate;
mod guarding;
mod output;
mod panel;
mod plan;
mod slots;
mod strategy;

use std::sync::Arc;

use self::answers::{answer_text, not_usable};
pub(super) use self::answers::{error_text, model_completed};
pub use self::custom::Turn;
pub(super) use self::custom::checked as checked_decision;
pub(super) use self::gate::Gate;
pub(super) use self::guarding::{kind_of, removed_answer};
pub(super) use self::output::with_form;
pub(super) use self::slots::{decided_without, request_tool};
use super::asks;
use super::calls::{CallKind, CallStage, Interaction, ModelCall, OpenCall, OpenCalls};
use super::env::Env;
pub use super::request::ModelBinding;
pub use super::state::{
    AgentLoop, CallConstraints, Candidate, Check, CheckStage, Choice, CustomRun, CustomStage, GuardedCall, Guarding,
    Panel, PlanRun, PlanStage, Slot, Stage, StrategyState, Wants,
};
use super::transition::{NO_MODEL_CALL, OPEN_CALL, TransitionError};
use crate::event::{
    Event, Handoff, LlmCallCompleted, LlmCallRequested, LlmExecutionCompleted, LlmExecutionFailed, LlmExecutionRequest,
    OperationType, ToolMode,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Seq, ThreadId, Time};
use crate::json::Json;
use crate::message::{FinishReason, Message, ToolChoice, Usage};

/// The result of a tool call that a message of the user has interrupted.
pub(super) const INTERRUPTED: &str = "not run: a message of the user came first";
/// What a warning or an error says of a first answer that uses no tool.
pub(super) const TOOL_NOT_USED: &str = "the first answer had to use a tool and uses none: the server ignores that it must; \
                                        choose another model, or say in the prompt which tool to use";

impl AgentLoop {
    /// A loop that has not called the model yet.
    pub(super) fn new(request: LlmExecutionRequest) -> Self {
        let (stage, course) = strategy::begin(&request);
        Self {
            request: Arc::new(request),
            iteration: 0,
            n_asides: 0,
            n_tool_calls: 0,
            tool_calls: Arc::default(),
            last_call: None,
            n_summaries: 0,
            n_repairs: 0,
            usage: Usage::default(),
            stage,
            course,
            leg: CallConstraints::default(),
            guarding: Guarding::default(),
        }
    }

    /// Returns the next event of the loop itself, which is the one at `next`. `has_unread`: whether there are messages of the
    /// user that the model has not read.
    pub(super) fn advance(
        &self,
        calls: &OpenCalls,
        has_unread: bool,
        next: (ThreadId, Seq),
        around: &Env<'_>,
    ) -> Option<Event> {
        match &self.stage {
            Stage::ToAsk if self.is_at_limit() => {
                let n = self.request.max_iterations;
                let message = match self.course {
                    _ if self.n_repairs > 0 => output::left_no_call(self),
                    StrategyState::React | StrategyState::Several => {
                        format!("the model called tools in each of {n} calls and gave no answer (max_iterations)")
                    }
                    StrategyState::Plan(_) | StrategyState::Custom(_) => {
                        format!("the model was called {n} times and the node has no answer (max_iterations)")
                    }
                };
                Some(self.failed(ExecutionError::new(ErrorKind::Limit, message)))
            }
            Stage::ToAsk if self.course == StrategyState::Several => panel::first(self, around),
            _ if self.is_to_ask(has_unread) => {
                let model_profile = around.models.profile(&self.request.model).filter(|_| !self.request.relay);
                Some(
                    LlmCallRequested { node_id: None, iteration: self.iteration + 1, aside: None, model_profile }
                        .into(),
                )
            }
            Stage::ToAsk => None,
            Stage::Panel(panel) => panel.next(self, around),
            Stage::Asking(call) if self.request.relay && calls.children(*call).next().is_none() => {
                Some(asks::relay(&self.request.node_id, *call, self.request.llm_timeout_ms, around.now))
            }
            Stage::Asking(_) | Stage::Summarizing(_) => None,
            Stage::Tools(slots) => self.next_tool(slots, calls, next, around),
            Stage::Answered { content, finish_reason } => Some(match output::read(self, content, *finish_reason) {
                Ok(value) => self.completed(content.clone(), *finish_reason, value, None).into(),
                Err(faults) => output::rejected(self, faults),
            }),
            Stage::Failed(error) => Some(self.failed(error.clone())),
        }
    }

    fn completed(
        &self,
        content: String,
        finish_reason: FinishReason,
        value: Option<Json>,
        handoff: Option<Handoff>,
    ) -> LlmExecutionCompleted {
        LlmExecutionCompleted {
            node_id: self.request.node_id.clone(),
            content,
            finish_reason,
            usage: self.usage,
            n_llm_calls: self.iteration + self.n_asides + self.n_summaries,
            n_tool_calls: self.n_tool_calls,
            tool_calls: self.tool_calls.to_vec(),
            context_call_id: self.last_call,
            value,
            handoff,
        }
    }

    pub(super) fn failed(&self, error: ExecutionError) -> Event {
        LlmExecutionFailed { node_id: self.request.node_id.clone(), error }.into()
    }

    /// The model is being called: the call.
    pub(super) fn call_requested(
        &mut self,
        seq: Seq,
        at: Time,
        event: &LlmCallRequested,
    ) -> Result<OpenCall, TransitionError> {
        let call = CallKind::Model(ModelCall::new(CallId(seq), at, self.request.llm_timeout_ms));
        if let Some(aside) = &event.aside {
            self.aside_requested(CallId(seq), aside)?;
            self.last_call = Some(CallId(seq));
            return Ok(OpenCall::new(call, CallStage::Wanted));
        }
        let is_held = !matches!(self.gate(at), Gate::Open) || self.course == StrategyState::Several;
        if !matches!(self.stage, Stage::ToAsk | Stage::Answered { .. })
            || is_held
            || event.iteration != self.iteration + 1
        {
            return Err(TransitionError("no model call is due"));
        }
        self.iteration = event.iteration;
        self.last_call = Some(CallId(seq));
        self.stage = Stage::Asking(CallId(seq));
        Ok(OpenCall::new(call, self.model_stage()))
    }

    /// Returns the messages that join the conversation after an answer: its message and, if the loop has ended although
    /// it requested tools, a result for each of them, so that none is left without one.
    pub(super) fn call_completed(
        &mut self,
        calls: &mut OpenCalls,
        event: &LlmCallCompleted,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        close_model_call(calls, event.call_id)?;
        if matches!(self.stage, Stage::Panel(_)) {
            self.aside_completed(event)?;
            return Ok(Vec::new());
        }
        self.is_asking(event.call_id)?;
        self.usage.add(&event.usage);
        Ok(self.take_answer(&event.message, event.finish_reason, event.unusable.as_ref()))
    }

    /// Whether an answer uses no tool although it had to. The answers of a panel that one is chosen from are first answers.
    pub(super) fn ignores_choice(&self, message: &Message, finish_reason: FinishReason) -> bool {
        let request = &self.request;
        let is_forced = match &request.model.tool_choice {
            Some(choice) => matches!(choice, ToolChoice::Required | ToolChoice::Tool(_)),
            None => request.tool_mode.requires_one(),
        };
        let offers = !request.tools.is_empty() || request.tools_beside().next().is_some();
        let begins =
            self.iteration == self.leg.from + 1 || self.panel().is_some_and(|panel| panel.is_answering(request));
        let is_first = begins && self.leg.wants == Wants::Anything;
        let has_said = matches!(finish_reason, FinishReason::Stop | FinishReason::Other);
        is_forced && offers && is_first && has_said && message.tool_calls().next().is_none()
    }

    /// An answer joins the conversation, and decides what comes next.
    fn take_answer(
        &mut self,
        message: &Arc<Message>,
        finish_reason: FinishReason,
        unusable: Option<&ExecutionError>,
    ) -> Vec<Arc<Message>> {
        self.guarding.answer_due = !answer_text(message).is_empty();
        let calls: Vec<_> = message.tool_calls().map(|call| Slot::of_answer(call, finish_reason)).collect();
        let mut messages = vec![message.clone()];
        // A step of a plan that the model refuses fails, and a new plan is made.
        let is_of_step =
            |error: &&ExecutionError| error.kind == ErrorKind::Denied && matches!(self.course, StrategyState::Plan(_));
        let unusable = unusable.filter(|error| !is_of_step(error)).cloned();
        let not_used = || {
            let is_enforced =
                self.request.tool_mode == ToolMode::Enforced && self.ignores_choice(message, finish_reason);
            is_enforced.then(|| ExecutionError::new(ErrorKind::MalformedResponse, TOOL_NOT_USED))
        };
        if let Some(error) = not_usable(finish_reason).or(unusable).or_else(not_used) {
            self.stage = Stage::Tools(calls);
            messages.extend(self.give_up(&error));
            return messages;
        }
        self.stage = match finish_reason {
            _ if !calls.is_empty() => Stage::Tools(calls),
            FinishReason::Pause => Stage::ToAsk,
            finish_reason => Stage::Answered { content: answer_text(message), finish_reason },
        };
        if !matches!(self.stage, Stage::ToAsk) {
            self.turned();
        }
        messages
    }

    /// There will be no answer.
    pub(super) fn call_failed(
        &mut self,
        calls: &mut OpenCalls,
        call: CallId,
        error: &ExecutionError,
    ) -> Result<(), TransitionError> {
        close_model_call(calls, call)?;
        if matches!(self.stage, Stage::Panel(_)) {
            return self.end_aside(call, Err(error.clone()));
        }
        self.is_asking(call)?;
        self.stage = if error.kind == ErrorKind::Interrupted {
            // The call that is made in its place has its number.
            self.iteration -= 1;
            Stage::ToAsk
        } else {
            Stage::Failed(error.clone())
        };
        Ok(())
    }

    fn is_asking(&self, call: CallId) -> Result<(), TransitionError> {
        if matches!(self.stage, Stage::Asking(open) if open == call) { Ok(()) } else { Err(NO_MODEL_CALL) }
    }

    /// Whether the answer is that of the node, and not only of a step on the way there.
    pub(super) fn is_over(&self, at: Time) -> bool {
        self.has_answered() && !self.is_answer_unchecked() && matches!(self.gate(at), Gate::Open)
    }

    /// A person is asked about the model call or about a tool call: the question.
    pub(super) fn asked(&mut self, calls: &OpenCalls, ask: Interaction) -> Result<OpenCall, TransitionError> {
        let (id, tool, model) = (ask.id, ask.tool_call.clone(), ask.llm_call);
        let ask_about_content = ask.operation_type == OperationType::ApproveContent;
        let mut asked = OpenCall::new(CallKind::Question(Box::new(ask)), CallStage::Wanted);
        if ask_about_content {
            self.asked_about_content(id)?;
            return Ok(asked);
        }
        match (&mut self.stage, tool, model) {
            (Stage::Asking(open), None, Some(call))
                if *open == call && self.request.relay && calls.children(call).next().is_none() =>
            {
                asked.parent = Some(call);
            }
            (Stage::Tools(slots), Some(tool), None) => {
                let due = slots.iter().position(|slot| slot.is_queued(tool.tool_call_id.as_ref()));
                let place = due.ok_or(TransitionError("the model made no such tool call"))?;
                slots[place] = Slot::Asking(id);
                asked.place = u32::try_from(place).unwrap_or(u32::MAX);
            }
            _ => return Err(TransitionError("no question is due")),
        }
        Ok(asked)
    }
}

/// Ends a model call. One that a person answers ends with its question, whose answer has taken effect.
fn close_model_call(calls: &mut OpenCalls, call: CallId) -> Result<(), TransitionError> {
    if calls.get(call).is_none_or(|open| !matches!(open.kind, CallKind::Model(_))) {
        return Err(NO_MODEL_CALL);
    }
    let answer = calls.children(call).next().map(|ask| (ask.id(), matches!(ask.stage, CallStage::Processed { .. })));
    match answer {
        Some((ask, true)) => drop(calls.close(ask)?),
        Some((_, false)) => return Err(OPEN_CALL),
        None => {}
    }
    calls.close(call).map(drop)
}
