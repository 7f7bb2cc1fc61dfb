//! What every part of one runtime shares.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix::Addr;
use actix_rt::ArbiterHandle;
use parking_lot::RwLock;
use rethread_events::event::ModelChoice;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{Hash, Seq, ThreadId, Time, ToolName};
use rethread_events::json::Json;
use rethread_events::message::ToolSpec;
use rethread_events::principal::Principal;
use rethread_events::thread::{self, ModelAnswer, ModelRequest, State, ToolFacts, Tools};
use rethread_store::{Store, StoreError};
use rethread_tools::{Catalogue, Registry, Workspace, Workspaces};
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::task::TaskTracker;

use crate::branches::ForkBaseCache;
use crate::builder::Limits;
use crate::counting::{Counting, at_most};
use crate::crashes::Crashes;
use crate::definitions::Definitions;
use crate::error::RuntimeError;
use crate::imported::ImportedThreads;
use crate::interaction::UserInteractionHandler;
use crate::kept_states::KeptStates;
use crate::llm_executor::LlmExecutor;
use crate::metrics::Counters;
use crate::models::Models;
use crate::monitor::Watching;
use crate::outputs::Outputs;
use crate::processor::Processors;
use crate::recovery::LOADS_MAX;
use crate::snapshot_writer::SnapshotWriter;
use crate::strategy::Strategies;
use crate::thread_actor::{Begin, MemoryBudget, Start, ThreadActor};
use crate::timers::Timers;
use crate::tool_executor::ToolExecutor;
use crate::tool_services::ToolServices;
use crate::waiters::Waiters;

/// The parts of one runtime.
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tools: Registry,
    pub(crate) models: Models,
    pub(crate) definitions: Definitions,
    pub(crate) handler: Option<Arc<dyn UserInteractionHandler>>,
    /// Who does what is done through a handle without a principal.
    pub(crate) principal: Principal,
    pub(crate) processors: Processors,
    pub(crate) strategies: Strategies,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) limits: Limits,
    pub(crate) waiters: Waiters,
    pub(crate) outputs: Arc<Outputs>,
    /// What runs behind the tools; absent until it is started.
    tool_services: OnceLock<(ToolServices, Handle)>,
    pub(crate) monitors: Vec<Arc<Watching>>,
    /// Whether models are told in which folder their tools work.
    workspace_in_prompt: bool,
    /// Whether spans hold what was said.
    pub(crate) content_in_spans: bool,
    counting: Counting,
    pub(crate) bases: ForkBaseCache,
    pub(crate) kept_states: KeptStates,
    pub(crate) snapshots: Arc<SnapshotWriter>,
    pub(crate) crashes: Arc<Crashes>,
    pub(crate) imported: ImportedThreads,
    /// Tasks that pass a pause or a cancellation on to branches; a shutdown waits for them.
    pub(crate) telling: TaskTracker,
    pub(crate) counters: Counters,
    pub(crate) timers: Timers,
    /// Whether threads are only looked at and told things: nothing goes on.
    pub(crate) observing: bool,
    /// Whether another process runs the threads.
    pub(crate) run_elsewhere: bool,
    /// For what the log has no room for.
    pub(crate) room: Arc<MemoryBudget>,
    /// How many model calls may run at once.
    pub(crate) model_calls: Arc<Semaphore>,
    /// How many threads may be folded at once of those that come back after a start.
    pub(crate) loads: Arc<Semaphore>,
    live: RwLock<HashMap<ThreadId, Live>>,
    workspaces: Workspaces,
    slots: OnceCell<Vec<Slot>>,
    next_slot: AtomicUsize,
    shutting_down: AtomicBool,
}

/// A live thread.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) actor: Addr<ThreadActor>,
    /// One permit for each message that may wait in its mailbox. The mailbox itself takes one more from each new clone
    /// of its address, however full it is.
    pub(crate) places: Arc<Semaphore>,
}

/// One arbiter with the executors that serve its threads.
pub(crate) struct Slot {
    pub(crate) arbiter: ArbiterHandle,
    pub(crate) llm: Addr<LlmExecutor>,
    pub(crate) tools: Addr<ToolExecutor>,
}

/// What a runtime is made of, before its arbiters run.
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) crashes: Arc<Crashes>,
    pub(crate) tools: Registry,
    pub(crate) models: Models,
    pub(crate) handler: Option<Arc<dyn UserInteractionHandler>>,
    pub(crate) principal: Principal,
    pub(crate) processors: Processors,
    pub(crate) strategies: Strategies,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) workspaces: Workspaces,
    pub(crate) limits: Limits,
    pub(crate) observing: bool,
    pub(crate) run_elsewhere: bool,
    pub(crate) workspace_in_prompt: bool,
    pub(crate) content_in_spans: bool,
    pub(crate) monitors: Vec<Arc<Watching>>,
}

