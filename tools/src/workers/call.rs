//! The caller's side of one attempt at a call.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Message, StatusCode, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::json::Json;
use rethread_events::message::Part;
use rethread_events::tool::Recovery;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::message::{Call, FromWorker, PROTOCOL, ToWorker, decode, encode};
use super::{Pool, Workers, lost, subject};
use crate::tool::{Answer, Placed};
use crate::{ToolContext, ToolOutput};

/// How long an offer may take, from a worker that is there and has room.
const OFFER_MAX: Duration = Duration::from_secs(2);
/// The pauses before workers are asked again.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// What a message has beside its payload, at most.
const HEADER_BYTES: usize = 1024;

/// Finds a worker for a call. Dropped, it leaves no worker that begins.
pub(super) async fn place(
    workers: Workers,
    tool: String,
    pool: Pool,
    recovery: Recovery,
    arguments: Value,
    cx: ToolContext,
) -> Result<Placed, ExecutionError> {
    let pool = pool.of(&cx)?.to_owned();
    let (options, millis) = (&workers.0.options, |duration: Duration| duration.as_millis() as u64);
    let call = Call {
        protocol: PROTOCOL,
        tool,
        arguments,
        key: cx.key.to_string(),
        attempt: cx.attempt,
        recovery,
        // The registry sets it.
        timeout_ms: millis(cx.timeout.unwrap_or_default()),
        heartbeat_ms: millis(options.heartbeat),
        lost_after_ms: millis(options.lost_after),
        thread: cx.thread,
        labels: (*cx.labels).clone(),
        traceparent: cx.traceparent.map(|span| span.to_string()),
    };
    let (attempt, offer) = begin(&workers, &pool, call, cx).await?;
    Ok(attempt.run(offer).boxed())
}

/// Finds a worker that offers to run a call. Returns its offer.
async fn begin(
    workers: &Workers,
    pool: &str,
    call: Call,
    cx: ToolContext,
) -> Result<(Attempt, Message), ExecutionError> {
    let options = &workers.0.options;
    let (tool, recovery) = (&call.tool, call.recovery);
    let subject = subject(&options.prefix, pool, tool);
    let payload = encode(&call);
    let client = workers.client().await?;
    let payload_max = client.max_payload().saturating_sub(HEADER_BYTES);
    if payload.len() > payload_max {
        return Err(ExecutionError::new(
            ErrorKind::TooLarge,
            format!("the call has {} bytes, and the server of NATS accepts {payload_max} for a worker", payload.len()),
        ));
    }
    let reply = reply_subject(&options.prefix)?;
    let unreachable = |error: &dyn std::fmt::Display| {
        ExecutionError::retryable(ErrorKind::Connection, format!("no worker can be reached: {error}"))
    };
    let messages = client.subscribe(reply.clone()).await.map_err(|error| unreachable(&error))?;
    let mut open = Open { client: client.clone(), messages: Some(messages), grace: options.lost_after };
    let deadline = Instant::now() + options.wait;
    let (mut pause, mut why, mut said) = (PAUSE_MIN, "no server of NATS is connected", None);
    loop {
        if client.connection_state() == State::Connected {
            let published = client.publish_with_reply(subject.clone(), reply.clone(), payload.clone()).await;
            published.map_err(|error| unreachable(&error))?;
            match open.offer(OFFER_MAX.min(deadline - Instant::now())).await {
                Ok((worker, offer)) => {
                    return Ok((Attempt { open, worker, recovery, cx, lost_after: options.lost_after }, offer));
                }
                Err(absent) => why = absent,
            }
        }
        if said != Some(why) {
            said = Some(why);
            cx.progress.say(format!("waits for a worker of the pool `{pool}`: {why}"));
        }
        if Instant::now() + pause >= deadline {
            let waited = options.wait.as_millis();
            return Err(ExecutionError::retryable(
                ErrorKind::Overloaded,
                format!("`{tool}` was not started within {waited} ms: {why} (pool `{pool}`)"),
            ));
        }
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// A subject that cannot be guessed: only who receives the call can answer it.
fn reply_subject(prefix: &str) -> Result<String, ExecutionError> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|error| {
        ExecutionError::new(ErrorKind::Internal, format!("the system has no random numbers: {error}"))
    })?;
    Ok(format!("{prefix}.call.{:032x}", u128::from_be_bytes(secret)))
}

/// What workers say to one attempt. Dropped before it has ended, workers are told to stop for as long as they would
/// otherwise go on without an answer.
struct Open {
    client: Client,
    messages: Option<Subscriber>,
    grace: Duration,
}

impl Open {
    async fn next(&mut self) -> Option<Message> {
        match &mut self.messages {
            Some(messages) => messages.next().await,
            None => None,
        }
    }

