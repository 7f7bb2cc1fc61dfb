//! The MCP door: workflows and debugging commands as tools, for clients of the Model Context Protocol, over HTTP at `/mcp`
//! and over stdio with `rethread mcp`. docs/doors/mcp.md says what it does and what is different.

mod cancellations;
mod debug;
mod error;
mod handler;
mod http;
mod log;
mod made;
mod question;
mod resources;
mod result;
mod run;
mod sessions;
pub(crate) mod stdio;
mod tasks;
mod tool_questions;
mod tools;

pub(crate) use self::error::Error;
pub(crate) use self::http::handle;
pub(crate) use self::sessions::Sessions;

/// The routes of the door.
pub(crate) const PATHS: [&str; 1] = ["/mcp"];
