//! `[serve]` of rethread.toml. Each part is read where it is used, and its keys are checked in each case.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::definition;
use crate::exit::Failure;

#[derive(Debug, Deserialize)]
#[serde(bound = "Doors: DeserializeOwned + Default, Tools: DeserializeOwned + Default")]
struct File<Doors, Tools> {
    #[serde(default)]
    serve: Serve<Doors, Tools>,
}

/// The table. A reader names `IgnoredAny` as the type of the part that it does not use.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, bound = "Doors: DeserializeOwned + Default, Tools: DeserializeOwned + Default")]
pub(crate) struct Serve<Doors, Tools> {
    pub(crate) doors: Doors,
    pub(crate) client_tools: Tools,
}

/// Reads the table of a configuration; its default if the file has none.
///
/// # Errors
/// For an unknown key and for a value of another type (exit code 3).
pub(crate) fn read<Doors, Tools>(file: &Path) -> Result<Serve<Doors, Tools>, Failure>
where
    Doors: DeserializeOwned + Default,
    Tools: DeserializeOwned + Default,
{
    definition::read_toml(file).map(|File { serve }| serve)
}
