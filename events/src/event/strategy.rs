//! Strategies of an agent loop: their settings, and the events for their decisions.

use std::sync::Arc;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::ModelChoice;
use crate::codec::OrderedMap;
use crate::fault::ExecutionError;
use crate::ids::{CallId, NodeId, Time};
use crate::json::Json;
use crate::message::{Message, ToolCall};

/// How an agent loop reaches its answer.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "strategy", rename_all = "snake_case")]
pub enum LoopStrategy {
    /// Call the model, run the tools that it asks for, call it again, until it asks for none.
    React {},
    /// A plan first, then its steps one after the other, then the answer.
    PlanAndExecute(Box<PlanStrategy>),
    /// Several models.
    MultiLlm(Box<PanelStrategy>),
    /// The application decides.
    Custom(Box<CustomDecider>),
}

/// Plan first, then execute.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct PlanStrategy {
    /// The most steps of a plan.
    pub max_steps: u32,
    /// How many new plans failed steps may lead to.
    pub max_replans: u32,
    /// How many model calls one step may take.
    pub max_step_iterations: Option<u32>,
    /// The instructions for plans to the planner.
    pub prompt: Option<String>,
    /// The model that plans; that of the loop when absent.
    pub planner: Option<Planner>,
}

/// The model that plans.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Planner {
    /// How it is reached and called.
    pub model: ModelChoice,
    /// Whether a person answers for it.
    pub relay: bool,
}

/// Several models on one question.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct PanelStrategy {
    /// The models.
    pub members: Vec<Member>,
    /// How one answer comes of them.
    pub combine: Combine,
    /// The model that judges, merges or routes.
    pub by: ModelChoice,
    /// How many of the models must answer.
    pub min_answers: u32,
    /// The criteria for the judging, merging or routing model.
    pub prompt: Option<String>,
}

/// One of several models.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Member {
    /// The name of the candidate.
    pub name: String,
    /// Its strengths.
    pub description: Option<String>,
    /// How it is reached and called.
    pub model: ModelChoice,
}

/// How one answer comes of several models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Combine {
    /// All models answer, and a model picks one answer. If that answer requests tools, its model continues with them.
    Judge,
    /// All answer, and a model writes one answer from theirs; it may use tools.
    Merge,
    /// A model picks one of them, which then does all of it.
    Route,
}

/// The application decides.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct CustomDecider {
    /// The name under which it was registered.
    pub name: String,
    /// Its settings.
    pub config: OrderedMap<Json>,
    /// How long one decision may take.
    pub timeout_ms: u64,
}

/// The purpose of a model call whose answer does not join the conversation by itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "purpose", rename_all = "snake_case")]
pub enum Aside {
    /// One of several models answers.
    Candidate {
        /// The index among them, from 0.
        index: u32,
    },
    /// A model picks an answer, or a model.
    Choice {
        /// The fault of its first answer; absent the first time.
        fault: Option<String>,
    },
}

/// PLAN_REQUESTED: the model is called for a plan; the prompt becomes a user message.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct PlanRequested {
    /// The node.
    pub node_id: NodeId,
    /// The number of plans that failed before.
    pub replan: u32,
    /// 1 for the first call for this plan, 2 if the first answer was not a plan.
    pub attempt: u32,
    /// The prompt for the model.
    pub prompt: String,
}

/// PLAN_MADE: the last answer is a plan, with these steps.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct PlanMade {
    /// The node.
    pub node_id: NodeId,
    /// The number of plans that failed before.
    pub replan: u32,
    /// The steps.
    pub steps: Vec<String>,
}

/// PLAN_STEP_STARTED: a step begins; the prompt becomes a user message.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct PlanStepStarted {
    /// The node.
    pub node_id: NodeId,
    /// The index in the plan, from 0.
    pub index: u32,
    /// The task of the step.
    pub step: String,
    /// The prompt for the model.
    pub prompt: String,
}

/// PLAN_STEP_COMPLETED: a step was done. Its result is the text of the last message.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct PlanStepCompleted {
    /// The node.
    pub node_id: NodeId,
    /// The index in the plan, from 0.
    pub index: u32,
    /// The number of model calls.
    pub n_llm_calls: u32,
}

/// PLAN_STEP_FAILED: a step could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct PlanStepFailed {
    /// The node.
    pub node_id: NodeId,
    /// The index in the plan, from 0.
    pub index: u32,
    /// Why.
    pub error: ExecutionError,
}

/// PLAN_COMPLETED: all steps were done, and the model is called for the answer; the prompt becomes a user message.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct PlanCompleted {
    /// The node.
    pub node_id: NodeId,
    /// The prompt for the model.
    pub prompt: String,
}

/// CANDIDATE_CHOSEN: one of several models, or its answer, was picked. An answer joins the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CandidateChosen {
    /// The node.
    pub node_id: NodeId,
    /// The index among them, from 0.
    pub index: u32,
    /// The name of the candidate.
    pub name: String,
    /// The reason that the selecting model gave.
    pub reason: Option<String>,
}

/// CANDIDATES_GATHERED: all models that could have answered; the prompt, followed by their answers, becomes a user
/// message for the model that writes one answer from them.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CandidatesGathered {
    /// The node.
    pub node_id: NodeId,
    /// The number of answers.
    pub n_answers: u32,
    /// The prompt for the model, before the answers.
    pub prompt: String,
}

/// STRATEGY_DECISION_REQUESTED: the application's strategy is called for the next step. Its seq is the call's id.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct StrategyDecisionRequested {
    /// The node.
    pub node_id: NodeId,
    /// The strategy.
    pub name: String,
    /// The deadline of the decision.
    pub deadline: Time,
}

/// STRATEGY_DECISION_RETRIED: it is called again, because its decision was lost in a crash.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct StrategyDecisionRetried {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The number of this attempt; 1 was the first.
    pub attempt: u32,
}

/// STRATEGY_DECIDED: what comes next.
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct StrategyDecided {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// The decision.
    pub next: StrategyDecision,
}

/// STRATEGY_DECISION_FAILED: there is no decision; the loop ends in the error.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct StrategyDecisionFailed {
    /// The node that the call belongs to; the thread fills it in as it records the event.
    pub node_id: Option<NodeId>,
    /// The call.
    pub call_id: CallId,
    /// Why.
    pub error: ExecutionError,
}

/// The decision of a strategy of the application. Tool calls of the last answer that it does not run get a result that
/// says so, so that none is left without one.
// There is one at a time.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum StrategyDecision {
    /// Call a model.
    CallModel {
        /// Messages of the user or the assistant that join the conversation first; text only.
        messages: Vec<Arc<Message>>,
        /// The model; that of the node when absent.
        model: Option<ModelChoice>,
        /// The tools that are offered, of those that the node offers; all of them when absent.
        tools: Option<Vec<String>>,
    },
    /// Run tools: those of the last answer with the ids of these calls; or, if it requested none, these calls, as if an
    /// answer had requested them.
    RunTools {
        /// The calls.
        calls: Vec<ToolCall>,
    },
    /// This is the answer of the node.
    Answer {
        /// The text; a message of the assistant, unless the last answer says the same.
        content: String,
    },
    /// The node fails.
    Fail {
        /// Why.
        error: ExecutionError,
    },
}
