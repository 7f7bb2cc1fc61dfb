//! What the machine can be told.

use crate::codec::OrderedMap;
use crate::event::{CallEvent, Hook, InteractionFailure, LimitRaised, OnMessage};
use crate::fault::ExecutionError;
use crate::ids::{CallId, NodeId, RunId, ThreadId, Time};
use crate::json::Json;
use crate::labels::Labels;
use crate::message::Message;
use crate::principal::Principal;
use crate::trace_context::TraceParent;
use crate::workflow::{Faults, Workflow};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::state::{BranchOutcome, Totals};
use super::status::Status;

/// Something that happened outside.
///
/// What another thread, a person or the application gives can be serialized, so that one process can pass it on to another. What
/// an executor or a branch reports stays in its process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// An executor reports about an attempt at a call: how it ended, or how far it is. What no open call wants changes
    /// nothing.
    #[serde(skip)]
    Reported {
        /// The attempt.
        attempt: u32,
        /// The event that the thread records.
        event: CallEvent,
    },
    /// A tool that runs asks a person. Rejected when it does not run any more, or has too many questions open.
    #[serde(skip)]
    ToolAsks {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// What it asks.
        question: ToolQuestion,
    },
    /// An input and who gave it, which is recorded in the events that it leads to at once.
    By {
        /// Who.
        by: Principal,
        /// The input.
        input: Box<Input>,
    },
    /// What a branch has spent so far. Nothing follows if that is known.
    #[serde(skip)]
    BranchSpent {
        /// Its number.
        index: u32,
        /// Its thread.
        child: ThreadId,
        /// What it has spent, with its own branches.
        totals: Totals,
    },
    /// What the thread whose branch this is leaves it of its budget: the limits of the branch. A branch that has paused
    /// at them goes on if they are enough.
    #[serde(skip)]
    BudgetLeft(LimitRaised),
    /// A branch ended. Of one that has ended here before, what it spent since counts.
    #[serde(skip)]
    BranchEnded {
        /// Its number.
        index: u32,
        /// Its thread.
        child: ThreadId,
        /// How.
        outcome: BranchOutcome,
    },
    /// A child was started, or cannot be.
    ChildStarted {
        /// The call.
        call: CallId,
        /// Why it was not started.
        outcome: Result<(), ExecutionError>,
    },
    /// A thread that is waited for ended, or is not there.
    ThreadEnded {
        /// The thread.
        thread: ThreadId,
        /// Its output, or the error that it ended in.
        outcome: Result<Json, ExecutionError>,
    },
    /// Time has passed: see whether a deadline has.
    #[serde(skip)]
    Tick,
    /// Nothing that was in flight is any more: the runtime has come back to the thread.
    #[serde(skip)]
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
    /// The run that started this thread has ended: its first run is cancelled, if that goes on. Runs that wait go on.
    CancelByParent {
        /// Why, for people.
        reason: Option<String>,
    },
    /// End in an error.
    Abort {
        /// Why, for people.
        reason: Option<String>,
    },
    /// End in this error: the process ended several times in a step of the thread. Nothing of that step is run.
    #[serde(skip)]
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
    /// Begin the next run; while one is going on, what [`OnMessage`] says.
    Run(Box<RunInput>),
    /// It is the turn of the run in its queue.
    Dequeue,
    /// Cancel one run: that which goes on, or one that is queued. Other runs that wait follow.
    CancelRun {
        /// The run.
        run: RunId,
        /// Why, for people.
        reason: Option<String>,
    },
    /// A signal has come. The same id again changes nothing.
    Signal {
        /// Its name.
        name: String,
        /// Its id.
        id: String,
        /// What it carries.
        payload: Json,
    },
    /// Let a wait end at another time; at one that has come, it ends at once.
    ChangeWait {
        /// The wait.
        wait: CallId,
        /// When it ends.
        until: Time,
    },
    /// Go on with this definition, which the log has. The one that it has already changes nothing.
    #[serde(skip)]
    Migrate(Arc<Workflow>),
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
    #[serde(skip)]
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
    /// The report of an executor about this attempt at a call.
    pub fn reported(attempt: u32, event: impl Into<CallEvent>) -> Self {
        Self::Reported { attempt, event: event.into() }
    }

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
        if let Self::By { input, .. } = self { input.given() } else { self }
    }

    /// The same input, with this definition for the run that it begins. Another input as it is.
    #[must_use]
    pub fn on(self, definition: Arc<Workflow>) -> Self {
        match self {
            Self::By { by, input } => Self::By { by, input: Box::new(input.on(definition)) },
            Self::Run(run) => Self::Run(Box::new(RunInput { definition: Some(definition), ..*run })),
            other => other,
        }
    }
}

