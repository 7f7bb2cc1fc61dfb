//! The actor that runs tools. It never writes to the log: it reports to the thread.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use futures_util::FutureExt;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::ThreadId;
use rethread_events::thread::{Input, ToolRun};
use rethread_tools::{Progress, ToolContext};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::crashes::Step;
use crate::inner::Inner;
use crate::outputs::ThreadOutputs;
use crate::permit_waits::PermitWaits;
use crate::spans::CallSpan;
use crate::thread_actor::{Tell, ThreadActor};
use crate::tool_asks::ToolAsks;

/// Runs a tool once. The answer goes to the thread, unless the call was called off.
pub(crate) struct CallTool {
    pub(crate) thread: Addr<ThreadActor>,
    pub(crate) id: ThreadId,
    pub(crate) run: ToolRun,
    pub(crate) workspace: Option<String>,
    pub(crate) cancel: CancellationToken,
    pub(crate) waits: Arc<PermitWaits>,
    pub(crate) span: CallSpan,
}

impl Message for CallTool {
    type Result = ();
}

pub(crate) struct ToolExecutor {
    pub(crate) inner: Arc<Inner>,
}

impl Actor for ToolExecutor {
    type Context = Context<Self>;
}

impl Handler<CallTool> for ToolExecutor {
    type Result = ();

    fn handle(&mut self, message: CallTool, _ctx: &mut Context<Self>) {
        let inner = self.inner.clone();
        // Not spawned on the actor: an actor polls all of its futures whenever one of them wakes.
        actix_rt::spawn(async move {
            let CallTool { thread, id, run, workspace, cancel, waits, span } = message;
            span.asks(|| run.arguments.0.to_string());
            let _open = inner.counters.tool_call();
            let began_at = Instant::now();
            let cx = context(&inner, &thread, id, &run, workspace.as_deref(), cancel.clone());
            let step = Step::tool(id, &run);
            let work = Arc::new(inner.crashes.begins(step.clone()));
            let cx = cx.map(|cx| {
                cx.on_blocking_work(work).permits(waits, Duration::from_millis(inner.limits.call_wait_max_ms))
            });
            let (begun, answer) = match cx {
                Ok(cx) => {
                    let called = inner.tools.call(run.name.as_str(), run.arguments.clone().into_value(), cx.clone());
                    let called = contained(called).instrument(span.span());
                    let answer = inner.crashes.clone().polled(step, called).await.unwrap_or_else(Err);
                    (cx.has_begun(), answer)
                }
                Err(error) => (false, Err(error)),
            };
            if cancel.is_cancelled() {
                return;
            }
            span.ends(&answer, |output| output.text.clone());
            let (call, attempt) = (run.call, run.attempt);
            let duration_ms = millis(began_at.elapsed());
            let input = match answer {
                Ok(mut output) => {
                    // Before anybody is told: the event names what is in the log.
                    let full = inner.outputs.keep(id, &mut output, &cancel).await;
                    let value = output.value.clone();
                    Input::ToolAnswered { call, attempt, content: output.into_content(), value, full, duration_ms }
                }
                Err(error) => Input::ToolFailed { begun, call, attempt, error, duration_ms },
            };
            thread.do_send(Tell::said(input, &cancel));
        });
    }
}

fn context(
    inner: &Arc<Inner>,
    thread: &Addr<ThreadActor>,
    id: ThreadId,
    run: &ToolRun,
    workspace: Option<&str>,
    cancel: CancellationToken,
) -> Result<ToolContext, ExecutionError> {
    let workspace =
        inner.workspace_of(workspace).map_err(|error| ExecutionError::new(ErrorKind::Configuration, error))?;
    let asks = ToolAsks { thread: thread.clone(), call: run.call, attempt: run.attempt, cancel: cancel.clone() };
    let (thread, call, attempt, begun) = (thread.clone(), run.call, run.attempt, cancel.clone());
    let progress = Progress::new(move |message| {
        // Progress is worth no waiting: when the thread's mailbox is full, it is passed over.
        let _ = thread.try_send(Tell::said(Input::ToolProgress { call, attempt, message }, &begun));
    });
    Ok(ToolContext::new(workspace)
        .key(run.key(id))
        .attempt(run.attempt)
        .progress(progress)
        .timeout(Duration::from_millis(run.options.timeout_ms))
        .owner(id.to_string())
        .outputs(Arc::new(ThreadOutputs { outputs: inner.outputs.clone(), thread: id }))
        .ask(Arc::new(asks))
        .cancel(cancel))
}

/// The future's answer, or its panic as an error.
pub(crate) async fn contained<F: Future>(future: F) -> Result<F::Output, ExecutionError> {
    AssertUnwindSafe(future)
        .catch_unwind()
        .await
        .map_err(|panic| ExecutionError::new(ErrorKind::Panicked, format!("it panicked: {}", panic_message(&*panic))))
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
