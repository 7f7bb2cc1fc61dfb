//! The start of a runtime.

use std::sync::Arc;

use actix::prelude::*;
use rethread_events::label_limits::LabelCounts;
#[cfg(feature = "jetstream")]
use rethread_store::{JetStreamOptions, JetStreamStore};
use rethread_store::{Options, SledStore, Store, StoreError};
use rethread_tools::Workspaces;
use tokio::sync::oneshot;

use super::{OwnSystem, RuntimeBuilder, StoreConfig};
use crate::blocking::on_a_thread;
use crate::crashes::Crashes;
use crate::error::{OpenError, RuntimeError};
use crate::llm_executor::LlmExecutor;
use crate::mode::Mode;
use crate::models::Models;
use crate::monitor::{Monitor, MonitorTask};
use crate::registry::{Slot, ThreadRegistry};
use crate::runtime::Runtime;
#[cfg(feature = "schedules")]
use crate::schedules;
use crate::services::{Parts, Services};
use crate::shared::serve::serve;
use crate::shared::{Shared, divide};
use crate::tool_executor::ToolExecutor;
use crate::tool_services::Plan;

impl RuntimeBuilder {
    /// Opens the log and starts the runtime on its own OS threads. Works with and without an async runtime of the
    /// caller.
    ///
    /// # Errors
    /// When the log cannot be opened (another process has it, it is damaged, the disk is full), a tool's name is taken,
    /// the workspace is not a folder, the folder for records of processes is in use, or the system cannot create a
    /// thread.
    pub async fn start(self) -> Result<Runtime, OpenError> {
        if let Some(fault) = self.faults.first() {
            return Err(OpenError::Invalid(fault.clone()));
        }
        if self.arbiters == 0 || self.arbiters > 1_024 {
            return Err(OpenError::Invalid(format!("{} arbiters: must be between 1 and 1024", self.arbiters)));
        }
        self.limits.check().map_err(OpenError::Invalid)?;
        let labels = LabelCounts::new(&self.limits.labels, self.metrics_of, self.metrics_values_max);
        let labels = labels.map_err(|error| OpenError::Invalid(error.to_string()))?;
        let workspace = match &self.workspace {
            Some(folder) => folder.clone(),
            None => std::env::current_dir().map_err(|error| OpenError::Workspace(error.to_string()))?,
        };
        let reserved = match &self.store {
            StoreConfig::Folder(folder) => self.reserved.place(folder),
            StoreConfig::Given(_) => self.reserved,
        };
        let workspaces = Workspaces::new(reserved);
        let workspace = workspaces.open(&workspace).map_err(|error| OpenError::Workspace(error.to_string()))?;
        // A runtime that runs no threads uses no tools.
        if workspace.is_reserved() && self.mode.runs() {
            let folder = workspace.root().display();
            return Err(OpenError::Workspace(format!(
                "{folder} is the folder of the log, or reserved: give another folder to the tools, or to the log"
            )));
        }
        #[cfg(feature = "jetstream")]
        if self.stream.is_some() && matches!(self.store, StoreConfig::Given(_)) {
            return Err(OpenError::Invalid(
                "a store was given, and a stream for the log: leave one of them out".into(),
            ));
        }
        let mut tool_services = self.tool_services;
        let store: Arc<dyn Store> = match self.store {
            StoreConfig::Given(store) => store,
            StoreConfig::Folder(folder) => {
                tool_services.folder = Some(folder.join("processes"));
                let options =
                    Options { label: self.label, spend_reserve: self.mode == Mode::Delete, ..Options::default() };
                #[cfg(feature = "jetstream")]
                let stream = self.stream;
                let open = move || -> Result<Arc<dyn Store>, StoreError> {
                    // A damaged replica is filled again.
                    #[cfg(feature = "jetstream")]
                    if let Some(stream) = stream {
                        let options = JetStreamOptions { replica: options, ..stream };
                        return Ok(Arc::new(JetStreamStore::open(&folder, options)?));
                    }
                    Ok(Arc::new(match self.mode {
                        Mode::Run | Mode::RunOnDemand | Mode::Delete => SledStore::open(&folder, options)?,
                        Mode::Observe | Mode::RunElsewhere => SledStore::open_to_read(&folder, options)?,
                        Mode::Salvage => SledStore::salvage(&folder, options)?,
                    }))
                };
                on_a_thread("rethread-open", open).await??
            }
        };
        if store.shared().is_some() && self.mode != Mode::Run {
            return Err(OpenError::Invalid(
                "another mode than `Run`: only where one process has the log alone, and several have this one".into(),
            ));
        }
        let crashes = {
            let (store, n_max) = (store.clone(), self.limits.crashes_max);
            on_a_thread("rethread-open", move || Crashes::open(&store, n_max)).await??
        };
        let shared = Shared::of(&store).map(Arc::new);
        let watch = |monitor: &Arc<dyn Monitor>| {
            let shared = shared.clone();
            let is_ours = move |thread| shared.as_ref().is_none_or(|shared| shared.has(thread));
            MonitorTask::begin(store.clone(), monitor.clone(), Box::new(is_ours))
        };
        let monitors = self.monitors.iter().map(watch).collect::<Result<_, _>>()?;
        let services = Arc::new(Services::new(Parts {
            store,
            crashes,
            monitors,
            tools: self.tools,
            models: Models::new(self.profiles, self.clients),
            handler: self.handler,
            processors: self.processors,
            strategies: self.strategies,
            guardrails: self.guardrails,
            workspace: Arc::new(workspace),
            workspaces,
            limits: self.limits,
            labels,
            mode: self.mode,
            principal: self.principal,
            workspace_in_prompt: self.workspace_in_prompt,
            content_in_spans: self.content_in_spans,
            trace_context: self.trace_context,
        }));
        let registry = ThreadRegistry::new(services.clone());
        let started = async {
            if services.is_run() {
                services.imported.read(&*services.store)?;
            }
            if matches!(services.mode, Mode::Run | Mode::RunOnDemand | Mode::Observe) {
                // Before any thread resumes: what is appended after this is counted at the append.
                let services = services.clone();
                let (labels, store) = (services.labels.clone(), services.store.clone());
                let read = move || services.labels.read(&*services.store);
                let end = on_a_thread("rethread-open", read).await?.map_err(OpenError::of_read)?;
                labels.follow(&store, end).map_err(OpenError::Thread)?;
            }
            start_system(registry.clone(), tool_services, self.arbiters).await
        };
        match started.await {
            Ok(system) => {
                let arbiter = system.system.arbiter().clone();
                let runtime = Runtime::new(registry.clone(), system);
                runtime.begin_work();
                #[cfg(feature = "schedules")]
                if services.mode == Mode::Run {
                    let registry = registry.clone();
                    arbiter.spawn_fn(move || drop(actix_rt::spawn(schedules::run(registry))));
                }
                if services.shared.is_some() {
                    let registry_of_changes = Arc::downgrade(&registry);
                    services.memories.forward_changes(Box::new(move |namespace, change| {
                        let runtime =
                            registry_of_changes.upgrade().and_then(|registry| Runtime::of_registry(&registry));
                        Box::pin(async move {
                            let runtime = runtime.ok_or(RuntimeError::ShuttingDown)?;
                            runtime.change_memories(namespace, change).await
                        })
                    }));
                    serve(&registry);
                    arbiter.spawn_fn(move || drop(actix_rt::spawn(divide::run(registry))));
                }
                Ok(runtime)
            }
            Err(error) => {
                // They refer to the log.
                services.stop_following();
                Err(error)
            }
        }
    }
}

