//! The services that the threads of a runtime share.

mod machine;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::ThreadId;
use rethread_events::label_limits::LabelCounts;
use rethread_events::memory::Embedding;
use rethread_events::principal::Principal;
use rethread_events::workflow::Workflow;
use rethread_store::{LogReader, SLOTS, Store};
use rethread_tools::{Host, Registry, Workspace, Workspaces};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::counters::Counters;
use crate::counting::Counting;
use crate::crashes::Crashes;
use crate::definitions::Definitions;
use crate::error::{OpenError, ReadError};
use crate::fork_bases::ForkBaseCache;
use crate::guardrail::Guardrails;
use crate::imported::ImportedThreads;
use crate::interaction::UserInteractionHandler;
#[cfg(feature = "schedules")]
use crate::kept_schedules::Schedules;
use crate::kept_signals::KeptSignals;
use crate::kept_states::KeptStates;
use crate::label_limits::LabelLedger;
use crate::limits::Limits;
use crate::load::{self, Loaded};
use crate::memories::Memories;
use crate::memory_budget::MemoryBudget;
use crate::mode::Mode;
use crate::models::Models;
use crate::monitor::MonitorTask;
use crate::outputs::Outputs;
use crate::processor::Processors;
use crate::runnable::Runnable;
use crate::shared::Shared;
use crate::snapshot_writer::SnapshotWriter;
use crate::strategy::Strategies;
use crate::tool_services::{Plan, ToolServices};
use crate::trace_contexts::{TraceContext, TraceContexts};

/// The services that all threads of one runtime share: the log, models and tools, limits, counters. It does not depend
/// on the actors.
pub(crate) struct Services {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tools: Registry,
    pub(crate) models: Arc<Models>,
    pub(crate) definitions: Definitions,
    pub(crate) runnable: Runnable,
    pub(crate) handler: Option<Arc<dyn UserInteractionHandler>>,
    /// The principal of operations through a handle without one.
    pub(crate) principal: Principal,
    pub(crate) processors: Processors,
    pub(crate) strategies: Strategies,
    pub(crate) guardrails: Guardrails,
    pub(crate) limits: Limits,
    pub(crate) outputs: Arc<Outputs>,
    pub(crate) monitors: Vec<Arc<MonitorTask>>,
    /// Whether spans contain content.
    pub(crate) content_in_spans: bool,
    pub(crate) traces: TraceContexts,
    pub(crate) bases: ForkBaseCache,
    pub(crate) kept_states: KeptStates,
    pub(crate) snapshots: Arc<SnapshotWriter>,
    pub(crate) crashes: Arc<Crashes>,
    pub(crate) imported: ImportedThreads,
    /// The counts and limits of labels.
    pub(crate) labels: Arc<LabelLedger>,
    pub(crate) kept_signals: KeptSignals,
    pub(crate) memories: Arc<Memories>,
    #[cfg(feature = "schedules")]
    pub(crate) schedules: Schedules,
    pub(crate) counters: Counters,
    pub(crate) mode: Mode,
    /// The other runtimes, unless this one has the log alone.
    pub(crate) shared: Option<Shared>,
    /// The locks of values that are stored once, by the places of their names.
    pub(crate) values_once: Vec<Mutex<()>>,
    /// The memory budget for reports that the log has no room for.
    pub(crate) room: Arc<MemoryBudget>,
    /// The permits for concurrent model calls.
    pub(crate) model_calls: Arc<Semaphore>,
    /// Whether models get the workspace folder of their tools.
    workspace_in_prompt: bool,
    workspace: Arc<Workspace>,
    workspaces: Workspaces,
    pub(crate) counting: Counting,
    /// The runtime, for tools; absent until it is complete, before any thread runs.
    pub(crate) host: OnceLock<Host>,
    /// The services of the tools; absent until they are started.
    tool_services: OnceLock<(ToolServices, Handle)>,
}

