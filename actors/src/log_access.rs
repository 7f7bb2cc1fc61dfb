//! Access to the log of a runtime.

use std::sync::Arc;

use rethread_events::ids::ThreadId;
use rethread_store::{LogReader, StoreError};

use crate::error::RuntimeError;
use crate::runtime::Runtime;
use crate::shared::ask::{ask, retry_elsewhere};
use crate::shared::place_of;
use crate::shared::request::Request;
use crate::{crashes, definitions, imported, memories, subscription};

/// The prefixes of the names under which a runtime stores values of its own.
const OWN_NAMES: [&str; 5] =
    [crashes::NAMES, definitions::NAMES, imported::NAMES, memories::NAMES, subscription::NAMES];

/// Access to the log itself, for programs that operate it: pages of records, blobs, values of their own.
///
/// Threads are changed through [`ThreadHandle`](crate::ThreadHandle), and the log is closed by [`Runtime::shutdown`].
pub trait LogAccess {
    /// Returns the log, to read from.
    fn store(&self) -> Arc<dyn LogReader>;

    /// Stores a small value (at most 64 KiB) under a name. It is durable when this returns. Blocks.
    ///
    /// # Errors
    /// `Invalid` if the name begins with `crashes/`, `cursor/`, `imported/`, `memory/` or `workflow/`, which are names of
    /// the runtime.
    fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError>;

    /// Removes the value under a name, if there is one. This is durable when this returns. Blocks.
    ///
    /// # Errors
    /// As [`LogAccess::put_value`].
    fn remove_value(&self, name: &str) -> Result<(), StoreError>;

    /// Stores values under names, or removes them (`None`): all of it or nothing. This is durable when this returns. Blocks.
    ///
    /// # Errors
    /// As [`LogAccess::put_value`].
    fn put_values(&self, values: &[(String, Option<Vec<u8>>)]) -> Result<(), StoreError>;
}

impl Runtime {
    /// Stores a small value under a name, unless there is one, and returns the value that is there then. It is durable when
    /// this returns. Where several runtimes have the log, one of those that ask at the same time is first.
    ///
    /// # Errors
    /// As [`LogAccess::put_value`]; `Elsewhere` and `Store(InDoubt)` where another runtime was asked and does not answer.
    pub async fn put_value_once(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, RuntimeError> {
        check_name(name)?;
        self.put_once(name, value).await
    }

    /// As [`Runtime::put_value_once`], also for names of the runtime.
    pub(crate) async fn put_once(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, RuntimeError> {
        let place = place_of(name);
        let registry = self.registry();
        let attempt = || async {
            if registry.has_slot(place) {
                return self.put_value_here(place, name, value).await;
            }
            let (name, value) = (name.to_owned(), value.to_owned());
            let asked = ask(registry, place, &Request::PutOnce { place, name, value }).await;
            asked.map(drop).map_err(|error| RuntimeError::of_repeatable(place, &error))
        };
        retry_elsewhere(registry, attempt).await?;
        let (store, name) = (self.store().clone(), name.to_owned());
        let found = self.blocking(move || store.value(&name)).await??;
        // It was removed at once.
        Ok(found.unwrap_or_else(|| value.to_owned()))
    }

    /// Stores it, if this runtime has the place of its name.
    pub(crate) async fn put_value_here(&self, place: ThreadId, name: &str, value: &[u8]) -> Result<(), RuntimeError> {
        let (services, name, value) = (self.services().clone(), name.to_owned(), value.to_owned());
        let put = move || {
            let _one_at_a_time = services.values_once[usize::from(place.as_bytes()[15])].lock();
            match services.store.value(&name)? {
                Some(_) => Ok(()),
                None => services.store.put_value(&name, &value),
            }
        };
        Ok(self.blocking(put).await??)
    }
}

impl LogAccess for Runtime {
    fn store(&self) -> Arc<dyn LogReader> {
        self.store().clone()
    }

    fn put_value(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        check_name(name)?;
        self.store().put_value(name, value)
    }

    fn remove_value(&self, name: &str) -> Result<(), StoreError> {
        check_name(name)?;
        self.store().remove_value(name)
    }

    fn put_values(&self, values: &[(String, Option<Vec<u8>>)]) -> Result<(), StoreError> {
        values.iter().try_for_each(|(name, _)| check_name(name))?;
        self.store().release_blobs(&[], values)
    }
}

fn check_name(name: &str) -> Result<(), StoreError> {
    match OWN_NAMES.iter().find(|own| name.starts_with(**own)) {
        Some(own) => {
            Err(StoreError::Invalid(format!("values under `{own}` belong to the runtime: choose another name")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_runtime_are_refused() {
        for name in ["workflow/review", "crashes/1/run", "imported/1", "memory/of/1", "cursor/audit"] {
            assert!(matches!(check_name(name), Err(StoreError::Invalid(_))), "{name}");
        }
        assert!(check_name("idempotency/1").is_ok());
    }
}
