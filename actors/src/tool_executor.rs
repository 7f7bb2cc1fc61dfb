//! The actor that runs tools. It never writes to the log: it reports to the port of the call.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use rethread_events::event::{
    ToolExecutionCompleted, ToolExecutionFailed, ToolExecutionProgress, ToolExecutionRequest,
};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{RunId, ThreadId};
use rethread_events::labels::Labels;
use rethread_tools::{Progress, ToolContext};
use tracing::Instrument as _;

use crate::clock::millis;
use crate::contained::contained;
use crate::crashes::Step;
use crate::outputs::ThreadOutputs;
use crate::permit_waits::PermitWaits;
use crate::port::Port;
use crate::services::Services;
use crate::spans::CallSpan;
use crate::tool_asks::ToolAsks;

/// Runs a tool once, for a recorded TOOL_EXECUTION_REQUEST. TOOL_EXECUTION_COMPLETED or TOOL_EXECUTION_FAILED goes to
/// the port, unless the call was cancelled.
pub(crate) struct CallTool {
    pub(crate) port: Port,
    pub(crate) thread: ThreadId,
    pub(crate) run: RunId,
    pub(crate) request: ToolExecutionRequest,
    /// The idempotency key of the call.
    pub(crate) key: String,
    pub(crate) workspace: Option<String>,
    /// The labels of the thread.
    pub(crate) labels: Labels,
    pub(crate) waits: Arc<PermitWaits>,
    pub(crate) span: CallSpan,
}

impl Message for CallTool {
    type Result = ();
}

pub(crate) struct ToolExecutor {
    pub(crate) services: Arc<Services>,
}

impl Actor for ToolExecutor {
    type Context = Context<Self>;
}

impl Handler<CallTool> for ToolExecutor {
    type Result = ();

    fn handle(&mut self, message: CallTool, _ctx: &mut Context<Self>) {
        let services = self.services.clone();
        // Not spawned on the actor: an actor polls all of its futures when one of them wakes.
        actix_rt::spawn(async move {
            let CallTool { port, thread, run, request, key, workspace, labels, waits, span } = message;
            span.asks(|| request.arguments.0.to_string());
            let _open = services.counters.tool_call();
            let began_at = Instant::now();
            let step = Step::tool(thread, port.call, &request);
            let ToolExecutionRequest { tool_call_id, name, arguments, options, .. } = request;
            let timeout = Duration::from_millis(options.timeout_ms);
            let cx = context(&services, &port, thread, workspace.as_deref());
            let traceparent = services.traces.of_call(thread, run, port.call).await;
            let cx = cx.map(|cx| cx.key(key).labels(labels).timeout(timeout).traceparent(traceparent));
            let work = Arc::new(services.crashes.begins(step.clone()));
            let cx = cx.map(|cx| {
                cx.on_blocking_work(work).permits(waits, Duration::from_millis(services.limits.call_wait_max_ms))
            });
            let (begun, answer) = match cx {
                Ok(cx) => {
                    let called = services.tools.call(name.as_str(), arguments.into_value(), cx.clone());
                    let called = contained(called).instrument(span.span());
                    let answer = services.crashes.clone().polled(&step, called).await.unwrap_or_else(Err);
                    // Work that was given up may not have begun, and may go on.
                    let timed_out = answer.as_ref().is_err_and(|error| error.kind == ErrorKind::Timeout);
                    if !timed_out && !port.cancel.is_cancelled() {
                        services.crashes.completed(Some(step));
                    }
                    (cx.has_begun(), answer)
                }
                Err(error) => (false, Err(error)),
            };
            if port.cancel.is_cancelled() {
                return;
            }
            span.ends(&answer, |output| output.text.clone());
            let error = answer.as_ref().err().map(|error| error.kind);
            services.counters.calls.tool(name.as_str(), began_at.elapsed(), error);
            let (node_id, call_id) = (None, port.call);
            let duration_ms = millis(began_at.elapsed());
            match answer {
                Ok(mut output) => {
                    // Before the report: the event names a blob that must be in the log.
                    let full_output = services.outputs.keep(thread, &mut output, &port.cancel).await;
                    let value = output.value.take();
                    let content = output.into_content();
                    port.report(ToolExecutionCompleted {
                        node_id,
                        call_id,
                        tool_call_id,
                        content,
                        value,
                        duration_ms,
                        full_output,
                    });
                }
                Err(error) => {
                    let not_started = !begun;
                    port.report(ToolExecutionFailed {
                        node_id,
                        call_id,
                        tool_call_id,
                        error,
                        duration_ms,
                        not_started,
                    });
                }
            }
        });
    }
}

fn context(
    services: &Arc<Services>,
    port: &Port,
    thread: ThreadId,
    workspace: Option<&str>,
) -> Result<ToolContext, ExecutionError> {
    let workspace =
        services.workspace_of(workspace).map_err(|error| ExecutionError::new(ErrorKind::Configuration, error))?;
    let reports = port.clone();
    let progress = Progress::new(move |message| {
        // Progress is dropped rather than waited for.
        let (node_id, call_id, attempt) = (None, reports.call, reports.attempt);
        reports.report_if_room(ToolExecutionProgress { node_id, call_id, attempt, message });
    });
    let cx = ToolContext::new(workspace);
    let cx = match services.host.get() {
        Some(host) => cx.host(host.clone()),
        None => cx,
    };
    Ok(cx
        .attempt(port.attempt)
        .progress(progress)
        .thread(thread)
        .outputs(Arc::new(ThreadOutputs { outputs: services.outputs.clone(), thread }))
        .ask(Arc::new(ToolAsks { port: port.clone() }))
        .cancel(port.cancel.clone()))
}
