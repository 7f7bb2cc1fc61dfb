//! One attempt at one call, from its arguments to its answer.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::tool::Recovery;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::schema::Arguments;
use crate::tool::{Answer, Placed};
use crate::{SchemaError, Tool, ToolContext, head_and_tail};

/// How long a tool has to end by itself after it was cancelled, before its future is dropped.
const GRACE: Duration = Duration::from_millis(500);
/// The bytes of an error's text; a model and a log read it.
const ERROR_BYTES_MAX: usize = 16 * 1024;

/// A tool in a registry: with its schema compiled and its free places counted.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) tool: Tool,
    arguments: Arguments,
    permits: Arc<Semaphore>,
}

impl Registered {
    pub(crate) fn new(tool: Tool) -> Result<Self, SchemaError> {
        let arguments = Arguments::compile(&tool.spec().parameters.0)?;
        let n_permits = tool.limits().concurrency_max.clamp(1, Semaphore::MAX_PERMITS);
        Ok(Self { tool, arguments, permits: Arc::new(Semaphore::new(n_permits)) })
    }

    /// Makes one attempt. Ends with the tool's answer, or an error, at the latest [`GRACE`] after the time is up
    /// (beside its wait for a permit, see [`ToolContext::permits`]). Dropping it calls the tool off.
    pub(crate) async fn call(self: Arc<Self>, arguments: Value, cx: ToolContext) -> Answer {
        let progress = cx.progress.clone();
        let answer = self.attempt(arguments, cx).await;
        progress.end();
        answer
    }

    async fn attempt(self: Arc<Self>, arguments: Value, mut cx: ToolContext) -> Answer {
        cx.check()?;
        self.arguments.check(&arguments)?;
        let timeout = cx.timeout.unwrap_or_else(|| self.tool.timeout());
        cx.timeout = Some(timeout);
        // The context holds the permit as well: for a thread that continues after this future is dropped.
        let place = Arc::new(self.acquire_permit(&cx, timeout).await?);
        cx.hold_permit(Arc::clone(&place));

        // A child token, so that the timeout of this call does not cancel other work with the caller's token.
        let cancel = cx.cancel.child_token();
        let called_off = std::mem::replace(&mut cx.cancel, cancel.clone());
        let _when_dropped = cancel.clone().drop_guard();

        let can_read_more = cx.outputs.is_some();
        let tool = self.tool.clone();
        let placed = match tool.place(&arguments, &cx) {
            Some(place) => Some(self.wait(&cx, timeout, self.placed(place), "nothing took it").await?),
            None => None,
        };
        cx.begin();
        let mut work = Contained::new(async move {
            match placed {
                Some(placed) => placed.await,
                None => tool.run(arguments, cx).await,
            }
        });
        let stopped = tokio::select! {
            biased;
            ended = &mut work => return self.finish(ended, can_read_more),
            () = called_off.cancelled() => {
                ExecutionError::new(ErrorKind::Cancelled, "the call was cancelled")
            }
            () = sleep(timeout) => self.timed_out(timeout),
        };
        cancel.cancel();
        match tokio::time::timeout(GRACE, &mut work).await {
            // It got to its end after all; to deny what has happened would be wrong.
            Ok(Ok(Ok(output))) => self.finish(Ok(Ok(output)), can_read_more),
            Ok(Ok(Err(error))) if error.kind != ErrorKind::Cancelled => {
                Err(stopped.caused_by(head_and_tail(&error.message, ERROR_BYTES_MAX)))
            }
            Ok(Err(panic)) => Err(stopped.caused_by(format!("panicked: {}", panic_text(&*panic)))),
            Ok(Ok(Err(_))) | Err(_) => Err(stopped),
        }
    }

