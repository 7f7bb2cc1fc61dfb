//! What a request is about: the workflow of the path, for the caller.

use std::sync::Arc;

use actix_web::HttpRequest;
use rethread::operate::Labels;
use rethread::{Hash, ThreadHandle, ThreadId, Workflow};
use rethread_events::trace_context::TraceParent;

use super::PROTOCOL_VERSION;
use super::error::{Error, Fault};
use crate::serve::doors::caller::Caller;
use crate::serve::problem::{Kind, Problem};
use crate::serve::request;
use crate::serve::server::Shared;
use crate::serve::workflows::{Chosen, For};

/// The header, and the parameter, with the version of the protocol.
const VERSION: &str = "a2a-version";

/// A workflow as an agent, for the sender of a request.
#[derive(Clone)]
pub(super) struct Agent {
    pub(super) server: Shared,
    pub(super) caller: Caller,
    /// The name of the workflow.
    pub(super) name: String,
    /// The span of the client.
    pub(super) span: Option<TraceParent>,
}

impl Agent {
    /// The agent that the path names.
    pub(super) fn of(server: &Shared, request: &HttpRequest) -> Self {
        Self {
            server: server.clone(),
            caller: Caller::of(server, request),
            name: request::named(request, "workflow"),
            span: request::traceparent(request),
        }
    }

    /// The newest definition of the workflow.
    pub(super) async fn workflow(&self) -> Result<Arc<Workflow>, Problem> {
        let chosen = Chosen { workflow: Some(self.name.clone()), hash: None, definition: None };
        let workflow = chosen.find(&self.server, For::Running).await?;
        workflow.ok_or_else(|| Problem::new(Kind::NoWorkflow, "name a workflow in the path"))
    }

    /// A thread of the caller.
    ///
    /// # Errors
    /// `NoThread`, also if it has other labels than the token.
    pub(super) async fn thread(&self, id: ThreadId) -> Result<ThreadHandle, Problem> {
        self.caller.thread(&self.server, id).await
    }

    /// The labels of threads that the caller starts.
    pub(super) fn labels(&self) -> Labels {
        self.caller.labels.clone()
    }

    pub(super) fn check_may_run(&self) -> Result<(), Problem> {
        self.caller.check_may_run(&self.server)
    }

    /// Names those whose messages have ids of their own: one agent, and one sender.
    pub(super) fn scope(&self) -> String {
        format!("a2a {} {} {}", self.name, self.caller.labels, self.caller.principal())
    }

    /// The idempotency key of a message in its thread. Other senders have other keys.
    pub(super) fn key_of(&self, message: &str) -> String {
        format!("{}{message}", self.key_prefix())
    }

    fn key_prefix(&self) -> String {
        let hash = Hash::of(self.scope().as_bytes()).to_string();
        format!("a2a-{}-", hash.get(..16).unwrap_or(&hash))
    }
}

/// Returns the id of the message whose key this is, if it came through this door.
pub(super) fn message_of_key(key: &str) -> Option<&str> {
    let (hash, id) = key.strip_prefix("a2a-")?.split_at_checked(16)?;
    let id = id.strip_prefix('-')?;
    hash.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(id)
}

/// Checks the version of the protocol that the client speaks. Without one it is 0.3, as the protocol says.
pub(super) fn check_version(request: &HttpRequest) -> Result<(), Error> {
    let header = request.headers().get(VERSION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let version = header.or_else(|| parameter(request)).unwrap_or_default();
    let version = version.trim();
    let is_served = version == PROTOCOL_VERSION
        || version.strip_prefix(PROTOCOL_VERSION).and_then(|rest| rest.strip_prefix('.')).is_some_and(is_patch);
    if is_served {
        return Ok(());
    }
    let spoken = if version.is_empty() { "0.3, as no version is given".to_owned() } else { request::cut(version) };
    let detail = format!("the client speaks {spoken}: send the header `A2A-Version: {PROTOCOL_VERSION}`");
    Err(Error::new(Fault::Version, detail))
}

fn is_patch(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn parameter(request: &HttpRequest) -> Option<String> {
    let pairs = request.query_string().split('&').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(name, _)| name.eq_ignore_ascii_case(VERSION));
    values.next().map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests;
