//! How far an agent loop is. What its events make of it is in [`crate::thread::agent_loop`].

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::custom::CustomRun;
use super::guarding::Guarding;
use super::panel::Panel;
use super::plan::PlanRun;
use super::summarizing::Summarizing;
use crate::event::{AgentTool, AskedTool, HandoffTool, LlmExecutionRequest, ToolCallRef};
use crate::fault::ExecutionError;
use crate::ids::CallId;
use crate::message::{FinishReason, Part, ToolCall, ToolResult, Usage};
use crate::thread::calls::CallStage;

/// One run of the loop.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct AgentLoop {
    /// The request.
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
    /// Answers rejected because they do not fit the schema of the request.
    pub n_repairs: u32,
    /// Tokens.
    pub usage: Usage,
    /// The stage.
    pub stage: Stage,
    /// How far the strategy is.
    pub course: StrategyState,
    /// How the next model calls are made.
    pub leg: CallConstraints,
    /// How far the guardrails are.
    pub guarding: Guarding,
}

/// The stage of a loop.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Stage {
    /// Several models are asked.
    Panel(Box<Panel>),
    /// The model is to be called.
    ToAsk,
    /// The conversation is summarised first, because it has become too long.
    Summarizing(Box<Summarizing>),
    /// The model is being called. If a person answers for it, the question belongs to the call.
    Asking(CallId),
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

/// One tool call of an answer, in the order the model asked.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Slot {
    /// Not begun: the limit of tools at once is reached, or its request is about to be written.
    Queued(ToolCall),
    /// Not to be run: the output limit cut the answer before its arguments were complete. Its request is about to be
    /// written.
    Cut(ToolCall),
    /// A person is asked about it.
    Asking(CallId),
    /// A person approved it; its request comes next.
    Approved {
        /// The call, with the arguments to run with.
        tool: AskedTool,
        /// Whether they are not the model's.
        edited: bool,
    },
    /// Running.
    Open(CallId),
    /// Requested, and not to be run: its failure comes next.
    Refused {
        /// The call.
        call: CallId,
        /// Whether the output limit cut it.
        is_cut: bool,
    },
    /// Ended.
    Ended(ToolResult),
}

/// How far the strategy is.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum StrategyState {
    /// No strategy: the loop ends with the first answer that asks for no tool.
    React,
    /// Several models are to be asked first.
    Several,
    /// A plan and its steps.
    Plan(Box<PlanRun>),
    /// The application decides.
    Custom(Box<CustomRun>),
}

/// How model calls are made from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct CallConstraints {
    /// The number of the last model call before.
    pub from: u32,
    /// The required form of the answer.
    pub wants: Wants,
}

/// The required form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub enum Wants {
    /// Any answer, with the tools that are offered.
    #[default]
    Anything,
    /// A plan.
    Plan,
    /// Words: no tool is to be used.
    Words,
}

impl AgentLoop {
    /// Whether the model is to be called: it was not yet, it has the results of its tools, or the user said more after
    /// the call that it has answered.
    pub(in crate::thread) fn is_to_ask(&self, has_unread: bool) -> bool {
        match self.stage {
            Stage::ToAsk => true,
            Stage::Answered { .. } => has_unread && !self.is_at_limit(),
            _ => false,
        }
    }

    /// Whether the model has been called as often as it may be.
    pub(in crate::thread) fn is_at_limit(&self) -> bool {
        self.iteration >= self.request.max_iterations
    }

    /// Who causes the next event of a model call without a question to a person.
    pub(in crate::thread) fn model_stage(&self) -> CallStage {
        if self.request.relay { CallStage::Delegated } else { CallStage::Wanted }
    }

    /// Whether a message of the user may interrupt it. What a strategy does is not cut off: it reads the message next.
    pub(in crate::thread) fn may_be_interrupted(&self) -> bool {
        self.course == StrategyState::React
    }

    /// Returns whether there will be no answer.
    pub(in crate::thread) fn has_failed(&self) -> bool {
        matches!(self.stage, Stage::Failed(_))
    }

    /// Returns whether the loop ended with an answer.
    pub(in crate::thread) fn has_answered(&self) -> bool {
        matches!(self.stage, Stage::Answered { .. })
    }

    /// Several models that are asked.
    pub fn panel(&self) -> Option<&Panel> {
        match &self.stage {
            Stage::Panel(panel) => Some(panel),
            _ => None,
        }
    }

    /// The agent with this name, if it is offered.
    pub(in crate::thread) fn agent(&self, name: &str) -> Option<&AgentTool> {
        self.request.agents.iter().find(|agent| agent.name == name)
    }

    /// The node that a tool with this name hands over to, if it is offered.
    pub(in crate::thread) fn handoff(&self, name: &str) -> Option<&HandoffTool> {
        self.request.handoffs.iter().find(|handoff| handoff.name == name)
    }

    /// Whether tool calls of the last answer were not requested yet. A handoff waits for all others.
    pub(in crate::thread) fn has_queued_calls(&self) -> bool {
        self.slots().iter().any(|slot| match slot {
            Slot::Queued(call) => self.handoff(&call.name).is_none(),
            Slot::Cut(_) | Slot::Approved { .. } => true,
            Slot::Asking(_) | Slot::Open(_) | Slot::Refused { .. } | Slot::Ended(_) => false,
        })
    }

    /// Whether the failures of calls that the output limit cut come next.
    pub(in crate::thread) fn has_cut_calls(&self) -> bool {
        self.slots().iter().any(|slot| matches!(slot, Slot::Cut(_) | Slot::Refused { is_cut: true, .. }))
    }

    /// The tool calls of the last answer, while they run.
    pub fn slots(&self) -> &[Slot] {
        match &self.stage {
            Stage::Tools(slots) => slots,
            _ => &[],
        }
    }

    pub(in crate::thread) fn slots_mut(&mut self) -> &mut [Slot] {
        match &mut self.stage {
            Stage::Tools(slots) => slots,
            _ => &mut [],
        }
    }
}

impl Slot {
    /// A call of an answer.
    pub(in crate::thread) fn of_answer(call: &ToolCall, finish_reason: FinishReason) -> Self {
        let is_complete = call.arguments.0.as_object().is_some_and(|arguments| !arguments.is_empty());
        if finish_reason == FinishReason::Length && !is_complete {
            Self::Cut(call.clone())
        } else {
            Self::Queued(call.clone())
        }
    }

    pub(in crate::thread) fn is_queued(&self, id: Option<&String>) -> bool {
        matches!(self, Self::Queued(call) if Some(&call.id) == id)
    }

    /// The call or the question that is open.
    pub(in crate::thread) fn open(&self) -> Option<CallId> {
        match self {
            Self::Asking(id) | Self::Open(id) | Self::Refused { call: id, .. } => Some(*id),
            Self::Queued(_) | Self::Cut(_) | Self::Approved { .. } | Self::Ended(_) => None,
        }
    }

    /// Its result, where it did not run.
    pub(in crate::thread) fn left_out(self, why: &str) -> Option<ToolResult> {
        let (id, name) = match self {
            Self::Ended(result) => return Some(result),
            Self::Queued(call) | Self::Cut(call) => (call.id, call.name),
            Self::Approved { tool, .. } => (tool.tool_call_id.unwrap_or_default(), tool.name.to_string()),
            Self::Asking(_) | Self::Open(_) | Self::Refused { .. } => return None,
        };
        Some(ToolResult { tool_call_id: id, name: Some(name), content: vec![Part::text(why)], is_error: true })
    }
}