    /// The name of a worker that offers to run the call, and its message; or why there is none.
    async fn offer(&mut self, wait: Duration) -> Result<(String, Message), &'static str> {
        const NO_ROOM: &str = "its workers are busy";
        let message = timeout(wait, self.next()).await.map_err(|_| NO_ROOM)?;
        let message = message.filter(|message| message.status != Some(StatusCode::NO_RESPONDERS));
        let message = message.ok_or("no worker of it is running")?;
        let refusal = match decode(&message.payload) {
            Ok(FromWorker::Offer { worker }) => return Ok((worker, message)),
            Ok(FromWorker::Busy) => return Err(NO_ROOM),
            Ok(_) => ToWorker::Cancel,
            Err(error) => ToWorker::Invalid { message: error },
        };
        answer(&self.client, &message, &refusal).await;
        Err(NO_ROOM)
    }

    /// Nothing more is expected.
    fn close(&mut self) {
        self.messages = None;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let (Some(mut messages), Ok(runtime)) = (self.messages.take(), Handle::try_current()) {
            let (client, grace) = (self.client.clone(), self.grace);
            runtime.spawn(async move {
                let cancel = async {
                    while let Some(message) = messages.next().await {
                        answer(&client, &message, &ToWorker::Cancel).await;
                    }
                };
                // Later ones find nobody, which says the same.
                let _ = timeout(grace, cancel).await;
            });
        }
    }
}

/// Answers a message of a worker. An answer that is lost is missed there, and counts as none.
async fn answer(client: &Client, message: &Message, answer: &ToWorker) {
    if let Some(reply) = &message.reply
        && let Err(error) = client.publish(reply.clone(), encode(answer)).await
    {
        tracing::debug!(%error, "a worker was not answered");
    }
}

/// An attempt that a worker offered to run.
struct Attempt {
    open: Open,
    worker: String,
    recovery: Recovery,
    cx: ToolContext,
    lost_after: Duration,
}

impl Attempt {
    async fn run(mut self, offer: Message) -> Answer {
        answer(&self.open.client, &offer, &ToWorker::Begin).await;
        loop {
            let Ok(Some(message)) = timeout(self.lost_after, self.open.next()).await else {
                let (worker, ms) = (&self.worker, self.lost_after.as_millis());
                return Err(lost(self.recovery, format!("the worker `{worker}` has not reported for {ms} ms")));
            };
            let said = match decode(&message.payload) {
                Ok(said) => said,
                // Of an earlier round, which found nobody.
                Err(_) if message.status.is_some() => continue,
                Err(error) => {
                    let text = format!("the worker `{}` sent what is not a message: {error}", self.worker);
                    answer(&self.open.client, &message, &ToWorker::Invalid { message: error }).await;
                    return Err(ExecutionError::new(ErrorKind::MalformedResponse, text));
                }
            };
            let is_cancelled = self.cx.cancel.is_cancelled();
            let (reply, ended) = match said {
                // Of an earlier round: another worker has it.
                FromWorker::Offer { .. } => (ToWorker::Cancel, None),
                FromWorker::Busy => continue,
                FromWorker::Heartbeat { .. } if is_cancelled => (ToWorker::Cancel, None),
                FromWorker::Heartbeat { progress } => {
                    if let Some(progress) = progress {
                        self.cx.progress.say(progress);
                    }
                    (ToWorker::Continue, None)
                }
                FromWorker::Completed { parts, .. } if !parts.iter().all(is_content) => {
                    let what = "`parts` of a result are texts, images and documents";
                    let text = format!("the worker `{}` sent what is not a message: {what}", self.worker);
                    let error = ExecutionError::new(ErrorKind::MalformedResponse, text);
                    (ToWorker::Invalid { message: what.into() }, Some(Err(error)))
                }
                FromWorker::Completed { text, value, parts } => {
                    let text = text.or_else(|| value.clone().map(|value| ToolOutput::from(value).text));
                    let (text, value) = (text.unwrap_or_default(), value.map(Json::from));
                    (ToWorker::Received, Some(Ok(ToolOutput { text, value, parts, ..ToolOutput::default() })))
                }
                FromWorker::Failed { message, kind, retryable, not_started } => {
                    (ToWorker::Received, Some(Err(self.failed(message, kind, retryable, not_started))))
                }
            };
            answer(&self.open.client, &message, &reply).await;
            if let Some(ended) = ended {
                self.open.close();
                return ended;
            }
        }
    }

    fn failed(&self, message: String, kind: Option<ErrorKind>, retryable: bool, not_started: bool) -> ExecutionError {
        let kind = kind.filter(|kind| is_of_tools(*kind)).unwrap_or(ErrorKind::Failed);
        let error = match kind {
            // It stopped without being told to.
            ErrorKind::Cancelled if !self.cx.cancel.is_cancelled() && !not_started => {
                lost(self.recovery, format!("the worker `{}` stopped: {message}", self.worker))
            }
            _ if retryable => ExecutionError::retryable(kind, message),
            _ => ExecutionError::new(kind, message),
        };
        if not_started { self.cx.not_started(error) } else { error }
    }
}

/// Whether it may be in the result of a tool: the rest of a conversation is not a worker's to write.
fn is_content(part: &Part) -> bool {
    matches!(part, Part::Text { .. } | Part::Image(_) | Part::Document(_))
}

/// Whether a tool may fail in this way. Other kinds are of what runs threads; they mean more there than that a tool failed.
fn is_of_tools(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidArguments
            | ErrorKind::Timeout
            | ErrorKind::Cancelled
            | ErrorKind::Failed
            | ErrorKind::Panicked
            | ErrorKind::Indeterminate
            | ErrorKind::TooLarge
            | ErrorKind::Denied
            | ErrorKind::NotFound
            | ErrorKind::Conflict
            | ErrorKind::Authentication
            | ErrorKind::Permission
            | ErrorKind::RateLimit
            | ErrorKind::Quota
            | ErrorKind::Overloaded
            | ErrorKind::Server
            | ErrorKind::Connection
            | ErrorKind::Configuration
    )
}
