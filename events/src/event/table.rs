//! The table of events: the documented name, stored code, version and role of each. `docs/EVENTS.md` is compared with
//! it by a test.

use super::agent::*;
use super::child::*;
use super::graph::*;
use super::guardrail::*;
use super::hook::*;
use super::interaction::*;
use super::llm::*;
use super::node::*;
use super::queue::*;
use super::run::*;
use super::signal::*;
use super::strategy::*;
use super::thread::*;
use super::tool::*;
use super::wait::*;
use crate::codec::{self, StoredError};
use crate::fault::ExecutionError;
use crate::ids::{Hash, NodeId};
use crate::principal::Principal;
use crate::text;

/// How an event counts when a thread is folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldRole {
    /// Part of the state.
    State,
    /// For subscribers; a fold skips it.
    Informational,
}

/// The row of one kind of event in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventType {
    /// The code it is stored under; never reused.
    pub code: u16,
    /// The documented name.
    pub name: &'static str,
    /// The version of its shape that this program writes.
    pub version: u16,
    /// How it counts in a fold.
    pub weight: FoldRole,
}

/// Why a stored event cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// Written by a newer program, or damaged: read the log with the program that wrote it.
    #[error("no event has code {0} in this version of the program")]
    UnknownCode(u16),
    /// The same for a documented name.
    #[error("no event is called {0}")]
    UnknownName(String),
    /// Written by a newer program.
    #[error("{name} of version {version} is newer than this program, which reads up to {newest}")]
    UnknownVersion {
        /// The event.
        name: &'static str,
        /// The version found.
        version: u16,
        /// The newest version that is known.
        newest: u16,
    },
    /// The bytes are not such an event.
    #[error("not a {name}")]
    Malformed {
        /// The event.
        name: &'static str,
        /// Why.
        #[source]
        source: StoredError,
    },
    /// The JSON is not such an event.
    #[error("not the data of a {name}: {message}")]
    Json {
        /// The event.
        name: &'static str,
        /// Why.
        message: String,
    },
}

/// A field that several events have, in one that is marked with it in the table: `by` for who gave the input that led to
/// the event, `call` for the node that the call of the event belongs to, `error` for what failed, `profile` for the hash of the
/// model's profile. `outside` marks those that no rule of the machine decides: an input, or what happened outside.
macro_rules! common {
    (by $event:ident by $($other:ident)*) => { $event.by.as_ref() };
    (by_mut $event:ident by $($other:ident)*) => { Some(&mut $event.by) };
    (call $event:ident call $($other:ident)*) => { $event.node_id.as_ref() };
    (call_mut $event:ident call $($other:ident)*) => { Some(&mut $event.node_id) };
    (error $event:ident error $($other:ident)*) => { Option::from(&$event.error) };
    (error_mut $event:ident error $($other:ident)*) => { Option::from(&mut $event.error) };
    (profile $event:ident profile $($other:ident)*) => { $event.model_profile };
    (outside $event:ident outside $($other:ident)*) => { true };
    (outside $event:ident) => { false };
    ($field:ident $event:ident $first:ident $($other:ident)*) => { common!($field $event $($other)*) };
    ($field:ident $event:ident) => { None };
}

/// The type of the data of an event in [`Event`]. Events lie in lists and are moved several times in a step, so those of more than
/// 200 bytes are boxed.
macro_rules! data {
    ($data:ident boxed) => { Box<$data> };
    ($data:ident) => { $data };
}
pub(super) use data;

/// The bytes that a record has besides its payload, at most.
const RECORD_BYTES: usize = 1_024;

