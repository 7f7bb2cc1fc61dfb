//! Doors: protocols of others over the same threads, tokens and limits as `/v1`. `[serve.doors]` of rethread.toml opens
//! them.

pub(crate) mod a2a;
#[cfg(feature = "acp")]
pub(crate) mod acp;
pub(crate) mod agui;
mod answer_text;
mod caller;
mod client_tools;
mod conversation;
mod following;
mod given;
pub(crate) mod mcp;
pub(crate) mod openai;
mod question;
mod streamed_text;

use actix_web::Error;
use serde::Deserialize;

use super::problem::{Kind, Problem};

/// The protocol of another product that the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// The Model Context Protocol.
    Mcp,
    /// Chat Completions and Responses, as OpenAI defines them.
    Openai,
    /// The Agent-User Interaction Protocol.
    Agui,
    /// The Agent2Agent protocol, in one of its bindings.
    A2a(a2a::Binding),
}

impl Door {
    /// Returns the door that a route belongs to, by its pattern; `None` for the API and the page.
    pub(crate) fn of(pattern: &str) -> Option<Self> {
        let is_of = |paths: &[&str], door| paths.contains(&pattern).then_some(door);
        is_of(&openai::PATHS, Self::Openai)
            .or_else(|| is_of(&agui::PATHS, Self::Agui))
            .or_else(|| is_of(&mcp::PATHS, Self::Mcp))
            .or_else(|| is_of(&a2a::PATHS, Self::A2a(a2a::Binding::JsonRpc)))
            .or_else(|| is_of(&a2a::REST_PATHS, Self::A2a(a2a::Binding::Rest)))
    }
}

/// Returns a problem as the error of the protocol that the client speaks.
pub(crate) fn error(door: Option<Door>, problem: Problem) -> Error {
    match door {
        Some(Door::Mcp) => mcp::Error::from(problem).into(),
        Some(Door::Openai) => openai::Error::from(problem).into(),
        Some(Door::Agui) => agui::Error::from(problem).into(),
        Some(Door::A2a(binding)) => a2a::Error::from(problem).in_binding(binding).into(),
        None => problem.into(),
    }
}

/// Which doors are open, and their settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doors {
    mcp: bool,
    openai: bool,
    agui: bool,
    a2a: bool,
    /// The workflow whose agent card is at the root of the server.
    pub(crate) a2a_workflow: Option<String>,
    /// The address that agent cards name, without a path.
    pub(crate) a2a_url: Option<String>,
    /// Whether a run is cancelled if the client that waits for its answer disconnects.
    pub(crate) cancel_on_disconnect: bool,
}

impl Doors {
    /// Checks that a door is open.
    pub(crate) fn check(&self, door: Door) -> Result<(), Problem> {
        let (is_open, name) = match door {
            Door::Mcp => (self.mcp, "mcp"),
            Door::Openai => (self.openai, "openai"),
            Door::Agui => (self.agui, "agui"),
            Door::A2a(_) => (self.a2a, "a2a"),
        };
        if is_open {
            return Ok(());
        }
        let detail = format!("this door is closed: set `{name} = true` under `[serve.doors]` in rethread.toml");
        Err(Problem::new(Kind::NotFound, detail))
    }
}

/// `[serve.doors]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Table {
    mcp: Option<bool>,
    openai: Option<bool>,
    agui: Option<bool>,
    a2a: Option<bool>,
    a2a_workflow: Option<String>,
    a2a_url: Option<String>,
    cancel_on_disconnect: bool,
}

impl Table {
    /// Checks the address.
    pub(crate) fn checked(self) -> Result<Self, String> {
        match self.a2a_url.as_deref().filter(|url| !a2a::card::is_address(url)) {
            Some(url) => Err(format!(
                "`[serve.doors]` has `a2a_url = \"{url}\"`: expected a scheme, a host and a port if it needs one, such as \
                 \"https://agents.example.com\""
            )),
            None => Ok(self),
        }
    }

    /// Returns the doors. A door that is not mentioned is open on a loopback address only.
    pub(crate) fn doors(self, is_loopback: bool) -> Doors {
        let is_open = |door: Option<bool>| door.unwrap_or(is_loopback);
        Doors {
            mcp: is_open(self.mcp),
            openai: is_open(self.openai),
            agui: is_open(self.agui),
            a2a: is_open(self.a2a),
            a2a_workflow: self.a2a_workflow,
            a2a_url: self.a2a_url,
            cancel_on_disconnect: self.cancel_on_disconnect,
        }
    }
}
