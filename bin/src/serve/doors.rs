//! Doors: protocols of others over the same threads, tokens and limits as `/v1`. `[serve.doors]` of rethread.toml opens
//! them.

pub(crate) mod acp;
pub(crate) mod agui;
mod conversation;
mod following;
pub(crate) mod mcp;
pub(crate) mod openai;
mod question;
mod streamed_text;

use std::path::Path;

use actix_web::Error;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::problem::{Kind, Problem};
use crate::exit::Failure;
use crate::serve_table::{self, Serve};

/// The protocol of another product that the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// The Model Context Protocol.
    Mcp,
    /// Chat Completions and Responses, as OpenAI defines them.
    Openai,
    /// The Agent-User Interaction Protocol.
    Agui,
}

impl Door {
    /// Returns the door that a route belongs to, by its pattern; `None` for the API and the page.
    pub(crate) fn of(pattern: &str) -> Option<Self> {
        let is_of = |paths: &[&str], door| paths.contains(&pattern).then_some(door);
        is_of(&openai::PATHS, Self::Openai)
            .or_else(|| is_of(&agui::PATHS, Self::Agui))
            .or_else(|| is_of(&mcp::PATHS, Self::Mcp))
    }
}

/// Returns a problem as the error of the protocol that the client speaks.
pub(crate) fn error(door: Option<Door>, problem: Problem) -> Error {
    match door {
        Some(Door::Mcp) => mcp::Error::from(problem).into(),
        Some(Door::Openai) => openai::Error::from(problem).into(),
        Some(Door::Agui) => agui::Error::from(problem).into(),
        None => problem.into(),
    }
}

/// Which doors are open, and their settings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doors {
    mcp: bool,
    openai: bool,
    agui: bool,
    /// Whether a run is cancelled if the client that waits for its answer disconnects.
    pub(crate) cancel_on_disconnect: bool,
}

impl Doors {
    /// Checks that a door is open.
    pub(crate) fn check(self, door: Door) -> Result<(), Problem> {
        let (is_open, name) = match door {
            Door::Mcp => (self.mcp, "mcp"),
            Door::Openai => (self.openai, "openai"),
            Door::Agui => (self.agui, "agui"),
        };
        if is_open {
            return Ok(());
        }
        let detail = format!("this door is closed: set `{name} = true` under `[serve.doors]` in rethread.toml");
        Err(Problem::new(Kind::NotFound, detail))
    }
}

/// `[serve.doors]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    mcp: Option<bool>,
    openai: Option<bool>,
    agui: Option<bool>,
    cancel_on_disconnect: bool,
}

/// Returns the doors of a configuration. A door that it does not mention is open on a loopback address only.
///
/// # Errors
/// For what [`check`] refuses.
pub(crate) fn read(file: Option<&Path>, is_loopback: bool) -> Result<Doors, Failure> {
    let Table { mcp, openai, agui, cancel_on_disconnect } = file.map_or_else(|| Ok(Table::default()), table)?;
    let is_open = |door: Option<bool>| door.unwrap_or(is_loopback);
    Ok(Doors { mcp: is_open(mcp), openai: is_open(openai), agui: is_open(agui), cancel_on_disconnect })
}

/// Checks the table of a file.
///
/// # Errors
/// For an unknown key and for a value of another type (exit code 3).
pub(crate) fn check(file: &Path) -> Result<(), Failure> {
    table(file).map(drop)
}

fn table(file: &Path) -> Result<Table, Failure> {
    let Serve { doors, client_tools: IgnoredAny } = serve_table::read(file)?;
    Ok(doors)
}