impl Inner {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let snapshots = Arc::new(SnapshotWriter::new(parts.store.clone(), parts.crashes.clone()));
        Arc::new(Self {
            definitions: Definitions::new(parts.store.clone()),
            outputs: Arc::new(Outputs::new(parts.store.clone())),
            tool_services: OnceLock::new(),
            workspace_in_prompt: parts.workspace_in_prompt,
            content_in_spans: parts.content_in_spans,
            monitors: parts.monitors,
            store: parts.store,
            tools: parts.tools,
            models: parts.models,
            handler: parts.handler,
            processors: parts.processors,
            strategies: parts.strategies,
            workspace: parts.workspace,
            model_calls: Arc::new(Semaphore::new(parts.limits.concurrent_model_calls_max)),
            loads: Arc::new(Semaphore::new(LOADS_MAX)),
            room: MemoryBudget::new(parts.limits.unwritten_bytes_max),
            limits: parts.limits,
            observing: parts.observing,
            principal: parts.principal,
            run_elsewhere: parts.run_elsewhere,
            waiters: Waiters::default(),
            counting: Counting::default(),
            bases: ForkBaseCache::default(),
            kept_states: KeptStates::default(),
            snapshots,
            crashes: parts.crashes,
            imported: ImportedThreads::default(),
            telling: TaskTracker::new(),
            counters: Counters::default(),
            timers: Timers::default(),
            live: RwLock::default(),
            workspaces: parts.workspaces,
            slots: OnceCell::new(),
            next_slot: AtomicUsize::new(0),
            shutting_down: AtomicBool::new(false),
        })
    }

    pub(crate) fn set_slots(&self, slots: Vec<Slot>) {
        // Called once, by the thread that made the arbiters.
        let _ = self.slots.set(slots);
    }

    /// What runs behind the tools, and the event loop that it runs on.
    pub(crate) fn set_equipment(&self, tool_services: ToolServices, runs_on: Handle) {
        // Called once, by the thread that started it.
        let _ = self.tool_services.set((tool_services, runs_on));
    }

    #[cfg(feature = "mcp")]
    pub(crate) fn mcp_reports(&self) -> &[rethread_tools::mcp::ServerReport] {
        self.tool_services.get().map_or(&[], |(tool_services, _)| &tool_services.reports)
    }

    /// The thread has ended: what it left running ends.
    pub(crate) fn thread_ended(&self, id: ThreadId) {
        if let Some((tool_services, _)) = self.tool_services.get() {
            tool_services.thread_ended(&id.to_string());
        }
    }

    /// Ends what runs behind the tools, at most in `wait`. Blocks.
    pub(crate) fn stop_equipment(self: &Arc<Self>, wait: Duration) {
        let Some((_, runs_on)) = self.tool_services.get() else { return };
        let (sender, stopped) = std::sync::mpsc::channel();
        let inner = self.clone();
        runs_on.spawn(async move {
            if let Some((tool_services, _)) = inner.tool_services.get() {
                tool_services.stop().await;
            }
            let _ = sender.send(());
        });
        if stopped.recv_timeout(wait).is_err() {
            tracing::error!("what runs behind the tools did not end in time");
        }
    }

    /// The slot with this number; numbers beyond the last begin again at the first.
    pub(crate) fn slot(&self, number: usize) -> Option<&Slot> {
        let slots = self.slots.get()?;
        slots.get(number % slots.len().max(1))
    }

    /// Waits, whatever is around; not at all when the arbiters have stopped.
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

    /// The time, in the one place where the runtime asks for it.
    pub(crate) fn now() -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_unix_us(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// An id for a new thread.
    pub(crate) fn new_thread_id() -> ThreadId {
        ThreadId::from_bytes(*uuid::Uuid::now_v7().as_bytes())
    }

    /// Begins a new thread on an arbiter of its own choosing.
    pub(crate) fn begin(self: &Arc<Self>, id: ThreadId, begin: Begin) -> Result<(), RuntimeError> {
        self.room()?;
        // Locked while the actor is made: one that ends at once finds itself here and takes itself out.
        match self.live.write().entry(id) {
            Entry::Occupied(_) => Err(StoreError::Conflict { thread: id, expected: Seq(0), actual: Seq(1) })?,
            Entry::Vacant(vacant) => {
                vacant.insert(self.start_actor(id, Start::Begin(Box::new(begin)))?);
                Ok(())
            }
        }
    }

    /// The actor of a thread, brought back when it is not live.
    pub(crate) fn activate(self: &Arc<Self>, id: ThreadId) -> Result<Live, RuntimeError> {
        self.activate_with(id, Start::Load(None))
    }

    /// The same after a start; the place is given back when the thread was folded.
    pub(crate) fn bring_back(self: &Arc<Self>, id: ThreadId, place: OwnedSemaphorePermit) -> Result<(), RuntimeError> {
        self.activate_with(id, Start::Load(Some(place))).map(drop)
    }

    fn activate_with(self: &Arc<Self>, id: ThreadId, start: Start) -> Result<Live, RuntimeError> {
        // Locked while the actor is made, so that a thread never has two.
        match self.live.write().entry(id) {
            Entry::Occupied(live) if live.get().actor.connected() => Ok(live.get().clone()),
            Entry::Occupied(mut gone) => {
                let live = self.start_actor(id, start)?;
                gone.insert(live.clone());
                Ok(live)
            }
            Entry::Vacant(vacant) => {
                let live = self.start_actor(id, start)?;
                vacant.insert(live.clone());
                Ok(live)
            }
        }
    }

    fn start_actor(self: &Arc<Self>, id: ThreadId, start: Start) -> Result<Live, RuntimeError> {
        if self.is_shutting_down() {
            return Err(RuntimeError::ShuttingDown);
        }
        let number = self.next_slot.fetch_add(1, Ordering::Relaxed);
        let slot = self.slot(number).ok_or(RuntimeError::ShuttingDown)?;
        let inner = self.clone();
        let actor = ThreadActor::start_on(&slot.arbiter, inner, id, number, start);
        Ok(Live { actor, places: Arc::new(Semaphore::new(self.limits.mailbox_max)) })
    }

    fn room(&self) -> Result<(), RuntimeError> {
        let n = self.live.read().len();
        let n_max = self.limits.live_threads_max;
        if n >= n_max { Err(RuntimeError::Busy { what: "live threads", n, n_max }) } else { Ok(()) }
    }

    /// Whether there is no room for more threads than those that others need in order to go on.
    pub(crate) fn is_crowded(&self) -> bool {
        // Where only one may be live, it is that one which is needed.
        self.n_live() >= self.limits.live_threads_max.saturating_sub(1).max(1)
    }

    /// Forgets the actor of a thread, if it is this one.
    pub(crate) fn forget(&self, id: ThreadId, addr: &Addr<ThreadActor>) {
        let mut live = self.live.write();
        if live.get(&id).is_some_and(|live| live.actor == *addr) {
            live.remove(&id);
        }
    }

    /// All live actors.
    pub(crate) fn live(&self) -> Vec<(ThreadId, Addr<ThreadActor>)> {
        self.live.read().iter().map(|(id, live)| (*id, live.actor.clone())).collect()
    }

    /// How many threads are live.
    pub(crate) fn n_live(&self) -> usize {
        self.live.read().len()
    }

    /// The actor of a thread, if it is live.
    pub(crate) fn actor(&self, id: ThreadId) -> Option<Addr<ThreadActor>> {
        self.live.read().get(&id).map(|live| live.actor.clone())
    }

    /// Whether the thread is live.
    pub(crate) fn is_live(&self, id: ThreadId) -> bool {
        self.live.read().contains_key(&id)
    }

    /// The workspace of a thread: its own, or the runtime's. It is opened anew each time, so that none is kept longer
    /// than it is used, and a folder that was made anew is the new one.
    pub(crate) fn workspace_of(&self, path: Option<&str>) -> Result<Arc<Workspace>, String> {
        let opened = match path {
            None if self.workspace.is_current() => return Ok(self.workspace.clone()),
            None => self.workspaces.open(self.workspace.root()),
            Some(path) => self.workspaces.open(path),
        };
        opened.map(Arc::new).map_err(|error| error.to_string())
    }

    /// Whether a process works on the thread, if it has something to do: this one, or the one that runs the threads.
    pub(crate) fn works_on(&self, thread: ThreadId) -> bool {
        (!self.observing || self.run_elsewhere) && !self.imported.has(thread)
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Acquire)
    }

    /// True for the first caller.
    pub(crate) fn begin_shutdown(&self) -> bool {
        !self.shutting_down.swap(true, Ordering::AcqRel)
    }
}

