//! Retries: which errors are retried, when, and how often. Every attempt is reported to the listener.
//!
//! The strategies are those of "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): full jitter waits
//! anything up to the computed time, equal jitter at least half of it.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::client::{CallContext, Client, Delta, Layer, Listener, TryEvent, model_name};
use rethread_events::event::FailedUsage;
use rethread_events::message::Usage;
use rethread_events::text::head_bytes;

use crate::error::{ErrorKind, LlmError, MESSAGE_BYTES_MAX, model_kinds};
use crate::request::Request;
use crate::response::Response;

mod stats;

pub use stats::RetryStats;

/// How the wait grows from attempt to attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// `base_ms`, then twice that, then four times…
    #[default]
    Exponential,
    /// `base_ms`, then twice, then three times…
    Linear,
    /// Always `base_ms`.
    Fixed,
    /// Exponential, longer the more of the recent attempts failed (up to five times), and a wait that the provider
    /// asks of one call holds back every call of the client.
    Adaptive,
}

/// The random part of the wait, so that many clients do not retry at the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Nothing.
    None,
    /// Anything from 0 to the wait.
    Full,
    /// Anything from half the wait to the wait.
    #[default]
    Equal,
}

/// When and how often to ask again. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// How the wait grows.
    pub strategy: Strategy,
    /// How much of it is chance. A wait that the provider asks for is never shortened.
    pub jitter: Jitter,
    /// The most attempts, the first included; 1 never asks again.
    pub attempts_max: u32,
    /// The first wait.
    pub base_ms: u64,
    /// The longest computed wait. A wait that the provider requires (`Retry-After`) is waited for in full if
    /// the call has the time for it; where it has not, the call ends at once with that error, which says so and is not
    /// worth asking again. Where there is a fallback, a provider that asks for more than this is left for it at once.
    pub wait_max_ms: u64,
    /// The longest wait that the provider may ask for: where it asks for more, the call ends at once with that error.
    /// Without limit but the time of the call when absent.
    pub asked_wait_max_ms: Option<u64>,
    /// The whole call, waits between attempts included, those for the limits of the profile not.
    pub total_ms: u64,
    /// Whether an answer that broke off after it began is requested again. It is paid for twice; the listener is
    /// notified that the pieces so far are void.
    pub after_break: bool,
    /// HTTP statuses that are retried regardless of the kind of error.
    pub statuses: Vec<u16>,
    /// Kinds that are asked again besides those that are by nature.
    #[serde(deserialize_with = "model_kinds")]
    pub kinds: Vec<ErrorKind>,
    /// Kinds that are not asked again although they would be; wins over everything.
    #[serde(deserialize_with = "model_kinds")]
    pub never: Vec<ErrorKind>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            jitter: Jitter::default(),
            attempts_max: 4,
            base_ms: 500,
            wait_max_ms: 10_000,
            asked_wait_max_ms: None,
            total_ms: 1_200_000,
            after_break: true,
            statuses: Vec::new(),
            kinds: Vec::new(),
            never: Vec::new(),
        }
    }
}

impl RetryPolicy {
    /// Returns whether an error is worth a retry. `began` says whether pieces of an answer were already passed on.
    pub fn retries(&self, error: &LlmError, began: bool) -> bool {
        let began = began || error.kind == ErrorKind::StreamInterrupted;
        if self.never.contains(&error.kind) || (began && !self.after_break) {
            return false;
        }
        error.retryable
            || self.kinds.contains(&error.kind)
            || error.status.is_some_and(|status| self.statuses.contains(&status))
    }

    /// The wait before attempt `attempt + 1`, in milliseconds. `chance` is in 0..=1, `failure_rate` too.
    pub fn wait_ms(&self, attempt: u32, retry_after_ms: Option<u64>, failure_rate: f64, chance: f64) -> u64 {
        let doubled = || self.base_ms.saturating_mul(1_u64.checked_shl(attempt - 1).unwrap_or(u64::MAX));
        let grown = match self.strategy {
            Strategy::Exponential => doubled(),
            Strategy::Linear => self.base_ms.saturating_mul(u64::from(attempt)),
            Strategy::Fixed => self.base_ms,
            Strategy::Adaptive => scale(doubled(), 4.0f64.mul_add(failure_rate.clamp(0.0, 1.0), 1.0)),
        }
        .min(self.wait_max_ms);
        let chance = chance.clamp(0.0, 1.0);
        let drawn = match self.jitter {
            Jitter::None => grown,
            Jitter::Full => scale(grown, chance),
            Jitter::Equal => scale(grown, chance.mul_add(0.5, 0.5)),
        };
        // The wait that the provider requests is the minimum and usually enough; a little is added so that clients that
        // were rejected together do not retry together.
        match retry_after_ms {
            Some(asked) if self.jitter == Jitter::None => asked,
            Some(asked) => asked.saturating_add(scale(asked.min(1_000), chance * 0.1)),
            None => drawn,
        }
    }
}

