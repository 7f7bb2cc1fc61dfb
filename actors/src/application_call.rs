//! A call of code of the application: a context processor, a strategy, a handler of questions.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rethread_events::fault::ExecutionError;
use tracing::Instrument as _;

use crate::contained::contained;
use crate::crashes::{Crashes, Step};
use crate::port::Port;
use crate::spans::CallSpan;

/// One attempt at a call.
pub(crate) struct ApplicationCall {
    pub(crate) port: Port,
    pub(crate) span: CallSpan,
    pub(crate) crashes: Arc<Crashes>,
}

impl ApplicationCall {
    /// Runs the code inside the span of the call, and contains its panics. `None` when the thread cancels the call
    /// before it ends.
    pub(crate) async fn run<T>(
        &self,
        step: Step,
        work: impl Future<Output = Result<T, ExecutionError>>,
    ) -> Option<Result<T, ExecutionError>> {
        let work = self.crashes.clone().polled(&step, contained(work).instrument(self.span.span()));
        tokio::select! {
            biased;
            () = self.port.cancel.cancelled() => None,
            answer = work => {
                self.crashes.completed(Some(step.clone()));
                Some(answer.unwrap_or_else(Err))
            }
        }
    }
}
