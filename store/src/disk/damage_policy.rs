//! What to do about damage that is found when a log is opened: refuse, or recover what is readable.

use crate::error::{Damage, StoreError};

/// How a log is opened.
#[derive(Debug)]
pub(crate) enum DamagePolicy {
    /// Damage is an error.
    Strict,
    /// Damage is recorded here, and opening continues with the rest.
    Salvage(Vec<Damage>),
}

impl DamagePolicy {
    /// Something is damaged.
    pub(crate) fn report(&mut self, damage: Damage) -> Result<(), StoreError> {
        match self {
            Self::Strict => Err(StoreError::Damaged(damage)),
            Self::Salvage(found) => {
                // Every reader meets the same damage.
                if !found.contains(&damage) {
                    found.push(damage);
                }
                Ok(())
            }
        }
    }

    /// As `met`, for an error that may also be another one, which is always returned.
    pub(crate) fn report_error(&mut self, error: StoreError) -> Result<(), StoreError> {
        match error {
            StoreError::Damaged(damage) => self.report(damage),
            error => Err(error),
        }
    }

    /// Returns the value, or the default if it is damaged.
    pub(crate) fn or_default<T: Default>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.or_else(|error| self.report_error(error).map(|()| T::default()))
    }
}
