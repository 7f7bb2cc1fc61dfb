//! The pure core of rethread: the vocabulary, workflow definitions and the thread machine. No IO, no clock, no
//! async: time, ids and randomness come in as arguments.

pub mod client_tools;
pub mod codec;
pub mod event;
pub mod expression;
pub mod fault;
pub mod ids;
pub mod json;
pub mod json_text;
pub mod label_limits;
pub mod labels;
pub mod marks;
pub mod memory;
pub mod message;
pub mod principal;
pub mod queue;
#[cfg(feature = "schedules")]
pub mod schedule;
pub mod schema;
pub mod steps;
pub mod text;
pub mod thread;
pub mod tool;
pub mod trace_context;
pub mod traces;
pub mod usage;
pub mod workflow;
