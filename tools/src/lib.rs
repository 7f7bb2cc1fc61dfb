//! The tools of rethread for agents.
//!
//! A [`Tool`] is a name, a schema and a function. A [`Registry`] holds the tools of a process and runs one call at a
//! time: it checks the arguments, enforces the limits, catches panics, and always returns an answer or an
//! [`ExecutionError`]. This crate knows nothing of threads, the log or models: the caller passes a [`ToolContext`] and
//! gets a [`ToolOutput`].
//!
//! ```
//! use rethread_tools::{Registry, Tool, ToolContext, ToolOutput, Workspace};
//! use rethread_events::tool::Recovery;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Add {
//!     /// The first number.
//!     a: i64,
//!     /// What is added to it.
//!     b: i64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::new();
//! registry.register(
//!     Tool::from_fn("add", "Adds two whole numbers.", |args: Add, _cx| async move {
//!         Ok((args.a + args.b).to_string())
//!     })
//!     .recovery(Recovery::Safe)
//!     .timeout_ms(1_000),
//! )?;
//!
//! let folder = tempfile::tempdir()?;
//! let cx = ToolContext::new(Workspace::open(folder.path())?);
//! let sum = registry.call("add", serde_json::json!({ "a": 2, "b": 3 }), cx).await?;
//! assert_eq!(sum.text, "5");
//! # Ok(())
//! # }
//! ```
//!
//! [`ExecutionError`]: rethread_events::fault::ExecutionError

// Without all features, some shared code is unused. With all features, nothing is.
#![cfg_attr(not(all(feature = "files", feature = "mcp", feature = "sandbox", feature = "workers")), allow(dead_code))]

mod ask;
pub mod built_in;
mod call;
#[cfg(feature = "commands")]
mod command;
mod context;
#[cfg(feature = "mcp")]
pub mod mcp;
mod output;
#[cfg(feature = "commands")]
mod process;
mod progress;
mod registry;
mod schema;
#[cfg(feature = "files")]
mod skills;
mod tool;
#[cfg(feature = "files")]
mod walk;
#[cfg(feature = "workers")]
pub mod workers;
mod workspace;

pub use ask::{AskPerson, Question, Reply};
pub use built_in::{MemoryAccess, OutputPart, OutputStore};
#[cfg(feature = "commands")]
pub use command::{
    CommandLimits, CommandOptions, CommandRules, CommandsConfig, Isolation, IsolationMode, PatternError,
};
pub use context::{BeginWork, Host, ToolContext};
pub use output::{FULL_BYTES_MAX, ToolOutput, head_and_tail};
#[cfg(feature = "commands")]
pub use process::{ProcessInfo, ProcessOptions, Processes, ProcessesError};
pub use progress::Progress;
pub use registry::{Catalogue, RegisterError, Registry, UnknownTools};
pub use schema::{SchemaError, schema_of};
#[cfg(feature = "files")]
pub use skills::{SkillFault, Skills};
pub use tool::{Tool, ToolOptions};
pub use workspace::{NamedFiles, Reserved, Resolved, Workspace, WorkspaceError, Workspaces};
