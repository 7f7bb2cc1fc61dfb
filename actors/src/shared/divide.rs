//! What a runtime does when slots of the log change hands.

use std::sync::Arc;
use std::time::Duration;

use rethread_events::text::with_sources;
use rethread_store::{Share, Slot, Slots};

use super::Shared;
use crate::registry::ThreadRegistry;
use crate::runtime::Runtime;
use crate::signals;

/// How often slots are looked for that can be given away.
const GIVE: Duration = Duration::from_millis(250);

/// Continues the threads of slots that this runtime gets, and gives slots away that others should have. Until the runtime
/// shuts down.
pub(crate) async fn run(registry: Arc<ThreadRegistry>) {
    let Some(shared) = &registry.services.shared else { return };
    let mut changes = shared.share.clone();
    let mut before = Slots::default();
    while !registry.is_shutting_down() {
        let share = *changes.borrow_and_update();
        if !share.slots.without(&before).is_empty() {
            Runtime::continue_threads(&registry);
            // What belongs to names in these slots.
            registry.queues.all_changed();
            #[cfg(feature = "schedules")]
            registry.services.schedules.changed.notify_one();
            actix_rt::spawn(signals::deliver_all_kept(registry.clone(), None));
        }
        before = share.slots;
        let wait = if share.n_excess > 0 {
            give_idle(&registry, shared, &share).await;
            GIVE
        } else {
            Duration::from_secs(1)
        };
        if let Ok(Err(_)) = tokio::time::timeout(wait, changes.changed()).await {
            return;
        }
    }
}

/// Gives those slots away of which no thread is in memory, and nothing is held.
async fn give_idle(registry: &Arc<ThreadRegistry>, shared: &Shared, share: &Share) {
    let of_live = || registry.live_ids().into_iter().map(|thread| Slot::of(shared.root(thread)));
    let idle = |slots: Slots| slots.without(&of_live().chain(shared.held()).collect());
    let leaving = idle(share.leaving());
    *shared.giving.lock() = leaving;
    // None of them begins here from now on.
    let leaving = idle(leaving);
    if !leaving.is_empty()
        && let Err(error) = shared.log.give(leaving).await
    {
        tracing::warn!(error = with_sources(&error), "threads stay here that others should have");
    }
    *shared.giving.lock() = Slots::default();
}
