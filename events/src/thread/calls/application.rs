//! A call of a function of the application: a strategy, or a guardrail.

use bincode::{Decode, Encode};

use crate::ids::{CallId, Time};

/// A call of a function of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ApplicationRun {
    /// Which call.
    pub call: CallId,
    /// The number of the attempt.
    pub attempt: u32,
    /// When this attempt was requested.
    pub requested_at: Time,
    /// When this attempt must have been answered.
    pub deadline: Time,
}

impl ApplicationRun {
    /// The next attempt. `clock` is what the clocks of calls show.
    pub(super) fn retry(&mut self, at: Time, clock: Time) {
        let ms = self.deadline.ms_since(self.requested_at);
        self.attempt += 1;
        self.requested_at = at;
        self.deadline = clock.plus_ms(ms);
    }
}
