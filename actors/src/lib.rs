//! A runtime that runs LLM agents as event-sourced actors, to be embedded in a service.
//!
//! ```
//! use rethread::{Runtime, Workflow};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let workflow = rethread::parse_workflow(br#"
//!         version: "1"
//!         name: greeting
//!         nodes:
//!           - id: greet
//!             llm: {provider: mock, model: scripted, user_prompt: "Greet {{ input }}",
//!                   extra: {script: {answers: [{text: "Hello, Ada!"}]}}}
//!     "#)?;
//!     let runtime = Runtime::builder().in_memory().start().await?;
//!     let thread = runtime.start_thread(workflow, "Ada").await?;
//!     let outcome = thread.outcome().await?;
//!     assert_eq!(outcome.output.unwrap(), "Hello, Ada!");
//!     runtime.shutdown().await?;
//!     Ok(())
//! }
//! ```
//!
//! The runtime brings its own threads: it works inside `#[tokio::main]`, inside actix-web, and, with
//! `futures::executor::block_on`, without any async runtime.

mod application_call;
mod archive;
mod bisect;
mod branch_states;
mod branches;
mod builder;
mod clock;
mod contained;
mod counters;
mod counting;
mod crashes;
mod definitions;
mod deliver;
mod waiters;
// Without all features, parts of what all share have no use.
mod error;
mod family;
mod fork;
mod fork_bases;
mod gc;
mod handler_call;
mod imported;
mod inbox;
mod inputs;
mod interaction;
mod kept_states;
mod limits;
mod live_threads;
mod llm_executor;
mod load;
mod memory_budget;
mod metrics;
mod mode;
mod models;
mod moments;
mod monitor;
mod node_results;
mod outcome;
mod outputs;
mod permit_waits;
mod port;
mod processor;
mod recorded;
mod recovery;
mod registry;
mod request_body;
mod rerun;
mod resume_tree;
mod runtime;
mod services;
mod snapshot_writer;
mod snapshots;
mod spans;
mod start_thread;
mod strategy;
mod subscription;
mod summary;
mod thread_actor;
mod thread_handle;
mod thread_list;
mod thread_page;
mod timers;
mod tool_asks;
mod tool_executor;
#[cfg_attr(not(feature = "full"), allow(dead_code, unused_variables))]
mod tool_services;
mod usage_pages;
mod verify;
mod workflows;

pub use archive::{ExportError, Exporter, ImportError, Imported};
pub use bisect::Bisected;
pub use builder::RuntimeBuilder;
pub use error::{ControlError, ForkError, NextMove, OpenError, ReadError, RuntimeError, StartThreadError, TooLarge};
pub use family::FamilyMember;
pub use fork::{ForkAnswer, ForkRequest};
pub use gc::{Collected, CollectedThread, Retention};
pub use inbox::{Inbox, OpenInteraction};
pub use interaction::{InteractionContext, InteractionRequest, UserInteractionHandler};
pub use limits::Limits;
pub use metrics::Metrics;
pub use mode::Mode;
pub use monitor::{LlmCall, Moment, Monitor, MonitorStats, TokenUsage, ToolCall};
pub use outcome::{Outcome, OutcomeError};
pub use permit_waits::WaitingCall;
pub use processor::ProcessorContext;
pub use recorded::{RecordError, RecordedEvent};
pub use request_body::RequestBody;
pub use rerun::{RerunReport, rerun};
pub use runtime::Runtime;
pub use start_thread::StartThread;
pub use strategy::{Strategy, StrategyContext};
pub use subscription::{Events, ThreadEnd};
pub use summary::ThreadSummary;
pub use thread_handle::ThreadHandle;
pub use thread_list::ThreadFilter;
pub use thread_page::{BranchFilter, ThreadPage, ThreadQuery};
pub use usage_pages::{UsagePage, UsageQuery};
pub use workflows::WorkflowVersions;

pub use rethread_events::codec::OrderedMap;
pub use rethread_events::event::{
    self, AnswerType, AskedTool, Decision, Event, ForkChanges, LimitRaised, OperationType,
};
pub use rethread_events::fault::{ErrorKind, ExecutionError};
pub use rethread_events::ids::{CallId, Hash, NodeId, Position, Seq, ThreadId, Time};
pub use rethread_events::json::Json;
pub use rethread_events::message::{Message, Part, Role};
pub use rethread_events::principal::Principal;
pub use rethread_events::runs::{self, NodeResult, Runs};
pub use rethread_events::text::with_sources;
pub use rethread_events::thread::rerun::{Divergence, Rerunned};
pub use rethread_events::thread::{Processed, Rejected, State, Status, Turn};
pub use rethread_events::tool::{PersonRole, Recovery};
pub use rethread_events::usage::{self, CallUsage, Purpose, UsageSums};
pub use rethread_events::workflow::parse as parse_workflow;
pub use rethread_events::workflow::{self, AgentBuilder, Faults, LlmNode, ToolNode, Workflow, nanousd};
pub use rethread_llm as llm;
pub use rethread_store as store;
pub use rethread_tools as tools;
pub use rethread_tools::{Tool, ToolContext, ToolOutput};

/// The examples of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// So is the guide that builds workflows.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/building.md")]
struct Building;
