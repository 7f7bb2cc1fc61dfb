//! Dropping old results of a long thread.

use super::super::limits::*;
use super::super::{NodeResult, StepOutcome, Steps};

impl Steps {
    /// Drops the first results that have ended until what is left is not too much, those that did not fail before those
    /// that did. Those that have not ended are few: the loops and sub-workflows around the present node.
    pub(in super::super) fn drop_old(&mut self) {
        while self.results.len() > RESULTS_MAX || self.opened.held_bytes > HELD_BYTES_MAX {
            let is_over = |result: &&NodeResult| result.ended.is_some() && self.opened.left != Some(result.number);
            let completed = |result: &&NodeResult| is_over(result) && result.outcome == StepOutcome::Completed;
            let first = self.results.values().take(FAILED_FIRST_MAX).find(completed);
            let Some(number) = first.or_else(|| self.results.values().find(is_over)).map(|result| result.number) else {
                return;
            };
            if let Some(result) = self.results.remove(&number) {
                self.opened.held_bytes = self.opened.held_bytes.saturating_sub(result.held_bytes);
                self.n_dropped += 1;
            }
        }
    }
}
