//! Webhooks: events are posted to an address, signed, in order, at least once.
//!
//! Each webhook has its own position in the log, stored durably under its name. A failed delivery is retried after
//! increasing waits; later events are not sent meanwhile, so that the order is preserved. After a limit the webhook is
//! dead until the server is restarted, and reports that.

mod config;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rethread::operate::{CloudEvent, LogAccess as _};
use rethread::store::Filter;
use rethread::{Position, RecordedEvent, Runtime};
use rethread_events::event::event_type_named;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use self::config::{Entry, Webhook, check_secrets, read};
use crate::exit::Failure;
use crate::output;

/// How long an attempt may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(15);
/// The waits between attempts: the first, and the longest.
const WAIT_FIRST: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(300);
/// How often the position is stored: at least once per this many events and this much time.
const KEEP_EVENTS: u64 = 100;
const KEEP_AFTER: Duration = Duration::from_secs(1);

/// What a webhook has done since the server started.
#[derive(Debug, Default)]
pub(crate) struct WebhookStats {
    pub(crate) delivered: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// The next position to read.
    pub(crate) next: AtomicU64,
    /// 1 once it has given up.
    pub(crate) dead: AtomicU64,
    /// 1 where this server runs it.
    pub(crate) here: AtomicU64,
}

/// A running webhook.
pub(crate) struct RunningWebhook {
    pub(crate) name: String,
    pub(crate) deeds: Arc<WebhookStats>,
    task: JoinHandle<()>,
}

impl RunningWebhook {
    /// Waits until its place is kept, after the server was asked to stop.
    pub(crate) async fn ended(self) {
        let _ = self.task.await;
    }
}

/// Starts the webhooks. Each begins where it kept its place, or where the log ends when it has none. Of several servers that
/// have the log, one runs each webhook, and another one when that one has gone.
pub(crate) async fn start(
    webhooks: Vec<Webhook>,
    runtime: &Runtime,
    stopping: &CancellationToken,
) -> Result<Vec<RunningWebhook>, Failure> {
    let mut at_work = Vec::new();
    for webhook in webhooks {
        let client = rethread_llm::http::shared_without_redirects(&webhook.url, ATTEMPT_MAX).map_err(Failure::other)?;
        let cursor = format!("webhook/{}", webhook.name);
        let first = if webhook.from_the_beginning { Position(0) } else { runtime.next_position() };
        // Stored at once, so that a restart before the first delivery does not skip events.
        let next = runtime.begin_cursor(&cursor, first).await?;
        let (name, deeds) = (webhook.name.clone(), Arc::<WebhookStats>::default());
        deeds.next.store(next.0, Ordering::Relaxed);
        let sender = Sender { webhook, client, cursor, runtime: runtime.clone(), deeds: deeds.clone() };
        let stopping = stopping.clone();
        at_work.push(RunningWebhook {
            name,
            deeds,
            task: tokio::spawn(async move { sender.run(next, stopping).await }),
        });
    }
    Ok(at_work)
}

struct Sender {
    webhook: Webhook,
    client: reqwest::Client,
    /// The name under which its place is kept.
    cursor: String,
    runtime: Runtime,
    deeds: Arc<WebhookStats>,
}

/// Why it goes no further.
enum Halt {
    Stopped,
    Dead(String),
}

impl Sender {
    async fn run(self, begun: Position, stopping: CancellationToken) {
        let held = tokio::select! {
            held = self.runtime.hold_name(&self.cursor) => held,
            () = stopping.cancelled() => return,
        };
        let Ok(_held) = held else { return };
        self.deeds.here.store(1, Ordering::Relaxed);
        let mut next = begun;
        // Another server may have delivered meanwhile.
        let halted = match self.runtime.cursor(&self.cursor).await {
            Ok(kept) => {
                next = kept.unwrap_or(begun);
                self.deeds.next.store(next.0, Ordering::Relaxed);
                let halted = self.deliver(&mut next, &stopping).await;
                self.save_position(next).await;
                halted
            }
            Err(error) => Halt::Dead(error.to_string()),
        };
        if let Halt::Dead(why) = halted {
            self.deeds.dead.store(1, Ordering::Relaxed);
            let name = output::sanitize(&self.webhook.name, 80);
            let text = format!(
                "webhook `{name}` has given up at position {next}: {}; it continues from there when the server \
                 is started again",
                output::sanitize(&why, 400)
            );
            tracing::error!("{text}");
            output::print_error(&text);
        }
    }

