//! A strategy of the application: whenever the loop has nothing open, it is called for the next step, as an effect. Its
//! decision is an event. A replay calls nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::calls::{ApplicationRun, CallKind, CallStage, OpenCall, OpenCalls};
use super::super::check::{self, TOOL_CALLS_MAX};
use super::super::env::Env;
use super::super::state::{AgentLoop, CallConstraints, CustomRun, CustomStage, Slot, Stage, StrategyState, Wants};
use super::super::transition::TransitionError;
use super::gate::Gate;
use crate::event::{CustomDecider, LoopStrategy, StrategyDecided, StrategyDecision, StrategyDecisionRequested};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Seq, Time};
use crate::message::{FinishReason, Message, Part, Role, ToolCall, ToolResult};

/// How many decisions there may be for each model call that the node allows.
const DECISIONS_PER_ITERATION: u32 = 4;
/// The most messages of one decision.
const MESSAGES_MAX: usize = 1_000;
/// The result of a tool call that a strategy passes over.
const NOT_RUN: &str = "not run: the strategy continues without this call";

/// The position of the loop when a strategy is called.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// The prompt is the last that was said.
    Begun,
    /// The last answer asks for tools. None of them runs unless it is decided to.
    ToolsAsked(Vec<ToolCall>),
    /// Tools have run; their results are the last that was said.
    ToolsEnded,
    /// The last answer asks for no tool.
    Answered {
        /// Its text.
        content: String,
        /// Why the model stopped.
        finish_reason: FinishReason,
    },
}

impl CustomRun {
    fn has_decided_enough(&self, max_iterations: u32) -> bool {
        self.n_decisions >= max_iterations.saturating_mul(DECISIONS_PER_ITERATION)
    }
}

fn of(agent_loop: &AgentLoop) -> Option<&CustomDecider> {
    match &agent_loop.request.strategy {
        LoopStrategy::Custom(decider) => Some(decider),
        LoopStrategy::React {} | LoopStrategy::PlanAndExecute(_) | LoopStrategy::MultiLlm(_) => None,
    }
}

/// Returns the event before the loop continues.
pub(super) fn gate(agent_loop: &AgentLoop, run: &CustomRun, now: Time) -> Gate {
    // Calls that the output limit cut are no part of what it decides about.
    let Some(decider) = of(agent_loop).filter(|_| !agent_loop.has_cut_calls()) else {
        return Gate::Open;
    };
    match (&run.stage, &agent_loop.stage) {
        (CustomStage::Deciding(_), _) => Gate::Closed,
        (CustomStage::ToDecide, Stage::ToAsk | Stage::Tools(_) | Stage::Answered { .. }) => {
            let max = agent_loop.request.max_iterations;
            if run.has_decided_enough(max) {
                let message = format!(
                    "the strategy `{}` has decided {} times and the node has no answer ({DECISIONS_PER_ITERATION} times \
                     max_iterations)",
                    decider.name, run.n_decisions
                );
                return Gate::event(agent_loop.failed(ExecutionError::new(ErrorKind::Limit, message)));
            }
            let deadline = now.plus_ms(decider.timeout_ms);
            let (node, name) = (agent_loop.request.node_id.clone(), decider.name.clone());
            Gate::event(StrategyDecisionRequested { node_id: node, name, deadline })
        }
        (CustomStage::ToDecide | CustomStage::Decided, _) => Gate::Open,
    }
}

