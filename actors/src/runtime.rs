//! The runtime that a service embeds.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::ids::{Position, ThreadId};
use rethread_llm::Profiles;
use rethread_store::Store;
use rethread_tools::{Registry, ToolContext};
use tokio::sync::watch;

use crate::blocking;
use crate::builder::{OwnSystem, RuntimeBuilder};
use crate::error::RuntimeError;
use crate::mode::Mode;
use crate::monitor::MonitorStats;
use crate::queues;
use crate::recovery;
use crate::registry::ThreadRegistry;
use crate::services::Services;
use crate::signals;
use crate::thread_actor::messages::Halt;
use crate::thread_handle::ThreadHandle;
use crate::{awaited_threads, branches, children};

/// How long the services of the tools may take to stop; their own limits are shorter.
const TOOL_SERVICES_WAIT: Duration = Duration::from_secs(10);

/// The runtime: runs threads of workflows on a durable log. Cheap to clone and to share between threads and tasks.
///
/// All clones are one runtime. Dropping the last clone stops the runtime as a crash would: nothing that was acknowledged
/// is lost, and running calls are left to recovery. [`Runtime::shutdown`] waits for them. Clones from [`Runtime::of`] do
/// not count.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
    _owner: Option<Arc<Owner>>,
}

/// Stops the runtime when it is dropped.
struct Owner(Arc<Shared>);

struct Shared {
    registry: Arc<ThreadRegistry>,
    stage: Mutex<Stage>,
}

/// The state of the runtime's own system.
enum Stage {
    Runs(OwnSystem),
    /// A shutdown is running. Its callers wait for this.
    Stopping(watch::Receiver<Ended>),
}

impl Drop for Owner {
    fn drop(&mut self) {
        let shared = &self.0;
        shared.registry.begin_shutdown();
        shared.registry.services.stop_following();
        if let Stage::Runs(own) = &*shared.stage.lock() {
            own.system.stop();
        }
    }
}

