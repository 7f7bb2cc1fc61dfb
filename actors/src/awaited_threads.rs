//! Waits for the end of a thread.
//!
//! The log has a sorted key for each thread that waits ([`stream_keys`](crate::stream_keys)). When the end of a thread is
//! durable, the threads that wait for it are found by these keys. A wait that begins checks whether the thread has ended,
//! after its key is durable: so one of both finds the other. A start checks all waits of the log, because the process may
//! have ended between an end and its delivery.

use std::sync::Arc;

use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{Position, ThreadId};
use rethread_events::json::Json;
use rethread_events::text::with_sources;
use rethread_events::thread::{Input, Status, no_such_thread};
use rethread_store::{LogReader, StoreError};

use crate::blocking::blocking;
use crate::deliver::{deliver, report};
use crate::each_key::{STORE_RETRY, each_key};
use crate::error::{ReadError, RuntimeError};
use crate::labels::labels_of;
use crate::load::{self, Loaded};
use crate::mode::Mode;
use crate::registry::ThreadRegistry;
use crate::stream_keys;
use crate::thread_actor::messages::CheckIdle;

/// What a wait ends with.
struct End {
    /// The output of the thread, or an error.
    outcome: Result<Json, ExecutionError>,
    /// The event that ended the thread, if it is there.
    at: Option<Position>,
}

impl End {
    fn failed(error: ExecutionError) -> Self {
        Self { outcome: Err(error), at: None }
    }
}

/// Returns what the wait of a thread for another one ends with; `None` while that has not ended. Blocks.
fn end_for(registry: &ThreadRegistry, waiter: ThreadId, awaited: ThreadId) -> Result<Option<End>, ReadError> {
    let services = &registry.services;
    let store = &*services.store;
    let info = match store.stream(awaited) {
        Ok(info) => info,
        Err(StoreError::NotFound { .. }) => return Ok(Some(End::failed(no_such_thread(awaited)))),
        Err(error) => return Err(error.into()),
    };
    // The answer is the same as for a thread that is not there.
    if !labels_of(store, awaited)?.include(&labels_of(store, waiter)?) {
        return Ok(Some(End::failed(no_such_thread(awaited))));
    }
    if !Status::from_code(info.tag.0).is_some_and(Status::is_ended) {
        return Ok(None);
    }
    let fold = || load::present_from(store, awaited, &services.kept_states);
    let Loaded { state, last_position, .. } = services.crashes.folding(awaited, fold)?;
    if !state.is_ended() {
        // Its next run began meanwhile.
        return Ok(None);
    }
    let outcome = state.error().map_or_else(|| Ok(state.output().cloned().unwrap_or_default()), Err);
    Ok(Some(End { outcome, at: Some(last_position) }))
}

/// Ends a wait if its thread has ended. Returns whether it has.
async fn check(registry: &Arc<ThreadRegistry>, waiter: ThreadId, awaited: ThreadId) -> bool {
    while !registry.is_shutting_down() {
        let of = registry.clone();
        match blocking(move || end_for(&of, waiter, awaited)).await.map_err(ReadError::from).flatten() {
            Ok(Some(end)) => {
                tell(registry, waiter, awaited, end).await;
                return true;
            }
            // The thread that waited was deleted meanwhile.
            Ok(None) | Err(ReadError::NoThread(_)) => return false,
            Err(error) if is_temporary(&error) => tokio::time::sleep(STORE_RETRY).await,
            Err(error) => {
                tracing::error!(thread = %waiter, %awaited, error = with_sources(&error), "cannot read a thread that is waited for");
                let message = format!("thread {awaited} cannot be read: {}", with_sources(&error));
                tell(registry, waiter, awaited, End::failed(ExecutionError::new(ErrorKind::Internal, message))).await;
                return true;
            }
        }
    }
    false
}

async fn tell(registry: &Arc<ThreadRegistry>, waiter: ThreadId, awaited: ThreadId, End { outcome, at }: End) {
    let input = Input::ThreadEnded { thread: awaited, outcome };
    if let Err(error) = report(registry, waiter, input, at).await
        && !registry.is_shutting_down()
    {
        tracing::error!(thread = %waiter, %awaited, error = with_sources(&error), "the end of the thread is reported when the thread that waits is activated");
    }
}

fn is_temporary(error: &ReadError) -> bool {
    matches!(error, ReadError::Runtime(RuntimeError::Store(error)) if error.is_temporary())
}

/// Called when a wait is durable, and whenever the thread that waits is activated.
pub(crate) async fn began(registry: Arc<ThreadRegistry>, waiter: ThreadId, awaited: ThreadId) {
    let has_ended = check(&registry, waiter, awaited).await;
    // A runtime that runs only what a caller uses runs what that waits for, too.
    if !has_ended
        && registry.services.mode == Mode::RunOnDemand
        && registry.is_mine(awaited)
        && registry.thread_waits.activates(awaited)
        && deliver(&registry, awaited, || CheckIdle).await.is_err()
    {
        // It is tried again with the thread that waits.
        registry.thread_waits.not_activated(awaited);
    }
}

/// Called when the end of a thread is durable: ends the waits for it.
pub(crate) fn ended(registry: &Arc<ThreadRegistry>, thread: ThreadId) {
    // Nearly always nothing waits, and a look at the log would cost more than the end itself.
    if !registry.thread_waits.has_none() && registry.thread_waits.ended(thread) {
        actix_rt::spawn(registry.telling.track_future(take_ended(registry.clone())));
    }
}

/// Ends the waits for threads that have ended. One look at the log is enough for all that end meanwhile, if nothing waits.
async fn take_ended(registry: Arc<ThreadRegistry>) {
    while let Some(threads) = registry.thread_waits.take_ended() {
        let of = registry.clone();
        let may_have = move || of.thread_waits.may_have(|| stream_keys::has_thread_waits(&*of.services.store));
        // If the log cannot be read, each of them tries again.
        if !matches!(blocking(may_have).await, Ok(Ok(false))) {
            for thread in threads {
                actix_rt::spawn(registry.telling.track_future(end_waits(registry.clone(), thread)));
            }
        }
    }
}

/// Ends the waits for a thread that has ended.
async fn end_waits(registry: Arc<ThreadRegistry>, thread: ThreadId) {
    let waiting = move |store: &dyn LogReader, after, n| stream_keys::waiting_for(store, thread, after, n);
    each_key(&registry, "the waits for a thread", waiting, async |waiter| {
        if !registry.services.imported.has(waiter) {
            check(&registry, waiter, thread).await;
        }
    })
    .await;
}

/// Runs after a start: ends waits for threads that ended just before the last process ended.
pub(crate) async fn tidy(registry: Arc<ThreadRegistry>) {
    each_key(&registry, "the waits for threads", stream_keys::thread_waits, async |(awaited, waiter)| {
        if registry.is_mine(waiter) {
            check(&registry, waiter, awaited).await;
        }
    })
    .await;
}
