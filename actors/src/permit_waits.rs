//! How long a call has waited for concurrency permits, shared by its executor and its thread.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rethread_events::ids::{CallId, ThreadId};
use rethread_events::thread::{PermitObserver, PermitWait, Permits};
use tokio_util::sync::DropGuard;

use crate::clock::millis;
use crate::port::Mailbox;

/// A call that waits for a concurrency permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCall {
    /// The thread.
    pub thread: ThreadId,
    /// The call.
    pub call: CallId,
    /// Whether it waits for the `concurrency_max` of a tool; otherwise for
    /// [`crate::Limits::concurrent_model_calls_max`] or a limit of its profile.
    pub is_tool: bool,
    /// How long it has waited.
    pub waiting_ms: u64,
}

/// The calls of a runtime that wait for permits.
#[derive(Debug, Default)]
pub(crate) struct WaitingCalls(Mutex<BTreeMap<Attempt, Wait>>);

type Attempt = (ThreadId, CallId, u32);

#[derive(Debug)]
struct Wait {
    is_tool: bool,
    since: Instant,
}

impl WaitingCalls {
    /// How many calls of models, and of tools, wait.
    pub(crate) fn count(&self) -> (usize, usize) {
        let waits = self.0.lock();
        let n_tools = waits.values().filter(|wait| wait.is_tool).count();
        (waits.len() - n_tools, n_tools)
    }

    /// Returns those of a thread, or all, by thread and call.
    pub(crate) fn list(&self, of: Option<ThreadId>) -> Vec<WaitingCall> {
        let waits = self.0.lock();
        let wanted = waits.iter().filter(|((thread, ..), _)| of.is_none_or(|of| of == *thread));
        let listed = wanted.map(|((thread, call, _), wait)| WaitingCall {
            thread: *thread,
            call: *call,
            is_tool: wait.is_tool,
            waiting_ms: millis(wait.since.elapsed()),
        });
        listed.collect()
    }
}

/// The entry of an attempt among the calls that may wait.
pub(crate) struct WaitPlace {
    pub(crate) among: Arc<WaitingCalls>,
    pub(crate) attempt: Attempt,
    pub(crate) is_tool: bool,
}

impl WaitPlace {
    fn begin(&self, since: Instant) {
        self.among.0.lock().insert(self.attempt, Wait { is_tool: self.is_tool, since });
    }

    fn end(&self) {
        self.among.0.lock().remove(&self.attempt);
    }
}

/// The waits of one attempt at a call.
pub(crate) struct PermitWaits {
    place: WaitPlace,
    /// Notified when a wait ends.
    thread: Arc<dyn Mailbox>,
    waits: Mutex<Waits>,
}

#[derive(Default)]
struct Waits {
    /// When the current wait began.
    now: Option<Instant>,
    /// The duration of all waits that have ended.
    ended: Duration,
}

impl PermitWaits {
    pub(crate) fn new(place: WaitPlace, thread: Arc<dyn Mailbox>) -> Arc<Self> {
        Arc::new(Self { place, thread, waits: Mutex::default() })
    }
}

impl Drop for PermitWaits {
    fn drop(&mut self) {
        if self.waits.lock().now.is_some() {
            self.place.end();
        }
    }
}

impl PermitObserver for PermitWaits {
    fn wait_begins(&self) {
        let mut waits = self.waits.lock();
        if waits.now.is_none() {
            let since = Instant::now();
            waits.now = Some(since);
            self.place.begin(since);
        }
    }

    fn wait_ends(&self) {
        let mut waits = self.waits.lock();
        let Some(since) = waits.now.take() else { return };
        waits.ended += since.elapsed();
        self.place.end();
        drop(waits);
        self.thread.permit_granted();
    }

    fn waited_ms(&self) -> u64 {
        let waits = self.waits.lock();
        millis(waits.ended + waits.now.as_ref().map_or(Duration::ZERO, Instant::elapsed))
    }
}

/// A call that runs; dropping it cancels the call.
pub(crate) struct RunningCall {
    pub(crate) _cancel: DropGuard,
    pub(crate) waits: Arc<PermitWaits>,
}

/// The calls of a thread that run, by call and attempt.
#[derive(Default)]
pub(crate) struct RunningCalls(pub(crate) HashMap<(CallId, u32), RunningCall>);

impl Permits for RunningCalls {
    fn wait(&self, call: CallId, attempt: u32) -> PermitWait {
        let Some(running) = self.0.get(&(call, attempt)) else { return PermitWait::Waited { ms: 0 } };
        let waits = running.waits.waits.lock();
        if waits.now.is_some() { PermitWait::Waiting } else { PermitWait::Waited { ms: millis(waits.ended) } }
    }
}

impl Deref for RunningCalls {
    type Target = HashMap<(CallId, u32), RunningCall>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for RunningCalls {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
