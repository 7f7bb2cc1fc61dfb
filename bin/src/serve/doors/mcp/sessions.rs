//! The sessions of clients that begin with `initialize`. They are in memory: a client whose session is gone begins another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::serve::guard::By;
use crate::serve::problem::{Kind, Problem};

/// The most sessions. Beyond it, one without an open request ends for a new one: of the token that has the most, the one
/// that was used least recently. If all have open requests, it is one of a token that has more than the one that begins.
const SESSIONS_MAX: usize = 256;
/// The most requests of a session at once.
const OPEN_MAX: usize = 64;
/// The most tools of a token that read at once: some compute for long.
const READING_MAX: usize = 4;
/// How long such a tool waits for others of its token.
const READING_WAIT_MAX: Duration = Duration::from_secs(30);

/// The sessions of a server.
pub(crate) struct Sessions {
    pub(super) manager: Arc<LocalSessionManager>,
    known: Arc<Mutex<Known>>,
    /// The places of tokens whose tools read.
    reading: Mutex<HashMap<Option<By>, Arc<Semaphore>>>,
}

struct Known<O = Option<By>> {
    entries: HashMap<String, Entry<O>>,
    /// How many sessions are about to begin.
    n_reserved: usize,
}

struct Entry<O = Option<By>> {
    owner: O,
    used: Instant,
    n_open: usize,
}

/// The place of a session that is about to begin.
pub(super) struct Place {
    known: Arc<Mutex<Known>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.known.lock().n_reserved -= 1;
    }
}

/// A request of a session.
pub(super) struct OpenRequest {
    id: String,
    known: Arc<Mutex<Known>>,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(entry) = self.known.lock().entries.get_mut(&self.id) {
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
        let known = Known { entries: HashMap::new(), n_reserved: 0 };
        Self { manager: Arc::new(manager), known: Arc::new(Mutex::new(known)), reading: Mutex::default() }
    }
}

impl Sessions {
    /// Makes room for one more of this owner.
    ///
    /// # Errors
    /// `Busy` if all of them have open requests, and none is of an owner with more.
    pub(super) async fn make_room(&self, owner: Option<By>) -> Result<Place, Problem> {
        let ended = {
            let begun = self.manager.sessions.read().await;
            let mut known = self.known.lock();
            known.entries.retain(|id, _| begun.contains_key(id.as_str()));
            let ended = known.make_room(owner)?;
            known.n_reserved += 1;
            ended
        };
        let place = Place { known: self.known.clone() };
        if let Some(id) = ended {
            let _ = self.manager.close_session(&id.into()).await;
        }
        Ok(place)
    }

    /// Stores who began a session.
    pub(super) fn begun(&self, id: &str, owner: Option<By>) {
        self.known.lock().entries.insert(id.to_owned(), Entry { owner, used: Instant::now(), n_open: 0 });
    }

    /// Waits until one more tool of this owner may read.
    ///
    /// # Errors
    /// `Busy` if others of the owner read for too long.
    pub(super) async fn read(&self, owner: Option<By>) -> Result<OwnedSemaphorePermit, Problem> {
        let places = {
            let mut reading = self.reading.lock();
            reading.retain(|_, places| Arc::strong_count(places) > 1);
            reading.entry(owner).or_insert_with(|| Arc::new(Semaphore::new(READING_MAX))).clone()
        };
        let permit = tokio::time::timeout(READING_WAIT_MAX, places.acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or_else(|| {
            let detail = format!("{READING_MAX} tools of this token read, which is the limit: try again later");
            Problem::new(Kind::Busy, detail)
        })
    }

    /// Forgets a session that its client has ended.
    pub(super) fn ended(&self, id: &str) {
        self.known.lock().entries.remove(id);
    }

    /// Begins a request of a session.
    ///
    /// # Errors
    /// `NotFound` if there is no such session, or another token began it; `Busy` if it has too many open requests.
    pub(super) fn open(&self, id: &str, by: Option<By>) -> Result<OpenRequest, Problem> {
        let mut known = self.known.lock();
        let entry = known.entries.get_mut(id).filter(|entry| entry.owner == by);
        let missing = || Problem::new(Kind::NotFound, "there is no such session: begin one with `initialize`");
        let entry = entry.ok_or_else(missing)?;
        if entry.n_open >= OPEN_MAX {
            let detail =
                format!("the session has {OPEN_MAX} requests in progress, which is the limit: wait for one to end");
            return Err(Problem::new(Kind::Busy, detail));
        }
        entry.n_open += 1;
        Ok(OpenRequest { id: id.to_owned(), known: self.known.clone() })
    }
}

impl<O: Copy + PartialEq> Known<O> {
    /// Removes a session if there is no place for one more; returns it.
    fn make_room(&mut self, owner: O) -> Result<Option<String>, Problem> {
        if self.entries.len() + self.n_reserved < SESSIONS_MAX {
            return Ok(None);
        }
        let n_of = |owner: O| self.entries.values().filter(|entry| entry.owner == owner).count();
        let n_own = n_of(owner);
        let may_end = |entry: &Entry<O>| entry.n_open == 0 || n_of(entry.owner) > n_own + 1;
        let ending = self.entries.iter().filter(|(_, entry)| may_end(entry));
        let first = ending.min_by_key(|(_, entry)| (entry.n_open > 0, usize::MAX - n_of(entry.owner), entry.used));
        let id = first.map(|(id, _)| id.clone()).ok_or_else(|| {
            Problem::new(Kind::Busy, format!("{SESSIONS_MAX} sessions have requests in progress, which is the limit"))
        })?;
        self.entries.remove(&id);
        Ok(Some(id))
    }
}

#[cfg(test)]
mod tests;
