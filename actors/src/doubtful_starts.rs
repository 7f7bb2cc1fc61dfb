//! Threads whose start was answered as in doubt: they run if the log has them after all.

use std::sync::Arc;
use std::time::Duration;

use rethread_events::ids::ThreadId;
use rethread_events::text::with_sources;
use rethread_store::StoreError;

use crate::blocking::blocking;
use crate::registry::ThreadRegistry;

/// How often the log is asked for the thread.
const LOOK: Duration = Duration::from_secs(1);
/// How often at most while the log takes writes: what is in doubt is written before anything later, or never.
const LOOKS_MAX: u32 = 60;

/// Activates the thread once it is in the log. Gives up if it does not come although the log takes writes, and when the
/// runtime stops; a later start of the runtime finds it as any other thread.
pub(crate) async fn follow(registry: Arc<ThreadRegistry>, thread: ThreadId) {
    let mut n_looks = 0;
    while n_looks < LOOKS_MAX && !registry.is_shutting_down() {
        tokio::time::sleep(LOOK).await;
        let store = registry.services.store.clone();
        match blocking(move || (store.stream(thread), store.check_writable())).await {
            Ok((Ok(_), _)) => {
                tracing::info!(%thread, "a thread whose start was in doubt is in the log, and begins");
                if registry.is_mine(thread)
                    && let Err(error) = registry.activate(thread)
                {
                    tracing::error!(%thread, error = with_sources(&error), "cannot activate the thread");
                }
                return;
            }
            Ok((Err(StoreError::NotFound { .. }), Ok(()))) => n_looks += 1,
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
