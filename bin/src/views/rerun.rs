//! Threads that were run again.

use rethread::{Seq, ThreadId};
use rethread_events::event::Event;
use rethread_events::thread::rerun;
use serde::Serialize;
use serde_json::Value;

use super::Thread;

/// The result of a rerun.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RerunReport {
    /// Whether every event was reproduced.
    same: bool,
    /// The first difference from the log.
    diverged: Option<Diverged>,
    /// The thread, then its branches.
    threads: Vec<RanAgain>,
    /// The new thread that continues with real calls, if one was started; absent on the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<Thread>))]
    pub(crate) thread: Option<Option<Thread>>,
}

/// A thread that was run again.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RanAgain {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    thread_id: ThreadId,
    /// The number of events that were reproduced.
    events: u64,
    /// The number of them that were decided again, and not taken as they were recorded.
    decided: u64,
    diverged: Option<Diverged>,
}

/// The first event that differs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Diverged {
    #[cfg_attr(feature = "server", schema(value_type = String))]
    thread_id: ThreadId,
    #[cfg_attr(feature = "server", schema(value_type = u64))]
    seq: Seq,
    /// The recorded event.
    expected: BareEvent,
    /// The event that the machine decides now; null if it waits, or has ended.
    got: Option<BareEvent>,
    /// The difference, in a sentence.
    why: String,
}

/// An event without its place.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BareEvent {
    /// Its documented name.
    #[serde(rename = "type")]
    kind: &'static str,
    #[cfg_attr(feature = "server", schema(value_type = Object))]
    data: Value,
}

impl From<&rethread::operate::RerunReport> for RerunReport {
    fn from(report: &rethread::operate::RerunReport) -> Self {
        let diverged = report.diverged().map(Diverged::from);
        let of = |ran: &rerun::Rerunned| RanAgain {
            thread_id: ran.thread,
            events: ran.n_events,
            decided: ran.n_decided,
            diverged: ran.diverged.as_ref().map(Diverged::from),
        };
        Self { same: diverged.is_none(), diverged, threads: report.threads.iter().map(of).collect(), thread: None }
    }
}

impl From<&rerun::Divergence> for Diverged {
    fn from(diverged: &rerun::Divergence) -> Self {
        Self {
            thread_id: diverged.thread,
            seq: diverged.seq,
            expected: BareEvent::from(&diverged.expected),
            got: diverged.got.as_ref().map(BareEvent::from),
            why: diverged.why.clone(),
        }
    }
}

impl From<&Event> for BareEvent {
    fn from(event: &Event) -> Self {
        Self { kind: event.event_type().name, data: event.data().unwrap_or_default() }
    }
}
