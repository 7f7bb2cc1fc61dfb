//! The sessions of clients that begin with `initialize`. They are in memory: a client whose session is gone begins another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use crate::serve::guard::By;
use crate::serve::problem::{Kind, Problem};

/// The most sessions. Beyond it, one without an open request ends for a new one: of the token that has the most, the one
/// that was used least recently.
const SESSIONS_MAX: usize = 256;
/// The most requests of a session at once.
const OPEN_MAX: usize = 64;

/// The sessions of a server.
pub(crate) struct Sessions {
    pub(super) manager: Arc<LocalSessionManager>,
    entries: Arc<Mutex<HashMap<String, Entry>>>,
}

struct Entry {
    owner: Option<By>,
    used: Instant,
    n_open: usize,
}

/// A request of a session.
pub(super) struct OpenRequest {
    id: String,
    entries: Arc<Mutex<HashMap<String, Entry>>>,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(entry) = self.entries.lock().get_mut(&self.id) {
            entry.n_open -= 1;
            entry.used = Instant::now();
        }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        let mut manager = LocalSessionManager::default();
        // A run may say nothing for hours.
        manager.session_config.keep_alive = None;
        Self { manager: Arc::new(manager), entries: Arc::default() }
    }
}

impl Sessions {
    /// Makes room for one more.
    ///
    /// # Errors
    /// `Busy` if all of them have open requests.
    pub(super) async fn make_room(&self) -> Result<(), Problem> {
        let known = self.manager.sessions.read().await;
        self.entries.lock().retain(|id, _| known.contains_key(id.as_str()));
        let n = known.len();
        drop(known);
        if n < SESSIONS_MAX {
            return Ok(());
        }
        let id = self.take_one().ok_or_else(|| {
            Problem::new(Kind::Busy, format!("{SESSIONS_MAX} sessions have requests in progress, which is the limit"))
        })?;
        let _ = self.manager.close_session(&id.into()).await;
        Ok(())
    }

    fn take_one(&self) -> Option<String> {
        let mut entries = self.entries.lock();
        let n_of = |owner: Option<By>| entries.values().filter(|entry| entry.owner == owner).count();
        let idle = entries.iter().filter(|(_, entry)| entry.n_open == 0);
        let (id, _) = idle.min_by_key(|(_, entry)| (usize::MAX - n_of(entry.owner), entry.used))?;
        let id = id.clone();
        entries.remove(&id);
        Some(id)
    }

    /// Stores who began a session.
    pub(super) fn begun(&self, id: &str, owner: Option<By>) {
        self.entries.lock().insert(id.to_owned(), Entry { owner, used: Instant::now(), n_open: 0 });
    }

    /// Forgets a session that its client has ended.
    pub(super) fn ended(&self, id: &str) {
        self.entries.lock().remove(id);
    }

    /// Begins a request of a session.
    ///
    /// # Errors
    /// `NotFound` if there is no such session, or another token began it; `Busy` if it has too many open requests.
    pub(super) fn open(&self, id: &str, by: Option<By>) -> Result<OpenRequest, Problem> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(id).filter(|entry| entry.owner == by);
        let missing = || Problem::new(Kind::NotFound, "there is no such session: begin one with `initialize`");
        let entry = entry.ok_or_else(missing)?;
        if entry.n_open >= OPEN_MAX {
            let detail =
                format!("the session has {OPEN_MAX} requests in progress, which is the limit: wait for one to end");
            return Err(Problem::new(Kind::Busy, detail));
        }
        entry.n_open += 1;
        Ok(OpenRequest { id: id.to_owned(), entries: self.entries.clone() })
    }
}
