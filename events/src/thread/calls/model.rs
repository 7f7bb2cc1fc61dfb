//! A call of a model: of an agent loop, of a judge, or for a summary.

use bincode::{Decode, Encode};

use crate::fault::ErrorKind;
use crate::ids::{CallId, Time};

/// A call of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ModelCall {
    /// Which call.
    pub call: CallId,
    /// The number of the attempt.
    pub attempt: u32,
    /// When this attempt was requested.
    pub requested_at: Time,
    /// When it must have been answered.
    pub deadline: Option<Time>,
    /// The last try of this attempt that failed, if the client tries again.
    pub failed_try: Option<FailedTry>,
}

/// A try of the client that failed, after which it tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct FailedTry {
    /// The number of the try, from 1.
    pub number: u32,
    /// Why it failed.
    pub kind: ErrorKind,
    /// When the next one begins.
    pub next_at: Time,
}

impl ModelCall {
    /// The first attempt.
    pub(in crate::thread) fn new(call: CallId, at: Time, timeout_ms: Option<u64>) -> Self {
        Self { call, attempt: 1, requested_at: at, deadline: timeout_ms.map(|ms| at.plus_ms(ms)), failed_try: None }
    }

    /// The next attempt. `clock` is what the clocks of calls show.
    pub(super) fn retry(&mut self, at: Time, clock: Time, timeout_ms: Option<u64>) {
        self.attempt += 1;
        self.requested_at = at;
        self.deadline = timeout_ms.map(|ms| clock.plus_ms(ms));
        self.failed_try = None;
    }
}
