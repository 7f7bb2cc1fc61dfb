//! What the machine can be told.

use std::sync::Arc;

use crate::codec::OrderedMap;
use crate::event::{InteractionFailure, LimitRaised, StrategyDecision};
use crate::fault::ExecutionError;
use crate::ids::{CallId, Hash, NodeId, ThreadId};
use crate::json::Json;
use crate::message::{FinishReason, Message, Part, UnitPrices, Usage, UsageSource};
use crate::principal::Principal;

use super::{BranchOutcome, Processed, Status};

/// Something that happened outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A model answered.
    ModelAnswered {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// The answer.
        answer: ModelAnswer,
    },
    /// A model will not answer.
    ModelFailed {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// Why.
        error: ExecutionError,
    },
    /// One try inside a model call failed; the client goes on.
    ModelTryFailed {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// Which try, from 1.
        try_number: u32,
        /// Why.
        error: ExecutionError,
        /// How long the client waits.
        wait_ms: u64,
    },
    /// A piece of a streamed answer.
    ModelProgress {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// The number of the piece, from 0.
        index: u64,
        /// More text.
        text: String,
        /// More reasoning.
        reasoning: String,
        /// Whether the answer starts over.
        restarted: bool,
    },
    /// A tool answered.
    ToolAnswered {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// What it answered.
        content: Vec<Part>,
        /// The same as a value.
        value: Option<Json>,
        /// Where the whole text is kept, when the content has only its head and tail.
        full: Option<Hash>,
        /// How long it took.
        duration_ms: u64,
    },
    /// A tool will not answer.
    ToolFailed {
        /// Whether the tool began. One that did has done something unless it says otherwise.
        begun: bool,
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// Why.
        error: ExecutionError,
        /// How long it took.
        duration_ms: u64,
    },
    /// A tool says how far it is.
    ToolProgress {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// What it says.
        message: String,
    },
    /// A tool that runs asks a person. Rejected when it does not run any more, or has too many questions open.
    ToolAsks {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// What it asks.
        question: ToolQuestion,
    },
    /// A context processor answered.
    ContextProcessed {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// What it made. A conversation that no model would accept, or a range that is not there, makes the call fail.
        processed: Processed,
    },
    /// A context processor will not answer.
    ContextProcessingFailed {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// Why.
        error: ExecutionError,
    },
    /// The application's strategy says what comes next in the agent loop. What cannot be done makes the loop fail.
    StrategyDecided {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// What.
        next: StrategyDecision,
    },
    /// The application's strategy will not decide.
    StrategyFailed {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// Why.
        error: ExecutionError,
    },
    /// An input and who gave it, which is recorded in the events that it leads to at once.
    By {
        /// Who.
        by: Principal,
        /// The input.
        input: Box<Input>,
    },
    /// A branch ended.
    BranchEnded {
        /// Its number.
        index: u32,
        /// Its thread.
        child: ThreadId,
        /// How.
        outcome: BranchOutcome,
    },
    /// Time has passed: see whether a deadline has.
    Tick,
    /// Nothing that was in flight is any more: the runtime has come back to the thread.
    Recover,
    /// Begin nothing new.
    Pause {
        /// Why, for people.
        reason: Option<String>,
    },
    /// Go on.
    Resume,
    /// Go on beyond a limit; ends a pause.
    Raise(LimitRaised),
    /// End, in good order.
    Cancel {
        /// Why, for people.
        reason: Option<String>,
    },
    /// End in an error.
    Abort {
        /// Why, for people.
        reason: Option<String>,
    },
    /// End in this error: the process ended several times in a step of the thread. Nothing of that step is run.
    Crashed {
        /// Which step, and what to do.
        error: ExecutionError,
    },
    /// Name this moment.
    Checkpoint {
        /// The name.
        label: String,
    },
    /// Put a message into the conversation; the next model call sees it.
    AddMessage(Message),
    /// Set variables.
    SetVariables(OrderedMap<Json>),
    /// A person answered a question.
    Respond {
        /// The question.
        interaction: CallId,
        /// The raw answer.
        data: Json,
    },
    /// A question is taken back.
    CancelInteraction {
        /// The question.
        interaction: CallId,
    },
    /// The application's handler of a question failed, or its answer cannot be used.
    InteractionFailed {
        /// The question.
        interaction: CallId,
        /// What failed: [`InteractionFailure::HandlerError`] or [`InteractionFailure::InvalidInput`].
        reason: InteractionFailure,
        /// Why, for people.
        detail: String,
    },
}

impl Input {
    /// The input with who gave it.
    #[must_use]
    pub fn by(self, principal: Option<Principal>) -> Self {
        match principal {
            Some(by) => Self::By { by, input: Box::new(self) },
            None => self,
        }
    }

    /// The input without who gave it.
    pub fn given(&self) -> &Self {
        match self {
            Self::By { input, .. } => input.given(),
            _ => self,
        }
    }
}

/// What a tool that runs asks a person.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolQuestion {
    /// Who asks, for people: the name of a server or of the tool.
    pub from: String,
    /// The question.
    pub message: String,
    /// What the answer must look like, as JSON Schema: an object of simple values. Absent when there is no form.
    pub schema: Option<Json>,
    /// A page that the person is asked to open.
    pub url: Option<String>,
}

/// The answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelAnswer {
    /// The message.
    pub message: Arc<Message>,
    /// Why it stopped.
    pub finish_reason: FinishReason,
    /// Tokens.
    pub usage: Usage,
    /// Cost in billionths of a US dollar.
    pub cost_nanousd: Option<u64>,
    /// The prices that say so.
    pub prices: Option<UnitPrices>,
    /// The model, as the provider names it.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub response_id: Option<String>,
    /// Whether it came from the cache of answers.
    pub cached: bool,
    /// How long it took.
    pub duration_ms: u64,
    /// Who counted the tokens.
    pub usage_source: UsageSource,
}

/// Why an input was not taken. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The thread has ended: nothing can be done with it but fork it.
    #[error("the thread has ended with status {status}")]
    Ended {
        /// How.
        status: Status,
    },
    /// Only a paused thread can be resumed.
    #[error("the thread is not paused")]
    NotPaused,
    /// It is paused already.
    #[error("the thread is paused already")]
    AlreadyPaused,
    /// There is no such question.
    #[error("the thread has no interaction {0}")]
    UnknownInteraction(CallId),
    /// The question was answered before, otherwise, or is closed.
    #[error("interaction {0} is closed: it was answered, cancelled or ran out of time")]
    InteractionClosed(CallId),
    /// The name is taken.
    #[error("the thread has a checkpoint `{0}` already")]
    LabelTaken(String),
    /// The model reads no more messages in this node.
    #[error(
        "node `{node}` makes the last of its {n} model calls (max_iterations), which cannot read the message any more: \
         send it when the node has ended, or raise the limit"
    )]
    NotRead {
        /// The node.
        node: NodeId,
        /// How many model calls it may make.
        n: u32,
    },
    /// What was given cannot be used.
    #[error("{0}")]
    Invalid(String),
}
