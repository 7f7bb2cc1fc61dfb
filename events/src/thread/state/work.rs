//! What a node is doing, and the questions to people that it waits for.

use std::borrow::Cow;

use bincode::{Decode, Encode};

use super::super::agent_loop::AgentLoop;
use super::super::asks::approval_prompt;
use super::super::branches::ForkState;
use super::super::calls::ToolRun;
use super::super::processors::ProcessorRun;
use crate::event::{AnswerType, AskedTool, OperationType};
use crate::fault::ExecutionError;
use crate::ids::{CallId, Time};
use crate::json::Json;

/// What a node is doing.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Work {
    /// Entered; its first event is owed.
    Ready,
    /// Runs the agent loop.
    Llm(Box<AgentLoop>),
    /// Runs a tool.
    Tool(ToolRun),
    /// Asks a person.
    Asking(Interaction),
    /// A person approved of the tool call; its request is owed.
    Approved(AskedTool),
    /// Changes the conversation.
    Processing(Box<ProcessorRun>),
    /// Waits for its branches.
    Branches(Box<ForkState>),
    /// Has its output; to be left.
    Done {
        /// The output.
        output: Json,
    },
    /// Failed; what is to become of it is owed.
    Failed(ExecutionError),
}

impl Work {
    /// Whether nothing of it is left but to say so.
    pub(in super::super) fn is_over(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Failed(_))
    }

    /// Whether a person is asked, and nothing of it goes on meanwhile.
    pub(super) fn waits_for_people(&self) -> bool {
        match self {
            Self::Asking(ask) => ask.is_open(),
            Self::Llm(agent_loop) => agent_loop.waits_for_people(),
            Self::Ready
            | Self::Tool(_)
            | Self::Approved(_)
            | Self::Processing(_)
            | Self::Branches(_)
            | Self::Done { .. }
            | Self::Failed(_) => false,
        }
    }

    /// The questions that have not taken effect yet, in the order in which they were asked for.
    pub(in super::super) fn questions(&self) -> Vec<&Interaction> {
        match self {
            Self::Asking(ask) => vec![ask],
            Self::Llm(agent_loop) => agent_loop.questions().collect(),
            Self::Tool(run) => run.asks.iter().collect(),
            Self::Ready
            | Self::Approved(_)
            | Self::Processing(_)
            | Self::Branches(_)
            | Self::Done { .. }
            | Self::Failed(_) => Vec::new(),
        }
    }

    pub(in super::super) fn question_mut(&mut self, id: CallId) -> Option<&mut Interaction> {
        match self {
            Self::Asking(ask) => Some(ask).filter(|ask| ask.id == id),
            Self::Llm(agent_loop) => agent_loop.questions_mut().find(|ask| ask.id == id),
            Self::Tool(run) => run.asks.iter_mut().find(|ask| ask.id == id),
            Self::Ready
            | Self::Approved(_)
            | Self::Processing(_)
            | Self::Branches(_)
            | Self::Done { .. }
            | Self::Failed(_) => None,
        }
    }
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Interaction {
    /// Its id in the thread.
    pub id: CallId,
    /// What is done with the answer.
    pub operation_type: OperationType,
    /// The question.
    pub prompt: Option<String>,
    /// When it was asked.
    pub requested_at: Time,
    /// Until when it can be answered.
    pub deadline: Option<Time>,
    /// What the application may want to know.
    pub metadata: Option<Json>,
    /// The tool call that is asked about.
    pub tool_call: Option<AskedTool>,
    /// The model call that a person answers.
    pub llm_call: Option<CallId>,
    /// The tool call that runs and asks.
    pub tool_run: Option<CallId>,
    /// The type of the answer; any JSON value when absent.
    pub answer_type: Option<AnswerType>,
    /// Whether it was answered.
    pub stage: InteractionStage,
}

/// How far a question is.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum InteractionStage {
    /// Waits for an answer.
    Asked,
    /// Answered; the answer is to take effect.
    Responded {
        /// The raw answer.
        input: Json,
    },
    /// The answer is that of a model, which is to be told so.
    Processed {
        /// The raw answer.
        input: Json,
    },
}

impl Interaction {
    /// Returns the question as a person reads it. That about a tool call which is to be approved holds all of its
    /// arguments; the recorded [`prompt`](Self::prompt) holds their beginning.
    pub fn question(&self) -> Option<Cow<'_, str>> {
        match &self.tool_call {
            Some(tool) if self.operation_type == OperationType::ApproveTool => Some(approval_prompt(tool).into()),
            _ => self.prompt.as_deref().map(Cow::from),
        }
    }

    /// Whether it waits for an answer.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, InteractionStage::Asked)
    }

    /// The answer, where it was given and is to take effect.
    pub(in super::super) fn answer(&self) -> Option<&Json> {
        match &self.stage {
            InteractionStage::Responded { input } => Some(input),
            InteractionStage::Asked | InteractionStage::Processed { .. } => None,
        }
    }

    /// A pause is over.
    pub(in super::super) fn shift(&mut self, ms: u64) {
        self.deadline = self.deadline.map(|deadline| deadline.plus_ms(ms));
    }
}