/// The parts of new services.
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) crashes: Arc<Crashes>,
    pub(crate) tools: Registry,
    pub(crate) models: Models,
    pub(crate) handler: Option<Arc<dyn UserInteractionHandler>>,
    pub(crate) principal: Principal,
    pub(crate) processors: Processors,
    pub(crate) strategies: Strategies,
    pub(crate) guardrails: Guardrails,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) workspaces: Workspaces,
    pub(crate) limits: Limits,
    pub(crate) labels: LabelCounts,
    pub(crate) mode: Mode,
    pub(crate) workspace_in_prompt: bool,
    pub(crate) content_in_spans: bool,
    pub(crate) trace_context: TraceContext,
    pub(crate) monitors: Vec<Arc<MonitorTask>>,
}

impl Services {
    pub(crate) fn new(parts: Parts) -> Self {
        let snapshots = Arc::new(SnapshotWriter::new(parts.store.clone(), parts.crashes.clone()));
        let shared = Shared::of(&parts.store);
        Self {
            imported: ImportedThreads::new(&parts.store, shared.is_some()),
            definitions: Definitions::new(parts.store.clone()),
            runnable: Runnable::default(),
            outputs: Arc::new(Outputs::new(parts.store.clone())),
            memories: Arc::new(Memories::new(parts.store.clone())),
            host: OnceLock::new(),
            tool_services: OnceLock::new(),
            workspace_in_prompt: parts.workspace_in_prompt,
            content_in_spans: parts.content_in_spans,
            traces: TraceContexts::new(parts.store.clone(), parts.trace_context),
            monitors: parts.monitors,
            values_once: (0..SLOTS).map(|_| Mutex::default()).collect(),
            store: parts.store,
            tools: parts.tools,
            models: Arc::new(parts.models),
            handler: parts.handler,
            processors: parts.processors,
            strategies: parts.strategies,
            guardrails: parts.guardrails,
            workspace: parts.workspace,
            workspaces: parts.workspaces,
            model_calls: Arc::new(Semaphore::new(parts.limits.concurrent_model_calls_max)),
            room: MemoryBudget::new(parts.limits.unwritten_bytes_max),
            limits: parts.limits,
            mode: parts.mode,
            principal: parts.principal,
            counting: Counting::default(),
            bases: ForkBaseCache::default(),
            kept_states: KeptStates::default(),
            snapshots,
            crashes: parts.crashes,
            labels: Arc::new(LabelLedger::new(parts.labels, shared.is_some())),
            kept_signals: KeptSignals::new(shared.is_none()),
            shared,
            #[cfg(feature = "schedules")]
            schedules: Schedules::default(),
            counters: Counters::default(),
        }
    }

    /// Starts the services of the tools on the event loop of the caller, which they continue to use.
    pub(crate) async fn start_tool_services(&self, plan: Plan) -> Result<(), OpenError> {
        let tool_services =
            ToolServices::start(plan, &self.tools, &self.workspace, (&self.memories, &self.models)).await?;
        // Called once, by the thread that runs it.
        let _ = self.tool_services.set((tool_services, Handle::current()));
        Ok(())
    }

    /// The vector of a text, if memories have vectors. Made on the event loop of the tools, so that the caller may have
    /// none.
    pub(crate) async fn embedding(&self, text: &str) -> Result<Option<Embedding>, ExecutionError> {
        let Some((tool_services, runs_on)) = self.tool_services.get() else { return Ok(None) };
        let Some(profile) = tool_services.embeddings() else { return Ok(None) };
        let (models, profile, text) = (self.models.clone(), profile.to_owned(), text.to_owned());
        let made = runs_on.spawn(async move { models.embed(&profile, &text).await });
        let stopping = |_| ExecutionError::new(ErrorKind::Cancelled, "the runtime is shutting down");
        made.await.map_err(stopping)?.map(Some)
    }

    #[cfg(feature = "mcp")]
    pub(crate) fn mcp_reports(&self) -> &[rethread_tools::mcp::ServerReport] {
        self.tool_services.get().map_or(&[], |(tool_services, _)| &tool_services.reports)
    }

