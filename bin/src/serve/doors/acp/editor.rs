//! The client: what it offers, and what it is told.

use std::sync::{Arc, OnceLock};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{ClientCapabilities, SessionId, SessionNotification, SessionUpdate};
use agent_client_protocol::{Client, Error};
use tokio::sync::Semaphore;

use super::error;
use super::stdio::UPDATES_MAX;
use crate::exit::Failure;

/// The version of the protocol.
pub(super) const VERSION: ProtocolVersion = ProtocolVersion::V1;

/// The client of this process.
pub(super) struct Editor {
    /// Set by the first message.
    connection: OnceLock<ConnectionTo<Client>>,
    /// Set by `initialize`.
    capabilities: OnceLock<ClientCapabilities>,
    /// The updates that may still be sent before one of those sent is written.
    updates: Arc<Semaphore>,
}

impl Editor {
    pub(super) fn new() -> Self {
        Self {
            connection: OnceLock::new(),
            capabilities: OnceLock::new(),
            updates: Arc::new(Semaphore::new(UPDATES_MAX)),
        }
    }

    /// The updates that are not written yet.
    pub(super) fn updates(&self) -> Arc<Semaphore> {
        self.updates.clone()
    }

    pub(super) fn connected(&self, connection: &ConnectionTo<Client>) {
        self.connection.get_or_init(|| connection.clone());
    }

    /// The client says what it can do.
    ///
    /// # Errors
    /// If it says it twice.
    pub(super) fn initialized(&self, capabilities: ClientCapabilities) -> Result<(), Error> {
        self.capabilities.set(capabilities).map_err(|_| error::refused("this connection has begun with `initialize`"))
    }

    /// Checks that the client has begun.
    pub(super) fn check_initialized(&self) -> Result<(), Error> {
        let begun = self.capabilities.get().map(drop);
        begun.ok_or_else(|| error::refused("begin with `initialize`"))
    }

    /// What the client can do; nothing before `initialize`.
    pub(super) fn capabilities(&self) -> ClientCapabilities {
        self.capabilities.get().cloned().unwrap_or_default()
    }

    /// The connection.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn connection(&self) -> Result<&ConnectionTo<Client>, Failure> {
        self.connection.get().ok_or_else(|| Failure::other("there is no client"))
    }

    /// Tells an update of a session. Waits while the client does not read.
    pub(super) async fn tell(&self, session: &SessionId, update: SessionUpdate) -> Result<(), Failure> {
        let permit = self.updates.acquire().await.map_err(Failure::other)?;
        permit.forget();
        let sent = self.connection()?.send_notification(SessionNotification::new(session.clone(), update));
        sent.map_err(|error| Failure::other(format!("the client has gone: {}", error.message)))
    }
}
