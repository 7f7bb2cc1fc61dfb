//! Erasure by label: what the log has of the labels besides threads and memories, and what would begin threads.

use rethread_events::labels::Labels;

#[cfg(feature = "schedules")]
use crate::error::ScheduleError;
use crate::error::{ControlError, ReadError, RuntimeError, SignalError};
use crate::kept_schedules;
use crate::runtime::Runtime;
use crate::shared::place_of;

impl Runtime {
    /// Removes the schedules and the kept signals with these labels, or only counts them. Returns how many there were of
    /// each.
    pub(crate) async fn erase_waiting(&self, labels: &Labels, dry_run: bool) -> Result<(u64, u64), ControlError> {
        if labels.is_empty() {
            return Err(ReadError::from(RuntimeError::NoLabels).into());
        }
        let n_schedules = self.erase_schedules(labels, dry_run).await.map_err(ReadError::from)?;
        Ok((n_schedules, self.erase_kept_signals(labels, dry_run).await?))
    }

    async fn erase_schedules(&self, labels: &Labels, dry_run: bool) -> Result<u64, RuntimeError> {
        let (store, wanted) = (self.store().clone(), labels.clone());
        let names = self.blocking(move || kept_schedules::with_labels(&*store, &wanted)).await??;
        let mut n = names.len() as u64;
        for name in names.iter().filter(|_| !dry_run) {
            if self.erase_schedule(name).await? {
                tracing::info!(target: "audit", "schedule deleted by its labels");
            } else {
                n -= 1;
            }
        }
        Ok(n)
    }

    /// Returns whether it was there.
    #[cfg(feature = "schedules")]
    async fn erase_schedule(&self, name: &str) -> Result<bool, RuntimeError> {
        match self.delete_schedule(name, &Labels::new()).await {
            Ok(()) => Ok(true),
            Err(ScheduleError::NoSchedule { .. }) => Ok(false),
            Err(ScheduleError::Runtime(error)) => Err(error),
            Err(error) => Err(rethread_store::StoreError::Invalid(rethread_events::text::with_sources(&error)).into()),
        }
    }

    /// As above: nothing starts schedules in such a build.
    #[cfg(not(feature = "schedules"))]
    async fn erase_schedule(&self, name: &str) -> Result<bool, RuntimeError> {
        self.registry().alone("removing schedules")?;
        let (store, name) = (self.store().clone(), format!("{}{name}", kept_schedules::NAMES));
        self.blocking(move || store.remove_value(&name)).await??;
        Ok(true)
    }

    async fn erase_kept_signals(&self, labels: &Labels, dry_run: bool) -> Result<u64, ControlError> {
        let services = self.services();
        // No signal is sent or searched meanwhile.
        let _lock = services.kept_signals.lock().await;
        let (registry, wanted) = (self.registry().clone(), labels.clone());
        let erase = move || {
            let (kept_signals, store) = (&registry.services.kept_signals, &*registry.services.store);
            let mut n = 0;
            for kept in kept_signals.all(store)? {
                // Those of other names belong to other runtimes.
                let Some(_held) = registry.hold(place_of(&kept.name)) else { continue };
                if !kept.labels.include(&wanted) {
                    continue;
                }
                n += 1;
                if !dry_run {
                    kept_signals.remove(store, &kept)?;
                }
            }
            Ok(n)
        };
        let erased: Result<u64, SignalError> = self.blocking(erase).await.map_err(ReadError::from)?;
        erased.map_err(|error| match error {
            SignalError::Control(error) => error,
            error => ReadError::from(RuntimeError::from(rethread_store::StoreError::Invalid(error.to_string()))).into(),
        })
    }
}
