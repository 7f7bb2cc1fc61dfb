//! The actor that runs tools. It never writes to the log: it reports to the port of the call.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::ThreadId;
use rethread_events::thread::{Input, ToolRun};
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
use crate::tool_asks::{AskForTool, ToolAsks};

/// Runs a tool once. The answer goes to the port, unless the call was cancelled.
pub(crate) struct CallTool {
    pub(crate) port: Port,
    /// Where the tool asks people.
    pub(crate) asks: Recipient<AskForTool>,
    pub(crate) thread: ThreadId,
    pub(crate) run: ToolRun,
    pub(crate) workspace: Option<String>,
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
        // Not spawned on the actor: an actor polls all of its futures whenever one of them wakes.
        actix_rt::spawn(async move {
            let CallTool { port, asks, thread, run, workspace, waits, span } = message;
            span.asks(|| run.arguments.0.to_string());
            let _open = services.counters.tool_call();
            let began_at = Instant::now();
            let cx = context(&services, &port, asks, thread, &run, workspace.as_deref());
            let step = Step::tool(thread, &run);
            let work = Arc::new(services.crashes.begins(step.clone()));
            let cx = cx.map(|cx| {
                cx.on_blocking_work(work).permits(waits, Duration::from_millis(services.limits.call_wait_max_ms))
            });
            let (begun, answer) = match cx {
                Ok(cx) => {
                    let called = services.tools.call(run.name.as_str(), run.arguments.clone().into_value(), cx.clone());
                    let called = contained(called).instrument(span.span());
                    let answer = services.crashes.clone().polled(step, called).await.unwrap_or_else(Err);
                    (cx.has_begun(), answer)
                }
                Err(error) => (false, Err(error)),
            };
            if port.cancel.is_cancelled() {
                return;
            }
            span.ends(&answer, |output| output.text.clone());
            let (call, attempt) = (run.call, run.attempt);
            let duration_ms = millis(began_at.elapsed());
            port.report(match answer {
                Ok(mut output) => {
                    // Before anybody is told: the event names what is in the log.
                    let full = services.outputs.keep(thread, &mut output, &port.cancel).await;
                    let value = output.value.clone();
                    Input::ToolAnswered { call, attempt, content: output.into_content(), value, full, duration_ms }
                }
                Err(error) => Input::ToolFailed { begun, call, attempt, error, duration_ms },
            });
        });
    }
}

fn context(
    services: &Arc<Services>,
    port: &Port,
    asks: Recipient<AskForTool>,
    thread: ThreadId,
    run: &ToolRun,
    workspace: Option<&str>,
) -> Result<ToolContext, ExecutionError> {
    let workspace =
        services.workspace_of(workspace).map_err(|error| ExecutionError::new(ErrorKind::Configuration, error))?;
    let reports = port.clone();
    let progress = Progress::new(move |message| {
        // Progress is worth no waiting.
        let (call, attempt) = (reports.call, reports.attempt);
        reports.report_if_room(Input::ToolProgress { call, attempt, message });
    });
    Ok(ToolContext::new(workspace)
        .key(run.key(thread))
        .attempt(run.attempt)
        .progress(progress)
        .timeout(Duration::from_millis(run.options.timeout_ms))
        .owner(thread.to_string())
        .outputs(Arc::new(ThreadOutputs { outputs: services.outputs.clone(), thread }))
        .ask(Arc::new(ToolAsks { port: port.clone(), asks }))
        .cancel(port.cancel.clone()))
}
