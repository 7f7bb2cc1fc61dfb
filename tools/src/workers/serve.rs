//! The worker's side: runs tools of a registry for callers.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Message, Request};
use futures_util::StreamExt as _;
use futures_util::stream::select_all;
use parking_lot::Mutex;
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::ThreadId;
use rethread_events::json::Json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::message::{Call, FromWorker, PROTOCOL, ToWorker, decode, encode};
use super::{check_name, subject};
use crate::{Progress, Registry, ToolContext, ToolOutput, Workspace};

/// Of the workers of a tool, one receives each call.
const GROUP: &str = "workers";
/// The pause before a result is sent again.
const PAUSE: Duration = Duration::from_millis(500);
/// How long calls that were cancelled have to report.
const REPORT_MAX: Duration = Duration::from_secs(2);
/// What a message has beside its payload, at most.
const HEADER_BYTES: usize = 1024;

/// How a worker works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerOptions {
    /// The first word of all subjects, the same for the callers. `rethread` unless set.
    pub prefix: String,
    /// The pool that it is part of. `default` unless set.
    pub pool: String,
    /// Its name, for people. `worker` unless set.
    pub name: String,
    /// How many calls run at once; further ones go to other workers, or wait with their callers. 8 unless set.
    pub concurrency_max: usize,
    /// How long calls may go on once it is told to stop. 10 s unless set.
    pub drain: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            prefix: "rethread".into(),
            pool: "default".into(),
            name: "worker".into(),
            concurrency_max: 8,
            drain: Duration::from_secs(10),
        }
    }
}

/// A call that a worker has run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The tool.
    pub tool: String,
    /// The thread that made the call, if one did.
    pub thread: Option<ThreadId>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How long it took.
    pub took: Duration,
    /// Why it failed, if it did.
    pub error: Option<ErrorKind>,
    /// Whether the caller has the result. If not, what the tool did is not known there.
    pub is_received: bool,
}

/// Why a worker does not work.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// An option cannot be used.
    #[error("{0}")]
    Options(String),
    /// The registry has no such tool.
    #[error("there is no tool `{0}`")]
    UnknownTool(String),
    /// The server of NATS does not accept it.
    #[error("calls cannot be received: {0}")]
    Connection(String),
}

/// Runs calls of these tools of a registry until `stop` is cancelled. Then it takes no further calls, and running calls may end.
/// `ended` is called for each call that has run, and must not block.
///
/// # Errors
/// [`WorkerError`], before any call runs. A connection that is lost later is made again by the client.
pub async fn serve(
    client: Client,
    registry: &Registry,
    tools: &[String],
    workspace: Arc<Workspace>,
    options: WorkerOptions,
    stop: CancellationToken,
    ended: impl Fn(Served) + Send + Sync + 'static,
) -> Result<(), WorkerError> {
    for (key, name) in [("prefix", &options.prefix), ("pool", &options.pool)] {
        check_name(name).map_err(|fault| WorkerError::Options(format!("{key}: {fault}")))?;
    }
    let refused = |error: &dyn std::fmt::Display| WorkerError::Connection(error.to_string());
    let mut subscriptions = Vec::new();
    for tool in tools {
        if registry.get(tool).is_none() {
            return Err(WorkerError::UnknownTool(tool.clone()));
        }
        check_name(tool).map_err(WorkerError::Options)?;
        let subject = subject(&options.prefix, &options.pool, tool);
        subscriptions.push(client.queue_subscribe(subject, GROUP.into()).await.map_err(|error| refused(&error))?);
    }
    let (prefix, pool) = (options.prefix, options.pool);
    client.flush().await.map_err(|error| refused(&error))?;
    let permits = Arc::new(Semaphore::new(options.concurrency_max.clamp(1, Semaphore::MAX_PERMITS)));
    let cancel = CancellationToken::new();
    let worker = Arc::new(Worker {
        client,
        registry: registry.clone(),
        prefix,
        pool,
        workspace,
        name: options.name,
        cancel: cancel.clone(),
        ended: Box::new(ended),
    });
    let (mut messages, mut running) = (select_all(subscriptions), JoinSet::new());
    loop {
        let message = tokio::select! {
            message = messages.next() => message,
            () = stop.cancelled() => break,
            Some(_) = running.join_next() => continue,
        };
        let Some(message) = message else { break };
        running.spawn(Arc::clone(&worker).take(message, Arc::clone(&permits).try_acquire_owned().ok()));
    }
    drop(messages);
    let all = async { while running.join_next().await.is_some() {} };
    let drained = timeout(options.drain, all).await;
    if drained.is_err() {
        cancel.cancel();
        let _ = timeout(REPORT_MAX, async { while running.join_next().await.is_some() {} }).await;
    }
    Ok(())
}

struct Worker {
    client: Client,
    registry: Registry,
    prefix: String,
    pool: String,
    workspace: Arc<Workspace>,
    name: String,
    /// Cancelled when it ends.
    cancel: CancellationToken,
    ended: Box<dyn Fn(Served) + Send + Sync>,
}

/// What the caller of a call is told, and answers.
struct Caller {
    client: Client,
    reply: async_nats::Subject,
}

