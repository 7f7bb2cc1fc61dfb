//! Access to the log of a runtime.

use std::sync::Arc;

use rethread_store::{LogReader, StoreError};

use crate::runtime::Runtime;
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
