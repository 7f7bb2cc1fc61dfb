//! The view of a thread that was migrated.

use rethread::event::WorkflowRef;
use rethread::operate::Migrated;
use rethread::{Hash, Seq, ThreadId};
use serde::{Deserialize, Serialize};

/// The result of the migration of one thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "server", schema(as = Migrated))]
pub(crate) struct MigratedView {
    /// The thread.
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) thread_id: ThreadId,
    /// `moved`; `fits` in a dry run; `same` if it runs on the definition already; `other` if it does not run on what `from`
    /// names.
    #[cfg_attr(feature = "server", schema(pattern = "^(moved|fits|same|other)$"))]
    pub(crate) result: String,
    /// The event since which it runs on the definition, if this request moved it.
    #[cfg_attr(feature = "server", schema(value_type = Option<u64>))]
    pub(crate) seq: Option<Seq>,
    /// The name of the workflow.
    pub(crate) workflow: String,
    /// The hash of the definition.
    #[cfg_attr(feature = "server", schema(value_type = String))]
    pub(crate) workflow_hash: Hash,
}

impl MigratedView {
    pub(crate) fn new(thread_id: ThreadId, migrated: Migrated, workflow: WorkflowRef) -> Self {
        let seq = if let Migrated::Moved(seq) = migrated { Some(seq) } else { None };
        let WorkflowRef { name, hash } = workflow;
        Self { thread_id, result: migrated.name().to_owned(), seq, workflow: name, workflow_hash: hash }
    }
}
