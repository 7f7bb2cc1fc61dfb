//! Tools.

use rethread::Recovery;
use serde::Serialize;
use serde_json::Value;

/// A tool that threads can use.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// What recovery may do with a call whose answer was lost: `safe`, `idempotent` or `at_most_once`.
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) recovery: Recovery,
    /// What a person has to do with its calls: `none`, `approves` or `answers`.
    pub(crate) approval: &'static str,
    /// The option of the command line that offers it, where one does.
    pub(crate) allowed_by: Option<&'static str>,
    pub(crate) timeout_ms: u64,
    /// The JSON Schema of its arguments.
    #[cfg_attr(feature = "server", schema(value_type = Object))]
    pub(crate) parameters: Value,
}
