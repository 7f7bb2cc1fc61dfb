//! The arithmetic of limits, with the time as an argument.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::Algorithm;

/// Counts what was taken, against one limit.
pub(super) enum Meter {
    Bucket(Bucket),
    Window(Window),
}

impl Meter {
    pub(super) fn new(algorithm: Algorithm, limit: u64, span: Duration) -> Self {
        match algorithm {
            Algorithm::TokenBucket => Self::Bucket(Bucket { limit, span, full_at: None }),
            Algorithm::SlidingWindow => Self::Window(Window { limit, span, taken: VecDeque::new(), sum: 0 }),
        }
    }

    /// How long until `n` may be taken; zero when they may be now. More than the limit is let in when nothing else
    /// was taken for a whole span.
    pub(super) fn wait(&mut self, n: u64, now: Instant) -> Duration {
        match self {
            Self::Bucket(bucket) => bucket.wait(n, now),
            Self::Window(window) => window.wait(n, now),
        }
    }

    /// Takes `n`.
    pub(super) fn take(&mut self, n: u64, now: Instant) {
        match self {
            Self::Bucket(bucket) => bucket.take(n, now),
            Self::Window(window) => window.take(n, now),
        }
    }

    /// Replaces an estimate by the actual usage.
    pub(super) fn correct(&mut self, estimated: u64, actual: u64, now: Instant) {
        match self {
            Self::Bucket(bucket) => bucket.correct(estimated, actual, now),
            Self::Window(window) => window.correct(estimated, actual, now),
        }
    }
}

/// A bucket that fills steadily, kept as the instant at which it will be full again (the generic cell rate
/// algorithm of ITU-T I.371).
pub(super) struct Bucket {
    limit: u64,
    span: Duration,
    full_at: Option<Instant>,
}

impl Bucket {
    /// How long it takes to fill by `n`.
    fn time(&self, n: u64) -> Duration {
        let nanos = self.span.as_nanos() * u128::from(n) / u128::from(self.limit);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn wait(&self, n: u64, now: Instant) -> Duration {
        let Some(full_at) = self.full_at else { return Duration::ZERO };
        // It may lack at most a whole span once `n` are taken.
        let room = self.span.saturating_sub(self.time(n.min(self.limit)));
        full_at.saturating_duration_since(now).saturating_sub(room)
    }

    fn take(&mut self, n: u64, now: Instant) {
        let from = self.full_at.unwrap_or(now).max(now);
        self.full_at = Some(from + self.time(n));
    }

    fn correct(&mut self, estimated: u64, actual: u64, now: Instant) {
        if actual >= estimated {
            self.take(actual - estimated, now);
        } else if let Some(full_at) = &mut self.full_at {
            let back = Self { limit: self.limit, span: self.span, full_at: None }.time(estimated - actual);
            *full_at = full_at.checked_sub(back).unwrap_or(now);
        }
    }
}

/// What is taken within this time is counted as one entry, so that a window holds a bounded number of them.
const GRAIN: Duration = Duration::from_millis(100);

/// Everything taken within the last span.
pub(super) struct Window {
    limit: u64,
    span: Duration,
    taken: VecDeque<Taken>,
    sum: u64,
}

/// The amount between two instants.
#[derive(Clone, Copy)]
struct Taken {
    first: Instant,
    last: Instant,
    n: u64,
}

impl Window {
    fn drop_expired(&mut self, now: Instant) {
        while let Some(oldest) = self.taken.front().copied() {
            if now.saturating_duration_since(oldest.last) < self.span {
                return;
            }
            self.taken.pop_front();
            self.sum = self.sum.saturating_sub(oldest.n);
        }
    }

    fn wait(&mut self, n: u64, now: Instant) -> Duration {
        self.drop_expired(now);
        let n = n.min(self.limit);
        let mut sum = self.sum;
        let mut wait = Duration::ZERO;
        for taken in &self.taken {
            if sum + n <= self.limit {
                break;
            }
            sum = sum.saturating_sub(taken.n);
            wait = (taken.last + self.span).saturating_duration_since(now);
        }
        wait
    }

    fn take(&mut self, n: u64, now: Instant) {
        self.sum = self.sum.saturating_add(n);
        match self.taken.back_mut() {
            // It is forgotten when the last of it is old enough, so never too early.
            Some(newest) if now.saturating_duration_since(newest.first) < GRAIN => {
                newest.last = now;
                newest.n = newest.n.saturating_add(n);
            }
            _ => self.taken.push_back(Taken { first: now, last: now, n }),
        }
    }

    fn correct(&mut self, estimated: u64, actual: u64, now: Instant) {
        if actual >= estimated {
            self.take(actual - estimated, now);
        } else if let Some(newest) = self.taken.back_mut() {
            let back = (estimated - actual).min(newest.n);
            newest.n -= back;
            self.sum = self.sum.saturating_sub(back);
        }
    }
}
