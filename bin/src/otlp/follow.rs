//! Sends each run when it ends, from a durable position in the log: at least once, in order. A collector that is down
//! delays this and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rethread::errors::{ControlError, ReadError, RunError, RuntimeError};
use rethread::operate::LogAccess as _;
use rethread::operate::RunSpans;
use rethread::store::{Filter, Record};
use rethread::{Position, Runtime, Time};
use rethread_events::traces::{Options, Span};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::config::{Target, Telemetry};
use super::send::{Sender, Unsent};
use super::{encode, ends};
use crate::exit::Failure;
use crate::output;

/// The name under which the position is stored.
const CURSOR: &str = "telemetry";
/// The waits between attempts: the first, and the longest.
const WAIT_FIRST: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How many spans are sent together, at least, if more runs have ended.
const SPANS_TOGETHER: usize = 512;

/// What was sent since the start.
#[derive(Debug, Default)]
pub(crate) struct ExportStats {
    /// Runs whose spans were accepted.
    pub(crate) runs: AtomicU64,
    /// Runs that were left out by sampling.
    pub(crate) sampled_out: AtomicU64,
    /// Spans that were accepted.
    pub(crate) spans: AtomicU64,
    /// Spans that the collector refused for good.
    pub(crate) refused: AtomicU64,
    /// Attempts that failed.
    pub(crate) failed: AtomicU64,
    /// The next position to read.
    pub(crate) next: AtomicU64,
    /// 1 where this server sends the spans.
    pub(crate) here: AtomicU64,
}

/// A running export.
pub(crate) struct Exporting {
    pub(crate) stats: Arc<ExportStats>,
    tasks: Vec<JoinHandle<()>>,
}