fn scale(ms: u64, by: f64) -> u64 {
    // Waits are far below 2^53 ms.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    {
        (ms as f64 * by).round() as u64
    }
}

/// A client that asks again.
pub struct Retrying {
    inner: Arc<dyn Client>,
    policy: RetryPolicy,
    has_fallback: bool,
    shared: Mutex<Shared>,
}

/// The answer, if it comes in time. The deadline may move while it is waited for.
async fn within<T>(answer: impl Future<Output = T>, deadline: impl Fn() -> Instant) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
    loop {
        if let Ok(answer) = tokio::time::timeout_at(deadline(), &mut answer).await {
            return Some(answer);
        }
        if deadline() <= Instant::now() {
            return None;
        }
    }
}

/// The next step after a failed attempt.
enum Next {
    /// Another attempt, after this many milliseconds.
    After(u64),
    /// No further attempt.
    End,
    /// No further attempt, because the wait that the provider requires is too long: why.
    TooLong(&'static str),
}

/// The state that the calls of one client share.
#[derive(Debug, Default)]
struct Shared {
    stats: RetryStats,
    /// The moving average of failed attempts; each attempt has the weight 0.1.
    failure_rate: f64,
    /// No call starts before this instant (adaptive only).
    not_before: Option<Instant>,
}

impl Retrying {
    /// `inner`, asked again by `policy`.
    pub fn new(inner: Arc<dyn Client>, policy: RetryPolicy) -> Self {
        Self { inner, policy, has_fallback: false, shared: Mutex::new(Shared::default()) }
    }

    /// Sets whether there is a fallback, see [`RetryPolicy::wait_max_ms`].
    #[must_use]
    pub fn with_fallback(mut self, has_fallback: bool) -> Self {
        self.has_fallback = has_fallback;
        self
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> RetryStats {
        self.shared.lock().stats.clone()
    }

    fn next(&self, attempt: u32, error: &LlmError, began: bool, start_by: Instant) -> Next {
        if attempt >= self.policy.attempts_max || !self.policy.retries(error, began) {
            return Next::End;
        }
        if self.has_fallback && error.retry_after_ms.is_some_and(|asked| asked > self.policy.wait_max_ms) {
            return Next::End;
        }
        if let (Some(max), Some(asked)) = (self.policy.asked_wait_max_ms, error.retry_after_ms)
            && asked > max
        {
            return Next::TooLong("longer than this call may wait");
        }
        let failure_rate = self.shared.lock().failure_rate;
        let wait_ms = self.policy.wait_ms(attempt, error.retry_after_ms, failure_rate, random_fraction());
        let begins = Instant::now().checked_add(Duration::from_millis(wait_ms));
        match error.retry_after_ms {
            _ if begins.is_some_and(|begins| begins < start_by) => Next::After(wait_ms),
            Some(_) => Next::TooLong("after the deadline of this call"),
            None => Next::End,
        }
    }

    /// Waits as long as the provider asked any call of this client to wait, or says at once that there is no time for
    /// that.
    async fn wait_until_allowed(&self, start_by: Instant) -> Option<LlmError> {
        let until = self.shared.lock().not_before?;
        let wait = until.saturating_duration_since(Instant::now());
        if until >= start_by && !wait.is_zero() {
            let s = wait.as_secs_f64();
            let why = format!("the provider asked all calls to wait {s:.1} s more, after the deadline of this call");
            let mut error = LlmError::new(ErrorKind::RateLimit, self.provider(), why);
            error.retryable = false;
            return Some(error);
        }
        tokio::time::sleep_until(until).await;
        None
    }

    fn record(&self, error: Option<&LlmError>, wait_ms: Option<u64>) {
        let mut shared = self.shared.lock();
        let failed = if error.is_some() { 1.0 } else { 0.0 };
        shared.failure_rate = shared.failure_rate.mul_add(0.9, 0.1 * failed);
        shared.stats.record(error, wait_ms);
        if self.policy.strategy == Strategy::Adaptive
            && let Some(asked) = error.and_then(LlmError::retry_after)
        {
            let asked = asked.min(Duration::from_millis(self.policy.wait_max_ms));
            shared.not_before = Some(Instant::now() + asked);
        }
    }
}

impl Layer for Retrying {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }

