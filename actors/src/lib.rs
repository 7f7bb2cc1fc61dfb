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
//! The runtime has its own threads: it works inside `#[tokio::main]`, inside actix-web, and, with
//! `futures::executor::block_on`, without any async runtime.
//!
//! # Contents
//!
//! | to | use |
//! |---|---|
//! | run a workflow | [`Runtime`], [`StartThread`], [`ThreadHandle`], [`Outcome`] |
//! | build a workflow | [`parse_workflow`] for a file, [`AgentBuilder`] and [`workflow`] in Rust |
//! | follow threads and read them | [`ThreadHandle::events`], [`Runtime::events`], [`Event`], [`State`], [`ThreadSummary`], [`steps`], [`usage`] |
//! | answer a person's questions | [`UserInteractionHandler`], or [`Runtime::inbox`] and [`ThreadHandle::respond`] |
//! | fork a thread | [`ThreadHandle::fork`], [`ForkRequest`] |
//! | extend agents | [`Tool`], [`Strategy`], [`Monitor`], [`RuntimeBuilder::context_processor`], [`llm::Client`] for models |
//! | extend storage | [`store::Store`] |
//! | handle errors | [`errors`] |
//! | operate and debug | [`operate`] |

#![deny(unnameable_types)]

mod application_call;
mod archive;
mod awaited_threads;
mod bisect;
mod blocking;
mod branch_states;
mod branches;
mod builder;
mod call_metrics;
mod changed_queues;
mod child_starts;
mod children;
mod clock;
mod cloud_event;
mod contained;
mod counters;
mod counting;
mod crashes;
mod definitions;
mod deliver;
mod doubtful_starts;
mod each_key;
mod waiters;
// Without all features, parts of what all share have no use.
mod erasure;
mod error;
#[cfg(feature = "jetstream")]
mod event_stream;
mod family;
mod fork;
mod fork_bases;
mod gc;
mod guardrail;
mod handler_call;
mod held_name;
mod imported;
mod inbox;
mod inbox_page;
mod inputs;
mod interaction;
mod kept_schedules;
mod kept_signals;
mod kept_states;
mod label_limits;
mod labels;
mod limits;
mod live_threads;
mod llm_executor;
mod load;
mod log_access;
mod log_follower;
mod memories;
mod memory_budget;
mod memory_tools;
mod messages;
mod metrics;
mod migrate;
mod mode;
mod models;
mod moments;
pub mod monitor;
mod node_results;
mod outcome;
mod outputs;
#[cfg(feature = "partial-values")]
mod partial_values;
mod permit_waits;
mod port;
mod processor;
mod queue_keys;
mod queues;
mod recent_ends;
mod recorded;
mod recovery;
mod registry;
mod remembered;
mod request_body;
mod request_keys;
mod rerun;
mod resume_tree;
mod run;
mod run_durations;
mod runnable;
mod runtime;
#[cfg(feature = "schedules")]
mod schedules;
mod selection;
mod send_signal;
mod sent_signals;
mod services;
mod shared;
mod short_steps;
mod signal;
mod signals;
mod snapshot_writer;
mod snapshots;
mod spans;
mod start_thread;
mod strategy;
mod stream_keys;
mod subscription;
mod summary;
mod thread_actor;
mod thread_handle;
mod thread_list;
mod thread_page;
mod thread_waits;
mod timers;
mod tool_asks;
mod tool_executor;
#[cfg_attr(not(feature = "full"), allow(dead_code, unused_variables))]
mod tool_services;
mod trace_contexts;
mod traces_of_runs;
mod trial;
mod usage_pages;
mod verify;
mod workflows;

// Run a workflow: what a service starts, and what it gets.
pub use builder::RuntimeBuilder;
pub use limits::Limits;
pub use mode::Mode;
pub use outcome::Outcome;
pub use rethread_events::thread::Status;
pub use runtime::Runtime;
pub use start_thread::StartThread;
pub use thread_handle::ThreadHandle;

// Build a workflow: from a file, or in Rust.
pub use rethread_events::workflow::parse as parse_workflow;
pub use rethread_events::workflow::{self, AgentBuilder, Workflow};

// Follow threads and read them.
pub use recorded::RecordedEvent;
pub use rethread_events::event::{self, Event};
pub use rethread_events::thread::State;
pub use rethread_events::{steps, usage};
pub use subscription::Events;
pub use summary::ThreadSummary;
pub use thread_list::ThreadFilter;

// Ids and values that all of these use.
pub use rethread_events::codec::OrderedMap;
pub use rethread_events::ids::{CallId, Hash, NodeId, Position, Seq, ThreadId, Time};
pub use rethread_events::json::Json;
pub use rethread_events::message::{Message, Part, Role};
pub use rethread_events::principal::Principal;

// Answer a person's questions.
pub use interaction::{InteractionContext, InteractionRequest, UserInteractionHandler};

// Fork a thread.
pub use fork::{ForkAnswer, ForkRequest};

