//! The machine is driven by a script; what it prints is the assertion. Whatever the script, the laws hold.

mod bench;
mod family;
mod laws;

mod agent_loop;
mod agents;
mod answers;
mod approval;
mod asking;
mod bounds;
mod branches;
mod branches_inside;
mod cancel;
mod checkpoints;
mod children;
mod client_tools;
mod contexts;
mod control;
mod conversation_limits;
mod conversations;
mod custom;
mod ends;
mod flow;
mod for_each;
mod fork;
mod guardrails;
mod handoffs;
mod hook_limits;
mod hook_surroundings;
mod hooks;
mod informing;
mod instructions;
mod interaction;
mod joins;
mod judging;
mod limits;
mod loops;
mod messages;
mod migration;
mod named_conversations;
mod node_retry;
mod outputs;
mod panel;
mod past;
mod plan;
mod processors;
mod property;
mod queues;
mod recovery;
mod relay;
mod requests;
mod rerun;
mod routes;
mod scopes;
mod signals;
mod sizes;
mod steering;
mod steps;
mod sub_workflows;
mod summaries;
mod timeouts;
mod tool_node;
mod tools;
mod totals;
mod waits;

use super::*;
use crate::codec::OrderedMap;
use crate::event::{ContextItem, Event, ForkChanges, LlmCallCompleted};
use crate::fault::{ErrorKind, ExecutionError};
use crate::ids::{CallId, Hash, ToolName};
use crate::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use crate::tool::Recovery;
use crate::workflow;
use bench::{Bench, Toolbox};
use expect_test::{Expect, expect};
use family::Family;

/// One model node with all tools, three calls, two tools at once.
const ONE_LLM: &str = "
version: '1'
name: one
nodes:
  - id: ask
    llm: {provider: mock, model: m, user_prompt: '{{ input }}', tool_mode: auto, max_iterations: 3, concurrent_tools: 2}
";
