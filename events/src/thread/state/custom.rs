//! A strategy of the application, and its state.

use bincode::{Decode, Encode};

use crate::ids::CallId;
use crate::thread::request::ModelBinding;

/// A running strategy of the application.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct CustomRun {
    /// How far it is.
    pub stage: CustomStage,
    /// How often it was asked.
    pub n_decisions: u32,
    /// The node's own model.
    pub own: ModelBinding,
    /// All tools that the node offers.
    pub tools: Vec<String>,
}

/// How far a strategy of the application is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum CustomStage {
    /// Its next call is due.
    ToDecide,
    /// Its call is open.
    Deciding(CallId),
    /// It has decided, and the loop continues.
    Decided,
}

impl CustomRun {
    pub(in crate::thread) fn new(own: ModelBinding, tools: Vec<String>) -> Self {
        Self { stage: CustomStage::ToDecide, n_decisions: 0, own, tools }
    }
}
