//! The environment of every decision: the time, and the available tools, models and permits.

use super::permits::Permits;
use super::request::{ModelRequest, Prompt};
use crate::event::{LlmCallCompleted, ModelChoice};
use crate::ids::{CallId, Hash, Time, ToolName};
use crate::json::Json;
use crate::tool::{PersonRole, Recovery};

/// The environment of every decision.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// The time.
    pub now: Time,
    /// The tools there are.
    pub tools: &'a dyn Tools,
    /// The models there are.
    pub models: &'a dyn Models,
    /// How long calls have waited for permits.
    pub permits: &'a dyn Permits,
}

/// The available tools, as the machine needs them.
pub trait Tools {
    /// Returns the declaration of a tool; `None` if there is none with this name.
    fn facts(&self, name: &str) -> Option<ToolFacts>;
    /// The names of all tools, in a fixed order.
    fn names(&self) -> Vec<ToolName>;
    /// The hash of the catalogue of these tools as a model is shown them.
    fn catalog(&self, names: &[ToolName]) -> Option<Hash>;

    /// Returns the instructions about these tools for a model that is offered them, besides those of the workflow's
    /// author: none by default.
    fn instructions(&self, _names: &[ToolName]) -> Option<String> {
        None
    }

    /// The absolute path of the folder that tools work in: the thread's own, or the runtime's. Absent if models must
    /// not get it.
    fn workspace(&self, _own: Option<&str>) -> Option<String> {
        None
    }
}

/// The declared properties of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolFacts {
    /// Its recovery class.
    pub recovery: Recovery,
    /// How long one attempt may take.
    pub timeout_ms: u64,
    /// How often it is tried again after an error that allows it.
    pub retries: u32,
    /// How long to wait before that.
    pub retry_delay_ms: u64,
    /// What a person has to do with its calls.
    pub person: PersonRole,
}

/// No tools at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTools;

impl Tools for NoTools {
    fn facts(&self, _name: &str) -> Option<ToolFacts> {
        None
    }

    fn names(&self) -> Vec<ToolName> {
        Vec::new()
    }

    fn catalog(&self, _names: &[ToolName]) -> Option<Hash> {
        None
    }
}

/// The available models, as the machine needs them.
pub trait Models {
    /// Whether a person answers for this model: its calls are questions.
    fn is_person(&self, model: &ModelChoice) -> bool;

    /// Reads the answer that a person brought for the model of this call. Called again when it takes effect, and must
    /// return the same then.
    ///
    /// # Errors
    /// The fault, for the person: the question stays open for a better answer.
    fn read(&self, call: CallId, request: &ModelRequest, brought: &Json) -> Result<LlmCallCompleted, String>;

    /// The hash of what is known of the model's profile now, kept as a blob: with it, what the model is sent can be built
    /// again later, even if the configuration has changed.
    fn profile(&self, _model: &ModelChoice) -> Option<Hash> {
        None
    }

    /// The tokens of what the model would be sent, counted or estimated. Asked before every call with a growing
    /// conversation: messages that were counted before must cost next to nothing. 0, which is below every limit, where
    /// cannot be counted.
    fn count(&self, _prompt: &Prompt<'_>) -> u64 {
        0
    }

    /// Returns whether it has more than `n` tokens. Most conversations are so short that this needs no counting.
    fn is_longer(&self, prompt: &Prompt<'_>, tokens: u64) -> bool {
        self.count(prompt) > tokens
    }
}

/// No person answers for any model.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPeople;

impl Models for NoPeople {
    fn is_person(&self, _model: &ModelChoice) -> bool {
        false
    }

    fn read(&self, _call: CallId, _request: &ModelRequest, _brought: &Json) -> Result<LlmCallCompleted, String> {
        Err("this process cannot read the answer of a person as that of a model".into())
    }
}
