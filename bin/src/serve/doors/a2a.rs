//! The A2A door: a workflow as an agent of the Agent2Agent protocol 1.0, over JSON-RPC and over HTTP with JSON.
//! docs/doors/a2a.md says what it does and what is different.

mod agent;
pub(crate) mod card;
mod error;
mod key;
mod list;
mod message;
pub(crate) mod rest;
pub(crate) mod rpc;
mod send;
mod stream;
mod task;
mod wire;

pub(crate) use self::error::{Binding, Envelope, Error};
pub(crate) use self::list::Lists;

/// The routes of agent cards and of the JSON-RPC binding.
pub(crate) const PATHS: [&str; 3] =
    ["/.well-known/agent-card.json", "/a2a/{workflow}/.well-known/agent-card.json", "/a2a/{workflow}"];

/// The routes of the binding HTTP+JSON.
pub(crate) const REST_PATHS: [&str; 7] = [
    "/a2a/{workflow}/message:send",
    "/a2a/{workflow}/message:stream",
    "/a2a/{workflow}/tasks",
    "/a2a/{workflow}/tasks/{task}",
    "/a2a/{workflow}/tasks/{task}/pushNotificationConfigs",
    "/a2a/{workflow}/tasks/{task}/pushNotificationConfigs/{config}",
    "/a2a/{workflow}/extendedAgentCard",
];

/// The version of the protocol.
const PROTOCOL_VERSION: &str = "1.0";