    async fn call_inner(&self, request: &Request, cx: CallContext<'_>) -> Result<Response, LlmError> {
        let deadline = Instant::now() + Duration::from_millis(self.policy.total_ms);
        let time = cx.time;
        let start_by = || time.deadline().map_or(time.moved(deadline), |end| end.min(time.moved(deadline)));
        let mut watcher = Watcher { inner: cx.listener, began: false, usage: None };
        // Attempts continue the numbers of the caller; how many are left is counted here.
        let first = cx.attempt;
        let mut attempt = first;
        loop {
            if let Some(error) = self.wait_until_allowed(start_by()).await {
                return Err(error);
            }
            let started = Instant::now();
            let inner_cx = CallContext { listener: &mut watcher, attempt, time, ..cx };
            let result = match within(self.inner.call(request, inner_cx), || time.moved(deadline)).await {
                Some(result) => result,
                None => Err(LlmError::new(
                    ErrorKind::Timeout,
                    self.provider(),
                    format!("no answer within {} ms in total", self.policy.total_ms),
                )),
            };
            let took_ms = millis(started.elapsed());
            let model = Some(model_name(&*self.inner, &request.model));
            let reported = watcher.usage.take();
            let mut error = match result {
                Ok(response) => {
                    self.record(None, None);
                    watcher.inner.tried(TryEvent {
                        attempt,
                        took_ms,
                        error: None,
                        wait_ms: None,
                        model,
                        fallback_from: None,
                    });
                    return Ok(response);
                }
                Err(error) => {
                    let used = error.used.or(reported.map(FailedUsage::reported));
                    LlmError { used, ..error }
                }
            };
            let wait_ms = match self.next(attempt - first + 1, &error, watcher.began, start_by()) {
                Next::After(wait_ms) => Some(wait_ms),
                Next::End => None,
                Next::TooLong(reason) => {
                    let asked = error.retry_after_ms.unwrap_or(0).div_ceil(1_000);
                    let why = format!(" (it asks to wait {asked} s, {reason})");
                    error.message = head_bytes(&error.message, MESSAGE_BYTES_MAX - why.len()).to_owned() + &why;
                    error.retryable = false;
                    None
                }
            };
            self.record(Some(&error), wait_ms);
            watcher.inner.tried(TryEvent {
                attempt,
                took_ms,
                error: Some(error.clone()),
                wait_ms,
                model,
                fallback_from: None,
            });
            let Some(wait_ms) = wait_ms else { return Err(error) };
            tracing::debug!(key = cx.key, attempt, wait_ms, error = %error, "retrying the model call");
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            attempt = attempt.saturating_add(1);
            if std::mem::take(&mut watcher.began) {
                watcher.inner.delta(Delta::Restarted { attempt });
            }
        }
    }
}

/// Passes everything on, and remembers whether an answer had begun and what it has used.
struct Watcher<'a> {
    inner: &'a mut dyn Listener,
    began: bool,
    /// What the provider reported of this attempt.
    usage: Option<Usage>,
}

impl Listener for Watcher<'_> {
    fn inner(&mut self) -> Option<&mut dyn Listener> {
        Some(&mut *self.inner)
    }

    fn delta(&mut self, delta: Delta) {
        self.began = true;
        self.inner.delta(delta);
    }

    fn used(&mut self, usage: &Usage) {
        self.usage = Some(*usage);
        self.inner.used(usage);
    }

    fn wants_deltas(&self) -> bool {
        self.inner.wants_deltas()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A random number in 0..1, from the seeds that the standard library draws for its hash maps.
fn random_fraction() -> f64 {
    let bits = std::collections::hash_map::RandomState::new().hash_one(0_u8);
    // The upper 53 bits make every f64 in 0..1 of that spacing equally likely.
    #[allow(clippy::cast_precision_loss)]
    {
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests;