    async fn acquire_permit(
        &self,
        cx: &ToolContext,
        timeout: Duration,
    ) -> Result<OwnedSemaphorePermit, ExecutionError> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let acquired = Arc::clone(&self.permits).acquire_owned();
        // The semaphore is never closed.
        let acquired = acquired.map(|permit| permit.map_err(|_| self.not_started("it ended")));
        let busy = format!("{} calls of it held every permit", self.tool.limits().concurrency_max);
        self.wait(cx, timeout, acquired, &busy).await
    }

    /// Waits for what a call needs before it begins; `why` says what it still waited for when its time is up.
    async fn wait<T>(
        &self,
        cx: &ToolContext,
        timeout: Duration,
        wanted: impl Future<Output = Result<T, ExecutionError>>,
        why: &str,
    ) -> Result<T, ExecutionError> {
        let wait = cx.permits.as_ref().map_or(timeout, |permits| permits.wait_max);
        let observer = cx.permits.as_ref().map(|permits| &permits.observer);
        if let Some(observer) = observer {
            observer.wait_begins();
        }
        let found = tokio::select! {
            found = wanted => found,
            () = cx.cancel.cancelled() => {
                Err(ExecutionError::new(ErrorKind::Cancelled, "the call was cancelled before it began"))
            }
            () = sleep(wait) => Err(self.not_started(&format!("{why} for {} ms", wait.as_millis()))),
        };
        if let Some(observer) = observer {
            observer.wait_ends();
        }
        found
    }

    fn not_started(&self, why: &str) -> ExecutionError {
        ExecutionError::retryable(ErrorKind::Overloaded, format!("`{}` was not started: {why}", self.tool.name()))
    }

    /// The place that a tool finds for a call.
    async fn placed(
        &self,
        place: impl Future<Output = Result<Placed, ExecutionError>>,
    ) -> Result<Placed, ExecutionError> {
        match Contained::new(place).await {
            Ok(placed) => placed,
            Err(panic) => Err(self.panicked(&*panic)),
        }
    }

    fn finish(&self, ended: Result<Answer, Panic>, can_read_more: bool) -> Answer {
        match ended {
            Ok(Ok(mut output)) => {
                let limits = self.tool.limits();
                output.limit(limits.output_bytes_max, limits.attachment_bytes_max, can_read_more);
                Ok(output)
            }
            Ok(Err(mut error)) => {
                if error.message.len() > ERROR_BYTES_MAX {
                    error.message = head_and_tail(&error.message, ERROR_BYTES_MAX);
                }
                Err(error)
            }
            Err(panic) => Err(self.panicked(&*panic)),
        }
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> ExecutionError {
        let text = panic_text(panic);
        tracing::error!(tool = self.tool.name(), panic = %text, "a tool panicked");
        ExecutionError::new(ErrorKind::Panicked, format!("`{}` crashed: {text}", self.tool.name()))
    }

    fn timed_out(&self, timeout: Duration) -> ExecutionError {
        let text = format!("`{}` was stopped after {} ms", self.tool.name(), timeout.as_millis());
        match self.tool.declared_recovery() {
            Recovery::Safe | Recovery::Idempotent => ExecutionError::retryable(ErrorKind::Timeout, text),
            Recovery::AtMostOnce => {
                ExecutionError::new(ErrorKind::Timeout, format!("{text}; its effects until then remain"))
            }
        }
    }
}

type Panic = Box<dyn Any + Send>;

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text.as_str(),
        (None, None) => "a panic without a message",
    };
    head_and_tail(text, 1024)
}

/// A future whose panics are answers, those of its destructors included.
struct Contained<F>(Option<Pin<Box<F>>>);

impl<F: Future> Contained<F> {
    fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F: Future> Future for Contained<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.0.as_mut() else { return Poll::Pending };
        let polled = AssertUnwindSafe(future).catch_unwind().poll_unpin(cx);
        if polled.is_ready() {
            // Dropped here, so that a panic of its destructors is contained as well.
            drop_quietly(self.0.take());
        }
        polled
    }
}

impl<F> Drop for Contained<F> {
    fn drop(&mut self) {
        drop_quietly(self.0.take());
    }
}

fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        tracing::error!(panic = %panic_text(&*panic), "a tool panicked while it was being dropped");
    }
}

#[cfg(test)]
mod tests;
