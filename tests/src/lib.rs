//! Whole-system scenarios, crash tests and benches of rethread.

// All of this is code of tests, where a panic is how a check fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod attack;
pub mod binary;
pub mod disturbed;
pub mod fuzz;
pub mod http;
pub mod needs;
pub mod provider;
pub mod proxy;
pub mod random;
pub mod receiver;
pub mod skew;
pub mod workflows;
