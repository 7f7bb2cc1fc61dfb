//! One of several runtimes on one log: which threads it runs, and what it asks the others to do.
//!
//! A thread belongs to the runtime that has its slot ([`rethread_store::SharedLog`]). That one runs it, and inputs go through
//! it from everywhere. What a thread has come to can be read at every runtime, from its own copy of the log.

mod request;
mod serve;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::ids::{Hash, Seq, ThreadId};
use rethread_events::text::with_sources;
use rethread_events::workflow::Workflow;
use rethread_store::{Asked, Share, SharedLog, Slot, Slots, Store, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock;
use crate::definitions::Held;
use crate::error::{ControlError, ReadError, RuntimeError, StartThreadError};
use crate::registry::ThreadRegistry;
use crate::runtime::Runtime;
use crate::start_thread::StartThread;
use crate::thread_handle::ThreadHandle;
pub(crate) use request::{Parts, Request};
use request::{Response, StartRequest};
pub(crate) use serve::serve;

/// For how long a runtime is looked for that runs a thread: longer than a take-over takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause until it is asked again.
const PAUSE: Duration = Duration::from_millis(50);
/// How often slots are looked for that can be given away.
const GIVE: Duration = Duration::from_millis(250);

/// The log as one of several runtimes has it.
pub(crate) struct Shared {
    log: Arc<dyn SharedLog>,
    share: watch::Receiver<Share>,
    /// The slots that are being given away: no thread of them begins here any more.
    giving: Mutex<Slots>,
}

impl Shared {
    /// `None` if this runtime has the log alone.
    pub(crate) fn of(store: &dyn Store) -> Option<Self> {
        let log = store.shared()?;
        Some(Self { share: log.share(), log, giving: Mutex::default() })
    }

    /// Whether this runtime runs the thread.
    pub(crate) fn has(&self, thread: ThreadId) -> bool {
        let slot = Slot::of(thread);
        self.share.borrow().slots.has(slot) && !self.giving.lock().has(slot)
    }
}

/// How long an operation looks for the runtime of a thread.
pub(crate) struct Patience(Option<Instant>);

impl Patience {
    pub(crate) fn new() -> Self {
        Self(None)
    }

    /// Returns true after a pause, if it failed because the thread belongs to another runtime than it seemed.
    pub(crate) async fn goes_on<T>(&mut self, registry: &ThreadRegistry, failed: Result<T, &RuntimeError>) -> bool {
        let Err(RuntimeError::Elsewhere(_)) = failed else { return false };
        let until = *self.0.get_or_insert_with(|| Instant::now() + PATIENCE);
        if registry.is_shutting_down() || Instant::now() > until {
            return false;
        }
        registry.sleep(PAUSE).await;
        true
    }
}

impl ThreadRegistry {
    /// Whether the thread belongs to this runtime.
    pub(crate) fn has_slot(&self, thread: ThreadId) -> bool {
        self.services.shared.as_ref().is_none_or(|shared| shared.has(thread))
    }

    /// Returns an id for a new thread, which this runtime can run.
    pub(crate) fn new_thread_id(&self) -> ThreadId {
        let id = clock::new_thread_id();
        self.services.shared.as_ref().map_or(id, |shared| shared.share.borrow().place(id))
    }

    /// # Errors
    /// `Shared` if several runtimes have the log: `what` is done by one that has it alone.
    pub(crate) fn alone(&self, what: &'static str) -> Result<(), RuntimeError> {
        self.services.shared.as_ref().map_or(Ok(()), |_| Err(RuntimeError::Shared { what }))
    }
}

/// Asks the runtime of a thread.
///
/// # Errors
/// `Elsewhere` if no runtime did it: it can be asked again. Others as the runtime that runs it has them.
pub(crate) async fn ask(
    registry: &ThreadRegistry,
    thread: ThreadId,
    request: &Request,
) -> Result<Option<Seq>, ControlError> {
    let elsewhere = || RuntimeError::Elsewhere(thread);
    let Some(shared) = &registry.services.shared else { return Err(elsewhere().into()) };
    let bytes = serde_json::to_vec(request).map_err(|error| RuntimeError::Remote {
        thread,
        message: format!(
            "this input cannot be sent to another process ({error}): give it to the one that runs the thread"
        ),
        next_move: crate::error::NextMove::ChangeRequest,
    })?;
    match shared.log.ask(thread, bytes.into()).await.map_err(RuntimeError::from)? {
        Asked::Busy | Asked::Nobody => Err(elsewhere().into()),
        Asked::Answered(bytes) => match serde_json::from_slice::<Response>(&bytes) {
            Ok(response) => response.into_result(thread),
            Err(error) => Err(RuntimeError::Remote {
                thread,
                message: format!("its answer cannot be read by this version: {error}"),
                next_move: crate::error::NextMove::TellOperator,
            }
            .into()),
        },
    }
}

/// Starts a thread at the runtime to which its id belongs.
pub(crate) async fn start(
    runtime: &Runtime,
    id: ThreadId,
    start: StartThread,
) -> Result<ThreadHandle, StartThreadError> {
    let registry = runtime.registry();
    let mut patience = Patience::new();
    let mut request = None;
    loop {
        let started = if registry.has_slot(id) {
            runtime.start_here(id, start.clone()).await
        } else {
            if request.is_none() {
                request = Some((start.request_parts(runtime)?, runtime.keep(start.workflow_of()).await?));
            }
            let Some((parts, _)) = &request else { continue };
            let asked = ask(registry, id, &Request::Start(StartRequest::new(id, parts))).await;
            asked.map(|_| runtime.thread(id)).map_err(|error| StartThreadError::of_begin(id, error))
        };
        let failed = match &started {
            Err(StartThreadError::Runtime(error)) => Err(error),
            _ => Ok(()),
        };
        if !patience.goes_on(registry, failed).await {
            return started;
        }
    }
}

/// Stores a definition. One runtime adds to the versions of a name: the one that has the slot of the name.
pub(crate) async fn keep(runtime: &Runtime, workflow: &Arc<Workflow>) -> Result<Held, RuntimeError> {
    let (registry, services) = (runtime.registry(), runtime.services());
    let mut name = [0; 16];
    name.copy_from_slice(&Hash::of(workflow.name().as_bytes()).as_bytes()[..16]);
    let place = ThreadId::from_bytes(name);
    let held = services.definitions.hold(workflow.hash());
    let mut patience = Patience::new();
    let mut is_put = false;
    loop {
        let kept = if registry.has_slot(place) {
            runtime.keep_here(workflow).await.map(drop)
        } else {
            if !std::mem::replace(&mut is_put, true) {
                let (services, workflow) = (services.clone(), workflow.clone());
                runtime.blocking(move || services.definitions.put(&workflow)).await??;
            }
            let request = Request::Keep { place, workflow: workflow.hash() };
            ask(registry, place, &request).await.map(drop).map_err(|error| RuntimeError::of_control(place, &error))
        };
        match &kept {
            Ok(()) => {
                services.definitions.set_named(workflow);
                return Ok(held);
            }
            Err(error) if patience.goes_on(registry, Err::<(), _>(error)).await => {}
            Err(error) => return Err(error.clone()),
        }
    }
}

/// Continues the threads of slots that this runtime gets, and gives slots away that others should have. Until the runtime
/// shuts down.
pub(crate) async fn run(registry: Arc<ThreadRegistry>) {
    let Some(shared) = &registry.services.shared else { return };
    let mut changes = shared.share.clone();
    let mut before = Slots::default();
    while !registry.is_shutting_down() {
        let share = *changes.borrow_and_update();
        if !share.slots.without(&before).is_empty() {
            Runtime::continue_threads(&registry);
        }
        before = share.slots;
        let wait = if share.n_excess > 0 {
            give_idle(&registry, shared, &share).await;
            GIVE
        } else {
            Duration::from_secs(1)
        };
        if let Ok(Err(_)) = tokio::time::timeout(wait, changes.changed()).await {
            return;
        }
    }
}

/// Gives those slots away of which no thread is in memory.
async fn give_idle(registry: &Arc<ThreadRegistry>, shared: &Shared, share: &Share) {
    let idle = |slots: Slots| slots.without(&registry.live_ids().into_iter().map(Slot::of).collect());
    let leaving = idle(share.leaving());
    *shared.giving.lock() = leaving;
    // None of them begins here from now on.
    let leaving = idle(leaving);
    if !leaving.is_empty()
        && let Err(error) = shared.log.give(leaving).await
    {
        tracing::warn!(error = with_sources(&error), "threads stay here that others should have");
    }
    *shared.giving.lock() = Slots::default();
}

/// The error of the runtime in this one, if it is one.
pub(crate) fn of_runtime<T>(answered: &Result<T, ControlError>) -> Result<(), &RuntimeError> {
    match answered {
        Err(ControlError::Read(ReadError::Runtime(error))) => Err(error),
        _ => Ok(()),
    }
}

/// Whether the log refused it because another runtime was first.
fn conflict(error: &RuntimeError) -> Option<(Seq, Seq)> {
    match error {
        RuntimeError::Store(StoreError::Conflict { expected, actual, .. }) => Some((*expected, *actual)),
        _ => None,
    }
}