    /// Returns the log, for reading.
    pub(crate) fn reader(&self) -> &dyn LogReader {
        &*self.store
    }

    /// Ends the background work of a thread that has ended.
    pub(crate) fn thread_ended(&self, id: ThreadId) {
        if let Some((tool_services, _)) = self.tool_services.get() {
            tool_services.thread_ended(&id.to_string());
        }
        self.crashes.ended(id);
    }

    /// Stops the services of the tools, waiting at most `wait`. Blocks.
    pub(crate) fn stop_tool_services(self: &Arc<Self>, wait: Duration) {
        let Some((_, runs_on)) = self.tool_services.get() else { return };
        let (sender, stopped) = std::sync::mpsc::channel();
        let services = self.clone();
        runs_on.spawn(async move {
            if let Some((tool_services, _)) = services.tool_services.get() {
                tool_services.stop().await;
            }
            let _ = sender.send(());
        });
        if stopped.recv_timeout(wait).is_err() {
            tracing::error!("services of the tools did not stop in time");
        }
    }

    /// Returns the folder of the runtime's own workspace; `None` if its name is not UTF-8.
    #[cfg(feature = "schedules")]
    pub(crate) fn workspace_folder(&self) -> Option<&str> {
        self.workspace.root().to_str()
    }

    /// Returns the workspace of a thread: its own, or the runtime's. It is opened each time, so that none stays open
    /// longer than it is used, and a folder that was replaced is the new one.
    pub(crate) fn workspace_of(&self, path: Option<&str>) -> Result<Arc<Workspace>, String> {
        let opened = match path {
            None if self.workspace.is_current() => return Ok(self.workspace.clone()),
            None => self.workspaces.open(self.workspace.root()),
            Some(path) => self.workspaces.open(path),
        };
        opened.map(Arc::new).map_err(|error| error.to_string())
    }

    /// Ends what reads the log for as long as the runtime has it: monitors, and the counts of labels.
    pub(crate) fn stop_following(&self) {
        self.monitors.iter().for_each(|monitor| monitor.stop());
        self.labels.stop();
    }

    /// Returns whether a process runs the threads of the log: this one, or another.
    pub(crate) fn is_run(&self) -> bool {
        self.mode.runs() || self.mode == Mode::RunElsewhere
    }

    /// Returns whether a process runs the thread, if it has something to do.
    pub(crate) fn works_on(&self, thread: ThreadId) -> bool {
        self.is_run() && !self.imported.has(thread)
    }

    /// Folds a thread from the log, and reads the definition that it runs on. Blocks.
    pub(crate) fn load(&self, thread: ThreadId) -> Result<(Loaded, Arc<Workflow>), ReadError> {
        let fold = || load::present_from(&*self.store, thread, &self.kept_states);
        let loaded = self.crashes.folding(thread, fold)?;
        let workflow = self.definitions.of(thread, &loaded.state)?;
        Ok((loaded, workflow))
    }
}

#[cfg(test)]
impl Services {
    /// Creates services on a log in memory, with these tools, for the tests of an executor alone.
    pub(crate) fn for_tests(tools: Registry) -> Arc<Self> {
        let store: Arc<dyn Store> = Arc::new(rethread_store::MemoryStore::new());
        let workspaces = Workspaces::new(rethread_tools::Reserved::default());
        let workspace = workspaces.open(std::env::temp_dir()).unwrap();
        Arc::new(Self::new(Parts {
            crashes: Crashes::open(&store, 0).unwrap(),
            store,
            tools,
            models: Models::new(rethread_llm::Profiles::empty(), std::collections::BTreeMap::new()),
            handler: None,
            principal: Principal::default(),
            processors: Processors::default(),
            strategies: Strategies::default(),
            guardrails: Guardrails::default(),
            workspace: Arc::new(workspace),
            workspaces,
            limits: Limits::default(),
            labels: LabelCounts::default(),
            mode: Mode::Run,
            workspace_in_prompt: false,
            content_in_spans: false,
            trace_context: TraceContext::Off,
            monitors: Vec::new(),
        }))
    }
}
