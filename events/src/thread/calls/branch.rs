//! A branch of a fork, or an agent that a model calls: a call of a thread.

use std::sync::Arc;

use bincode::{Decode, Encode};

use crate::codec::OrderedMap;
use crate::event::{BranchEnded, ReplacedBranch};
use crate::fault::ExecutionError;
use crate::ids::{CallId, Seq, ThreadId};
use crate::json::Json;
use crate::thread::totals::Totals;

/// A branch that runs.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct BranchRun {
    /// The event that started it, as the id of the call that it is.
    pub call: CallId,
    /// Its number, from 0: in the order of the fork, or among the tool calls of the answer.
    pub index: u32,
    /// Its thread.
    pub child: ThreadId,
    /// The moment it forks off from: of the thread whose branch it is, or of the branch whose place it takes.
    pub from: (ThreadId, Seq),
    /// The threads that take the places of the branches that were running in the one whose place it takes.
    pub inherits: Vec<ReplacedBranch>,
    /// Variables of scope `global` that branches set which had ended when it began.
    pub globals: Arc<OrderedMap<Json>>,
    /// The call of the model, if it is an agent.
    pub agent: Option<AgentCall>,
    /// What it has spent, as far as this thread has counted it.
    pub spent: Totals,
}

/// The call of an agent by a model.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct AgentCall {
    /// The agent: the name of its workflow.
    pub name: String,
    /// The id that the model gave the call.
    pub tool_call_id: Option<String>,
    /// The arguments.
    pub arguments: Json,
    /// Whether a person put them in the place of the model's.
    pub edited: bool,
}

impl BranchRun {
    /// The end of it, from outside. Its sums are those of its last report: it may have spent more since, and spends until it
    /// has recorded that it is cancelled.
    pub(in crate::thread) fn ended_with(&self, error: ExecutionError) -> BranchEnded {
        BranchEnded {
            index: self.index,
            child: self.child,
            output: None,
            error: Some(error),
            globals: OrderedMap::default(),
            n_llm_calls: self.spent.n_llm_calls,
            n_tool_calls: self.spent.n_tool_calls,
            usage: self.spent.usage,
            cost_nanousd: self.spent.cost_nanousd,
            n_unpriced: self.spent.n_unpriced,
            is_final: false,
            said: None,
        }
    }
}
