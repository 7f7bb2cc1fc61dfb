//! Several models that are asked the same, and the choice among their answers.

use std::sync::Arc;

use bincode::{Decode, Encode};

use crate::event::PanelStrategy;
use crate::fault::ExecutionError;
use crate::ids::CallId;
use crate::message::{FinishReason, Message};

/// The state of several models that are called with the same question.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Panel {
    /// The state of each model, in the order of the definition.
    pub candidates: Vec<Candidate>,
    /// The choice among them.
    pub choice: Choice,
    /// The first call: all of them read what was said before it.
    pub first: Option<CallId>,
}

/// One of several models.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Candidate {
    /// To be asked.
    ToAsk,
    /// Being asked.
    Asking(CallId),
    /// It answered.
    Answered {
        /// What.
        message: Arc<Message>,
        /// Why it stopped.
        finish_reason: FinishReason,
    },
    /// It has no answer.
    Failed(ExecutionError),
}

/// A choice among models or their answers.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Choice {
    /// Not called.
    None,
    /// A model is being asked.
    Asking {
        /// The call.
        call: CallId,
        /// The fault of its first answer, if this is the second call.
        fault: Option<String>,
    },
    /// It answered.
    Answered {
        /// Its answer.
        text: String,
        /// How often it was asked.
        n_asked: u32,
    },
    /// It has no answer.
    Failed(ExecutionError),
}

impl Panel {
    pub(in crate::thread) fn new(strategy: &PanelStrategy) -> Self {
        let candidates = strategy.members.iter().map(|_| Candidate::ToAsk).collect();
        Self { candidates, choice: Choice::None, first: None }
    }

    /// The calls that are open.
    pub fn open_calls(&self) -> impl Iterator<Item = CallId> {
        let choice = match &self.choice {
            Choice::Asking { call, .. } => Some(*call),
            Choice::None | Choice::Answered { .. } | Choice::Failed(_) => None,
        };
        let asking = self.candidates.iter().filter_map(|candidate| match candidate {
            Candidate::Asking(call) => Some(*call),
            Candidate::ToAsk | Candidate::Answered { .. } | Candidate::Failed(_) => None,
        });
        asking.chain(choice)
    }

    pub(in crate::thread) fn n_answers(&self) -> usize {
        self.candidates.iter().filter(|candidate| matches!(candidate, Candidate::Answered { .. })).count()
    }
}
