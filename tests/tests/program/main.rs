//! The real program where the world is rough: killed at random instants, on a damaged log, fed rubbish, with programs of others.
//! What takes long and waits much stands together, so that it runs side by side.

// The whole program is a test, its helpers included.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod agent_task;
mod bad_input;
mod damage;
mod fuzz;
mod kill;
mod kill_graphs;
mod mcp_reference;
mod stream;
mod workers;
