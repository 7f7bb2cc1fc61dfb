//! Requests and notifications of a server to this client.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rethread_events::json::Json;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorData, FormElicitationCapability, Implementation, ProgressNotificationParam, ProgressToken, RequestId,
    UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use tokio_util::sync::CancellationToken;

use super::server::Server;
use crate::{Question, Reply, ToolContext};

/// The open calls of a connection, for messages of the server about them.
#[derive(Default)]
pub(super) struct Calls(Mutex<BTreeMap<u64, Open>>);

struct Open {
    /// Under which names the server knows it; absent while it is being sent.
    sent: Option<(RequestId, ProgressToken)>,
    cx: ToolContext,
}

impl Calls {
    /// Registers a call that is about to be sent; it is open until the guard is dropped. A server may ask about it
    /// before its request id is known here.
    pub(super) fn open(self: &Arc<Self>, cx: &ToolContext) -> OpenCall {
        let mut calls = self.0.lock();
        let number = calls.last_key_value().map_or(0, |(number, _)| number + 1);
        calls.insert(number, Open { sent: None, cx: cx.clone() });
        OpenCall { calls: Arc::clone(self), number }
    }

    /// Returns the call that a server's request is about; `None` if that is not certain. Over standard streams the
    /// server does not name it, and calls of all threads use one connection: then it is the only open call, or unknown.
    fn call_of_request(&self, origin: Option<&InboundStreamOrigin>) -> Option<ToolContext> {
        let calls = self.0.lock();
        match origin {
            Some(InboundStreamOrigin::OutboundRequest(id)) => {
                let named = calls.values().find(|call| call.sent.as_ref().is_some_and(|(request, _)| request == id));
                named.or_else(|| only_item(calls.values().filter(|call| call.sent.is_none())))
            }
            _ => only_item(calls.values()),
        }
        .map(|call| call.cx.clone())
    }

    /// The call that this progress is of; one that is still being sent, when no other can be meant.
    fn call_of_progress(&self, token: &ProgressToken) -> Option<ToolContext> {
        let calls = self.0.lock();
        let named = calls.values().find(|call| call.sent.as_ref().is_some_and(|(_, progress)| progress == token));
        let found = named.or_else(|| only_item(calls.values().filter(|call| call.sent.is_none())));
        found.map(|call| call.cx.clone())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

fn only_item<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

pub(super) struct OpenCall {
    calls: Arc<Calls>,
    number: u64,
}

impl OpenCall {
    /// It was sent under these names.
    pub(super) fn sent(&self, request: RequestId, progress: ProgressToken) {
        if let Some(call) = self.calls.0.lock().get_mut(&self.number) {
            call.sent = Some((request, progress));
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.calls.0.lock().remove(&self.number);
    }
}

pub(super) struct Handler {
    server: Weak<Server>,
    name: String,
    calls: Arc<Calls>,
}

impl Handler {
    pub(super) fn new(server: &Arc<Server>) -> (Self, Arc<Calls>) {
        let calls = Arc::new(Calls::default());
        let name = server.config.name.clone();
        (Self { server: Arc::downgrade(server), name, calls: Arc::clone(&calls) }, calls)
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(elicitation);
        ClientConfig::new(capabilities, Implementation::new("rethread", env!("CARGO_PKG_VERSION")))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(cx) = self.calls.call_of_request(context.extensions.get::<InboundStreamOrigin>()) else {
            // Without a person to ask, the answer is no.
            tracing::warn!(
                server = self.name,
                "an elicitation of an MCP server is declined: its call cannot be determined"
            );
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        Ok(ask(&self.name, request, &cx, context.ct.clone()).await)
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        if let Some(cx) = self.calls.call_of_progress(&params.progress_token) {
            let far = match params.total {
                Some(total) => format!("{} of {total}", params.progress),
                None => params.progress.to_string(),
            };
            cx.progress.say(match params.message {
                Some(message) => format!("{far}: {message}"),
                None => far,
            });
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        if let Some(server) = self.server.upgrade() {
            server.request_relist();
        }
    }
}

/// Asks the person of a call; without one, and when asking fails, the answer is no.
pub(super) async fn ask(
    server: &str,
    request: ElicitRequestParams,
    cx: &ToolContext,
    cancel: CancellationToken,
) -> ElicitResult {
    let Some(person) = cx.ask.clone() else { return ElicitResult::new(ElicitationAction::Decline) };
    let (message, schema, url) = match request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            (message, serde_json::to_value(requested_schema).ok().map(Json::from), None)
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => (message, None, Some(url)),
        _ => return ElicitResult::new(ElicitationAction::Decline),
    };
    let question =
        Question { key: Arc::clone(&cx.key), from: server.to_owned(), message, schema, url, cancel: cancel.clone() };
    let reply = tokio::select! {
        reply = person.ask(question) => reply,
        () = cancel.cancelled() => Ok(Reply::Cancel),
        () = cx.cancel.cancelled() => Ok(Reply::Cancel),
    };
    match reply {
        Ok(Reply::Accept(content)) => ElicitResult::new(ElicitationAction::Accept).with_content(content.into_value()),
        Ok(Reply::Decline) => ElicitResult::new(ElicitationAction::Decline),
        Ok(Reply::Cancel) => ElicitResult::new(ElicitationAction::Cancel),
        Err(error) => {
            tracing::warn!(server, %error, "cannot ask the question of an MCP server");
            ElicitResult::new(ElicitationAction::Cancel)
        }
    }
}
