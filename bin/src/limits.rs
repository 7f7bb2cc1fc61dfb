//! The table `limits` of rethread.toml.

use std::path::Path;

use rethread::Limits;
use rethread_llm::profiles::with_nearest;
use serde::Deserialize;

use crate::definition;
use crate::exit::{Failure, INVALID};

/// The largest configuration, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

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
    let text = definition::read_limited(file, FILE_BYTES_MAX)?;
    let read: File =
        toml::from_str(&String::from_utf8_lossy(&text)).map_err(|error| invalid(with_nearest(error.to_string())))?;
    read.limits.check().map_err(invalid)?;
    Ok(read.limits)
}
