//! The properties of a tool that the core uses.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The recovery class of a call whose result was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// It only reads: run it again.
    Safe,
    /// Running it again with the same key changes nothing: do so.
    Idempotent,
    /// Never run it again: the call ends as failed with the kind `indeterminate`.
    #[default]
    AtMostOnce,
}

/// What a person has to do with the calls of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonRole {
    /// Nothing: it runs.
    #[default]
    None,
    /// Approves of each call before it runs.
    Approves,
    /// Gives the result: it never runs.
    Answers,
}

/// Where the MCP server of a tool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpPlace {
    /// A process of this machine, on its standard streams.
    Process,
    /// An address, over HTTP.
    Http {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
}
