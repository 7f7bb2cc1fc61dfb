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
//! Where a person stands for the model, `Relayed` comes between `Asking` and what follows it. Where several models are
//! asked, `Panel` comes first. Whenever nothing is open, the strategy may put something in between: a step of a plan,
//! a decision of the application.

mod custom;
mod panel;
mod plan;
mod slots;
mod strategy;

use std::sync::Arc;

use bincode::{Decode, Encode};

pub(super) use self::custom::checked as checked_decision;
pub use self::custom::{CustomRun, CustomStage, StrategyRun, Turn};
pub use self::panel::{Candidate, Choice, Panel};
pub use self::plan::{PlanRun, PlanStage};
pub use self::slots::Slot;
pub(super) use self::slots::{decided_without, request_tool};
pub(super) use self::strategy::Gate;
use self::strategy::read_json;
pub use self::strategy::{AnswerForm, CallConstraints, ModelBinding, StrategyState, Wants};

use super::calls::ModelCall;
use super::state::{Interaction, InteractionStage};
use super::summaries::Summarizing;
use super::{Env, asks};
use crate::event::{
    Decision, Event, LlmCallCompleted, LlmCallRequested, LlmCallRetried, LlmExecutionCompleted, LlmExecutionFailed,
    LlmExecutionRequest, ToolCallRef,
};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Seq, Time};
use crate::message::{FinishReason, Message, Part, Usage};

/// The most tool calls of one answer. An answer with more is taken for a fault of the model.
pub const TOOL_CALLS_MAX: usize = 1_000;

/// One run of the loop.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct AgentLoop {
    /// What was asked for.
    pub request: Arc<LlmExecutionRequest>,
    /// The number of the last model call, from 1.
    pub iteration: u32,
    /// Model calls that were made beside it, of several models and for choices among them.
    pub n_asides: u32,
    /// Tool calls ended.
    pub n_tool_calls: u32,
    /// Tool calls requested, in their order.
    pub tool_calls: Arc<Vec<ToolCallRef>>,
    /// The last model call.
    pub last_call: Option<CallId>,
    /// Model calls answered, or not, that were for summaries.
    pub n_summaries: u32,
    /// Tokens.
    pub usage: Usage,
    /// What is going on.
    pub stage: Stage,
    /// How far the strategy is.
    pub course: StrategyState,
    /// How the next model calls are made.
    pub leg: CallConstraints,
}

/// What is going on in a loop.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Stage {
    /// Several models are asked.
    Panel(Box<Panel>),
    /// The model is to be called.
    ToAsk,
    /// What was said is summarised first, because it has become too long.
    Summarizing(Box<Summarizing>),
    /// The model is being called. Where a person stands for it, the question is owed.
    Asking(ModelCall),
    /// A person is asked in the place of the model.
    Relayed(Box<Relayed>),
    /// Tools are running.
    Tools(Vec<Slot>),
    /// The model has said its last word.
    Answered {
        /// The text.
        content: String,
        /// Why it stopped.
        finish_reason: FinishReason,
    },
    /// There will be no answer.
    Failed(ExecutionError),
}

