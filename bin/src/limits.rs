//! The table `limits` of rethread.toml.

use std::path::Path;

use rethread::Limits;
use serde::Deserialize;

use crate::definition;
use crate::exit::{Failure, INVALID};

#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    limits: Limits,
}

/// The limits of a configuration.
///
/// # Errors
/// For an unknown key and for a number that is out of range (exit code 3).
pub(crate) fn read(file: &Path) -> Result<Limits, Failure> {
    let invalid = |what: String| Failure::new(INVALID, format!("{}: {what}", file.display()));
    let read: File = definition::read_toml(file)?;
    read.limits.check().map_err(invalid)?;
    Ok(read.limits)
}
