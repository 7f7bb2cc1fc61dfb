//! The usage of one call of a model or a tool.

use serde::Serialize;

use crate::event::AttemptUsage;
use crate::fault::ErrorKind;
use crate::ids::{CallId, Hash, NodeId, Seq, ThreadId, Time, ToolName};
use crate::message::{FinishReason, Usage, UsageSource, sum_of};

/// A call of a model or a tool that ended, all attempts together.
#[derive(Debug, Clone, PartialEq)]
pub struct CallUsage {
    /// The thread.
    pub thread: ThreadId,
    /// The node.
    pub node: Option<NodeId>,
    /// The call: the seq of its request.
    pub call: CallId,
    /// The event that ended it.
    pub last_seq: Seq,
    /// When it was requested.
    pub requested_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// The number of its last attempt, from 1. A call has another attempt after an error that allows it, and after its
    /// answer was lost in a crash.
    pub attempt: u32,
    /// How often it was tried again: attempts after the first one, and tries of the client inside of an attempt.
    pub n_retries: u32,
    /// How long it took: as its last event says, or else from its request to its end.
    pub duration_ms: u64,
    /// Why it failed; absent if it completed.
    pub error: Option<ErrorKind>,
    /// The model or tool.
    pub callee: Callee,
}

impl CallUsage {
    /// Names the model of a call by its profile as it was recorded, see [`ModelUsage::recorded`]. Without one, a model
    /// whose request does not name it is the one that answered.
    pub fn name_model(&mut self, profile: Option<ModelName>) {
        if let Callee::Model(model) = &mut self.callee {
            if let Some(profile) = profile {
                model.name = profile;
            }
            if model.name.model.is_none() {
                model.name.model.clone_from(&model.answered_by);
            }
        }
    }
}

/// The model or tool of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Callee {
    /// A model.
    Model(Box<ModelUsage>),
    /// A tool.
    Tool(ToolName),
}

/// The usage of a model call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelUsage {
    /// Its purpose.
    pub purpose: Purpose,
    /// The model that was asked.
    pub name: ModelName,
    /// The hash of the profile with which it was asked (a blob), as its last attempt recorded it. Absent where nothing is
    /// sent over HTTP.
    pub recorded: Option<Hash>,
    /// The model that answered, as the provider names it.
    pub answered_by: Option<String>,
    /// Tokens of the answer, and those that the provider reported of attempts that failed.
    pub usage: Usage,
    /// Who counted the tokens of the last attempt; absent if they are not known.
    pub usage_source: Option<UsageSource>,
    /// Whether tokens of the prompt or of the answer of the last attempt are not known. They are not in `usage`.
    pub is_usage_unknown: bool,
    /// Cost in billionths of a US dollar, of the attempts whose cost is known; absent where none is.
    pub cost_nanousd: Option<u64>,
    /// Whether the cost of the last attempt, or of an attempt that used something, is not known.
    pub is_unpriced: bool,
    /// What the provider's cache of prompts saved, in billionths of a US dollar; less than nothing for a call that only wrote
    /// to it. Absent where the cache had no part in the call, or the prices are not known.
    pub cache_saved_nanousd: Option<i64>,
    /// Whether the answer came from the cache of answers.
    pub cached: bool,
    /// Why the model stopped; absent for verdicts and summaries, and for a call without an answer.
    pub finish_reason: Option<FinishReason>,
}

impl ModelUsage {
    /// Adds what an attempt used after which the call goes on.
    pub(super) fn add(&mut self, used: &AttemptUsage<'_>) {
        self.usage.add(&used.usage);
        self.cost_nanousd = sum_of(self.cost_nanousd, used.cost_nanousd, u64::saturating_add);
        self.cache_saved_nanousd = sum_of(self.cache_saved_nanousd, used.cache_saved_nanousd(), i64::saturating_add);
        self.is_unpriced |= used.cost_nanousd.is_none();
    }

    /// Adds what the last attempt used; `None` if that is not known.
    pub(super) fn end(&mut self, used: Option<&AttemptUsage<'_>>) {
        self.is_usage_unknown = used.is_none_or(AttemptUsage::is_partial);
        self.is_unpriced |= used.is_none();
        self.usage_source = used.map(|used| used.source);
        if let Some(used) = used {
            self.add(used);
        }
    }
}

/// The name of the model, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelName {
    /// The profile; absent where the node names provider and model itself.
    pub profile: Option<String>,
    /// The provider; absent where a fallback of another provider may have answered.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
}

/// The purpose of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The next step of an agent loop.
    Answer,
    /// A verdict on a condition.
    Verdict,
    /// A summary.
    Summary,
}