impl Exporting {
    /// Waits until its position is stored, after it was asked to stop.
    pub(crate) async fn ended(self) {
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// Starts to send, from the position that was stored, or else from the end of the log. Of several servers that have the log,
/// one sends the spans, and another one when that one has gone; each sends its own metrics.
///
/// # Errors
/// When the position cannot be read or stored, and for headers that cannot be sent.
pub(crate) async fn start(
    telemetry: Telemetry,
    runtime: &Runtime,
    stopping: &CancellationToken,
) -> Result<Exporting, Failure> {
    let first = if telemetry.from_the_beginning { Position(0) } else { runtime.next_position() };
    // Stored at once, so that a restart before the first run does not skip any.
    let next = runtime.begin_cursor(CURSOR, first).await?;
    let stats = Arc::<ExportStats>::default();
    stats.next.store(next.0, Ordering::Relaxed);
    let mut tasks = Vec::new();
    if let Some(every) = telemetry.metrics_every {
        let (sender, target) = (Sender::new(&telemetry.target)?, telemetry.target.clone());
        let pusher = Pusher { sender, target, runtime: runtime.clone(), began: runtime.now(), every };
        tasks.push(tokio::spawn(pusher.run(stopping.clone())));
    }
    let sender = Sender::new(&telemetry.target)?;
    let (runtime, of_task, stopping) = (runtime.clone(), stats.clone(), stopping.clone());
    let follower = Follower { telemetry, sender, runtime, stats: of_task, stopping };
    tasks.push(tokio::spawn(follower.run(next)));
    Ok(Exporting { stats, tasks })
}

/// Sends the histograms of calls at an interval. They are cumulative, so what one attempt does not bring the next one does.
struct Pusher {
    sender: Sender,
    target: Target,
    runtime: Runtime,
    began: Time,
    every: Duration,
}

impl Pusher {
    async fn run(mut self, stopping: CancellationToken) {
        loop {
            let is_last = tokio::select! {
                biased;
                () = stopping.cancelled() => true,
                () = tokio::time::sleep(self.every) => false,
            };
            let Ok(metrics) = self.runtime.metrics().await else { return };
            let request = encode::metrics(&self.target, &metrics.calls, (self.began, self.runtime.now()));
            if let Err(Unsent::Later(why) | Unsent::Refused(why)) = self.sender.send_metrics(&request).await {
                tracing::warn!(why, "metrics are not accepted");
            }
            if is_last {
                return;
            }
        }
    }
}

struct Follower {
    telemetry: Telemetry,
    sender: Sender,
    runtime: Runtime,
    stats: Arc<ExportStats>,
    stopping: CancellationToken,
}

/// It goes no further.
struct Stopped;

impl Follower {
    async fn run(mut self, begun: Position) {
        let held = tokio::select! {
            held = self.runtime.hold_name(CURSOR) => held,
            () = self.stopping.cancelled() => return,
        };
        let Ok(_held) = held else { return };
        // Another server may have sent some meanwhile.
        let from = match self.runtime.cursor(CURSOR).await {
            Ok(kept) => kept.unwrap_or(begun),
            Err(error) => return fail(&error.to_string()),
        };
        self.stats.next.store(from.0, Ordering::Relaxed);
        self.stats.here.store(1, Ordering::Relaxed);
        let filter = Filter { threads: Vec::new(), kinds: ends::kinds() };
        let mut ends = self.runtime.store().subscribe(from, filter);
        loop {
            let batch = tokio::select! {
                biased;
                () = self.stopping.cancelled() => return,
                batch = ends.next_batch() => batch,
            };
            let records = match batch {
                Some(Ok(records)) => records,
                Some(Err(error)) => return fail(&error.to_string()),
                None => return,
            };
            if self.take(records).await.is_err() {
                return;
            }
        }
    }

    /// Sends the runs that ended with these events.
    async fn take(&mut self, ends: Vec<Record>) -> Result<(), Stopped> {
        let (mut spans, mut n_runs) = (Vec::new(), 0);
        let n = ends.len();
        for (i, end) in ends.into_iter().enumerate() {
            let position = end.position;
            if let Some(found) = self.spans(&end).await? {
                match self.telemetry.sampling.wants(&found) {
                    true => {
                        n_runs += 1;
                        spans.extend(found.spans);
                    }
                    false => _ = self.stats.sampled_out.fetch_add(1, Ordering::Relaxed),
                }
            }
            if spans.len() >= SPANS_TOGETHER || i + 1 == n {
                self.send(&std::mem::take(&mut spans)).await?;
                self.stats.runs.fetch_add(std::mem::take(&mut n_runs), Ordering::Relaxed);
                let next = position.next();
                self.stats.next.store(next.0, Ordering::Relaxed);
                if let Err(error) = self.runtime.save_cursor(CURSOR, next).await {
                    tracing::warn!(%error, "cannot store the position up to which spans were sent");
                }
            }
        }
        Ok(())
    }

    /// Returns the spans of the run that ended with this event; `None` if it has none of its own.
    async fn spans(&self, end: &Record) -> Result<Option<RunSpans>, Stopped> {
        // Records of very old logs do not say whose run they end.
        let Some(run) = end.run else { return Ok(None) };
        let options = Options { content: self.telemetry.target.content };
        match self.runtime.thread(end.thread).run_spans(run, options).await {
            Ok(found) => Ok(found),
            Err(RunError::Control(ControlError::Read(ReadError::Runtime(RuntimeError::ShuttingDown)))) => Err(Stopped),
            // It was deleted meanwhile.
            Err(RunError::Control(ControlError::Read(ReadError::NoThread(_)))) => Ok(None),
            Err(error) => {
                tracing::warn!(thread = %end.thread, %run, %error, "the spans of the run cannot be read: they are left out");
                Ok(None)
            }
        }
    }

    async fn send(&mut self, spans: &[Span]) -> Result<(), Stopped> {
        for request in encode::requests(&self.telemetry.target, spans) {
            let n: u64 =
                request.resource_spans.iter().flat_map(|of| &of.scope_spans).map(|of| of.spans.len() as u64).sum();
            let mut wait = WAIT_FIRST;
            loop {
                // A stop does not cancel an attempt: the collector may have accepted it.
                match self.sender.send(&request).await {
                    Ok(refused) => {
                        self.stats.spans.fetch_add(n.saturating_sub(refused), Ordering::Relaxed);
                        self.stats.refused.fetch_add(refused, Ordering::Relaxed);
                        break;
                    }
                    Err(Unsent::Refused(why)) => {
                        self.stats.failed.fetch_add(1, Ordering::Relaxed);
                        self.stats.refused.fetch_add(n, Ordering::Relaxed);
                        tracing::error!(why, spans = n, "the collector refused spans: they are left out");
                        break;
                    }
                    Err(Unsent::Later(why)) => {
                        self.stats.failed.fetch_add(1, Ordering::Relaxed);
                        tracing::warn!(why, "spans are not accepted: trying again");
                    }
                }
                tokio::select! {
                    biased;
                    () = self.stopping.cancelled() => return Err(Stopped),
                    () = tokio::time::sleep(wait) => {}
                }
                wait = (wait * 2).min(WAIT_MAX);
            }
        }
        Ok(())
    }
}

fn fail(why: &str) {
    let text = format!("no more spans are sent: {}; the next start continues from here", output::sanitize(why, 400));
    tracing::error!("{text}");
    output::print_error(&text);
}
