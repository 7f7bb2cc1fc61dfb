//! The context of a tool call besides its arguments.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::ThreadId;
use rethread_events::labels::Labels;
use rethread_events::thread::PermitObserver;
use rethread_events::trace_context::TraceParent;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::{AskPerson, OutputStore, Progress, Workspace};

/// The circumstances of one attempt at one call. Cheap to clone.
///
/// A tool that starts work of its own (a thread, a task) moves a clone into it: the tool counts as busy, against its
/// `concurrency_max`, until the last clone is dropped.
#[derive(Clone)]
pub struct ToolContext {
    /// The idempotency key: the same for every attempt at this call, different for every other call. Empty when the
    /// caller has none to give.
    pub key: Arc<str>,
    /// The folder the tool may work in.
    pub workspace: Arc<Workspace>,
    /// Cancelled when the call is cancelled, when it times out, and when its result is no longer awaited.
    pub cancel: CancellationToken,
    /// Where the tool says how far it is.
    pub progress: Progress,
    /// The number of this attempt; 1 is the first.
    pub attempt: u32,
    /// How long the attempt may take; the tool's own `timeout_ms` when absent. The registry enforces it, and always
    /// passes it to the tool.
    pub timeout: Option<Duration>,
    /// The thread that makes the call, if one does.
    pub thread: Option<ThreadId>,
    /// The span of the call, to be passed on to other services; absent unless the runtime passes traces on.
    pub traceparent: Option<TraceParent>,
    /// The labels of that thread.
    pub labels: Arc<Labels>,
    /// On whose behalf the call is made; the id of the thread where there is one. What outlives a call (a background
    /// process) belongs to it. Empty unless set.
    pub owner: Arc<str>,
    /// Where whole outputs are kept of which a model saw head and tail.
    pub outputs: Option<Arc<dyn OutputStore>>,
    /// How a tool asks a person in the middle of a call.
    pub ask: Option<Arc<dyn AskPerson>>,
    host: Option<Host>,
    begun: Arc<AtomicBool>,
    pub(crate) begin_work: Option<BeginWork>,
    pub(crate) permits: Option<PermitsOf>,
    permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// The runtime that runs the tools of a process, of a type that this crate does not know.
pub type Host = Weak<dyn Any + Send + Sync>;

/// Called when work begins; what it returns is dropped when the work ends.
pub type BeginWork = Arc<dyn Fn() -> Box<dyn Any + Send> + Send + Sync>;

/// How a call waits for a permit.
#[derive(Clone)]
pub(crate) struct PermitsOf {
    pub(crate) observer: Arc<dyn PermitObserver>,
    pub(crate) wait_max: Duration,
}

impl ToolContext {
    /// A first attempt without key, progress or a time limit of its own.
    pub fn new(workspace: impl Into<Arc<Workspace>>) -> Self {
        Self {
            key: "".into(),
            workspace: workspace.into(),
            cancel: CancellationToken::new(),
            progress: Progress::default(),
            attempt: 1,
            timeout: None,
            thread: None,
            traceparent: None,
            labels: Arc::default(),
            owner: "".into(),
            outputs: None,
            ask: None,
            host: None,
            begun: Arc::default(),
            begin_work: None,
            permits: None,
            permit: None,
        }
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.key = key.into();
        self
    }

    /// Sets the span of the call.
    #[must_use]
    pub fn traceparent(mut self, span: Option<TraceParent>) -> Self {
        self.traceparent = span;
        self
    }

    /// Sets the token that cancels the call.
    #[must_use]
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Sets where progress goes.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Sets the number of the attempt.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Sets how long the attempt may take, instead of the tool's own limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets on whose behalf the call is made.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Arc<str>>) -> Self {
        self.owner = owner.into();
        self
    }

    /// Sets the thread that makes the call, which is also its owner.
    #[must_use]
    pub fn thread(mut self, thread: ThreadId) -> Self {
        self.thread = Some(thread);
        self.owner(thread.to_string())
    }

    /// Sets the labels of the thread that makes the call.
    #[must_use]
    pub fn labels(mut self, labels: impl Into<Arc<Labels>>) -> Self {
        self.labels = labels.into();
        self
    }

    /// Sets what runs the tool. It is not kept alive.
    #[must_use]
    pub fn host(mut self, host: Host) -> Self {
        self.host = Some(host);
        self
    }

    /// Returns what runs the tool if it is of this type and still there. `rethread::Runtime::of` is for tools of a
    /// runtime.
    pub fn host_as<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.host.as_ref()?.upgrade()?.downcast().ok()
    }

    /// Sets where whole outputs are kept; answers that are cut then name `read_output`.
    #[must_use]
    pub fn outputs(mut self, outputs: Arc<dyn OutputStore>) -> Self {
        self.outputs = Some(outputs);
        self
    }

    /// Sets how a tool asks a person in the middle of a call.
    #[must_use]
    pub fn ask(mut self, ask: Arc<dyn AskPerson>) -> Self {
        self.ask = Some(ask);
        self
    }

    /// Sets who follows the wait for one of the tool's permits, and how long the call waits for one. Unless set it waits
    /// as long as the attempt may take.
    #[must_use]
    pub fn permits(mut self, observer: Arc<dyn PermitObserver>, wait_max: Duration) -> Self {
        self.permits = Some(PermitsOf { observer, wait_max });
        self
    }

    /// Sets who is notified of work that a tool does on a thread where it may block ([`crate::Tool::from_blocking_fn`]).
    #[must_use]
    pub fn on_blocking_work(mut self, begin: BeginWork) -> Self {
        self.begin_work = Some(begin);
        self
    }

    /// Marks that this attempt has changed nothing, and returns the error: `return Err(cx.not_started(error))`. A node
    /// may then be tried again although the tool is not `safe`, for any kind of error. Without it a call that began
    /// counts as one that may have changed something, unless its error is retryable and of a kind that leaves no doubt
    /// ([`ErrorKind::leaves_doubt`]).
    #[must_use]
    pub fn not_started(&self, error: ExecutionError) -> ExecutionError {
        self.begun.store(false, Ordering::Release);
        error
    }

    /// Whether the tool began, and did not say that it has changed nothing. Read by who made the call, on a clone that was
    /// made before it.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    pub(crate) fn hold_permit(&mut self, permit: Arc<OwnedSemaphorePermit>) {
        self.permit = Some(permit);
    }

    /// Returns an error once the call is cancelled. Blocking work calls this every few milliseconds.
    pub fn check(&self) -> Result<(), ExecutionError> {
        if self.cancel.is_cancelled() {
            return Err(ExecutionError::new(ErrorKind::Cancelled, "the call was cancelled"));
        }
        Ok(())
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("key", &self.key)
            .field("owner", &self.owner)
            .field("attempt", &self.attempt)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