impl Tools for Inner {
    fn facts(&self, name: &str) -> Option<ToolFacts> {
        let tool = self.tools.get(name)?;
        let limits = tool.limits();
        Some(ToolFacts {
            recovery: tool.declared_recovery(),
            timeout_ms: limits.timeout_ms,
            retries: limits.retries,
            retry_delay_ms: limits.retry_delay_ms,
            person: tool.person_role(),
        })
    }

    fn names(&self) -> Vec<ToolName> {
        self.tools.list().iter().map(|tool| ToolName::from(tool.name())).collect()
    }

    fn catalog(&self, names: &[ToolName]) -> Option<Hash> {
        let catalogue = self.tools.catalogue(names).ok()?;
        self.definitions.keep_catalogue(&catalogue).ok()
    }

    fn instructions(&self, names: &[ToolName]) -> Option<String> {
        self.tool_services.get()?.0.instructions(names)
    }

    fn workspace(&self, own: Option<&str>) -> Option<String> {
        // Where the folder cannot be used, each call of a tool says so.
        let workspace = self.workspace_of(own).ok().filter(|_| self.workspace_in_prompt)?;
        Some(workspace.root().display().to_string())
    }
}

impl thread::Models for Inner {
    fn is_person(&self, model: &ModelChoice) -> bool {
        self.models.is_person(model)
    }

