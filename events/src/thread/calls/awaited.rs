//! A wait for the end of a thread.

use bincode::{Decode, Encode};

use crate::ids::{CallId, ThreadId, Time};

/// A node that waits for the end of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct AwaitedRun {
    /// Its id in the thread that waits.
    pub id: CallId,
    /// The thread whose end it waits for.
    pub thread: ThreadId,
    /// When it began.
    pub requested_at: Time,
}
