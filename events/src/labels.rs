//! Labels of threads: `tenant=acme`, `user=42`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::text;

/// The most labels of a thread.
pub const LABELS_MAX: usize = 16;
/// The longest key of a label, in bytes.
pub const LABEL_KEY_BYTES_MAX: usize = 64;
/// The longest value of a label, in bytes.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;
/// The label that each thread of a schedule has: its value is the name of the schedule.
pub const SCHEDULE_LABEL: &str = "schedule";

/// Why a label is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// There is no `=`.
    #[error("`{0}` is not a label: expected KEY=VALUE")]
    NoValue(String),
    /// The key cannot be used.
    #[error(
        "`{0}` is not the key of a label: expected 1 to {LABEL_KEY_BYTES_MAX} of the characters a-z, A-Z, 0-9, `.`, `_`, `-` and `/`"
    )]
    Key(String),
    /// The value cannot be used.
    #[error("the value of label `{0}` has 1 to {LABEL_VALUE_BYTES_MAX} bytes, no comma and no control character")]
    Value(String),
    /// The key is there already.
    #[error("label `{0}` is given twice")]
    Twice(String),
    /// There is no room for another one.
    #[error("a thread has at most {LABELS_MAX} labels")]
    TooMany,
}

/// The labels of a thread, or those that a filter wants: a value for each key, in the order of the keys.
///
/// ```
/// use rethread_events::labels::Labels;
///
/// let labels: Labels = "tenant=acme,user=42".parse()?;
/// assert_eq!(labels.get("user"), Some("42"));
/// assert!(labels.include(&"tenant=acme".parse()?));
/// assert!("tenant".parse::<Labels>().is_err());
/// # Ok::<(), rethread_events::labels::LabelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// No labels.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds a label.
    ///
    /// # Errors
    /// If the key or the value cannot be used, the key is there already, or there are [`LABELS_MAX`] labels.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Result<Self, LabelError> {
        self.insert(key.into(), value.into())?;
        Ok(self)
    }

    fn insert(&mut self, key: String, value: String) -> Result<(), LabelError> {
        let is_part = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
        if key.is_empty() || key.len() > LABEL_KEY_BYTES_MAX || !key.bytes().all(is_part) {
            return Err(LabelError::Key(text::head(&key, 80).to_owned()));
        }
        let is_foreign = |c: char| c == ',' || c.is_control();
        if value.is_empty() || value.len() > LABEL_VALUE_BYTES_MAX || value.chars().any(is_foreign) {
            return Err(LabelError::Value(key));
        }
        if self.0.contains_key(&key) {
            return Err(LabelError::Twice(key));
        }
        if self.0.len() == LABELS_MAX {
            return Err(LabelError::TooMany);
        }
        self.0.insert(key, value);
        Ok(())
    }

    /// Adds the labels that are written as `KEY=VALUE`, with commas between them.
    ///
    /// # Errors
    /// As [`Labels::with`], and if there is no `=`.
    pub fn add(&mut self, written: &str) -> Result<(), LabelError> {
        for label in written.split(',') {
            let (key, value) =
                label.split_once('=').ok_or_else(|| LabelError::NoValue(text::head(label, 80).to_owned()))?;
            self.insert(key.to_owned(), value.to_owned())?;
        }
        Ok(())
    }

    /// Returns whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the label with this key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns whether these are all among them.
    pub fn include(&self, others: &Self) -> bool {
        others.iter().all(|(key, value)| self.get(key) == Some(value))
    }

    /// These labels and the others.
    ///
    /// # Errors
    /// `Twice` if both have a key with different values, and `TooMany`.
    pub fn and(mut self, others: &Self) -> Result<Self, LabelError> {
        for (key, value) in others.iter() {
            if self.get(key) != Some(value) {
                self.insert(key.to_owned(), value.to_owned())?;
            }
        }
        Ok(self)
    }
}

impl TryFrom<BTreeMap<String, String>> for Labels {
    type Error = LabelError;

    fn try_from(map: BTreeMap<String, String>) -> Result<Self, LabelError> {
        map.into_iter().try_fold(Self::new(), |labels, (key, value)| labels.with(key, value))
    }
}

impl FromStr for Labels {
    type Err = LabelError;

    fn from_str(written: &str) -> Result<Self, LabelError> {
        let mut labels = Self::new();
        labels.add(written)?;
        Ok(labels)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (key, value)) in self.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