/// The next run of a thread.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunInput {
    /// The input.
    pub input: Json,
    /// Variables that are set as it begins.
    pub variables: OrderedMap<Json>,
    /// What becomes of it while a run is going on; as the workflow says when absent.
    pub on_message: Option<OnMessage>,
    /// The run that it follows: refused if that goes on, or if another one came after it.
    pub after: Option<RunId>,
    /// The same request again, with the same key, changes nothing; at most [`super::RUN_KEY_BYTES_MAX`] bytes.
    pub key: Option<String>,
    /// The definition that it runs on; that of the last run when absent. Refused while a run is going on. The log has it. It is
    /// not serialized.
    #[serde(skip)]
    pub definition: Option<Arc<Workflow>>,
    /// The span of the caller.
    pub traceparent: Option<TraceParent>,
}

impl PartialEq for RunInput {
    fn eq(&self, other: &Self) -> bool {
        let hash = |run: &Self| run.definition.as_ref().map(|definition| definition.hash());
        (&self.input, &self.variables, self.on_message, self.after, &self.key, hash(self), self.traceparent)
            == (
                &other.input,
                &other.variables,
                other.on_message,
                other.after,
                &other.key,
                hash(other),
                other.traceparent,
            )
    }
}

/// What a thread begins with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Start {
    /// The variable `input`.
    pub input: Json,
    /// The folder the tools work in.
    pub workspace: Option<String>,
    /// Its labels.
    pub labels: Labels,
    /// What was said before, at most [`super::START_MESSAGES_MAX`] messages, without instructions. Each tool call has its result,
    /// in the order of the calls.
    pub messages: Vec<Arc<Message>>,
    /// Variables beside those of the definition, or in their place.
    pub variables: OrderedMap<Json>,
    /// The node of the main graph to begin with, in place of the first one.
    pub entry: Option<NodeId>,
    /// The span of the caller.
    pub traceparent: Option<TraceParent>,
}

impl Start {
    /// With this input and nothing more.
    pub fn new(input: impl Into<Json>) -> Self {
        Self { input: input.into(), ..Self::default() }
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

/// Why an input was not taken. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Rejected {
    /// The thread has ended: nothing can be done with it but fork it.
    #[error("the thread has ended with status {status}")]
    Ended {
        /// How.
        status: Status,
    },
    /// The run is ending, and a hook runs that a cancel does not stop.
    #[error("the run is ending: wait until its hook `{hook}` is over")]
    Ending {
        /// The hook.
        hook: Hook,
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
    #[error("interaction {0} is closed: it was answered, cancelled or timed out")]
    InteractionClosed(CallId),
    /// The thread does not wait for this signal, or not any more.
    #[error("the thread does not wait for this signal")]
    NoSignalAwaited,
    /// There is no such wait, or it is over.
    #[error("the thread has no wait {0} that goes on")]
    NoWait(CallId),
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
    /// A run is going on, and its workflow or the caller says that no message is taken meanwhile.
    #[error("run {run} is going on: wait for its end, or give `on_message` as queue, steer or interrupt")]
    RunGoesOn {
        /// The run.
        run: RunId,
    },
    /// A run is going on, and the next one was to run on a definition that was given.
    #[error(
        "run {run} is going on, and a run that is given a definition cannot wait for it: send it when that has ended"
    )]
    DefinitionLate {
        /// The run that is going on.
        run: RunId,
    },
    /// Something of the thread is running, and a definition is changed while nothing is.
    #[error(
        "{what} is running or was cut off: migrate the thread when it waits, or when it is paused and nothing runs"
    )]
    CallOpen {
        /// What.
        what: String,
    },
    /// A branch runs on the definition of its parent.
    #[error("the thread is a branch of {owner}: migrate that thread, and its branches follow")]
    Branch {
        /// Its parent.
        owner: ThreadId,
    },
    /// It cannot go on with the definition from where it is.
    #[error("the thread cannot go on with the definition from where it is:\n{0}")]
    #[serde(skip)]
    Unfit(Faults),
    /// The run neither goes on nor waits: it has ended, was cancelled, or never existed.
    #[error("run {run} of the thread neither goes on nor waits")]
    RunNotOpen {
        /// The run.
        run: RunId,
    },
    /// The idempotency key was used for another request.
    #[error("the key of the request was used for another input: give each request a key of its own")]
    KeyReused,
    /// Too many runs wait.
    #[error("{n} runs wait in the thread already: wait until one has begun, or call one off")]
    QueueFull {
        /// How many.
        n: usize,
    },
    /// What was given cannot be used.
    #[error("{0}")]
    Invalid(String),
}
