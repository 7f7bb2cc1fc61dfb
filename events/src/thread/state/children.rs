//! The children of a thread, the parent that started it, and the thread whose end it waits for.

use super::State;
use crate::event::StartedByParent;
use crate::thread::calls::{AwaitedRun, OpenCall};

impl State {
    /// The start of this thread by its parent, if it is a child.
    pub fn started_by(&self) -> Option<&StartedByParent> {
        self.children.parent.as_ref()
    }

    /// How many threads started one another up to this one; 0 if no thread started it.
    pub fn start_depth(&self) -> u32 {
        self.children.depth
    }

    /// Whether it has started a child that may be cancelled with it.
    pub fn has_children_to_cancel(&self) -> bool {
        self.children.follow
    }

    /// The wait for the end of a thread, if the node that it is in waits for one.
    pub fn thread_wait(&self) -> Option<&AwaitedRun> {
        self.calls.iter().find_map(OpenCall::thread_wait)
    }
}
