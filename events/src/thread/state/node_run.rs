//! One try of a node, and what it is doing.

use std::sync::Arc;

use bincode::{Decode, Encode};

use super::agent_loop::AgentLoop;
use super::branches::ForkState;
use super::summarizing::Summarizing;
use crate::event::{AskedTool, NodeCompleted};
use crate::fault::ExecutionError;
use crate::ids::{CallId, NodeId, Time, ToolName};
use crate::json::Json;
use crate::thread::calls::KeyOf;
use crate::thread::conversation::{Conversation, Mark};

/// One try of a node.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct NodeRun {
    /// The node.
    pub node: NodeId,
    /// The number of the try.
    pub attempt: u32,
    /// When it began.
    pub started_at: Time,
    /// When it must have ended.
    pub deadline: Option<Time>,
    /// The end of the conversation before its first try.
    pub conversation_from: Mark,
    /// A tool that is not safe and that began in this try, without saying that it did nothing: such a try is not repeated.
    pub wrote: Option<ToolName>,
    /// The tool call that failed last in this try, and why.
    pub failed_tool: Option<(ToolName, ExecutionError)>,
    /// The call whose idempotency key this try of a tool node uses: that of an idempotent tool in an earlier try.
    pub key_of: Option<KeyOf>,
    /// The conversation of the thread, while the node sees another.
    pub aside: Option<Aside>,
    /// Its current work.
    pub work: Work,
}

/// The conversation around a node or a sub-workflow that has another one, restored at its end.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Aside {
    /// That of the thread, or of the sub-workflow around it.
    pub conversation: Arc<Conversation>,
    /// The name under which the other one is kept; dropped when absent.
    pub name: Option<String>,
}

/// The current work of a node. Its open calls are in [`super::State::open_calls`].
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Work {
    /// Entered; its first event comes next.
    Ready,
    /// Runs the agent loop.
    Llm(Box<AgentLoop>),
    /// Runs a tool.
    Tool(CallId),
    /// Asks a person.
    Asking(CallId),
    /// Waits for a time, a signal or the end of a thread, or until a child is started.
    Waiting(CallId),
    /// A person approved the tool call; its request comes next.
    Approved(AskedTool),
    /// Changes the conversation.
    Processing {
        /// The call of the processor.
        call: CallId,
        /// The state of `summarize`.
        summarizing: Option<Box<Summarizing>>,
    },
    /// Waits for its branches.
    Branches(Box<ForkState>),
    /// Has its output; to be left.
    Done {
        /// The output.
        output: Json,
    },
    /// Has handed the conversation over; to be left.
    HandedOver {
        /// The node that the thread continues with.
        to: NodeId,
        /// The output.
        output: Json,
    },
    /// Failed; the decision about a retry or the error comes next.
    Failed(ExecutionError),
}

impl NodeRun {
    /// The event that it did its work.
    pub(in crate::thread) fn completed(&self, now: Time) -> NodeCompleted {
        NodeCompleted { node_id: self.node.clone(), duration_ms: now.ms_since(self.started_at) }
    }
}

impl Work {
    /// Whether nothing of it is left but to say so.
    pub(in crate::thread) fn is_over(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::HandedOver { .. } | Self::Failed(_))
    }

    /// Whether calls are to begin that were not requested yet.
    pub(in crate::thread) fn has_queued_calls(&self) -> bool {
        matches!(self, Self::Llm(agent_loop) if agent_loop.has_queued_calls())
    }
}
