//! The ACP door: an agent for editors that speak the Agent Client Protocol over stdin and stdout, `rethread acp`. Sessions
//! are threads, and prompts are runs. docs/doors/acp.md says what it does and what is different.

mod agent;
mod calls;
pub(crate) mod command;
mod editor;
mod error;
mod listing;
mod made;
mod permission;
mod prompt;
mod replay;
mod servers;
mod sessions;
mod stdio;
mod tools;
mod translate;
mod turn;
