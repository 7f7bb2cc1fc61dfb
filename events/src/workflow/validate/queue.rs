//! Checks of the queue of a workflow.

use super::parts::{check_range, check_text};
use crate::workflow::fault::Fault;
use crate::workflow::queue::Queue;

/// The most runs of a queue at once that a definition may allow.
const CONCURRENCY_MAX: u64 = 1_000_000;
/// The most starts of a rate: a thread records each of its own that still counts.
const STARTS_MAX: u64 = 500;
/// The longest period of a rate, and the longest wait for a newer run.
const PERIOD_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1_000;

pub(super) fn check(queue: &Queue, faults: &mut Vec<Fault>) {
    if queue.concurrency.is_none() && queue.rate.is_none() && queue.debounce_ms.is_none() {
        faults.push(Fault::new("queue", "a queue without limits").hint("give concurrency, rate or debounce_ms"));
    }
    for (name, text) in [("key", &queue.key), ("priority", &queue.priority), ("fair", &queue.fair)] {
        if let Some(text) = text {
            check_text(&format!("queue.{name}"), text, faults);
        }
    }
    if let Some(n) = queue.concurrency {
        check_range("queue.concurrency", u64::from(n), 1, CONCURRENCY_MAX, faults);
    }
    if let Some(rate) = queue.rate {
        check_range("queue.rate.starts", u64::from(rate.starts), 1, STARTS_MAX, faults);
        check_range("queue.rate.per_ms", rate.per_ms, 1, PERIOD_MS_MAX, faults);
    }
    if let Some(ms) = queue.debounce_ms {
        check_range("queue.debounce_ms", ms, 1, PERIOD_MS_MAX, faults);
    }
}
