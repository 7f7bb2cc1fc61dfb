//! Questions that wait for people.

use rethread::ThreadId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::serve::problem::{Document, Problem};
use crate::views::Interaction;

/// The open questions.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interactions {
    pub(crate) interactions: Vec<Interaction>,
    /// Threads that cannot be read, and why; what they ask is not known.
    pub(crate) unreadable: Vec<Unreadable>,
    /// The `cursor` of the next page; null on the last.
    pub(crate) next: Option<String>,
}

/// A thread that cannot be read.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unreadable {
    #[schema(value_type = String)]
    pub(crate) thread_id: ThreadId,
    #[schema(value_type = Document)]
    pub(crate) problem: Problem,
}

/// A question that was answered or taken back.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    pub(crate) id: String,
    #[schema(value_type = String)]
    pub(crate) thread_id: ThreadId,
    /// `answered` or `cancelled`.
    pub(crate) status: &'static str,
}