/// A model call that a person answers.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Relayed {
    /// The call.
    pub call: ModelCall,
    /// The question.
    pub ask: Interaction,
}

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
            usage: Usage::default(),
            stage,
            course,
            leg: CallConstraints::default(),
        }
    }

    /// Whether the model is to be called: it was not yet, it has the results of its tools, or the user said more after
    /// the call that it has answered.
    pub(super) fn is_to_ask(&self, has_unread: bool) -> bool {
        match self.stage {
            Stage::ToAsk => true,
            Stage::Answered { .. } => has_unread && !self.is_at_limit(),
            _ => false,
        }
    }

    /// Whether the model has been called as often as it may be.
    pub(super) fn is_at_limit(&self) -> bool {
        self.iteration >= self.request.max_iterations
    }

    /// The event the loop owes to itself. `has_unread`: whether the user said something that the model has not read.
    pub(super) fn advance(&self, has_unread: bool, around: &Env<'_>) -> Option<Event> {
        match &self.stage {
            Stage::ToAsk if self.is_at_limit() => {
                let n = self.request.max_iterations;
                let message = match self.course {
                    StrategyState::React | StrategyState::Several => {
                        format!("the model asked for tools in each of {n} calls and gave no answer (max_iterations)")
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
            Stage::Asking(open) if self.request.relay => {
                Some(asks::relay(&self.request.node_id, open.call, self.request.llm_timeout_ms, around.now))
            }
            Stage::Asking(_) | Stage::Relayed(_) | Stage::Summarizing(_) => None,
            Stage::Tools(slots) => self.next_tool(slots, around),
            Stage::Answered { content, finish_reason } => Some(
                LlmExecutionCompleted {
                    node_id: self.request.node_id.clone(),
                    content: content.clone(),
                    finish_reason: *finish_reason,
                    usage: self.usage,
                    n_llm_calls: self.iteration + self.n_asides + self.n_summaries,
                    n_tool_calls: self.n_tool_calls,
                    tool_calls: self.tool_calls.to_vec(),
                    context_call_id: self.last_call,
                }
                .into(),
            ),
            Stage::Failed(error) => Some(self.failed(error.clone())),
        }
    }

    pub(super) fn failed(&self, error: ExecutionError) -> Event {
        LlmExecutionFailed { node_id: self.request.node_id.clone(), error }.into()
    }

    /// The model is being called.
    pub(super) fn call_requested(
        &mut self,
        seq: Seq,
        at: Time,
        event: &LlmCallRequested,
    ) -> Result<(), TransitionError> {
        if let Some(aside) = &event.aside {
            self.aside_requested(seq, at, aside)?;
            self.last_call = Some(CallId(seq));
            return Ok(());
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
        let deadline = self.request.llm_timeout_ms.map(|ms| at.plus_ms(ms));
        self.stage = Stage::Asking(ModelCall { call: CallId(seq), attempt: 1, requested_at: at, deadline });
        Ok(())
    }

    /// The model is called again. `clock` is what the clocks of calls show.
    pub(super) fn call_retried(
        &mut self,
        at: Time,
        clock: Time,
        event: &LlmCallRetried,
    ) -> Result<(), TransitionError> {
        let open = match &mut self.stage {
            Stage::Asking(open) => Some(open).filter(|open| open.call == event.call_id),
            Stage::Panel(panel) => panel.open_calls_mut().find(|open| open.call == event.call_id),
            _ => None,
        };
        match open {
            Some(open) if event.attempt == open.attempt + 1 => {
                open.attempt = event.attempt;
                open.requested_at = at;
                open.deadline = self.request.llm_timeout_ms.map(|ms| clock.plus_ms(ms));
                Ok(())
            }
            _ => Err(TransitionError("no such model call is open")),
        }
    }

    /// The model answered. What joins the conversation: its message and, when the loop is over although it asked for
    /// tools, a result for each of them, so that none is left without one.
    pub(super) fn call_completed(&mut self, event: &LlmCallCompleted) -> Result<Vec<Arc<Message>>, TransitionError> {
        if matches!(self.stage, Stage::Panel(_)) {
            self.aside_completed(event)?;
            return Ok(Vec::new());
        }
        self.may_end(event.call_id)?;
        self.usage.add(&event.usage);
        Ok(self.take_answer(&event.message, event.finish_reason, event.unusable.as_ref()))
    }

    /// An answer joins the conversation, and decides what comes next.
    fn take_answer(
        &mut self,
        message: &Arc<Message>,
        finish_reason: FinishReason,
        unusable: Option<&ExecutionError>,
    ) -> Vec<Arc<Message>> {
        let calls: Vec<_> = message.tool_calls().cloned().map(Slot::Queued).collect();
        let mut messages = vec![message.clone()];
        // A step of a plan that the model refuses fails, and the plan is made anew.
        let is_of_step =
            |error: &&ExecutionError| error.kind == ErrorKind::Denied && matches!(self.course, StrategyState::Plan(_));
        let unusable = unusable.filter(|error| !is_of_step(error)).cloned();
        if let Some(error) = not_usable(finish_reason).or(unusable) {
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
    pub(super) fn call_failed(&mut self, call: CallId, error: &ExecutionError) -> Result<(), TransitionError> {
        if matches!(self.stage, Stage::Panel(_)) {
            return self.end_aside(call, Err(error.clone()));
        }
        self.may_end(call)?;
        self.stage = Stage::Failed(error.clone());
        Ok(())
    }

    /// A call whose question has no terminal event yet cannot end.
    fn may_end(&self, call: CallId) -> Result<(), TransitionError> {
        match &self.stage {
            Stage::Asking(open) if open.call == call => Ok(()),
            Stage::Relayed(relayed) if relayed.call.call == call => match relayed.ask.stage {
                InteractionStage::Processed { .. } => Ok(()),
                InteractionStage::Asked | InteractionStage::Responded { .. } => {
                    Err(TransitionError("a question is open still"))
                }
            },
            _ => Err(TransitionError("no such model call is open")),
        }
    }

    /// The loop ended with an answer: whether this is so.
    pub(super) fn has_answered(&self) -> bool {
        matches!(self.stage, Stage::Answered { .. })
    }

    /// Whether the answer is that of the node, and not only of a step on the way there.
    pub(super) fn is_over(&self, at: Time) -> bool {
        self.has_answered() && matches!(self.gate(at), Gate::Open)
    }

    /// Whether any call or question has no terminal event yet.
    pub(super) fn has_open_call(&self) -> bool {
        let is_open = match &self.stage {
            Stage::ToAsk | Stage::Answered { .. } | Stage::Failed(_) => false,
            Stage::Panel(panel) => panel.open_calls().next().is_some(),
            Stage::Asking(_) | Stage::Relayed(_) => true,
            Stage::Summarizing(open) => open.asking.is_some(),
            Stage::Tools(slots) => slots.iter().any(Slot::is_open),
        };
        is_open || self.deciding().is_some()
    }

    /// The open model call whose answer joins the conversation.
    pub fn open_model_call(&self) -> Option<&ModelCall> {
        match &self.stage {
            Stage::Asking(call) => Some(call),
            Stage::Relayed(relayed) => Some(&relayed.call),
            Stage::Panel(_)
            | Stage::ToAsk
            | Stage::Summarizing(_)
            | Stage::Tools(_)
            | Stage::Answered { .. }
            | Stage::Failed(_) => None,
        }
    }

    /// Several models that are asked.
    pub fn panel(&self) -> Option<&Panel> {
        match &self.stage {
            Stage::Panel(panel) => Some(panel),
            _ => None,
        }
    }

    /// The model call that a person answers, and its question.
    pub(super) fn relayed(&self) -> Option<(&ModelCall, &Interaction)> {
        match &self.stage {
            Stage::Relayed(relayed) => Some((&relayed.call, &relayed.ask)),
            _ => None,
        }
    }

    /// Whether a person is asked, and nothing goes on meanwhile.
    pub(super) fn waits_for_people(&self) -> bool {
        match &self.stage {
            Stage::Relayed(relayed) => relayed.ask.is_open(),
            Stage::Tools(slots) => {
                let at_rest =
                    |slot: &Slot| matches!(slot, Slot::Ended(_)) || slot.question().is_some_and(|q| q.is_open());
                slots.iter().all(at_rest) && slots.iter().any(|slot| slot.question().is_some())
            }
            Stage::Panel(_)
            | Stage::ToAsk
            | Stage::Summarizing(_)
            | Stage::Asking(_)
            | Stage::Answered { .. }
            | Stage::Failed(_) => false,
        }
    }

    /// The questions that have not taken effect yet.
    pub(super) fn questions(&self) -> impl Iterator<Item = &Interaction> {
        let relayed = self.relayed().map(|(_, ask)| ask);
        // What a person brought for a model has taken effect; the end of the call is owed.
        let relayed = relayed.filter(|ask| !matches!(ask.stage, InteractionStage::Processed { .. }));
        relayed.into_iter().chain(self.slots().iter().flat_map(Slot::questions))
    }

    pub(super) fn questions_mut(&mut self) -> impl Iterator<Item = &mut Interaction> {
        let (relayed, slots): (_, &mut [Slot]) = match &mut self.stage {
            Stage::Relayed(relayed) => (Some(&mut relayed.ask), &mut []),
            Stage::Tools(slots) => (None, slots),
            _ => (None, &mut []),
        };
        relayed.into_iter().chain(slots.iter_mut().flat_map(Slot::questions_mut))
    }

    /// A person is asked about the model call or about a tool call.
    pub(super) fn asked(&mut self, ask: Interaction) -> Result<(), TransitionError> {
        match (&mut self.stage, &ask.tool_call, ask.llm_call) {
            (Stage::Asking(open), None, Some(call)) if open.call == call && self.request.relay => {
                self.stage = Stage::Relayed(Box::new(Relayed { call: *open, ask }));
                Ok(())
            }
            (Stage::Tools(slots), Some(tool), None) => {
                let due = slots.iter_mut().find(|slot| slot.is_queued(tool.tool_call_id.as_ref()));
                *due.ok_or(TransitionError("the model made no such tool call"))? = Slot::Asking(Box::new(ask));
                Ok(())
            }
            _ => Err(TransitionError("no question is due")),
        }
    }

    /// An answer takes effect. What joins the conversation is as for [`AgentLoop::tool_ended`].
    pub(super) fn question_processed(
        &mut self,
        id: CallId,
        decision: Option<&Decision>,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        if let Stage::Relayed(relayed) = &mut self.stage
            && let InteractionStage::Responded { input } = &mut relayed.ask.stage
        {
            relayed.ask.stage = InteractionStage::Processed { input: std::mem::take(input) };
            return Ok(Vec::new());
        }
        let decision = decision.ok_or(TransitionError("nothing was decided about the tool call"))?;
        self.decided(id, decision)
    }

    /// A question will not be answered. A model call is asked for again, unless its own end follows.
    pub(super) fn question_failed(
        &mut self,
        id: CallId,
        error: &ExecutionError,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        if let Stage::Relayed(relayed) = &self.stage {
            self.stage = Stage::Asking(relayed.call);
            return Ok(Vec::new());
        }
        self.settle(id, vec![Part::text(error_text(error))], true)
    }

    /// A pause is over: the clocks go on from where they stood.
    pub(super) fn shift(&mut self, ms: u64) {
        if let Stage::Asking(call) = &mut self.stage {
            call.deadline = call.deadline.map(|deadline| deadline.plus_ms(ms));
        }
        if let Stage::Summarizing(open) = &mut self.stage {
            open.shift(ms);
        }
        if let Stage::Panel(panel) = &mut self.stage {
            panel.shift(ms);
        }
        if let Some(open) = self.deciding_mut() {
            open.deadline = open.deadline.plus_ms(ms);
        }
        // The questions of a tool that runs are shifted with it.
        for ask in self.questions_mut().filter(|ask| ask.tool_run.is_none()) {
            ask.shift(ms);
        }
        for run in self.open_tools_mut() {
            run.shift(ms);
        }
    }
}

/// An event that does not fit the state it is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransitionError(pub(super) &'static str);

/// Why an answer cannot be used, where the provider says so.
fn not_usable(finish_reason: FinishReason) -> Option<ExecutionError> {
    match finish_reason {
        FinishReason::ContentFilter => {
            let message = "the provider's content filter stopped the answer";
            Some(ExecutionError::new(ErrorKind::ContentFilter, message))
        }
        FinishReason::Error => {
            let message = "the provider says that its answer is faulty";
            Some(ExecutionError::retryable(ErrorKind::MalformedResponse, message))
        }
        _ => None,
    }
}

/// The text of an answer, or of a refusal when there is no other text.
fn answer_text(message: &Message) -> String {
    let text = message.joined_text();
    if !text.is_empty() {
        return text;
    }
    let refusals = message.content.iter().filter_map(|part| match part {
        Part::Refusal { text } => Some(text.as_str()),
        _ => None,
    });
    refusals.collect()
}

/// An error as a model reads it in the place of a tool's result.
pub(super) fn error_text(error: &ExecutionError) -> String {
    format!("Error ({}): {}", error.kind, error.message)
}