/// Returns the decision of a strategy, or why it is impossible.
pub(in super::super) fn checked(
    agent_loop: &AgentLoop,
    decision: StrategyDecision,
    around: &Env<'_>,
) -> Result<StrategyDecision, ExecutionError> {
    let malformed = |what: String| Err(ExecutionError::new(ErrorKind::MalformedResponse, what));
    match &decision {
        StrategyDecision::CallModel { messages, model, tools } => {
            if messages.len() > MESSAGES_MAX {
                return malformed(format!("it adds {} messages, the limit is {MESSAGES_MAX}", messages.len()));
            }
            for message in messages {
                if let Err(e) = check::added_message(message) {
                    return malformed(e.to_string());
                }
            }
            if model.as_ref().is_some_and(|model| around.models.is_person(model)) {
                let message = "it names a model for which a person answers: only the model of the node can be one";
                return Err(ExecutionError::new(ErrorKind::Configuration, message));
            }
            let StrategyState::Custom(run) = &agent_loop.course else {
                return malformed("the loop follows no strategy of the application".into());
            };
            if let Some(tool) = tools.iter().flatten().find(|tool| !run.tools.contains(tool)) {
                return malformed(format!("it offers the tool `{tool}`, which the node does not offer"));
            }
        }
        StrategyDecision::RunTools { calls } => {
            if calls.is_empty() || calls.len() > TOOL_CALLS_MAX {
                return malformed(format!("it runs {} tools: between 1 and {TOOL_CALLS_MAX} can be run", calls.len()));
            }
            let mut ids = BTreeSet::new();
            for call in calls {
                let is_asked = agent_loop.slots().iter().any(|slot| slot.is_queued(Some(&call.id)));
                if matches!(agent_loop.stage, Stage::Tools(_)) && !is_asked {
                    return malformed(format!("the last answer has no tool call `{}`", call.id));
                }
                if call.id.is_empty() || !ids.insert(&call.id) {
                    return malformed(format!("the id `{}` of a tool call is empty or used twice", call.id));
                }
                if call.arguments.is_too_deep() {
                    return malformed("the arguments of a tool call are nested too deep".into());
                }
            }
        }
        StrategyDecision::Answer { .. } | StrategyDecision::Fail { .. } => {}
    }
    Ok(decision)
}

/// The messages that join the conversation after a strategy has decided.
#[derive(Debug, Default)]
pub(in super::super) struct Joins {
    /// Results of tool calls that do not run.
    pub(in super::super) results: Vec<Arc<Message>>,
    /// The messages after them.
    pub(in super::super) said: Vec<Arc<Message>>,
}

impl AgentLoop {
    fn custom_mut(&mut self) -> Result<&mut CustomRun, TransitionError> {
        match &mut self.course {
            StrategyState::Custom(run) => Ok(run),
            StrategyState::React | StrategyState::Several | StrategyState::Plan(_) => {
                Err(TransitionError("the loop follows no strategy of the application"))
            }
        }
    }

    /// Where the loop is, for the strategy.
    pub fn turn(&self) -> Turn {
        match &self.stage {
            Stage::Tools(slots) => Turn::ToolsAsked(
                slots
                    .iter()
                    .filter_map(|slot| match slot {
                        Slot::Queued(call) => Some(call.clone()),
                        _ => None,
                    })
                    .collect(),
            ),
            Stage::Answered { content, finish_reason } => {
                Turn::Answered { content: content.clone(), finish_reason: *finish_reason }
            }
            _ if self.iteration == 0 && self.n_tool_calls == 0 => Turn::Begun,
            _ => Turn::ToolsEnded,
        }
    }

    /// Whether the strategy of the application may decide no more.
    pub(in super::super) fn has_decided_enough(&self) -> bool {
        match &self.course {
            StrategyState::Custom(run) => {
                run.stage == CustomStage::ToDecide && run.has_decided_enough(self.request.max_iterations)
            }
            StrategyState::React | StrategyState::Several | StrategyState::Plan(_) => false,
        }
    }

    /// Handles a new turn of the loop: calls the strategy of the application first.
    pub(super) fn turned(&mut self) {
        self.guarding.calls.clear();
        self.drop_check_of_call();
        if let StrategyState::Custom(run) = &mut self.course {
            run.stage = CustomStage::ToDecide;
        }
    }

    /// The strategy is being asked: the call.
    pub(in super::super) fn decision_requested(
        &mut self,
        seq: Seq,
        at: Time,
        event: &StrategyDecisionRequested,
    ) -> Result<OpenCall, TransitionError> {
        let is_between = matches!(self.stage, Stage::ToAsk | Stage::Tools(_) | Stage::Answered { .. });
        let run = self.custom_mut()?;
        if run.stage != CustomStage::ToDecide || !is_between {
            return Err(TransitionError("no decision is due"));
        }
        run.n_decisions += 1;
        run.stage = CustomStage::Deciding(CallId(seq));
        let open = ApplicationRun { call: CallId(seq), attempt: 1, requested_at: at, deadline: event.deadline };
        Ok(OpenCall::new(CallKind::Strategy(open), CallStage::Wanted))
    }

