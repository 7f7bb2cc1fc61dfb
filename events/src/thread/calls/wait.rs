//! A wait for a time.

use bincode::{Decode, Encode};

use crate::ids::{CallId, Time};

/// A node that waits for a time. A pause of the thread does not move it: it is the time of the clock on the wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct TimerRun {
    /// Its id in the thread.
    pub id: CallId,
    /// When it began.
    pub requested_at: Time,
    /// When it ends.
    pub until: Time,
}