    async fn deliver(&self, next: &mut Position, stopping: &CancellationToken) -> Halt {
        // Without a filter: a webhook that wants few events must still advance its position.
        let mut records = self.runtime.store().subscribe(*next, Filter::default());
        let wanted: Vec<_> = self.webhook.types.iter().filter_map(|name| event_type_named(name)).collect();
        let (mut n_since, mut has_moved, mut kept_at) = (0, false, Instant::now());
        loop {
            let batch = tokio::select! {
                biased;
                () = stopping.cancelled() => return Halt::Stopped,
                batch = records.next_batch() => batch,
                // Idle: a good time to store the position.
                () = tokio::time::sleep(KEEP_AFTER), if has_moved => {
                    self.save_position(*next).await;
                    (n_since, has_moved, kept_at) = (0, false, Instant::now());
                    continue;
                }
            };
            let batch = match batch {
                Some(Ok(batch)) => batch,
                Some(Err(error)) => return Halt::Dead(error.to_string()),
                None => return Halt::Stopped,
            };
            for record in batch {
                let position = record.position;
                if wanted.is_empty() || wanted.iter().any(|event_type| event_type.code == record.kind.0) {
                    let event = match RecordedEvent::decode(record) {
                        Ok(event) => event,
                        Err(error) => return Halt::Dead(error.to_string()),
                    };
                    if let Err(halt) = self.send_until_accepted(&event, stopping).await {
                        return halt;
                    }
                    n_since += 1;
                }
                *next = position.next();
                has_moved = true;
                self.deeds.next.store(next.0, Ordering::Relaxed);
                if n_since >= KEEP_EVENTS || kept_at.elapsed() >= KEEP_AFTER {
                    self.save_position(*next).await;
                    (n_since, has_moved, kept_at) = (0, false, Instant::now());
                }
            }
        }
    }

    async fn send_until_accepted(&self, event: &RecordedEvent, stopping: &CancellationToken) -> Result<(), Halt> {
        let body = serde_json::to_string(&CloudEvent::new(event)).unwrap_or_default();
        let (began, mut wait) = (Instant::now(), WAIT_FIRST);
        loop {
            // A stop does not cancel it: the receiver may have accepted it.
            let why = match self.send(event, body.clone()).await {
                Ok(()) => {
                    self.deeds.delivered.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(why) => why,
            };
            self.deeds.failed.fetch_add(1, Ordering::Relaxed);
            if began.elapsed() >= self.webhook.give_up_after {
                let tried = output::duration(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
                return Err(Halt::Dead(format!("{why}, tried for {tried}")));
            }
            let position = event.record.position;
            tracing::warn!(webhook = self.webhook.name, %position, why, "not delivered: trying again");
            let left = self.webhook.give_up_after.saturating_sub(began.elapsed());
            tokio::select! {
                () = stopping.cancelled() => return Err(Halt::Stopped),
                () = tokio::time::sleep(wait.min(left)) => {}
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    async fn send(&self, event: &RecordedEvent, body: String) -> Result<(), String> {
        let id = event.record.id().to_string();
        let seconds = self.runtime.now().unix_us() / 1_000_000;
        let signature = self.webhook.secret.sign(&id, seconds, body.as_bytes());
        let request = self
            .client
            .post(self.webhook.url.clone())
            .timeout(ATTEMPT_MAX)
            .header("Content-Type", "application/cloudevents+json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", signature)
            .body(body);
        match request.send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) if response.status().is_redirection() => Err(format!(
                "the answer was {}, and redirects are not followed: name the last address",
                response.status()
            )),
            Ok(response) => Err(format!("the answer was {}", response.status())),
            // The address may hold a secret of its own.
            Err(error) => Err(error.without_url().to_string()),
        }
    }

    /// Stores the position. What is not stored is delivered again after a crash.
    async fn save_position(&self, next: Position) {
        if let Err(error) = self.runtime.save_cursor(&self.cursor, next).await {
            tracing::warn!(webhook = self.webhook.name, %error, "cannot store its position");
        }
    }
}
