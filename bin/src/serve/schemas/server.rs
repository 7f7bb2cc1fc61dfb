//! The server itself, and what it has.

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A tool that threads can use.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    name: String,
    description: Option<String>,
    /// What recovery may do with a call whose answer was lost: `safe`, `idempotent` or `at_most_once`.
    recovery: String,
    /// What a person has to do with its calls: `none`, `approves` or `answers`.
    approval: String,
    /// The option of the command line that offers it, where one does.
    allowed_by: Option<String>,
    timeout_ms: Option<u64>,
    /// The JSON Schema of its arguments.
    #[schema(value_type = Object)]
    parameters: Value,
}

/// The tools.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tools {
    tools: Vec<Tool>,
}

/// A profile, without anything that is secret or says where secrets are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    name: String,
    provider: String,
    model: String,
    /// Whether it is used where none is named.
    is_default: bool,
    /// The longest conversation it takes, in tokens, where the profile says so.
    context_tokens_max: Option<u64>,
    /// The profiles it turns to when it stays down.
    fallback: Vec<String>,
}

/// The profiles.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    profiles: Vec<Profile>,
}

/// What the server is, and what whoever asks may do.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Info {
    /// Always `rethread`.
    name: String,
    version: String,
    /// What the caller may do: `read`, `operate` or `admin`.
    scope: String,
    /// Whether the server only shows.
    read_only: bool,
    /// The position that the next event will get.
    next_position: u64,
    /// The server's clock.
    now: String,
    /// How many open calls wait for a concurrency permit. `GET /v1/threads/{thread}` names those of a thread.
    calls_waiting: CallsWaiting,
}

/// Numbers of open calls that wait for a concurrency permit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallsWaiting {
    model: u64,
    tool: u64,
}

/// Whether the server works.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Health {
    /// `ok`.
    status: String,
    /// The process, by which the server of a log is told from others.
    pid: Option<u32>,
}

/// What the token of a session allows.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    /// `read`, `operate` or `admin`.
    scope: String,
}
