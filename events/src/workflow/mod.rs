//! Workflow definitions: immutable, validated, content-addressed values. They store configuration and execute
//! nothing.

mod actions;
mod agents;
mod builder;
mod child;
mod child_definition;
mod definition;
mod derive;
mod ends;
mod fault;
mod file;
mod flow;
mod graph;
mod guardrails;
mod models;
mod names;
mod node;
pub(crate) mod processors;
mod queue;
mod retry;
pub(crate) mod search;
pub(crate) mod signal;
mod spec;
mod strategy;
mod validate;
pub(crate) mod wait;

#[cfg(test)]
mod tests;

pub use crate::event::WorkflowRef;
pub use actions::{
    AnswerKind, ContextProcessorNode, InteractionMessage, LlmNode, NodeOperation, Repair, ToolNode,
    UserInteractionNode, VariableAssignment,
};
pub(crate) use agents::handoff_tool;
pub use agents::{AGENT_TASK, OfferedAgent};
pub use builder::AgentBuilder;
pub use child::StartThreadNode;
pub use definition::Workflow;
pub use fault::{FAULTS_MAX, Fault, Faults, Place};
pub use file::{FILE_BYTES_MAX, json_schema, locate, parse, parse_in};
pub use flow::{
    ConditionNode, Edge, ForkNode, JoinMode, JoinNode, LoopEndNode, RouteCondition, RouteNode, SubWorkflowNode,
};
pub use graph::Graph;
pub(crate) use guardrails::CHECKED;
pub use guardrails::GuardrailSpec;
pub use models::{Budget, Judge, Off, Summary, ThreadLimits, TokenLimit, nanousd};
pub(crate) use names::{is_tool_name, is_variable_name};
pub use node::{Body, LoopNode, Marker, Node, NodeKind, ParallelNode};
pub(crate) use processors::{ProcessorTask, SUMMARIZE, processor_task, summary_of};
pub use processors::{built_in_processors, is_built_in_processor};
pub use queue::Queue;
pub use retry::{Jitter, RetryPolicy};
pub use search::{SEARCH_MAX, Search, SearchError, entry as search_entry};
pub use signal::{SIGNAL_FIELDS_MAX, SIGNAL_NAME_BYTES_MAX, SignalNode, is_signal_name};
pub use spec::{
    FORMAT_VERSION, HOOK_TIMEOUT_MS_DEFAULT, LOOP_ITERATIONS_MAX, MAX_ITERATIONS_DEFAULT, MAX_ITERATIONS_MAX,
    SubWorkflow, WorkflowSpec,
};
pub use strategy::{CustomStrategy, MultiLlm, PlanAndExecute, Strategy, StrategyModel};
pub use validate::{Env, NamedModel, Unknown};
pub use wait::{WAIT_MS_MAX, WaitNode};
pub(crate) use wait::{time_of_day, time_zone};
