//! A call of a context processor.

use bincode::{Decode, Encode};

use crate::codec::OrderedMap;
use crate::ids::{CallId, Time};
use crate::json::Json;
use crate::workflow::SUMMARIZE;

/// A running context processor.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct ProcessorRun {
    /// Which call.
    pub call: CallId,
    /// The processor.
    pub processor: String,
    /// Its configuration, with its expressions filled in.
    pub config: OrderedMap<Json>,
    /// The number of the attempt.
    pub attempt: u32,
    /// When this attempt was requested.
    pub requested_at: Time,
    /// When this attempt must have been answered.
    pub deadline: Time,
}

impl ProcessorRun {
    /// The next attempt. `clock` is what the clocks of calls show.
    pub(super) fn retry(&mut self, at: Time, clock: Time) {
        let ms = self.deadline.ms_since(self.requested_at);
        self.attempt += 1;
        self.requested_at = at;
        self.deadline = clock.plus_ms(ms);
    }
}

impl ProcessorRun {
    /// Whether its new messages count as the ones that they replace.
    pub(in crate::thread) fn is_summary(&self) -> bool {
        self.processor == SUMMARIZE
    }
}
