//! The event vocabulary. Each event has a documented name, a stored code and a version, all in the one table at the
//! end of `table.rs`.

mod agent;
mod attempt_usage;
mod call;
mod child;
mod graph;
mod guardrail;
mod hook;
mod interaction;
mod llm;
mod model;
mod node;
mod older;
mod queue;
mod run;
mod signal;
mod stored;
mod strategy;
mod table;
mod thread;
mod tool;
mod wait;

pub use agent::*;
pub use attempt_usage::AttemptUsage;
pub use call::CallEvent;
pub use child::*;
pub use graph::*;
pub use guardrail::*;
pub use hook::*;
pub use interaction::*;
pub use llm::*;
pub use model::{CacheMode, ModelChoice, ReasoningOptions, RequestChange};
pub use node::*;
pub use queue::*;
pub use run::*;
pub use signal::*;
pub use strategy::*;
pub use table::*;
pub use thread::*;
pub use tool::*;
pub use wait::*;
