//! The threads of this process: which are live, on which event loop each runs, and their activation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::Addr;
use actix_rt::ArbiterHandle;
use rethread_events::ids::ThreadId;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::task::TaskTracker;

use crate::branch_states::BranchStates;
use crate::changed_queues::ChangedQueues;
use crate::clock;
use crate::error::RuntimeError;
use crate::live_threads::{Address, LiveThreads};
use crate::llm_executor::LlmExecutor;
use crate::mode::Mode;
use crate::recent_ends::RecentEnds;
use crate::services::Services;
use crate::shared::Held;
use crate::thread_actor::messages::{Begin, Origin};
use crate::thread_actor::{Activation, ThreadActor};
use crate::thread_waits::ThreadWaits;
use crate::timers::{NextInLog, Timers};
use crate::tool_executor::ToolExecutor;
use crate::waiters::Waiters;

/// The threads of a runtime.
pub(crate) struct ThreadRegistry {
    pub(crate) services: Arc<Services>,
    /// The callers that wait until a thread is at rest.
    pub(crate) waiters: Waiters,
    /// The ends of threads, for the callers that started them.
    pub(crate) recent_ends: Arc<RecentEnds>,
    /// When threads that are not live must be activated.
    pub(crate) timers: Timers,
    pub(crate) next_in_log: NextInLog,
    /// The states of the branches of the threads in memory.
    pub(crate) branch_states: Arc<BranchStates>,
    /// Runs that wait in queues.
    pub(crate) queues: ChangedQueues,
    /// Whether threads wait for the end of a thread.
    pub(crate) thread_waits: ThreadWaits,
    /// Tasks that propagate a pause or an end to branches, children and threads that wait; a shutdown waits for them.
    pub(crate) telling: TaskTracker,
    live: LiveThreads<Live>,
    slots: OnceCell<Vec<Slot>>,
    next_slot: AtomicUsize,
}

/// A live thread.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) actor: Addr<ThreadActor>,
    /// One permit for each message that may wait in its mailbox. The mailbox itself accepts one more from each new
    /// clone of its address, even if it is full.
    pub(crate) places: Arc<Semaphore>,
}

impl PartialEq for Live {
    fn eq(&self, other: &Self) -> bool {
        self.actor == other.actor
    }
}

impl Address for Live {
    fn is_connected(&self) -> bool {
        self.actor.connected()
    }
}

/// One arbiter with the executors that serve its threads.
pub(crate) struct Slot {
    pub(crate) arbiter: ArbiterHandle,
    pub(crate) llm: Addr<LlmExecutor>,
    pub(crate) tools: Addr<ToolExecutor>,
}

impl ThreadRegistry {
    pub(crate) fn new(services: Arc<Services>) -> Arc<Self> {
        Arc::new(Self {
            live: LiveThreads::new(services.limits.live_threads_max),
            thread_waits: ThreadWaits::new(services.shared.is_some()),
            services,
            waiters: Waiters::default(),
            recent_ends: Arc::default(),
            timers: Timers::default(),
            next_in_log: NextInLog::default(),
            branch_states: Arc::default(),
            queues: ChangedQueues::default(),
            telling: TaskTracker::new(),
            slots: OnceCell::new(),
            next_slot: AtomicUsize::new(0),
        })
    }

    pub(crate) fn set_slots(&self, slots: Vec<Slot>) {
        // Called once, by the thread that made the arbiters.
        let _ = self.slots.set(slots);
    }

    /// Returns the slot with this number; numbers beyond the last wrap around.
    pub(crate) fn slot(&self, number: usize) -> Option<&Slot> {
        let slots = self.slots.get()?;
        slots.get(number % slots.len().max(1))
    }

    /// Waits on any kind of thread; returns at once if the arbiters have stopped.
    pub(crate) async fn sleep(&self, pause: Duration) {
        if let Some(slot) = self.slot(0).filter(|_| !pause.is_zero()) {
            let (sender, over) = oneshot::channel::<()>();
            slot.arbiter.spawn(async move {
                tokio::time::sleep(pause).await;
                drop(sender);
            });
            // Closed when the time has come.
            let _ = over.await;
        }
    }

    /// Begins a new thread on an arbiter that the registry chooses, and takes `begin` then. It is left if the thread is live.
    pub(crate) fn begin(self: &Arc<Self>, id: ThreadId, begin: &mut Option<Box<Begin>>) -> Result<(), RuntimeError> {
        if let (Some(shared), Some(begin)) = (&self.services.shared, &begin)
            && let Origin::Moment { fork, .. } = &begin.origin
            && let Some(branch) = &fork.branch
        {
            shared.branch_begins(id, branch.owner);
        }
        let needs_room = begin.as_ref().is_some_and(|begin| begin.needs_room);
        self.live.begin(id, needs_room, || self.start_actor(id, begin.take(), None))
    }

    /// Returns the actor of a thread, which is activated if it is not live.
    pub(crate) fn activate(self: &Arc<Self>, id: ThreadId) -> Result<Live, RuntimeError> {
        self.activate_with(id, None)
    }

    /// As `activate`, after a start; the permit is released when the thread was folded.
    pub(crate) fn activate_with_permit(
        self: &Arc<Self>,
        id: ThreadId,
        place: OwnedSemaphorePermit,
    ) -> Result<(), RuntimeError> {
        self.activate_with(id, Some(place)).map(drop)
    }

