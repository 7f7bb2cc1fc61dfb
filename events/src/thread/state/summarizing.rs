//! A conversation that is being summarised, and how far that is.

use std::sync::Arc;

use bincode::{Decode, Encode};

use crate::event::LlmExecutionRequest;
use crate::ids::{CallId, ProfileId};
use crate::thread::request::of_profile;

/// A conversation that is being summarised.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Summarizing {
    /// Counted tokens of what was to be sent.
    pub tokens: u64,
    /// The limit that they pass; 0 if the summary was requested.
    pub limit: u64,
    /// How many messages there were.
    pub n_shown: u64,
    /// The stretches a model was asked about.
    pub written: Vec<Written>,
    /// The stretch of the open call.
    pub asking: Option<Asked>,
    /// How the model is reached.
    pub request: Arc<LlmExecutionRequest>,
}

/// A stretch that a model was asked about.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Written {
    /// Its first message.
    pub from: u64,
    /// The index after its last message.
    pub to: u64,
    /// The summary; absent if the model gave none.
    pub text: Option<String>,
}

/// A stretch that a model is summarising.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Asked {
    /// Its first message.
    pub from: u64,
    /// The index after its last message.
    pub to: u64,
    /// The call.
    pub call: CallId,
}

impl Summarizing {
    /// Replaces the model of the next call by the profile of a fork.
    pub(in crate::thread) fn use_profile(&mut self, profile: &ProfileId) {
        let model = &mut Arc::make_mut(&mut self.request).model;
        *model = of_profile(std::mem::take(model), profile);
    }
}
