//! Limits of requests and tokens per minute, and of concurrent calls. Shared by all calls through one profile, fair
//! (first come, first served), cancelled by dropping the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use crate::client::{CallContext, Client, Layer};
use crate::error::{ErrorKind, LlmError};
use crate::request::Request;
use crate::response::Response;
use crate::tokens::{self, Counter};

mod window;

use window::Meter;

/// The window of a provider's limits.
const MINUTE: Duration = Duration::from_secs(60);

/// How a limit is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// A bucket that fills steadily and holds a minute's worth: bursts are fine after a quiet time. What most
    /// providers do.
    #[default]
    TokenBucket,
    /// Never more than the limit within any sixty seconds.
    SlidingWindow,
}

/// The limits of a profile; what is absent is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimits {
    /// How the limits are kept.
    pub algorithm: Algorithm,
    /// Attempts per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    /// Tokens per minute, prompt and answer together. A call is let in by a count of its prompt, and the answer is
    /// added when its figures are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
    /// Calls at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent_max: Option<usize>,
    /// The longest a call waits to be let in, in milliseconds.
    pub wait_max_ms: u64,
    /// The most calls that wait.
    pub queue_max: usize,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::default(),
            requests_per_minute: None,
            tokens_per_minute: None,
            concurrent_max: None,
            wait_max_ms: 300_000,
            queue_max: 10_000,
        }
    }
}

impl RateLimits {
    /// Whether anything is limited at all.
    pub fn limits_anything(&self) -> bool {
        self.requests_per_minute.is_some() || self.tokens_per_minute.is_some() || self.concurrent_max.is_some()
    }
}

/// A client that calls no more often than its limits allow.
pub struct Limited {
    inner: Arc<dyn Client>,
    limits: RateLimits,
    counter: Counter,
    /// The holder of this lock waits for its turn; the others queue after it, first come, first served.
    meters: Mutex<Meters>,
    concurrent: Option<Semaphore>,
    waiting: AtomicUsize,
    /// Estimates and the actual figures, summed up until the next call is admitted: figures must not wait
    /// for the queue.
    corrections: parking_lot::Mutex<(u64, u64)>,
}

struct Meters {
    requests: Option<Meter>,
    tokens: Option<Meter>,
}

impl Limited {
    /// Wraps `inner` with `limits`. The model decides how prompts are counted.
    pub fn new(inner: Arc<dyn Client>, limits: RateLimits, model: &str) -> Self {
        let meter = |per_minute: Option<u64>| per_minute.map(|n| Meter::new(limits.algorithm, n.max(1), MINUTE));
        let meters = Meters { requests: meter(limits.requests_per_minute), tokens: meter(limits.tokens_per_minute) };
        Self {
            inner,
            counter: Counter::for_model(model),
            meters: Mutex::new(meters),
            concurrent: limits.concurrent_max.map(|n| Semaphore::new(n.clamp(1, Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
            corrections: parking_lot::Mutex::new((0, 0)),
            limits,
        }
    }

    /// How many calls wait to be let in.
    pub fn n_waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits until a call of `tokens` may go out.
    async fn acquire(&self, tokens: u64, wait_until: Instant) -> Result<(), LlmError> {
        let mut meters = self.meters.lock().await;
        loop {
            let now = Instant::now();
            if let Some(meter) = &mut meters.tokens {
                let (estimated, actual) = std::mem::take(&mut *self.corrections.lock());
                meter.correct(estimated, actual, now);
            }
            let of = |meter: &mut Option<Meter>, n| meter.as_mut().map_or(Duration::ZERO, |m| m.wait(n, now));
            let wait = of(&mut meters.requests, 1).max(of(&mut meters.tokens, tokens));
            if wait.is_zero() {
                break;
            }
            // Fail now: the wait is known to be too long.
            if now.checked_add(wait).is_none_or(|end| end > wait_until) {
                let s = wait.as_secs_f64();
                return Err(self.rate_limit_error(format!(
                    "the next call may begin in {s:.1} s, after the deadline of this call"
                )));
            }
            tokio::time::sleep(wait).await;
        }
        // Nothing was taken while waiting, so a call that was dropped in the queue costs nothing.
        let now = Instant::now();
        if let Some(meter) = &mut meters.requests {
            meter.take(1, now);
        }
        if let Some(meter) = &mut meters.tokens {
            meter.take(tokens, now);
        }
        Ok(())
    }

    /// Records the actual usage of the answer.
    fn record_usage(&self, estimated: u64, request: &Request, response: &Response) {
        let (usage, _) = tokens::usage_or_count(&self.counter, request, response);
        let actual = usage.input_tokens.unwrap_or(0).saturating_add(usage.output_tokens.unwrap_or(0));
        let mut corrections = self.corrections.lock();
        corrections.0 = corrections.0.saturating_add(estimated);
        corrections.1 = corrections.1.saturating_add(actual);
    }

    fn rate_limit_error(&self, why: String) -> LlmError {
        let mut error =
            LlmError::new(ErrorKind::RateLimit, self.inner.provider(), format!("the limits of the profile: {why}"));
        // The call has waited long enough; asking again at once would only make the line longer.
        error.retryable = false;
        error
    }
}

impl Layer for Limited {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }

    async fn call_inner(&self, request: &Request, mut cx: CallContext<'_>) -> Result<Response, LlmError> {
        let queued = QueuedCall::new(&self.waiting);
        if queued.before >= self.limits.queue_max {
            return Err(self.rate_limit_error(format!("{} calls are waiting already", queued.before)));
        }
        let tokens = match self.limits.tokens_per_minute {
            Some(limit) => self.counter.request(request).min(limit),
            None => 0,
        };
        let began = Instant::now();
        let wait_max = began + Duration::from_millis(self.limits.wait_max_ms);
        let wait_until = cx.time.permit_deadline().map_or(wait_max, |deadline| deadline.min(wait_max));
        let acquire = async {
            let permit = match &self.concurrent {
                Some(semaphore) => semaphore.acquire().await.ok(),
                None => None,
            };
            self.acquire(tokens, wait_until).await.map(|()| permit)
        };
        let mut acquire = std::pin::pin!(acquire);
        let entered = match acquire.as_mut().now_or_never() {
            Some(entered) => Ok(entered),
            None => {
                let _waits = cx.time.waits();
                tokio::time::timeout_at(wait_until, acquire).await
            }
        };
        let permit = match entered {
            Ok(permit) => permit?,
            Err(_) => {
                let why = format!("not admitted within {} ms", began.elapsed().as_millis());
                return Err(self.rate_limit_error(why));
            }
        };
        drop(queued);
        let result = self.inner.call(request, cx.reborrow()).await;
        drop(permit);
        if let (Some(_), Ok(response)) = (self.limits.tokens_per_minute, &result) {
            self.record_usage(tokens, request, response);
        }
        result
    }
}

/// A call in the queue.
struct QueuedCall<'a> {
    waiting: &'a AtomicUsize,
    before: usize,
}

impl<'a> QueuedCall<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        Self { waiting, before }
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
