//! The children of a thread, and the parent that started it.

use bincode::{Decode, Encode};

use crate::event::StartedByParent;

/// The most threads that a run starts, those of its branches not counted.
pub const CHILDREN_MAX: u32 = 1_000;

/// How deep threads start threads at most: the deepest one starts none.
pub const CHILDREN_DEPTH_MAX: u32 = 16;

/// The children of a thread, and the parent that started it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(in crate::thread) struct Children {
    /// How many threads the run has started, or was about to.
    pub(in crate::thread) n_in_run: u32,
    /// Whether the thread has started a child that may be cancelled with it.
    pub(in crate::thread) follow: bool,
    /// The start of this thread, if it is a child. A fork of a child is none.
    pub(in crate::thread) parent: Option<StartedByParent>,
    /// How many threads started one another up to this one; 0 if no thread started it.
    pub(in crate::thread) depth: u32,
}
