//! What a log in a stream tells those who operate it.

use std::time::Duration;

/// The largest durations of the buckets of [`Durations`], in microseconds: 0.5 ms to 10 s.
pub const DURATION_BOUNDS_US: [u64; 14] = [
    500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000,
    10_000_000,
];

/// A log in a stream, as this process has it. Counts are since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamMetrics {
    /// Whether there is a connection to a server at the moment.
    pub is_connected: bool,
    /// The slots of threads that this process has; all of them if it has the log alone.
    pub slots: usize,
    /// The processes that write the log.
    pub members: usize,
    /// Processes that this one took out because they reported no more: their threads went on elsewhere.
    pub taken_out: u64,
    /// How many messages of the stream this process had not read when the last one came.
    pub behind: u64,
    /// How long writes took, from the call to the answer, of those that were applied.
    pub writes: Durations,
    /// Writes that were answered as in doubt.
    pub in_doubt: u64,
    /// Writes that were refused because no server could be reached.
    pub unavailable: u64,
}

/// Durations in buckets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Durations {
    /// How many are in each bucket of [`DURATION_BOUNDS_US`], and beyond the last one.
    pub buckets: [u64; DURATION_BOUNDS_US.len() + 1],
    /// Their sum in microseconds.
    pub sum_us: u64,
}

impl Durations {
    /// Counts one more.
    pub fn add(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = DURATION_BOUNDS_US.partition_point(|bound| *bound < us);
        if let Some(n) = self.buckets.get_mut(bucket) {
            *n += 1;
        }
        self.sum_us = self.sum_us.saturating_add(us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_in_the_first_bucket_that_holds_it() {
        let mut durations = Durations::default();
        for us in [0, 500, 501, 10_000_000, 10_000_001] {
            durations.add(Duration::from_micros(us));
        }
        assert_eq!(durations.buckets, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(durations.sum_us, 20_001_002);
    }
}
