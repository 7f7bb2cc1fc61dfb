//! `--label`, of all commands that have it.

use clap::Args;
use rethread::operate::Labels;

use crate::exit::Failure;

/// The labels that a thread gets, or that threads have to have.
#[derive(Debug, Args)]
pub(crate) struct LabelArgs {
    /// A label of the thread; with several, all of them
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
}

impl LabelArgs {
    /// All of them.
    pub(crate) fn all(&self) -> Result<Labels, Failure> {
        all(&self.labels)
    }
}

/// Combines several `--label`.
pub(crate) fn all(written: &[String]) -> Result<Labels, Failure> {
    let mut labels = Labels::new();
    for written in written {
        labels.add(written).map_err(|error| Failure::new(2, format!("--label: {error}")))?;
    }
    Ok(labels)
}
