//! The names and definitions of schedules in the log, also for a program that runs none.

use std::collections::BTreeSet;

use rethread_events::labels::{Labels, SCHEDULE_LABEL};
use rethread_store::{LogReader, StoreError};
use serde_json::Value;
#[cfg(feature = "schedules")]
use tokio::sync::{Mutex, MutexGuard, Notify};

/// The prefix of the values that hold schedules, as JSON. The name of the schedule follows it.
pub(crate) const NAMES: &str = "schedules/";

/// The names of the workflows that are started by schedules. Blocks.
///
/// # Errors
/// When the log cannot be read, or a schedule in it.
pub(crate) fn workflows(store: &dyn LogReader) -> Result<BTreeSet<String>, StoreError> {
    let workflow = |(name, value): (String, Vec<u8>)| {
        let read: Option<Value> = serde_json::from_slice(&value).ok();
        let workflow = read.and_then(|state| state["schedule"]["workflow"].as_str().map(str::to_owned));
        workflow.ok_or_else(|| StoreError::Invalid(format!("the value `{name}` of the log is no schedule")))
    };
    store.values(NAMES)?.into_iter().map(workflow).collect()
}

/// The names of the schedules whose threads have all of these labels. Blocks.
///
/// # Errors
/// When the log cannot be read, or a schedule in it.
pub(crate) fn with_labels(store: &dyn LogReader, labels: &Labels) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    for (value_name, value) in store.values(NAMES)? {
        let name = &value_name[NAMES.len()..];
        let invalid = || StoreError::Invalid(format!("the value `{value_name}` of the log is no schedule"));
        let mut read: Value = serde_json::from_slice(&value).map_err(|_| invalid())?;
        let own = match read["schedule"]["labels"].take() {
            Value::Null => Labels::new(),
            own => serde_json::from_value(own).map_err(|_| invalid())?,
        };
        let of_threads = own.clone().with(SCHEDULE_LABEL, name).unwrap_or(own);
        if of_threads.include(labels) {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

/// Serializes changes to schedules, and notifies of them.
#[cfg(feature = "schedules")]
#[derive(Default)]
pub(crate) struct Schedules {
    exclusive: Mutex<()>,
    pub(crate) changed: Notify,
}

#[cfg(feature = "schedules")]
impl Schedules {
    /// Waits for the exclusive right to change schedules or to start threads that are due.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.exclusive.lock().await
    }
}
