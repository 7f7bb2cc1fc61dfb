//! The AG-UI door: a workflow as an agent of the Agent-User Interaction Protocol 1.0. docs/doors/agui.md says what it does and
//! what is different.

mod answers;
mod asked;
mod begin;
mod error;
mod event;
mod input;
mod interrupts;
mod ledger;
mod run;
mod shared_state;
mod subagent;
mod subagents;
mod translate;

pub(crate) use self::begin::Locks;
pub(crate) use self::error::Error;
pub(crate) use self::run::create;

/// The routes of the door.
pub(crate) const PATHS: [&str; 1] = ["/agui/{workflow}"];

/// The version of the protocol.
const PROTOCOL_VERSION: &str = "1.0";
/// The header of a response that names the thread.
const THREAD: &str = "x-rethread-thread";
