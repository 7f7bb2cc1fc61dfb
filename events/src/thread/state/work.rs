//! What a node is doing.

use bincode::{Decode, Encode};

use super::super::agent_loop::AgentLoop;
use super::super::branches::ForkState;
use super::super::summaries::Summarizing;
use crate::event::AskedTool;
use crate::fault::ExecutionError;
use crate::ids::CallId;
use crate::json::Json;

/// What a node is doing. Its open calls are in [`super::State::open_calls`].
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Work {
    /// Entered; its first event is owed.
    Ready,
    /// Runs the agent loop.
    Llm(Box<AgentLoop>),
    /// Runs a tool.
    Tool(CallId),
    /// Asks a person.
    Asking(CallId),
    /// A person approved of the tool call; its request is owed.
    Approved(AskedTool),
    /// Changes the conversation.
    Processing {
        /// The call of the processor.
        call: CallId,
        /// What `summarize` is about.
        summarizing: Option<Box<Summarizing>>,
    },
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

    /// Whether calls are to begin that were not requested yet.
    pub(super) fn has_queued_calls(&self) -> bool {
        matches!(self, Self::Llm(agent_loop) if agent_loop.has_queued_calls())
    }
}