    fn read(&self, request: &ModelRequest, brought: &Json) -> Result<ModelAnswer, String> {
        let tools = self.catalogue_of(request).map_err(|error| error.to_string())?;
        self.models.read(request, tools, brought)
    }

    fn profile(&self, model: &ModelChoice) -> Option<Hash> {
        let recorded = serde_json::to_vec(&self.models.recorded(model)?).ok()?;
        self.definitions.keep_profile(&recorded).ok()
    }

    fn count(&self, request: &ModelRequest) -> u64 {
        let model = self.models.name_of(&request.execution.model);
        self.counting.count(&model, &request.messages, self.offered(request).as_deref())
    }

    fn is_longer(&self, request: &ModelRequest, tokens: u64) -> bool {
        let offered = self.offered(request);
        at_most(&request.messages, offered.as_deref()) > tokens && self.count(request) > tokens
    }
}

// Where a person stands for the model.
impl Inner {
    /// What the person is to carry to the model, when the thread waits for one. Blocks.
    pub(crate) fn relay_prompt(&self, state: &State) -> Result<Option<String>, RuntimeError> {
        let Some(request) = state.model_request() else {
            return Ok(None);
        };
        let tools = self.catalogue_of(&request)?;
        Ok(Some(self.models.relay_prompt(&request, tools)))
    }

    /// The tools that a model is offered, as this process has them.
    fn offered(&self, request: &ModelRequest) -> Option<Arc<Catalogue>> {
        if request.execution.tools.is_empty() {
            return None;
        }
        let names: Vec<_> = request.execution.tools.iter().map(|name| ToolName::from(name.as_str())).collect();
        self.tools.catalogue(&names).ok()
    }

    /// The tools that the model of a call is offered: those that it was first offered, so that every attempt and every
    /// call of a loop is made with the same.
    pub(crate) async fn offered_to(
        self: &Arc<Self>,
        request: &ModelRequest,
    ) -> Result<Arc<[ToolSpec]>, ExecutionError> {
        if request.execution.tools.is_empty() {
            return Ok(Arc::new([]));
        }
        match (self.offered(request), request.execution.tool_catalog) {
            (Some(now), Some(hash)) if now.hash == hash => Ok(now.specs.clone()),
            (_, Some(_)) => {
                let (inner, request) = (self.clone(), request.clone());
                let read = actix_rt::task::spawn_blocking(move || inner.catalogue_of(&request)).await;
                let lost = |error: String| ExecutionError::new(ErrorKind::UnknownTool, error);
                read.map_err(|error| lost(error.to_string()))?.map_err(|error| lost(error.to_string()))
            }
            // It could not be kept when the loop began.
            (Some(now), None) => Ok(now.specs.clone()),
            (None, None) => {
                let tools = request.execution.tools.join(", ");
                Err(ExecutionError::new(ErrorKind::UnknownTool, format!("not all of these tools are there: {tools}")))
            }
        }
    }

    /// The tools as they were when the model was first offered them, whatever this process has now.
    pub(crate) fn catalogue_of(&self, request: &ModelRequest) -> Result<Arc<[ToolSpec]>, RuntimeError> {
        let Some(hash) = request.execution.tool_catalog else {
            return Ok(Arc::new([]));
        };
        let names: Vec<_> = request.execution.tools.iter().map(|name| ToolName::from(name.as_str())).collect();
        match self.tools.catalogue(&names) {
            Ok(catalogue) if catalogue.hash == hash => Ok(catalogue.specs.clone()),
            // A strategy may offer fewer than the node does.
            _ => {
                let all = self.definitions.catalogue(hash)?;
                Ok(all.iter().filter(|spec| request.execution.tools.contains(&spec.name)).cloned().collect())
            }
        }
    }
}
