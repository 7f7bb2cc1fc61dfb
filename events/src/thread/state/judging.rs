//! A condition that a model judges, and how far that is.

use std::sync::Arc;

use bincode::{Decode, Encode};

use crate::event::LlmExecutionRequest;
use crate::ids::{CallId, NodeId, ProfileId};
use crate::thread::request::of_profile;

/// How often a model may be called for one condition.
pub(in crate::thread) const ATTEMPTS_MAX: u32 = 2;

/// A condition that a model judges.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Judging {
    /// The node that is being left.
    pub node: NodeId,
    /// The place of the edge among those that leave the node.
    pub edge: u32,
    /// The condition.
    pub condition: String,
    /// 1 for the first time it is asked.
    pub attempt: u32,
    /// The question for the model, and the choice of the model.
    pub request: Arc<LlmExecutionRequest>,
    /// How far it is.
    pub stage: JudgingStage,
}

/// How far a judgement is.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum JudgingStage {
    /// The model is being asked.
    Asking(CallId),
    /// It answered.
    Judged(bool),
    /// Its answer was neither yes nor no, or there was none.
    Doubtful {
        /// Whether it is worth asking once more.
        ask_again: bool,
    },
}

impl Judging {
    /// The open call.
    pub fn open_call(&self) -> Option<CallId> {
        match &self.stage {
            JudgingStage::Asking(call) => Some(*call),
            JudgingStage::Judged(_) | JudgingStage::Doubtful { .. } => None,
        }
    }

    /// Replaces the model of the next call by the profile of a fork.
    pub(in crate::thread) fn use_profile(&mut self, profile: &ProfileId) {
        let model = &mut Arc::make_mut(&mut self.request).model;
        *model = of_profile(std::mem::take(model), profile);
    }
}