async fn start_system(
    registry: Arc<ThreadRegistry>,
    tool_services: Plan,
    n_arbiters: usize,
) -> Result<OwnSystem, OpenError> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("rethread-system".into()).spawn(move || {
        let runner = System::new();
        let mut arbiters = Vec::with_capacity(n_arbiters);
        let started: Result<_, OpenError> = runner.block_on(async {
            // After the log is locked, so that processes of another runtime are not killed. Before any thread resumes,
            // so that all tools are available.
            let services = &registry.services;
            services.start_tool_services(tool_services).await?;
            let mut slots = Vec::with_capacity(n_arbiters);
            for _ in 0..n_arbiters {
                let own_arbiter = Arbiter::try_new().map_err(OpenError::Thread)?;
                let arbiter = own_arbiter.handle();
                arbiters.push(own_arbiter);
                let (for_llm, for_tools) = (services.clone(), services.clone());
                let llm = LlmExecutor::start_in_arbiter(&arbiter, |_| LlmExecutor { services: for_llm });
                let tools = ToolExecutor::start_in_arbiter(&arbiter, |_| ToolExecutor { services: for_tools });
                slots.push(Slot { arbiter, llm, tools });
            }
            registry.set_slots(slots);
            Ok(System::current())
        });
        let failed = started.is_err();
        let _ = sender.send(started);
        if failed {
            return;
        }
        // The system refers to the runtime's parts only while it runs.
        drop(registry);
        if let Err(error) = runner.run() {
            tracing::error!(%error, "the runtime's system ended in an error");
        }
        // What an arbiter still holds is dropped before the shutdown ends: cancelled calls, and their spans.
        for arbiter in arbiters {
            let _ = arbiter.join();
        }
    });
    let thread = thread.map_err(OpenError::Thread)?;
    let system = receiver.await.map_err(|_| OpenError::Invalid("the runtime's system did not start".into()))??;
    Ok(OwnSystem { system, thread })
}
