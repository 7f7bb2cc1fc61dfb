//! Activation of threads without a caller: after a start, and when they are due.

use std::sync::Arc;
use std::time::Duration;

use rethread_events::ids::ThreadId;
use rethread_events::thread::Status;
use rethread_store::{StreamIter, Tag};
use tokio::sync::Semaphore;

use crate::clock;
use crate::error::RuntimeError;
use crate::registry::ThreadRegistry;
use crate::stream_keys;
use crate::timers;
use rethread_events::text::with_sources;

/// How many threads are listed at a time.
const PAGE: usize = 256;
/// How many threads are folded from the log at a time.
const LOADS_MAX: usize = 128;
/// How long a thread in whose step the process crashed runs that step alone.
const SUSPECT_ALONE: Duration = Duration::from_secs(10);
/// How long to wait after the timers of the log could not be read.
const TIMERS_RETRY: Duration = Duration::from_secs(1);
/// How often to check for a free place.
const POLL: Duration = Duration::from_millis(5);

/// The tags of threads that have not ended.
pub(crate) fn open_tags() -> Vec<Tag> {
    Status::ALL.iter().filter(|status| !status.is_ended()).map(|status| Tag(status.code())).collect()
}

/// Returns the tags of threads that are activated after a start: those that have not ended, except those that are found
/// by their keys in the log.
fn tags_to_activate() -> Vec<Tag> {
    let by_keys = [Status::Suspended, Status::Queued].map(|status| Tag(status.code()));
    open_tags().into_iter().filter(|tag| !by_keys.contains(tag)).collect()
}

/// Activates every thread that has not ended, a limited number at a time, so that memory stays bounded: one that waits
/// for a person leaves a timer and is passivated. One that stays in memory does not delay the next ones.
///
/// Threads in one of whose steps the process crashed come last and one by one: so the next crash is counted for the
/// thread that caused it, and not for those that were in a step at the same time.
pub(crate) async fn activate_unfinished(registry: Arc<ThreadRegistry>) {
    let (store, tags) = (registry.services.store.clone(), tags_to_activate());
    let mut streams = StreamIter::new(None, move |after, limit| store.streams(after, &tags, limit));
    let mut suspects = Vec::new();
    let loads = Arc::new(Semaphore::new(LOADS_MAX));
    loop {
        if registry.is_shutting_down() {
            return;
        }
        let next = actix_rt::task::spawn_blocking(move || {
            let page: Result<Vec<_>, _> = streams.by_ref().take(PAGE).collect();
            (page, streams)
        });
        let page = match next.await {
            Ok((Ok(page), rest)) => {
                streams = rest;
                page
            }
            Ok((Err(error), _)) => {
                let what = "cannot list unfinished threads: they stay as they are until a caller uses them";
                tracing::error!(%error, "{what}");
                return;
            }
            Err(_) => return,
        };
        for info in page.iter().filter(|info| registry.is_mine(info.thread)) {
            if registry.services.crashes.is_suspect(info.thread) {
                suspects.push(info.thread);
            } else if !activate_one(&registry, &loads, info.thread).await {
                return;
            }
        }
        if page.len() < PAGE {
            break;
        }
    }
    for thread in suspects {
        if !activate_one(&registry, &loads, thread).await {
            return;
        }
        let until = tokio::time::Instant::now() + SUSPECT_ALONE;
        while registry.services.crashes.is_suspect(thread)
            && registry.is_live(thread)
            && tokio::time::Instant::now() < until
        {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Activates a thread as soon as there is a free place. Returns false if the runtime shuts down.
async fn activate_one(registry: &Arc<ThreadRegistry>, loads: &Arc<Semaphore>, thread: ThreadId) -> bool {
    while registry.is_crowded() {
        if registry.is_shutting_down() {
            return false;
        }
        tokio::time::sleep(POLL).await;
    }
    let Ok(place) = loads.clone().acquire_owned().await else { return false };
    match registry.activate_with_permit(thread, place) {
        Ok(()) => {}
        Err(RuntimeError::ShuttingDown) => return false,
        Err(error) => tracing::error!(%thread, error = with_sources(&error), "cannot activate the thread"),
    }
    true
}

/// Activates threads whose deadline has passed.
pub(crate) async fn wake_when_due(registry: Arc<ThreadRegistry>) {
    while !registry.is_shutting_down() {
        let now = clock::now();
        let (due, next) = registry.timers.take_due(now);
        for thread in due {
            if let Err(error) = registry.activate(thread) {
                tracing::error!(%thread, error = with_sources(&error), "cannot activate the thread");
            }
        }
        let wait = next.map_or(Duration::from_secs(3600), |at| timers::until(at, now));
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = registry.timers.changed() => {}
        }
    }
}

/// Activates suspended threads that are due according to the log. A thread that waits costs no memory, and a start
/// reads none of them.
pub(crate) async fn wake_suspended(registry: Arc<ThreadRegistry>) {
    let loads = Arc::new(Semaphore::new(LOADS_MAX));
    let mut after: Option<stream_keys::Timer> = None;
    while !registry.is_shutting_down() {
        // If the clock was set back, it reaches these times again.
        after = after.filter(|(at, _)| *at <= clock::now() && !registry.next_in_log.begins_again());
        let store = registry.services.store.clone();
        let listed = actix_rt::task::spawn_blocking(move || stream_keys::timers(&*store, after, PAGE)).await;
        let page = match listed {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => {
                tracing::error!(%error, "the timers of the log cannot be read: trying again");
                tokio::time::sleep(TIMERS_RETRY).await;
                continue;
            }
            Err(_) => return,
        };
        let now = clock::now();
        let n_due = page.iter().take_while(|(at, _)| *at <= now).count();
        for &(at, thread) in &page[..n_due] {
            after = Some((at, thread));
            if registry.is_mine(thread) && !activate_one(&registry, &loads, thread).await {
                return;
            }
        }
        if n_due < PAGE {
            registry.next_in_log.wait(page.get(n_due).map(|(at, _)| *at)).await;
        }
    }
}
