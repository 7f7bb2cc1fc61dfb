//! Shapes that events had in older versions. A stored event of an older version is read in its old shape and brought
//! up to the present one; it can be written in its old shape again, byte for byte, for an import whose hashes are those
//! of the log that it was exported from.
//!
//! To change an event: raise its version in the table of `event/table.rs`, describe the shape it had in `shapes.rs`, and add
//! a line to the table at the end of this file. Where only the name of a field changes, the shape is the present one.

use serde_json::Value;

use super::graph::*;
use super::interaction::*;
use super::llm::*;
use super::node::*;
use super::run::*;
use super::strategy::*;
use super::table::Event;
use super::thread::*;
use super::tool::*;
use crate::codec::{self, StoredError};

/// Describes an older shape of an event to which fields were added: the fields it had, in their stored order, and the
/// values that stand for the fields it did not have.
macro_rules! before {
    ($old:ident of $present:ident { $($field:ident: $type:ty,)* } without { $($later:ident: $value:expr,)* }) => {
        #[derive(Encode, Decode)]
        pub(super) struct $old {
            $($field: $type,)*
        }

        impl From<$old> for $present {
            fn from($old { $($field,)* }: $old) -> Self {
                Self { $($field,)* $($later: $value,)* }
            }
        }

        impl From<$present> for $old {
            fn from($present { $($field,)* .. }: $present) -> Self {
                Self { $($field,)* }
            }
        }
    };
}

macro_rules! older {
    ($($code:literal v $version:literal $old:ident of $present:ident;)*) => {
        /// The event of an older version; `None` where this program knows no such version.
        pub(super) fn decode(code: u16, version: u16, bytes: &[u8]) -> Option<Result<Event, StoredError>> {
            match (code, version) {
                $(($code, $version) => Some(codec::decode::<$old>(bytes).map(|old| $present::from(old).into())),)*
                _ => None,
            }
        }

        /// The event in the shape of an older version; `None` where this program knows no such version.
        pub(super) fn encode(event: &Event, version: u16) -> Option<Result<Vec<u8>, StoredError>> {
            $(
                if let (Event::$present(event), $version) = (event, version) {
                    return Some(codec::encode(&$old::from(event.clone())));
                }
            )*
            None
        }
    };
}

/// Gives the data of an event of an older version, as an older program exported it, the names of fields that the present
/// version has. A program exports an older event with the names of its own time, so either may be there.
pub(super) fn upcast(name: &str, data: &mut Value) {
    let Value::Object(fields) = data else { return };
    if name == "USER_INTERACTION_PROCESSED" && !fields.contains_key("results") {
        let results = ["variables", "message", "decision"].map(|field| (field.to_owned(), fields.remove(field)));
        let results = results.into_iter().filter_map(|(field, value)| Some((field, value?))).collect();
        fields.insert("results".into(), Value::Object(results));
    }
    let left = ("from", "node_id");
    for (old, present) in RENAMED.iter().chain((name == "CONDITION_EVALUATION_REQUESTED").then_some(&left)) {
        if !fields.contains_key(*present)
            && let Some(value) = fields.remove(*old)
        {
            fields.insert((*present).into(), value);
        }
    }
}

/// Fields that had another name when the events that have them had an older version.
const RENAMED: &[(&str, &str)] = &[
    ("node", "node_id"),
    ("call", "call_id"),
    ("interaction", "interaction_id"),
    ("llm_call", "llm_call_id"),
    ("tool_run", "tool_run_id"),
];

mod shapes;

use shapes::*;