macro_rules! events {
    ($($code:literal $variant:ident $($boxed:ident)? $name:literal v $version:literal $weight:ident $($common:ident)*;)*) => {
        /// Something that happened to a thread.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant(data!($variant $($boxed)?)),
            )*
        }

        /// The table: code, name, version and weight of every event.
        pub const EVENT_TYPES: &[EventType] = &[
            $(EventType { code: $code, name: $name, version: $version, weight: FoldRole::$weight },)*
        ];

        /// What the table says about the event with this code.
        pub const fn event_type(code: u16) -> Option<&'static EventType> {
            match code {
                $($code => Some(&EventType {
                    code: $code, name: $name, version: $version, weight: FoldRole::$weight,
                }),)*
                _ => None,
            }
        }

        impl Event {
            /// What the table says about this event.
            pub const fn event_type(&self) -> EventType {
                match self {
                    $(Self::$variant(_) => EventType {
                        code: $code, name: $name, version: $version, weight: FoldRole::$weight,
                    },)*
                }
            }

            /// The stored form, without code and version, which stand beside it in the record.
            pub fn encode(&self) -> Result<Vec<u8>, StoredError> {
                match self {
                    $(Self::$variant(event) => codec::encode(event),)*
                }
            }

            /// An upper bound of the bytes of its record, computed without storing it; `usize::MAX` if it has a value that is
            /// nested too deeply to be stored.
            pub fn bytes_at_most(&self) -> usize {
                let stored = match self {
                    $(Self::$variant(event) => codec::stored_bytes(event),)*
                };
                stored.saturating_add(RECORD_BYTES)
            }

            /// Decodes the stored form of the present version.
            pub(super) fn decode_present(code: u16, bytes: &[u8]) -> Result<Self, EventError> {
                match code {
                    $($code => codec::decode::<$variant>(bytes)
                        .map(Self::from)
                        .map_err(|source| EventError::Malformed { name: $name, source }),)*
                    _ => Err(EventError::UnknownCode(code)),
                }
            }

            /// The JSON of the event's data.
            pub fn data(&self) -> Result<serde_json::Value, serde_json::Error> {
                match self {
                    $(Self::$variant(event) => serde_json::to_value(event),)*
                }
            }

            /// Writes the same JSON, without putting it together in memory first.
            ///
            /// # Errors
            /// Those of the serializer.
            pub fn serialize_data<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(event) => serde::Serialize::serialize(event, serializer),)*
                }
            }

            /// Who gave the input that led to the event, where the event records it.
            pub fn by(&self) -> Option<&Principal> {
                match self {
                    $(Self::$variant(_event) => common!(by _event $($common)*),)*
                }
            }

            /// Where the event records who gave the input that led to it.
            pub(crate) fn by_mut(&mut self) -> Option<&mut Option<Principal>> {
                match self {
                    $(Self::$variant(_event) => common!(by_mut _event $($common)*),)*
                }
            }

            /// The node that the call of the event belongs to, where the event records it.
            pub fn call_node(&self) -> Option<&NodeId> {
                match self {
                    $(Self::$variant(_event) => common!(call _event $($common)*),)*
                }
            }

            /// Where an event of a call records the node that the call belongs to.
            pub(crate) fn call_node_mut(&mut self) -> Option<&mut Option<NodeId>> {
                match self {
                    $(Self::$variant(_event) => common!(call_mut _event $($common)*),)*
                }
            }

            /// What failed, where the event records it.
            pub fn error(&self) -> Option<&ExecutionError> {
                match self {
                    $(Self::$variant(_event) => common!(error _event $($common)*),)*
                }
            }

            /// Where the event records what failed.
            pub(crate) fn error_mut(&mut self) -> Option<&mut ExecutionError> {
                match self {
                    $(Self::$variant(_event) => common!(error_mut _event $($common)*),)*
                }
            }

            /// The hash of what was known of the model's profile, where the event records it.
            pub fn model_profile(&self) -> Option<Hash> {
                match self {
                    $(Self::$variant(_event) => common!(profile _event $($common)*),)*
                }
            }

            /// Whether no rule of the machine decides the event: it is an input, or what happened outside.
            pub(crate) const fn comes_from_outside(&self) -> bool {
                match self {
                    $(Self::$variant(_event) => common!(outside _event $($common)*),)*
                }
            }

            /// The event with that documented name and data in the present version.
            pub fn from_data(name: &str, data: serde_json::Value) -> Result<Self, EventError> {
                match name {
                    $($name => serde_json::from_value::<$variant>(data)
                        .map(Self::from)
                        .map_err(|e| EventError::Json { name: $name, message: e.to_string() }),)*
                    _ => Err(EventError::UnknownName(text::head(name, 80).to_owned())),
                }
            }
        }

        $(
            impl From<$variant> for Event {
                fn from(event: $variant) -> Self {
                    Self::$variant(event.into())
                }
            }
        )*
    };
}

// One that is larger has to be boxed.
const _: () = assert!(size_of::<Event>() <= 208);

/// What the table says about the event with this documented name.
pub fn event_type_named(name: &str) -> Option<&'static EventType> {
    EVENT_TYPES.iter().find(|event_type| event_type.name == name)
}

