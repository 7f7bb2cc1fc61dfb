//! Starts children: threads of their own that a `start_thread` node starts. The id of a child is in the request of its
//! parent, and is searched for first: so a start that is repeated after a crash finds the child, and starts no second one.

use std::sync::Arc;
use std::time::Duration;

use rethread_events::event::{OnParentEnd, StartedByParent};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::TraceId;
use rethread_events::json::Json;
use rethread_events::text::with_sources;
use rethread_events::thread::{ChildRun, Input, State};
use rethread_events::workflow::Workflow;
use rethread_store::StoreError;
use tokio_util::sync::CancellationToken;

use crate::children;
use crate::deliver::report;
use crate::each_key::STORE_RETRY;
use crate::error::{RuntimeError, StartThreadError};
use crate::registry::ThreadRegistry;
use crate::runtime::Runtime;
use crate::start_thread::{OnBusy, StartThread};
use crate::stream_keys::ChildKey;
use crate::trace_contexts;

/// How long to wait while another start of the same child runs.
const CONFLICT_RETRY: Duration = Duration::from_millis(5);

/// A child that its parent wants to be started.
pub(crate) struct Wanted {
    run: ChildRun,
    parent: StartedByParent,
    /// The definition that the parent runs on.
    workflow: Arc<Workflow>,
    start: StartThread,
}

impl Wanted {
    pub(crate) fn new(run: ChildRun, parent: &State, workflow: Arc<Workflow>) -> Self {
        let by = StartedByParent {
            parent: parent.thread(),
            call_id: run.call,
            run_id: parent.run_id(),
            on_parent_end: run.on_parent_end,
            depth: parent.start_depth() + 1,
        };
        let input: serde_json::Map<_, _> =
            run.inputs.iter().map(|(name, value)| (name.clone(), value.clone().into_value())).collect();
        // The definition of the child takes the place of this one.
        let start = StartThread::new(workflow.clone(), Json::from(serde_json::Value::Object(input)))
            .id(run.child)
            .labels(parent.labels().clone())
            .variables(run.inputs.clone())
            .on_busy(OnBusy::Queue);
        let start = match parent.workspace() {
            Some(folder) => start.workspace(folder),
            None => start,
        };
        Self { run, parent: by, workflow, start }
    }
}

/// Why a child is not started yet.
enum Unstarted {
    /// It never will be.
    Failed(ExecutionError),
    /// It may be after this time.
    Retry(Duration),
    /// By the next runtime.
    Stopping,
}

/// Starts a child, once, and reports the result to its parent. `cancel` is cancelled when the parent no longer wants it.
pub(crate) async fn ensure(registry: Arc<ThreadRegistry>, wanted: Wanted, cancel: CancellationToken) {
    let Wanted { run, parent, .. } = &wanted;
    let outcome = loop {
        if cancel.is_cancelled() {
            return;
        }
        match begin(&registry, &wanted).await {
            Ok(()) => break Ok(()),
            Err(Unstarted::Failed(error)) => break Err(error),
            Err(Unstarted::Stopping) => return,
            Err(Unstarted::Retry(wait)) => registry.sleep(wait).await,
        }
    };
    let follows = outcome.is_ok() && run.on_parent_end != OnParentEnd::Leave;
    let input = Input::ChildStarted { call: run.call, outcome };
    let reported = report(&registry, parent.parent, input, None).await;
    // Without CHILD_STARTED, the run may have ended before the child was in the log, which its end searches.
    if follows && !matches!(reported, Ok(Some(_))) {
        children::follow(&registry, ChildKey::new(run.child, parent)).await;
    }
    if let Err(error) = reported
        && !registry.is_shutting_down()
    {
        let error = with_sources(&error);
        tracing::error!(thread = %parent.parent, child = %run.child, error, "the start of the child is reported when its parent is activated");
    }
}

async fn begin(registry: &Arc<ThreadRegistry>, wanted: &Wanted) -> Result<(), Unstarted> {
    let Some(runtime) = Runtime::of_registry(registry).filter(|_| !registry.is_shutting_down()) else {
        return Err(Unstarted::Stopping);
    };
    let (of, run, by, workflow) = (registry.clone(), wanted.run.clone(), wanted.parent, wanted.workflow.clone());
    let prepared = runtime.blocking(move || {
        let store = &*of.services.store;
        match store.stream(run.child) {
            Ok(_) => return Ok(None),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(failed(&RuntimeError::from(error).into())),
        }
        let child = workflow.child(&run.workflow).map_err(|faults| {
            let message = format!("workflow `{}` cannot run by itself: {faults}", run.workflow);
            Unstarted::Failed(ExecutionError::new(ErrorKind::Configuration, message))
        })?;
        let context = trace_contexts::of_run(store, by.parent, by.run_id);
        let trace: TraceId = context.map_or_else(|_| by.parent.into(), |context| context.trace);
        Ok(Some((child, trace)))
    });
    let Some((child, trace)) = prepared.await.map_err(|error| failed(&error.into()))?? else { return Ok(()) };
    let start = wanted.start.clone().workflow(child).parent(wanted.parent, trace);
    runtime.start(start).await.map(drop).map_err(|error| failed(&error))
}

/// What follows from a failed start.
fn failed(error: &StartThreadError) -> Unstarted {
    let kind = match error {
        StartThreadError::Runtime(RuntimeError::ShuttingDown) => return Unstarted::Stopping,
        // It is there, or another task is starting it.
        StartThreadError::Runtime(RuntimeError::Store(StoreError::Conflict { .. } | StoreError::Fenced { .. })) => {
            return Unstarted::Retry(CONFLICT_RETRY);
        }
        StartThreadError::Runtime(RuntimeError::Store(error)) if error.is_temporary() => {
            return Unstarted::Retry(STORE_RETRY);
        }
        // Its append may be under way: the next search for its id decides.
        StartThreadError::Runtime(RuntimeError::ActorStopped(_)) => return Unstarted::Retry(STORE_RETRY),
        StartThreadError::Workflow(_) => ErrorKind::Configuration,
        StartThreadError::Input(_) | StartThreadError::NoJson(_) => ErrorKind::InvalidInput,
        StartThreadError::TooLarge(_) => ErrorKind::TooLarge,
        StartThreadError::Runtime(RuntimeError::LabelLimit(_) | RuntimeError::Busy { .. }) => {
            let message = format!("the thread was not started: {}", with_sources(error));
            return Unstarted::Failed(ExecutionError::retryable(ErrorKind::Limit, message));
        }
        StartThreadError::Runtime(_) => ErrorKind::Internal,
    };
    let message = format!("the thread was not started: {}", with_sources(error));
    Unstarted::Failed(ExecutionError::new(kind, message))
}
