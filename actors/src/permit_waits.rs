//! How long a call has waited for concurrency permits, shared by its executor and its thread.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rethread_events::ids::CallId;
use rethread_events::thread::{PermitObserver, PermitWait, Permits};
use tokio_util::sync::DropGuard;

use crate::metrics::OpenCall;
use crate::tool_executor::millis;

/// The waits of one attempt at a call.
pub(crate) struct PermitWaits {
    n_waiting: Arc<AtomicUsize>,
    /// Called when a wait ends: the deadline of the call is known again.
    ended: Box<dyn Fn() + Send + Sync>,
    waits: Mutex<Waits>,
}

#[derive(Default)]
struct Waits {
    /// The wait that has not ended, and its place in the count of waiting calls.
    now: Option<(Instant, OpenCall)>,
    /// All waits that have ended.
    ended: Duration,
}

impl PermitWaits {
    pub(crate) fn new(n_waiting: Arc<AtomicUsize>, ended: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { n_waiting, ended: Box::new(ended), waits: Mutex::default() })
    }
}

impl PermitObserver for PermitWaits {
    fn wait_begins(&self) {
        self.waits.lock().now.get_or_insert_with(|| (Instant::now(), OpenCall::of(&self.n_waiting)));
    }

    fn wait_ends(&self) {
        let mut waits = self.waits.lock();
        let Some((since, _)) = waits.now.take() else { return };
        waits.ended += since.elapsed();
        drop(waits);
        (self.ended)();
    }

    fn waited_ms(&self) -> u64 {
        let waits = self.waits.lock();
        millis(waits.ended + waits.now.as_ref().map_or(Duration::ZERO, |(since, _)| since.elapsed()))
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
