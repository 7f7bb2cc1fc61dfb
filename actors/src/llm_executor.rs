//! The actor that calls models. It never writes to the log: it reports to the port of the call.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use parking_lot::Mutex;
use rethread_events::event::{
    LlmCallCompleted, LlmCallFailed, LlmExecutionProgress, LlmRequestChanged, LlmTryFailed, RequestChange,
};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{RunId, ThreadId, Time};
use rethread_events::thread::{ModelRequest, PermitObserver as _};
use rethread_llm::tokens;
use rethread_llm::{CallContext, Delta, Listener, TryEvent};
use tokio::sync::{Notify, SemaphorePermit};
use tracing::Instrument as _;

use crate::clock::{self, millis};
use crate::contained::contained;
use crate::models::{execution_error, model_answer};
use crate::permit_waits::PermitWaits;
use crate::port::Port;
use crate::services::Services;
use crate::spans::{CallSpan, json_of};

/// How long pieces of a streamed answer are gathered before they become an event.
const GATHER: Duration = Duration::from_millis(25);

/// Calls a model once: LLM_EXECUTION_REQUEST with the messages of this call. LLM_CALL_COMPLETED or LLM_CALL_FAILED goes
/// to the port, unless the call was cancelled.
pub(crate) struct CallModel {
    pub(crate) port: Port,
    pub(crate) thread: ThreadId,
    pub(crate) run: RunId,
    /// The recorded request, and what this call sends in addition.
    pub(crate) request: ModelRequest,
    /// When the thread stops this attempt.
    pub(crate) deadline: Option<Time>,
    pub(crate) waits: Arc<PermitWaits>,
    pub(crate) span: CallSpan,
}

impl Message for CallModel {
    type Result = ();
}

pub(crate) struct LlmExecutor {
    pub(crate) services: Arc<Services>,
}

impl Actor for LlmExecutor {
    type Context = Context<Self>;
}

impl Handler<CallModel> for LlmExecutor {
    type Result = ();

    fn handle(&mut self, message: CallModel, _ctx: &mut Context<Self>) {
        let services = self.services.clone();
        // Not spawned on the actor: an actor polls all of its futures when one of them wakes.
        actix_rt::spawn(async move {
            let cancel = message.port.cancel.clone();
            let _open = services.counters.model_call();
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = run(services, message) => {}
            }
        });
    }
}

/// Returns when the thread stops the call, if the call does not wait for a permit.
fn until(deadline: Option<Time>) -> Option<tokio::time::Instant> {
    let left_us = deadline?.unix_us().saturating_sub(clock::now().unix_us());
    tokio::time::Instant::now().checked_add(Duration::from_micros(left_us))
}

async fn run(services: Arc<Services>, message: CallModel) {
    let CallModel { port, thread, run, request, deadline, waits, span } = message;
    span.asks(|| json_of(&request.messages));
    let began = Instant::now();
    // In its own allocation: what wraps a future moves it.
    let last = LastTry::default();
    let asked = Box::pin(ask(&services, (thread, run), &port, deadline, &waits, request, &last));
    let answered = contained(asked).instrument(span.span()).await.unwrap_or_else(Err);
    span.ends(&answered, |answer| json_of(&answer.message));
    match answered {
        Ok(mut answer) => {
            answer.duration_ms = millis(began.elapsed());
            port.report(answer);
        }
        Err(error) => {
            let failed = LlmCallFailed::new(port.call, error);
            port.report(match last.lock().take() {
                Some(TryEvent { model, fallback_from, error, .. }) => {
                    LlmCallFailed { model, fallback_from, used: error.and_then(|error| error.used), ..failed }
                }
                None => failed,
            });
        }
    }
}

async fn ask(
    services: &Arc<Services>,
    (thread, run): (ThreadId, RunId),
    port: &Port,
    deadline: Option<Time>,
    waits: &PermitWaits,
    wanted: ModelRequest,
    last: &LastTry,
) -> Result<LlmCallCompleted, ExecutionError> {
    let tools = services.offered_to(&wanted).await?;
    let holds_answers = wanted.execution.holds_answers();
    let is_first = wanted.iteration == 1;
    let (client, mut request) = services.models.prepare(wanted, tools)?;
    let _permit = permit(services, waits).await?;
    // What a guardrail is to check first is streamed to here and no further.
    let stream = request.stream && !holds_answers;
    let gathered = Arc::new(Gathered { stream, ..Gathered::default() });
    let mut listener = Gatherer {
        to: gathered.clone(),
        port: port.clone(),
        is_first,
        changes: Changes::default(),
        last: last.clone(),
    };
    let key = port.call.key(thread);
    let traceparent = services.traces.of_call(thread, run, port.call).await;
    let (began, counted) = (Instant::now(), &services.counters.calls);
    loop {
        let cx = CallContext::new(&key, &mut listener).until(until(deadline)).permits(waits).traceparent(traceparent);
        let answer = client.call(&request, cx);
        let answer = if stream { follow(answer, &gathered, port).await } else { answer.await };
        listener.report_changes();
        match answer {
            // Not every model supports a response format, or supports it with tools. The prompt describes the format
            // too.
            Err(error) if error.kind == ErrorKind::InvalidRequest && request.response_format.take().is_some() => {
                let tried =
                    TryEvent { attempt: 1, took_ms: 0, error: None, wait_ms: None, model: None, fallback_from: None };
                let tried = last.lock().take().unwrap_or(tried);
                listener.tried(TryEvent { error: Some(error), wait_ms: Some(0), ..tried });
            }
            Err(error) => {
                let error = execution_error(error);
                counted.model(client.provider(), &request.model, began.elapsed(), Err(error.kind));
                return Err(error);
            }
            Ok(answer) => {
                let took = began.elapsed();
                // A client of the application may report no usage; that of profiles is complete.
                let counter = services.counting.counter(&request.model);
                let answer = model_answer(port.call, tokens::complete(counter, &request, answer).await);
                counted.model(client.provider(), &request.model, took, Ok((answer.model.as_deref(), &answer.usage)));
                counted.provider_cache(client.provider(), &request.model, &answer);
                return Ok(answer);
            }
        }
    }
}

