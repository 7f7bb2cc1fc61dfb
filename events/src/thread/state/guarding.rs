//! How far the guardrails of an agent loop are. What its events make of it is in [`crate::thread::agent_loop`].

use std::collections::{BTreeMap, BTreeSet};

use bincode::{Decode, Encode};

use super::judging::Judging;
use crate::event::CheckedContent;
use crate::ids::{CallId, Seq};

/// How far the guardrails of an agent loop are.
#[derive(Debug, Clone, Default, PartialEq, Encode, Decode)]
pub struct Guarding {
    /// Whether the prompt was checked.
    pub has_checked_prompt: bool,
    /// The messages of the user that were added before this event were checked.
    pub input_from: Seq,
    /// Whether the last answer is to be checked.
    pub answer_due: bool,
    /// The models of several whose answers were checked, by their indices.
    pub candidates: BTreeSet<u32>,
    /// The tool calls of the last answer for which a check has begun, by their indices.
    pub calls: BTreeMap<u32, GuardedCall>,
    /// The check that is not over.
    pub check: Option<Box<Check>>,
}

/// What the checks of a tool call have come to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct GuardedCall {
    /// Whether they are over.
    pub is_checked: bool,
    /// The guardrail that has decided that a person is to approve of it.
    pub stopped_by: Option<StoppedBy>,
    /// Whether its arguments are not those of the model.
    pub is_replaced: bool,
}

/// A guardrail that stopped a tool call for a person.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StoppedBy {
    /// The name of the guardrail.
    pub guardrail: String,
    /// Why.
    pub reason: String,
}

/// A check that is not over.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Check {
    /// What is checked.
    pub content: CheckedContent,
    /// The index of the guardrail that is next, or at work.
    pub guardrail: u32,
    /// The stage.
    pub stage: CheckStage,
}

/// The stage of a check.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum CheckStage {
    /// The guardrail is to check.
    Due,
    /// A function of the application checks.
    Calling(CallId),
    /// A model judges.
    Judging(Box<Judging>),
    /// A person is to be asked.
    Stopped {
        /// Why.
        reason: String,
    },
    /// A person is asked.
    Asking(CallId),
}

impl Guarding {
    /// The call or the question that is open.
    pub(in crate::thread) fn open_call(&self) -> Option<CallId> {
        match &self.check.as_ref()?.stage {
            CheckStage::Calling(call) | CheckStage::Asking(call) => Some(*call),
            CheckStage::Judging(judging) => judging.open_call(),
            CheckStage::Due | CheckStage::Stopped { .. } => None,
        }
    }

    /// The condition that a model judges.
    pub(in crate::thread) fn judging(&self) -> Option<&Judging> {
        match &self.check.as_ref()?.stage {
            CheckStage::Judging(judging) => Some(judging),
            CheckStage::Due | CheckStage::Calling(_) | CheckStage::Stopped { .. } | CheckStage::Asking(_) => None,
        }
    }

    /// The same, to be changed.
    pub(in crate::thread) fn judging_mut(&mut self) -> Option<&mut Judging> {
        match &mut self.check.as_mut()?.stage {
            CheckStage::Judging(judging) => Some(judging),
            CheckStage::Due | CheckStage::Calling(_) | CheckStage::Stopped { .. } | CheckStage::Asking(_) => None,
        }
    }
}