impl Runtime {
    /// Returns a builder with the default settings.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    pub(crate) fn new(registry: Arc<ThreadRegistry>, system: OwnSystem) -> Self {
        let shared = Arc::new(Shared { registry, stage: Mutex::new(Stage::Runs(system)) });
        Self { _owner: Some(Arc::new(Owner(shared.clone()))), shared }
    }

    /// Lets threads run. Call this only when the runtime is complete: their tools may use it.
    pub(crate) fn begin_work(&self) {
        let (registry, host) = (self.registry().clone(), self.shared.clone() as Arc<dyn Any + Send + Sync>);
        // Set once, before any tool runs.
        let _ = registry.services.host.set(Arc::downgrade(&host));
        if let Stage::Runs(own) = &*self.shared.stage.lock() {
            own.system.arbiter().spawn_fn(move || {
                actix_rt::spawn(recovery::wake_when_due(registry.clone()));
                actix_rt::spawn(queues::run(registry.clone()));
                if registry.services.mode == Mode::Run {
                    actix_rt::spawn(recovery::wake_suspended(registry.clone()));
                    actix_rt::spawn(signals::tidy(registry.clone()));
                    if registry.services.shared.is_none() {
                        Self::continue_threads(&registry);
                    }
                }
            });
        }
    }

    /// Continues the threads of this runtime that have something to do, on the event loop of the caller: after a start, and
    /// when it gets threads of another one.
    pub(crate) fn continue_threads(registry: &Arc<ThreadRegistry>) {
        registry.next_in_log.begin_again();
        actix_rt::spawn(children::tidy(registry.clone()));
        actix_rt::spawn(branches::tidy(registry.clone()));
        actix_rt::spawn(awaited_threads::tidy(registry.clone()));
        actix_rt::spawn(recovery::activate_unfinished(registry.clone()));
    }

    /// Returns the runtime that runs this call of a tool. A tool can start threads with it, read them and send them
    /// inputs; `cx.thread` is the thread that makes the call.
    ///
    /// This handle does not keep the runtime alive. While the runtime shuts down, its operations fail with
    /// `ShuttingDown`, and a tool that waits for a thread is dropped after the grace time like any other call.
    ///
    /// ```
    /// use rethread::{Runtime, Tool, ToolContext};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let shout = rethread::parse_workflow(br#"
    ///     version: "1"
    ///     name: shout
    ///     nodes: [{id: say, context_processor: {processor: extract, config: {variable: said, expression: "input | upper"}}}]
    /// "#)?;
    /// let shout = std::sync::Arc::new(shout);
    /// let schema = serde_json::json!({"type": "object", "properties": {"text": {"type": "string"}}});
    /// let tool = Tool::new("shout", "Shouts a text.", schema, move |arguments, cx: ToolContext| {
    ///     let shout = shout.clone();
    ///     async move {
    ///         let thread = Runtime::of(&cx)?.start_thread(shout, &arguments["text"]).await?;
    ///         let said: String = thread.outcome_as().await?;
    ///         Ok(said.into())
    ///     }
    /// });
    /// let workflow = rethread::parse_workflow(br#"
    ///     version: "1"
    ///     name: caller
    ///     nodes: [{id: call, tool: {tool_name: shout, parameters: {text: "{{ input }}"}}}]
    /// "#)?;
    /// let runtime = Runtime::builder().in_memory().tool(tool).start().await?;
    /// let said: String = runtime.start_thread(workflow, "hello").await?.outcome_as().await?;
    /// assert_eq!(said, "HELLO");
    /// # runtime.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `ShuttingDown` if the runtime is gone, or if no runtime makes the call.
    pub fn of(cx: &ToolContext) -> Result<Self, RuntimeError> {
        let shared = cx.host_as::<Shared>().ok_or(RuntimeError::ShuttingDown)?;
        Ok(Self { shared, _owner: None })
    }

    /// Returns the runtime of this registry, as [`Runtime::of`] does; `None` if it is gone.
    pub(crate) fn of_registry(registry: &ThreadRegistry) -> Option<Self> {
        let shared = registry.services.host.get()?.upgrade()?.downcast().ok()?;
        Some(Self { shared, _owner: None })
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.shared.registry.services
    }

    pub(crate) fn registry(&self) -> &Arc<ThreadRegistry> {
        &self.shared.registry
    }

    /// Returns the position that the next event of the log will get. A subscriber that wants only new events starts
    /// there. Does not block.
    pub fn next_position(&self) -> Position {
        self.store().next_position()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.services().store
    }

    /// Returns a report of each MCP server from the start of the runtime: its tools, or why it has none.
    #[cfg(feature = "mcp")]
    pub fn mcp_reports(&self) -> &[rethread_tools::mcp::ServerReport] {
        self.services().mcp_reports()
    }

    /// Returns the tools that threads can use. The registry can change while threads run.
    pub fn tools(&self) -> &Registry {
        &self.services().tools
    }

    /// Returns the profiles that workflows can name.
    pub fn profiles(&self) -> &Profiles {
        self.services().models.all()
    }

    /// Returns what the runtime does with the threads of the log.
    pub fn mode(&self) -> Mode {
        self.services().mode
    }

    /// Returns the progress of each monitor, in the order in which they were given to the builder.
    pub fn monitor_stats(&self) -> Vec<MonitorStats> {
        self.services().monitors.iter().map(|monitor| monitor.stats()).collect()
    }

    /// Returns a handle of the thread with this id. Does not read the log: the operations of the handle fail with `NoThread`
    /// if there is no such thread.
    pub fn thread(&self, id: ThreadId) -> ThreadHandle {
        ThreadHandle::new(self.clone(), id)
    }

    /// Stops the runtime and closes the log.
    ///
    /// No new work begins. Running calls may end within [`Limits::shutdown_grace_ms`](crate::Limits::shutdown_grace_ms);
    /// after that they are left to recovery. Background processes and MCP servers are stopped. Everything that was
    /// acknowledged is in the log. Concurrent and later calls wait for the same shutdown and return its result. Dropping
    /// the future does not cancel the shutdown.
    ///
    /// # Errors
    /// `Store` if the log could not be closed; it is recovered when it is opened next.
    pub async fn shutdown(&self) -> Result<(), RuntimeError> {
        // A pause or a cancellation of a thread reaches its branches before the runtime stops delivering messages.
        let registry = self.registry().clone();
        self.blocking(move || {
            let until = std::time::Instant::now() + Duration::from_millis(registry.services.limits.shutdown_grace_ms);
            while !registry.telling.is_empty() && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        })
        .await?;
        let (mut ended, first) = self.stopping();
        if let Some((own, tell)) = first {
            let registry = self.registry().clone();
            self.blocking(move || {
                let closed = stop(&registry, own);
                tell.send_replace(Some(closed));
            })
            .await?;
        }
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or(Err(RuntimeError::ShuttingDown)),
            // If no blocking work can run any more.
            Err(_) => Err(RuntimeError::ShuttingDown),
        }
    }

    /// Returns the shutdown to wait for; to its first caller also what to stop, and where to report the result.
    fn stopping(&self) -> (watch::Receiver<Ended>, Option<First>) {
        let mut stage = self.shared.stage.lock();
        if let Stage::Stopping(ended) = &*stage {
            return (ended.clone(), None);
        }
        self.registry().begin_shutdown();
        let (tell, ended) = watch::channel(None);
        match std::mem::replace(&mut *stage, Stage::Stopping(ended.clone())) {
            Stage::Runs(own) => (ended, Some((own, tell))),
            Stage::Stopping(_) => (ended, None),
        }
    }

    /// Runs blocking work, with or without an async runtime.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RuntimeError> {
        blocking::blocking(work).await
    }
}

/// The result of the shutdown, once it has ended.
type Ended = Option<Result<(), RuntimeError>>;
type First = (OwnSystem, watch::Sender<Ended>);

/// The longest wait for the threads of the runtime at a shutdown, after their actors have been told to stop.
const ARBITERS_WAIT: Duration = Duration::from_secs(1);

/// Stops everything, in order. Blocks.
fn stop(registry: &ThreadRegistry, own: OwnSystem) -> Result<(), RuntimeError> {
    let services = &registry.services;
    let grace = Duration::from_millis(services.limits.shutdown_grace_ms);
    for actor in registry.live() {
        actor.do_send(Halt { grace });
    }
    // Running appends end within the store's own limits; the second beyond the grace time is for them.
    let deadline = std::time::Instant::now() + grace + Duration::from_secs(1);
    wait_until(deadline, || registry.n_live() == 0);
    services.snapshots.finish(deadline);
    services.stop_tool_services(TOOL_SERVICES_WAIT);
    own.system.stop();
    // A tool that blocks its thread can block it for ever.
    if wait_until(std::time::Instant::now() + ARBITERS_WAIT, || own.thread.is_finished()) {
        let _ = own.thread.join();
    }
    registry.waiters.close();
    services.monitors.iter().for_each(|monitor| monitor.finish(grace));
    services.stop_following();
    services.crashes.ends();
    Ok(services.store.close()?)
}

/// Blocks until it is true or the deadline has passed, and returns whether it is.
fn wait_until(deadline: std::time::Instant, mut is_true: impl FnMut() -> bool) -> bool {
    loop {
        if is_true() {
            return true;
        }
        if std::time::Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("n_live", &self.registry().n_live()).finish_non_exhaustive()
    }
}