impl Caller {
    async fn ask(&self, message: &FromWorker, wait: Duration) -> Option<ToWorker> {
        let request = Request::new().payload(encode(message)).timeout(Some(wait));
        let answered = self.client.send_request(self.reply.clone(), request).await.ok()?;
        decode(&answered.payload).inspect_err(|error| tracing::warn!(%error, "a caller is not understood")).ok()
    }
}

impl Worker {
    async fn take(self: Arc<Self>, message: Message, permit: Option<OwnedSemaphorePermit>) {
        let Some(reply) = message.reply else { return };
        let caller = Caller { client: self.client.clone(), reply };
        // Its subject is that of a tool that this worker has; the registry has other tools.
        let is_meant = |call: &Call| {
            call.protocol == PROTOCOL && *message.subject == *subject(&self.prefix, &self.pool, &call.tool)
        };
        let call = decode::<Call>(&message.payload).ok().filter(is_meant);
        // Callers of another version have other workers, or wait for one.
        let (Some(call), Some(_permit)) = (call, permit) else {
            let _ = self.client.publish(caller.reply, encode(&FromWorker::Busy)).await;
            return;
        };
        let offer = FromWorker::Offer { worker: self.name.clone() };
        let lost_after = Duration::from_millis(call.lost_after_ms);
        if caller.ask(&offer, lost_after).await == Some(ToWorker::Begin) {
            self.run(call, &caller, lost_after).await;
        }
    }

    async fn run(&self, call: Call, caller: &Caller, lost_after: Duration) {
        let began_at = Instant::now();
        let Call { tool, arguments, key, attempt, timeout_ms, thread, labels, traceparent, .. } = call;
        let (cancel, said) = (self.cancel.child_token(), Arc::new(Mutex::new(None)));
        let progress = {
            let said = Arc::clone(&said);
            Progress::new(move |text| *said.lock() = Some(text))
        };
        let cx = ToolContext::new(Arc::clone(&self.workspace))
            .key(key)
            .attempt(attempt)
            .timeout(Duration::from_millis(timeout_ms))
            .labels(labels)
            .traceparent(traceparent.and_then(|span| span.parse().ok()))
            .progress(progress)
            .cancel(cancel.clone());
        let cx = match thread {
            Some(thread) => cx.thread(thread),
            None => cx,
        };
        let mut work = tokio::spawn(self.registry.call(&tool, arguments, cx.clone()));
        let heartbeat = Duration::from_millis(call.heartbeat_ms.max(1));
        let mut heard_at = Instant::now();
        let answer = loop {
            tokio::select! {
                biased;
                ended = &mut work => break ended,
                () = sleep(heartbeat) => {}
            }
            let message = FromWorker::Heartbeat { progress: said.lock().take() };
            match caller.ask(&message, heartbeat.max(Duration::from_secs(1))).await {
                Some(ToWorker::Continue) => heard_at = Instant::now(),
                // Nobody waits for the result.
                Some(_) => cancel.cancel(),
                None if heard_at.elapsed() > lost_after => cancel.cancel(),
                None => {}
            }
        };
        // A panic is contained by the registry.
        let answer = answer.unwrap_or_else(|error| Err(ExecutionError::new(ErrorKind::Internal, error.to_string())));
        let error = answer.as_ref().err().map(|error| error.kind);
        let not_started = !cx.has_begun();
        let is_received = self.report(answer, not_started, caller, lost_after).await;
        (self.ended)(Served { tool, thread, attempt, took: began_at.elapsed(), error, is_received });
    }

    /// Sends the result until the caller has it. Returns false if it does not answer.
    async fn report(
        &self,
        answer: Result<ToolOutput, ExecutionError>,
        not_started: bool,
        caller: &Caller,
        lost_after: Duration,
    ) -> bool {
        let result = match answer {
            Ok(output) => self.completed(output),
            Err(error) => FromWorker::Failed {
                message: error.message,
                kind: Some(error.kind),
                retryable: error.retryable,
                not_started,
            },
        };
        let deadline = Instant::now() + lost_after;
        loop {
            match caller.ask(&result, lost_after).await {
                Some(ToWorker::Received) => return true,
                Some(_) => return false,
                None if Instant::now() > deadline || self.cancel.is_cancelled() => return false,
                None => sleep(PAUSE).await,
            }
        }
    }

    /// The result as one message. A text that was cut for a model is sent whole if it fits.
    fn completed(&self, output: ToolOutput) -> FromWorker {
        let ToolOutput { text, value, parts, full, .. } = output;
        let value = value.map(Json::into_value);
        let message = |text| FromWorker::Completed { text: Some(text), value: value.clone(), parts: parts.clone() };
        let bytes_max = self.client.max_payload().saturating_sub(HEADER_BYTES);
        let whole = full.map(message);
        let candidates = whole.into_iter().chain([message(text)]);
        let mut smallest = 0;
        for candidate in candidates {
            smallest = encode(&candidate).len();
            if smallest <= bytes_max {
                return candidate;
            }
        }
        FromWorker::Failed {
            message: format!("the result has {smallest} bytes, and the server of NATS accepts {bytes_max} for it"),
            kind: Some(ErrorKind::TooLarge),
            retryable: false,
            not_started: false,
        }
    }
}
