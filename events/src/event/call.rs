//! The events that executors answer with.

use serde::Serialize;

use super::graph::{ContextProcessed, ContextProcessingFailed};
use super::guardrail::GuardrailCompleted;
use super::llm::{LlmCallCompleted, LlmCallFailed, LlmExecutionProgress, LlmRequestChanged, LlmTryFailed};
use super::strategy::{StrategyDecided, StrategyDecisionFailed};
use super::table::data;
use super::tool::{ToolExecutionCompleted, ToolExecutionFailed, ToolExecutionProgress};
use crate::ids::CallId;

macro_rules! call_events {
    ($($(#[doc = $doc:literal])+ $variant:ident $($boxed:ident)?)*) => {
        /// An event of an open call that an executor reports and the thread records. The executor leaves to the machine what
        /// only a thread knows: the node, the model's id of a tool call, whether an answer can be used.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum CallEvent {
            $($(#[doc = $doc])+ $variant(data!($variant $($boxed)?)),)*
        }

        impl CallEvent {
            /// Returns the call that the event is about.
            pub const fn call_id(&self) -> CallId {
                match self {
                    $(Self::$variant(event) => event.call_id,)*
                }
            }
        }

        $(
            impl From<$variant> for CallEvent {
                fn from(event: $variant) -> Self {
                    Self::$variant(event.into())
                }
            }
        )*
    };
}

call_events! {
    /// A model answered. The answer to a call for a summary or a judgement is recorded as the end of that.
    LlmCallCompleted boxed
    /// A model will not answer.
    LlmCallFailed
    /// One try inside a model call failed; the client continues.
    LlmTryFailed
    /// What is sent for a model call differs from what was asked for.
    LlmRequestChanged
    /// A piece of a streamed answer.
    LlmExecutionProgress
    /// A tool answered.
    ToolExecutionCompleted
    /// A tool will not answer. `not_started` says whether the tool never began.
    ToolExecutionFailed
    /// A tool says how far it is.
    ToolExecutionProgress
    /// A context processor answered. A conversation that no model would accept, or a range that is not there, makes the
    /// call fail.
    ContextProcessed
    /// A context processor will not answer.
    ContextProcessingFailed
    /// A guardrail of the application says whether something may be used. What it checked is left to the machine.
    GuardrailCompleted
    /// The application's strategy says what comes next in the agent loop. What cannot be done makes the loop fail.
    StrategyDecided boxed
    /// The application's strategy will not decide.
    StrategyDecisionFailed
}

impl CallEvent {
    /// Returns whether the call continues after it.
    pub const fn is_progress(&self) -> bool {
        match self {
            Self::LlmTryFailed(_)
            | Self::LlmRequestChanged(_)
            | Self::LlmExecutionProgress(_)
            | Self::ToolExecutionProgress(_) => true,
            Self::LlmCallCompleted(_)
            | Self::LlmCallFailed(_)
            | Self::ToolExecutionCompleted(_)
            | Self::ToolExecutionFailed(_)
            | Self::ContextProcessed(_)
            | Self::ContextProcessingFailed(_)
            | Self::GuardrailCompleted(_)
            | Self::StrategyDecided(_)
            | Self::StrategyDecisionFailed(_) => false,
        }
    }
}
