//! The server itself, and what it has.

use rethread::llm::Provider;
use rethread::operate::Labels;
use rethread::{Position, Time};
use serde::Serialize;
use utoipa::ToSchema;

use crate::serve::tokens::Scope;
use crate::views::Tool;

/// The tools.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tools {
    pub(crate) tools: Vec<Tool>,
}

/// A profile, without anything that is secret or says where secrets are.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) name: String,
    #[schema(value_type = String)]
    pub(crate) provider: Provider,
    pub(crate) model: String,
    /// Whether it is used where none is named.
    pub(crate) is_default: bool,
    /// The longest conversation it takes, in tokens, where the profile says so.
    pub(crate) context_tokens_max: Option<u64>,
    /// The profiles it turns to when it stays down.
    pub(crate) fallback: Vec<String>,
}

/// The profiles.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    pub(crate) profiles: Vec<Profile>,
}

/// The version and settings of the server, and the permissions of the caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Info {
    /// Always `rethread`.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// What the caller may do: `read`, `operate` or `admin`.
    #[schema(value_type = String)]
    pub(crate) scope: Scope,
    /// The labels that its token is bound to: it sees and starts only threads that have them.
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub(crate) labels: Labels,
    /// Whether the server only shows.
    pub(crate) read_only: bool,
    /// The position that the next event will get.
    #[schema(value_type = u64)]
    pub(crate) next_position: Position,
    /// The server's clock.
    #[schema(value_type = String)]
    pub(crate) now: Time,
    /// How many open calls wait for a concurrency permit, of the threads that the caller sees. `GET /v1/threads/{thread}` names those of a thread.
    pub(crate) calls_waiting: CallsWaiting,
}

/// Numbers of open calls that wait for a concurrency permit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallsWaiting {
    pub(crate) model: usize,
    pub(crate) tool: usize,
}

/// Whether the server works.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Health {
    /// `ok`.
    pub(crate) status: &'static str,
    /// The id of the process, which distinguishes the server of this log from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
}

/// The permissions of a session's token.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    /// `read`, `operate` or `admin`.
    #[schema(value_type = String)]
    pub(crate) scope: Scope,
}