    fn activate_with(
        self: &Arc<Self>,
        id: ThreadId,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<Live, RuntimeError> {
        self.live.activate(id, || self.start_actor(id, None, place))
    }

    /// Gives a message to the actor of a thread, see [`LiveThreads::hand_over`].
    pub(crate) async fn hand_over<T, F>(
        self: &Arc<Self>,
        id: ThreadId,
        give: impl FnMut(Live, Option<OwnedSemaphorePermit>) -> F,
    ) -> Result<T, RuntimeError>
    where
        F: Future<Output = Result<T, Live>>,
    {
        let start = || {
            let places = self.places();
            let place = places.clone().try_acquire_owned().map_err(|_| RuntimeError::ShuttingDown)?;
            Ok((self.start_actor_with(id, None, None, places)?, place))
        };
        self.live.hand_over(id, start, give).await
    }

    fn start_actor(
        self: &Arc<Self>,
        id: ThreadId,
        begin: Option<Box<Begin>>,
        loading: Option<OwnedSemaphorePermit>,
    ) -> Result<Live, RuntimeError> {
        self.start_actor_with(id, begin, loading, self.places())
    }

    fn start_actor_with(
        self: &Arc<Self>,
        id: ThreadId,
        begin: Option<Box<Begin>>,
        loading: Option<OwnedSemaphorePermit>,
        places: Arc<Semaphore>,
    ) -> Result<Live, RuntimeError> {
        if !self.has_slot(id) {
            return Err(RuntimeError::Elsewhere(id));
        }
        let number = self.next_slot.fetch_add(1, Ordering::Relaxed);
        let slot = self.slot(number).ok_or(RuntimeError::ShuttingDown)?;
        let with = Activation { id, slot: number, begin, loading, places: places.clone() };
        let actor = ThreadActor::start_on(&slot.arbiter, self.clone(), with);
        Ok(Live { actor, places })
    }

    /// The permits of a mailbox.
    fn places(&self) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(self.services.limits.mailbox_max))
    }

    /// Forgets the actor of a thread, if it is this one.
    pub(crate) fn forget(&self, id: ThreadId, addr: &Addr<ThreadActor>) {
        self.live.forget(id, |live| live.actor == *addr);
        self.queues.has_room();
    }

    /// Returns all live actors.
    pub(crate) fn live(&self) -> Vec<Addr<ThreadActor>> {
        self.live.all().into_iter().map(|live| live.actor).collect()
    }

    /// Returns the ids of all live threads.
    pub(crate) fn live_ids(&self) -> Vec<ThreadId> {
        self.live.ids()
    }

    /// Returns how many threads are live.
    pub(crate) fn n_live(&self) -> usize {
        self.live.len()
    }

    /// Returns whether only the places that are reserved for needed threads are free.
    pub(crate) fn is_crowded(&self) -> bool {
        self.live.is_crowded()
    }

    /// Returns how many more threads may be live, without the places reserved for needed threads.
    pub(crate) fn room(&self) -> usize {
        self.live.room()
    }

    /// Returns whether a queued run of this thread may begin here. One that was imported, or that no caller uses, may
    /// not.
    pub(crate) fn may_begin_queued(&self, id: ThreadId) -> bool {
        self.is_mine(id) && (self.services.mode == Mode::Run || self.is_live(id))
    }

    /// The actor of a thread, if it is live.
    pub(crate) fn actor(&self, id: ThreadId) -> Option<Addr<ThreadActor>> {
        self.live.get(id).map(|live| live.actor)
    }

    /// Whether the thread is live.
    pub(crate) fn is_live(&self, id: ThreadId) -> bool {
        self.live.has(id)
    }

    /// Returns whether this process runs the thread, once the thread has something to do. It does not run one that was
    /// imported before it had ended, until a caller uses it here: the original may continue elsewhere.
    pub(crate) fn is_mine(&self, id: ThreadId) -> bool {
        self.services.mode.runs() && !self.services.imported.has(id) && self.has_slot(id)
    }

    /// Whether the thread belongs to this runtime.
    pub(crate) fn has_slot(&self, thread: ThreadId) -> bool {
        self.services.shared.as_ref().is_none_or(|shared| shared.has(thread))
    }

    /// Keeps the slot of a thread with this runtime until the result is dropped; `None` if the slot is that of another one.
    pub(crate) fn hold(&self, thread: ThreadId) -> Option<Option<Held>> {
        match &self.services.shared {
            None => Some(None),
            Some(shared) => shared.hold(thread).map(Some),
        }
    }

    /// Returns an id for a new thread, which this runtime can run.
    pub(crate) fn new_thread_id(&self) -> ThreadId {
        let id = clock::new_thread_id();
        self.services.shared.as_ref().map_or(id, |shared| shared.place_new(id))
    }

    /// # Errors
    /// `Shared` if several runtimes have the log: `what` is done by one that has it alone.
    pub(crate) fn alone(&self, what: &'static str) -> Result<(), RuntimeError> {
        self.services.shared.as_ref().map_or(Ok(()), |_| Err(RuntimeError::Shared { what }))
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.live.is_closed()
    }

    /// Begins a shutdown. Returns true for the first caller.
    pub(crate) fn begin_shutdown(&self) -> bool {
        self.live.close()
    }
}
