//! The sessions of a client. Each is a thread, which has the same id; before the first prompt there is no thread yet.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{SessionId, TerminalId};
use parking_lot::Mutex;
use rethread::{ThreadHandle, ThreadId};
use tokio_util::sync::CancellationToken;

use super::error;
use super::translate::Translator;

/// The most sessions of a client that are open.
const SESSIONS_MAX: usize = 256;

/// The sessions that are open.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<SessionId, Arc<Session>>>);

/// A session that is open.
pub(super) struct Session {
    pub(super) id: SessionId,
    /// The id that its thread has, or will have; another one at a server.
    pub(super) begins_as: ThreadId,
    /// The folder of its tools.
    pub(super) folder: PathBuf,
    thread: Mutex<Option<ThreadHandle>>,
    /// What the client was told. Locked by the turn that tells it.
    pub(super) told: tokio::sync::Mutex<Translator>,
    /// Cancelled by the client.
    cancel: Mutex<CancellationToken>,
    has_prompt: AtomicBool,
    /// The tool calls that run, and the terminals that the client made for them.
    pub(super) running: Mutex<Running>,
}

/// The tool calls that run, by their keys.
#[derive(Default)]
pub(super) struct Running {
    /// The ids by which the client knows them.
    pub(super) calls: HashMap<String, String>,
    pub(super) terminals: HashMap<String, TerminalId>,
}

/// The prompt in progress of a session.
pub(super) struct Prompting(Arc<Session>);

impl Drop for Prompting {
    fn drop(&mut self) {
        self.0.has_prompt.store(false, Ordering::Relaxed);
    }
}

impl Sessions {
    /// Opens a session; one of this id that is open stays as it is.
    ///
    /// # Errors
    /// If too many are open.
    pub(super) fn open(
        &self,
        id: SessionId,
        begins_as: ThreadId,
        folder: PathBuf,
        thread: Option<ThreadHandle>,
    ) -> Result<Arc<Session>, Error> {
        let mut sessions = self.0.lock();
        if let Some(session) = sessions.get(&id) {
            return Ok(session.clone());
        }
        if sessions.len() >= SESSIONS_MAX {
            let detail = format!("{SESSIONS_MAX} sessions are open, which is the limit: close one with session/close");
            return Err(error::refused(detail));
        }
        let session = Arc::new(Session {
            id: id.clone(),
            begins_as,
            told: tokio::sync::Mutex::new(Translator::of(folder.clone())),
            folder,
            thread: Mutex::new(thread),
            cancel: Mutex::default(),
            has_prompt: AtomicBool::new(false),
            running: Mutex::default(),
        });
        sessions.insert(id, session.clone());
        Ok(session)
    }

    /// Returns an open session.
    pub(super) fn get(&self, id: &SessionId) -> Result<Arc<Session>, Error> {
        self.0.lock().get(id).cloned().ok_or_else(|| error::no_session(&id.0))
    }

    /// Returns the session of a thread.
    pub(super) fn of_thread(&self, thread: ThreadId) -> Option<Arc<Session>> {
        let sessions = self.0.lock();
        let is_of = |session: &&Arc<Session>| {
            session.begins_as == thread || session.thread().is_some_and(|own| own.id() == thread)
        };
        sessions.values().find(is_of).cloned()
    }

    pub(super) fn close(&self, id: &SessionId) {
        self.0.lock().remove(id);
    }
}

impl Session {
    /// Its thread; `None` before the first prompt.
    pub(super) fn thread(&self) -> Option<ThreadHandle> {
        self.thread.lock().clone()
    }

    pub(super) fn begun(&self, thread: ThreadHandle) {
        *self.thread.lock() = Some(thread);
    }

    /// Begins a prompt.
    ///
    /// # Errors
    /// If one is in progress.
    pub(super) fn begin_prompt(self: &Arc<Self>) -> Result<Prompting, Error> {
        if self.has_prompt.swap(true, Ordering::Relaxed) {
            return Err(error::refused("a prompt of this session is in progress: wait for its end, or cancel it"));
        }
        Ok(Prompting(self.clone()))
    }

    /// What is cancelled by the next cancellation.
    pub(super) fn cancellation(&self) -> CancellationToken {
        self.cancel.lock().clone()
    }

    /// Cancels what was begun before.
    pub(super) fn cancel(&self) {
        std::mem::take(&mut *self.cancel.lock()).cancel();
    }
}
