//! `--search`, of all commands that have it.

use clap::Args;
use rethread::operate::Search;

use crate::exit::Failure;

/// The search attributes that threads have to have.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// A variable that the workflow lists under `search`, and its value; with several, all of them
    #[arg(long = "search", value_name = "VARIABLE=VALUE")]
    search: Vec<String>,
}

impl SearchArgs {
    /// All of them.
    pub(crate) fn all(&self) -> Result<Search, Failure> {
        let mut search = Search::default();
        for written in &self.search {
            search.add(written).map_err(|error| Failure::new(2, format!("--search: {error}")))?;
        }
        Ok(search)
    }
}