events! {
    // the thread as a whole
    1 ThreadStarted boxed "THREAD_STARTED" v 1 State;
    2 ThreadForked boxed "THREAD_FORKED" v 1 State by outside;
    3 ThreadPaused "THREAD_PAUSED" v 1 State by outside;
    4 ThreadResumed "THREAD_RESUMED" v 1 State by outside;
    5 ThreadRecovered "THREAD_RECOVERED" v 1 Informational outside;
    6 ThreadCancelled "THREAD_CANCELLED" v 1 State by;
    7 ThreadCompleted "THREAD_COMPLETED" v 1 State;
    8 ThreadFailed "THREAD_FAILED" v 1 State error;
    9 CheckpointCreated "CHECKPOINT_CREATED" v 1 State by outside;
    10 VariablesUpdated "VARIABLES_UPDATED" v 1 State by outside;
    11 MessageAdded "MESSAGE_ADDED" v 1 State by outside;
    12 Warning "WARNING" v 1 Informational outside;
    // the runs after the first one
    15 RunStarted boxed "RUN_STARTED" v 1 State by;
    16 RunQueued "RUN_QUEUED" v 1 State by outside;
    17 RunCancelled "RUN_CANCELLED" v 1 State by outside;
    // another definition
    18 WorkflowChanged "WORKFLOW_CHANGED" v 1 State by;
    // the queue in which a run waits
    65 ThreadQueued "THREAD_QUEUED" v 1 State;
    66 ThreadDequeued "THREAD_DEQUEUED" v 1 State outside;
    // the hooks of a run that is ending
    67 HookStarted "HOOK_STARTED" v 1 State by;
    68 HookEnded "HOOK_ENDED" v 1 State error;
    // nodes and the way through the graph
    20 NodeStarted "NODE_STARTED" v 1 State;
    21 NodeCompleted "NODE_COMPLETED" v 1 State;
    22 NodeFailed "NODE_FAILED" v 1 State error;
    23 RouteTaken "ROUTE_TAKEN" v 1 State;
    // the agent loop and model calls
    40 LlmExecutionRequest boxed "LLM_EXECUTION_REQUEST" v 1 State;
    41 LlmCallRequested "LLM_CALL_REQUESTED" v 1 State call profile;
    42 LlmCallRetried "LLM_CALL_RETRIED" v 1 State call outside profile;
    43 LlmTryFailed "LLM_TRY_FAILED" v 1 State call error outside;
    57 LlmRequestChanged "LLM_REQUEST_CHANGED" v 1 Informational call outside;
    44 LlmExecutionProgress "LLM_EXECUTION_PROGRESS" v 1 Informational call outside;
    45 LlmCallCompleted boxed "LLM_CALL_COMPLETED" v 1 State call outside;
    46 LlmCallFailed "LLM_CALL_FAILED" v 1 State call error outside;
    47 LlmExecutionCompleted boxed "LLM_EXECUTION_COMPLETED" v 1 State;
    48 LlmExecutionFailed "LLM_EXECUTION_FAILED" v 1 State error;
    52 AnswerRejected "ANSWER_REJECTED" v 1 State;
    // guardrails
    53 GuardrailRequested "GUARDRAIL_REQUESTED" v 1 State;
    54 GuardrailRetried "GUARDRAIL_RETRIED" v 1 State call outside;
    55 GuardrailCompleted "GUARDRAIL_COMPLETED" v 1 State call error;
    // tool calls
    60 ToolExecutionRequest "TOOL_EXECUTION_REQUEST" v 1 State call;
    61 ToolCallRetried "TOOL_CALL_RETRIED" v 1 State call error outside;
    62 ToolExecutionProgress "TOOL_EXECUTION_PROGRESS" v 1 Informational call outside;
    63 ToolExecutionCompleted "TOOL_EXECUTION_COMPLETED" v 1 State call outside;
    64 ToolExecutionFailed "TOOL_EXECUTION_FAILED" v 1 State call error outside;
    // agents that a model calls like tools
    69 AgentStarted "AGENT_STARTED" v 1 State;
    // questions to people
    70 UserInteractionRequested "USER_INTERACTION_REQUESTED" v 1 State;
    71 UserInteractionResponded "USER_INTERACTION_RESPONDED" v 1 State by call outside;
    72 UserInteractionProcessed "USER_INTERACTION_PROCESSED" v 1 State call;
    73 UserInteractionFailed "USER_INTERACTION_FAILED" v 1 State by call outside;
    // waits for a time or a signal
    92 WaitStarted "WAIT_STARTED" v 1 State;
    93 WaitChanged "WAIT_CHANGED" v 1 State by call outside;
    94 WaitCompleted "WAIT_COMPLETED" v 1 State call outside;
    95 WaitFailed "WAIT_FAILED" v 1 State call error outside;
    96 SignalAwaited "SIGNAL_AWAITED" v 1 State;
    97 SignalReceived "SIGNAL_RECEIVED" v 1 State by call outside;
    // threads that a thread starts, and waits for the end of a thread
    100 ChildStartRequested "CHILD_START_REQUESTED" v 1 State;
    101 ChildStarted "CHILD_STARTED" v 1 State call outside;
    102 ChildStartFailed "CHILD_START_FAILED" v 1 State call error outside;
    103 StartedByParent "STARTED_BY_PARENT" v 1 State outside;
    104 ThreadAwaited "THREAD_AWAITED" v 1 State;
    105 AwaitedThreadEnded "AWAITED_THREAD_ENDED" v 1 State call outside;
    // graphs, conversations and budgets
    24 ConditionEvaluationRequested boxed "CONDITION_EVALUATION_REQUESTED" v 1 State profile;
    25 ConditionEvaluationCompleted boxed "CONDITION_EVALUATION_COMPLETED" v 1 State call error outside;
    34 ForkStarted "FORK_STARTED" v 1 State;
    26 BranchStarted "BRANCH_STARTED" v 1 State;
    56 BranchSpent boxed "BRANCH_SPENT" v 1 State outside;
    27 BranchEnded boxed "BRANCH_ENDED" v 1 State error outside;
    28 JoinCompleted "JOIN_COMPLETED" v 1 State;
    35 LoopStarted "LOOP_STARTED" v 1 State;
    29 LoopIterationStarted "LOOP_ITERATION_STARTED" v 1 State;
    30 LoopEnded "LOOP_ENDED" v 1 State error;
    31 SubWorkflowStarted "SUB_WORKFLOW_STARTED" v 1 State;
    32 SubWorkflowCompleted "SUB_WORKFLOW_COMPLETED" v 1 State;
    36 SubWorkflowFailed "SUB_WORKFLOW_FAILED" v 1 State error;
    37 ContextProcessingRequested "CONTEXT_PROCESSING_REQUESTED" v 1 State;
    39 ContextProcessingRetried "CONTEXT_PROCESSING_RETRIED" v 1 State call outside;
    33 ContextProcessed "CONTEXT_PROCESSED" v 1 State call;
    38 ContextProcessingFailed "CONTEXT_PROCESSING_FAILED" v 1 State call error outside;
    49 ContextSummarized "CONTEXT_SUMMARIZED" v 1 State;
    13 BudgetExceeded "BUDGET_EXCEEDED" v 1 State;
    50 ContextSummaryRequested boxed "CONTEXT_SUMMARY_REQUESTED" v 1 State profile;
    51 ContextSummaryCompleted boxed "CONTEXT_SUMMARY_COMPLETED" v 1 State call error outside;
    14 LimitRaised "LIMIT_RAISED" v 1 State by outside;
    // strategies of the agent loop
    80 PlanRequested "PLAN_REQUESTED" v 1 State;
    81 PlanMade "PLAN_MADE" v 1 State;
    82 PlanStepStarted "PLAN_STEP_STARTED" v 1 State;
    83 PlanStepCompleted "PLAN_STEP_COMPLETED" v 1 State;
    84 PlanStepFailed "PLAN_STEP_FAILED" v 1 State error;
    85 PlanCompleted "PLAN_COMPLETED" v 1 State;
    86 CandidateChosen "CANDIDATE_CHOSEN" v 1 State;
    87 CandidatesGathered "CANDIDATES_GATHERED" v 1 State;
    88 StrategyDecisionRequested "STRATEGY_DECISION_REQUESTED" v 1 State;
    89 StrategyDecisionRetried "STRATEGY_DECISION_RETRIED" v 1 State call outside;
    90 StrategyDecided boxed "STRATEGY_DECIDED" v 1 State call outside;
    91 StrategyDecisionFailed "STRATEGY_DECISION_FAILED" v 1 State call error outside;
}