/// Waits for one of the permits of the runtime. The wait does not count for the time limit of the call.
async fn permit<'a>(services: &'a Services, waits: &PermitWaits) -> Result<SemaphorePermit<'a>, ExecutionError> {
    if let Ok(permit) = services.model_calls.try_acquire() {
        return Ok(permit);
    }
    let wait_max_ms = services.limits.call_wait_max_ms;
    waits.wait_begins();
    let permit = tokio::time::timeout(Duration::from_millis(wait_max_ms), services.model_calls.acquire()).await;
    waits.wait_ends();
    match permit {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) => Err(ExecutionError::retryable(ErrorKind::Cancelled, "the runtime is shutting down")),
        Err(_) => Err(ExecutionError::retryable(
            ErrorKind::Overloaded,
            format!(
                "the model was not called: {} calls were running for all of {wait_max_ms} ms; raise                  limits.concurrent_model_calls_max or limits.call_wait_max_ms",
                services.limits.concurrent_model_calls_max
            ),
        )),
    }
}

/// Waits for the answer and reports its pieces: the first at once, the rest gathered.
async fn follow<T>(answer: impl Future<Output = T>, gathered: &Gathered, port: &Port) -> T {
    let mut index = 0;
    let mut answer = std::pin::pin!(answer);
    loop {
        let answered = tokio::select! {
            answer = &mut answer => Some(answer),
            () = gathered.changed.notified() => None,
        };
        if let Some(pieces) = gathered.take() {
            // Waits if the thread lags. This slows down the provider's stream, too.
            port.report_and_wait(pieces.progress(port, index)).await;
            index += 1;
        }
        if let Some(answer) = answered {
            return answer;
        }
        tokio::select! {
            answer = &mut answer => {
                if let Some(pieces) = gathered.take() {
                    port.report_and_wait(pieces.progress(port, index)).await;
                }
                return answer;
            }
            () = tokio::time::sleep(GATHER) => {}
        }
    }
}

#[derive(Default)]
struct Gathered {
    stream: bool,
    pieces: Mutex<Pieces>,
    changed: Notify,
}

#[derive(Default)]
struct Pieces {
    text: String,
    reasoning: String,
    restarted: bool,
}

impl Pieces {
    fn progress(self, port: &Port, index: u64) -> LlmExecutionProgress {
        let Self { text, reasoning, restarted } = self;
        let (node_id, call_id, attempt) = (None, port.call, port.attempt);
        LlmExecutionProgress { node_id, call_id, attempt, index, text, reasoning, restarted }
    }
}

impl Gathered {
    fn take(&self) -> Option<Pieces> {
        let pieces = std::mem::take(&mut *self.pieces.lock());
        let some = pieces.restarted || !pieces.text.is_empty() || !pieces.reasoning.is_empty();
        some.then_some(pieces)
    }
}

struct Gatherer {
    to: Arc<Gathered>,
    port: Port,
    /// Whether this is the first call of its loop, which says for all of them what every call leaves out.
    is_first: bool,
    changes: Changes,
    last: LastTry,
}

/// The failed attempt that no other follows, once there is one.
type LastTry = Arc<Mutex<Option<TryEvent>>>;

/// How a request differs from what was asked for.
#[derive(Default)]
struct Changes {
    found: Vec<RequestChange>,
    /// How many of them are reported: each attempt says them anew.
    n_reported: usize,
}

impl Gatherer {
    /// Reports the changes that are not reported yet.
    fn report_changes(&mut self) {
        let changes = self.changes.found[self.changes.n_reported..].to_vec();
        if !changes.is_empty() {
            self.changes.n_reported = self.changes.found.len();
            self.port.report(LlmRequestChanged { node_id: None, call_id: self.port.call, changes });
        }
    }
}

impl Listener for Gatherer {
    fn delta(&mut self, delta: Delta) {
        let mut pieces = self.to.pieces.lock();
        match delta {
            Delta::Text(text) | Delta::Refusal(text) => pieces.text.push_str(&text),
            Delta::Reasoning(text) => pieces.reasoning.push_str(&text),
            // A tool call is useful only when it is complete: the answer contains it.
            Delta::ToolCall { .. } => return,
            Delta::Restarted { .. } => *pieces = Pieces { restarted: true, ..Pieces::default() },
        }
        drop(pieces);
        self.to.changed.notify_one();
    }

    fn tried(&mut self, event: TryEvent) {
        let Some(wait_ms) = event.wait_ms else {
            // The error of the last try is in the result.
            *self.last.lock() = event.error.is_some().then_some(event);
            return;
        };
        if let Some(error) = event.error {
            self.port.report(LlmTryFailed {
                node_id: None,
                call_id: self.port.call,
                try_number: event.attempt,
                used: error.used.clone(),
                error: execution_error(error),
                wait_ms,
                model: event.model,
                fallback_from: event.fallback_from,
            });
        }
    }

    fn changed(&mut self, change: RequestChange) {
        // What can be counted differs from call to call.
        if (self.is_first || change.n.is_some()) && !self.changes.found.contains(&change) {
            self.changes.found.push(change);
        }
    }

    fn wants_deltas(&self) -> bool {
        self.to.stream
    }
}