// Extend agents: tools, strategies, monitors; models are `llm::Client`. [`functions`] has the rest.
pub use monitor::Monitor;
pub use rethread_events::fault::{ErrorKind, ExecutionError};
pub use rethread_events::thread::Turn;
pub use rethread_events::tool::{PersonRole, Recovery};
pub use rethread_tools::{Tool, ToolContext, ToolOutput};
pub use strategy::{Strategy, StrategyContext};

// The crates below this one, with everything that a signature here names. `store` extends storage.
pub use {rethread_events as events, rethread_llm as llm, rethread_store as store, rethread_tools as tools};

/// The error of each operation, and what the caller does next.
pub mod errors {
    pub use crate::error::{
        ControlError, ExportError, ForkError, ImportError, MigrateError, NextMove, OpenError, ReadError, RunError,
        RuntimeError, ScheduleError, SignalError, StartThreadError, TooLarge,
    };
    pub use crate::outcome::OutcomeError;
    pub use crate::recorded::RecordError;
    pub use rethread_events::label_limits::{LabelLimit, LabelLimitReached};
    pub use rethread_events::labels::LabelError;
    pub use rethread_events::text::with_sources;
    pub use rethread_events::thread::Rejected;
    pub use rethread_events::workflow::Faults;
}

/// What the functions of an application are given and answer: context processors and guardrails.
pub mod functions {
    pub use crate::guardrail::GuardrailContext;
    pub use crate::processor::ProcessorContext;
    pub use rethread_events::event::{CheckedContent, GuardrailOutcome};
    pub use rethread_events::thread::Processed;
}

/// The runs of a thread after its first one, messages to the one that is in progress, and what happens with a start for
/// which there is no room.
pub mod runs {
    pub use crate::messages::ThreadMessage;
    #[cfg(feature = "partial-values")]
    pub use crate::partial_values::{PartialValue, PartialValues};
    pub use crate::run::{AcceptedRun, RunAgain, RunRequest, RunSummary, Taken};
    pub use crate::start_thread::OnBusy;
    pub use rethread_events::event::OnMessage;
    pub use rethread_events::ids::RunId;
    pub use rethread_llm::{ConversationError, ConversationFormat, read_conversation};
}

/// For operators, debuggers and the program `rethread`: lists, exports, reruns, migrations, removal, counters.
pub mod operate {
    pub use crate::archive::{Exporter, Imported};
    pub use crate::bisect::Bisected;
    pub use crate::call_metrics::{CacheSeries, CallSeries};
    pub use crate::cloud_event::CloudEvent;
    #[cfg(feature = "jetstream")]
    pub use crate::event_stream::{EventPublisher, EventPublisherStats};
    pub use crate::family::FamilyMember;
    pub use crate::gc::{Collected, CollectedThread, Compacted, Retention};
    pub use crate::held_name::HeldName;
    pub use crate::inbox::{Inbox, OpenInteraction};
    pub use crate::inbox_page::{InboxPage, InboxPlace, InboxQuery};
    pub use crate::labels::labels_of;
    pub use crate::log_access::LogAccess;
    pub use crate::memories::MemoryNamespace;
    pub use crate::metrics::Metrics;
    pub use crate::migrate::{Migrated, MigratedThread, Migration};
    pub use crate::models::{refused_by, unfit_script};
    pub use crate::monitor::MonitorStats;
    pub use crate::permit_waits::WaitingCall;
    pub use crate::request_body::RequestBody;
    pub use crate::request_keys::{OPEN_KEYS, REQUEST_KEYS, USED_KEYS};
    pub use crate::rerun::{RerunReport, rerun};
    #[cfg(feature = "schedules")]
    pub use crate::schedules::BACKFILL_MAX;
    pub use crate::signal::{SIGNAL_ID_BYTES_MAX, SIGNAL_KEEP_MS_MAX, Signal, SignalSent};
    pub use crate::signals::SIGNAL_THREADS_MAX;
    pub use crate::subscription::{ThreadEnd, copy_log};
    pub use crate::thread_page::{BranchFilter, ThreadPage, ThreadQuery};
    pub use crate::trace_contexts::TraceContext;
    pub use crate::traces_of_runs::RunSpans;
    pub use crate::usage_pages::{UsagePage, UsageQuery};
    pub use crate::workflows::WorkflowVersions;
    pub use rethread_events::label_limits::{LabelLimits, LabelSeries, Spent};
    pub use rethread_events::labels::Labels;
    pub use rethread_events::memory;
    #[cfg(feature = "schedules")]
    pub use rethread_events::schedule::{CatchUp, Overlap, Schedule, ScheduleState};
    pub use rethread_events::thread::rerun::{Divergence, Rerunned};
    pub use rethread_events::workflow::{Search, SearchError};
}

/// The examples of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// So is the guide about conversations.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/chat.md")]
struct Chat;

/// So is the guide that builds workflows.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/building.md")]
struct Building;
