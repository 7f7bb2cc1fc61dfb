//! Moments of a thread: names, states, families.

use rethread::{Seq, ThreadId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::views::Member;

/// A name of a moment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    pub(crate) label: String,
    #[schema(value_type = u64)]
    pub(crate) seq: Option<Seq>,
}

/// The named moments of a thread.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoints {
    #[schema(value_type = String)]
    pub(crate) thread_id: ThreadId,
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// A thread and the branches that ran at a moment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Family {
    #[schema(value_type = String)]
    pub(crate) thread_id: ThreadId,
    #[schema(value_type = u64)]
    pub(crate) seq: Seq,
    pub(crate) members: Vec<Member>,
}
