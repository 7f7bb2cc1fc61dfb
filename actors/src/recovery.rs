//! Threads that come back by themselves: after a start, and when their time has come.

use std::sync::Arc;
use std::time::Duration;

use rethread_events::ids::ThreadId;
use rethread_events::thread::Status;
use rethread_store::Tag;

use crate::error::RuntimeError;
use crate::inner::Inner;

/// How many streams are asked for at a time.
const PAGE: usize = 256;
/// How often to look whether there is room for more.
const POLL: Duration = Duration::from_millis(5);

/// The tags of threads that have not ended.
pub(crate) fn open_tags() -> Vec<Tag> {
    Status::ALL.iter().filter(|status| !status.is_ended()).map(|status| Tag(status.code())).collect()
}

/// Activates every thread that has not ended, a page at a time, so that memory stays bounded: one that waits for a
/// person leaves a timer and goes again.
pub(crate) async fn bring_back(inner: Arc<Inner>) {
    let tags = open_tags();
    let mut after: Option<ThreadId> = None;
    loop {
        if inner.is_shutting_down() {
            return;
        }
        let page = {
            let (inner, tags) = (inner.clone(), tags.clone());
            actix_rt::task::spawn_blocking(move || inner.store.streams(after, &tags, PAGE)).await
        };
        let page = match page {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => {
                tracing::error!(%error, "unfinished threads cannot be listed: they stay as they are until asked for");
                return;
            }
            Err(_) => return,
        };
        for info in page.iter().filter(|info| !inner.imported.has(info.thread)) {
            while inner.is_crowded() {
                if inner.is_shutting_down() {
                    return;
                }
                tokio::time::sleep(POLL).await;
            }
            match inner.activate(info.thread) {
                Ok(_) => {}
                Err(RuntimeError::ShuttingDown) => return,
                Err(error) => tracing::error!(thread = %info.thread, %error, "the thread does not come back"),
            }
        }
        if page.len() < PAGE {
            return;
        }
        after = page.last().map(|info| info.thread);
        // The page is let through before the next, so that starting costs no more than a page of loads at a time.
        while page.iter().filter(|info| inner.is_live(info.thread)).count() > PAGE / 2 && !inner.is_shutting_down() {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Activates threads whose deadline has come.
pub(crate) async fn wake_when_due(inner: Arc<Inner>) {
    while !inner.is_shutting_down() {
        let now = Inner::now();
        let (due, next) = inner.timers.take_due(now);
        for thread in due {
            if let Err(error) = inner.activate(thread) {
                tracing::error!(%thread, %error, "the thread does not come back");
            }
        }
        let wait = next
            .map_or(Duration::from_secs(3600), |at| Duration::from_micros(at.unix_us().saturating_sub(now.unix_us())));
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = inner.timers.changed() => {}
        }
    }
}