    fn end_decision(&mut self, calls: &mut OpenCalls, call: CallId) -> Result<(), TransitionError> {
        let run = self.custom_mut()?;
        if run.stage != CustomStage::Deciding(call) {
            return Err(TransitionError("no such decision is asked for"));
        }
        run.stage = CustomStage::Decided;
        calls.close(call).map(drop)
    }

    /// There will be no decision. What joins the conversation is as for [`AgentLoop::give_up`].
    pub(in super::super) fn decision_failed(
        &mut self,
        calls: &mut OpenCalls,
        call: CallId,
        error: &ExecutionError,
    ) -> Result<Vec<Arc<Message>>, TransitionError> {
        self.end_decision(calls, call)?;
        Ok(self.give_up(error))
    }

    /// The strategy has decided.
    pub(in super::super) fn strategy_decided(
        &mut self,
        calls: &mut OpenCalls,
        event: &StrategyDecided,
    ) -> Result<Joins, TransitionError> {
        self.end_decision(calls, event.call_id)?;
        let mut joins = Joins::default();
        match &event.next {
            StrategyDecision::CallModel { messages, model, tools } => {
                joins.results = self.pass_over(|_| true);
                joins.said.clone_from(messages);
                let run = self.custom_mut()?;
                let seat = match model {
                    Some(model) => run.own.with(model, false),
                    None => run.own.clone(),
                };
                let tools = tools.as_ref().unwrap_or(&run.tools).clone();
                self.use_model(&seat);
                Arc::make_mut(&mut self.request).tools = tools;
                let from = if self.iteration == 0 { 0 } else { self.leg.from };
                self.leg = CallConstraints { from, wants: Wants::Anything };
                self.stage = Stage::ToAsk;
            }
            StrategyDecision::RunTools { calls } => {
                if !matches!(self.stage, Stage::Tools(_)) {
                    let content = calls.iter().cloned().map(Part::ToolCall).collect();
                    joins.said.push(Arc::new(Message { role: Role::Assistant, content }));
                    self.stage = Stage::Tools(calls.iter().cloned().map(Slot::Queued).collect());
                    let all = self.custom_mut()?.tools.clone();
                    Arc::make_mut(&mut self.request).tools = all;
                } else {
                    let is_left_out = |call: &ToolCall| !calls.iter().any(|wanted| wanted.id == call.id);
                    joins.results = self.pass_over(is_left_out);
                }
            }
            StrategyDecision::Answer { content } => {
                joins.results = self.pass_over(|_| true);
                let (is_said, finish_reason) = match &self.stage {
                    Stage::Answered { content: said, finish_reason } => (said == content, *finish_reason),
                    _ => (false, FinishReason::Stop),
                };
                if !is_said {
                    joins.said.push(Arc::new(Message::text(Role::Assistant, content)));
                    self.guarding.answer_due = true;
                }
                self.stage = Stage::Answered { content: content.clone(), finish_reason };
            }
            StrategyDecision::Fail { error } => joins.results = self.give_up(error),
        }
        Ok(joins)
    }

    /// Ends tool calls that have not begun; the results, when none is left.
    fn pass_over(&mut self, is_passed_over: impl Fn(&ToolCall) -> bool) -> Vec<Arc<Message>> {
        for slot in self.slots_mut() {
            if let Slot::Queued(call) = slot
                && is_passed_over(call)
            {
                *slot = Slot::Ended(ToolResult {
                    tool_call_id: call.id.clone(),
                    name: Some(call.name.clone()),
                    content: vec![Part::text(NOT_RUN)],
                    is_error: true,
                });
            }
        }
        let all_ended = !self.slots().is_empty() && self.slots().iter().all(|slot| matches!(slot, Slot::Ended(_)));
        if all_ended { self.results_of_all() } else { Vec::new() }
    }
}