older! {
    1 v 1 ThreadStartedV1 of ThreadStarted;
    1 v 2 ThreadStartedV2 of ThreadStarted;
    1 v 3 ThreadStartedV3 of ThreadStarted;
    1 v 4 ThreadStartedV4 of ThreadStarted;
    2 v 1 ThreadForkedV1 of ThreadForked;
    2 v 2 ThreadForkedV2 of ThreadForked;
    3 v 1 ThreadPausedV1 of ThreadPaused;
    4 v 1 ThreadResumedV1 of ThreadResumed;
    6 v 1 ThreadCancelledV1 of ThreadCancelled;
    6 v 2 ThreadCancelledV2 of ThreadCancelled;
    7 v 1 ThreadCompletedV2 of ThreadCompleted;
    7 v 2 ThreadCompletedV2 of ThreadCompleted;
    8 v 1 ThreadFailedV2 of ThreadFailed;
    8 v 2 ThreadFailedV2 of ThreadFailed;
    9 v 1 CheckpointCreatedV1 of CheckpointCreated;
    10 v 1 VariablesUpdatedV1 of VariablesUpdated;
    11 v 1 MessageAddedV1 of MessageAdded;
    11 v 2 MessageAddedV2 of MessageAdded;
    12 v 1 Warning of Warning;
    14 v 1 LimitRaisedV1 of LimitRaised;
    14 v 2 LimitRaisedV2 of LimitRaised;
    15 v 1 RunStartedV1 of RunStarted;
    16 v 1 RunQueuedV1 of RunQueued;
    20 v 1 NodeStarted of NodeStarted;
    21 v 1 NodeCompleted of NodeCompleted;
    22 v 1 NodeFailed of NodeFailed;
    23 v 1 RouteTakenV1 of RouteTaken;
    24 v 1 ConditionEvaluationRequestedV2 of ConditionEvaluationRequested;
    24 v 2 ConditionEvaluationRequestedV2 of ConditionEvaluationRequested;
    25 v 1 ConditionEvaluationCompletedV1 of ConditionEvaluationCompleted;
    25 v 2 ConditionEvaluationCompletedV2 of ConditionEvaluationCompleted;
    27 v 1 BranchEndedV1 of BranchEnded;
    27 v 2 BranchEndedV2 of BranchEnded;
    28 v 1 JoinCompleted of JoinCompleted;
    29 v 1 LoopIterationStarted of LoopIterationStarted;
    30 v 1 LoopEnded of LoopEnded;
    31 v 1 SubWorkflowStartedV1 of SubWorkflowStarted;
    31 v 2 SubWorkflowStarted of SubWorkflowStarted;
    31 v 3 SubWorkflowStarted of SubWorkflowStarted;
    32 v 1 SubWorkflowCompleted of SubWorkflowCompleted;
    33 v 1 ContextProcessedV1 of ContextProcessed;
    34 v 1 ForkStartedV1 of ForkStarted;
    34 v 2 ForkStarted of ForkStarted;
    35 v 1 LoopStartedV1 of LoopStarted;
    35 v 2 LoopStarted of LoopStarted;
    36 v 1 SubWorkflowFailed of SubWorkflowFailed;
    37 v 1 ContextProcessingRequested of ContextProcessingRequested;
    38 v 1 ContextProcessingFailedV1 of ContextProcessingFailed;
    39 v 1 ContextProcessingRetriedV1 of ContextProcessingRetried;
    40 v 1 LlmExecutionRequestV1 of LlmExecutionRequest;
    40 v 2 LlmExecutionRequestV3 of LlmExecutionRequest;
    40 v 3 LlmExecutionRequestV3 of LlmExecutionRequest;
    40 v 4 LlmExecutionRequestV4 of LlmExecutionRequest;
    40 v 5 LlmExecutionRequestV5 of LlmExecutionRequest;
    40 v 6 LlmExecutionRequestV6 of LlmExecutionRequest;
    40 v 7 LlmExecutionRequestV7 of LlmExecutionRequest;
    41 v 1 LlmCallRequestedV1 of LlmCallRequested;
    42 v 1 LlmCallRetriedV1 of LlmCallRetried;
    43 v 1 LlmTryFailedV1 of LlmTryFailed;
    44 v 1 LlmExecutionProgressV1 of LlmExecutionProgress;
    45 v 1 LlmCallCompletedV1 of LlmCallCompleted;
    45 v 2 LlmCallCompletedV2 of LlmCallCompleted;
    46 v 1 LlmCallFailedV1 of LlmCallFailed;
    47 v 1 LlmExecutionCompletedV1 of LlmExecutionCompleted;
    47 v 2 LlmExecutionCompletedV2 of LlmExecutionCompleted;
    47 v 3 LlmExecutionCompletedV3 of LlmExecutionCompleted;
    48 v 1 LlmExecutionFailed of LlmExecutionFailed;
    50 v 1 ContextSummaryRequested of ContextSummaryRequested;
    51 v 1 ContextSummaryCompletedV1 of ContextSummaryCompleted;
    51 v 2 ContextSummaryCompletedV2 of ContextSummaryCompleted;
    60 v 1 ToolExecutionRequestV1 of ToolExecutionRequest;
    61 v 1 ToolCallRetriedV1 of ToolCallRetried;
    62 v 1 ToolExecutionProgressV1 of ToolExecutionProgress;
    63 v 1 ToolExecutionCompletedV1 of ToolExecutionCompleted;
    64 v 1 ToolExecutionFailedV1 of ToolExecutionFailed;
    64 v 2 ToolExecutionFailedV2 of ToolExecutionFailed;
    70 v 1 UserInteractionRequestedV1 of UserInteractionRequested;
    70 v 2 UserInteractionRequestedV2 of UserInteractionRequested;
    71 v 1 UserInteractionRespondedV1 of UserInteractionResponded;
    71 v 2 UserInteractionRespondedV2 of UserInteractionResponded;
    72 v 1 UserInteractionProcessedV1 of UserInteractionProcessed;
    73 v 1 UserInteractionFailedV1 of UserInteractionFailed;
    73 v 2 UserInteractionFailedV2 of UserInteractionFailed;
    80 v 1 PlanRequested of PlanRequested;
    81 v 1 PlanMade of PlanMade;
    82 v 1 PlanStepStarted of PlanStepStarted;
    83 v 1 PlanStepCompleted of PlanStepCompleted;
    84 v 1 PlanStepFailed of PlanStepFailed;
    85 v 1 PlanCompleted of PlanCompleted;
    86 v 1 CandidateChosen of CandidateChosen;
    87 v 1 CandidatesGathered of CandidatesGathered;
    88 v 1 StrategyDecisionRequested of StrategyDecisionRequested;
    89 v 1 StrategyDecisionRetriedV1 of StrategyDecisionRetried;
    90 v 1 StrategyDecidedV1 of StrategyDecided;
    91 v 1 StrategyDecisionFailedV1 of StrategyDecisionFailed;
}
