//! The rule of a queue: how many of the runs that wait may begin now.

use crate::event::QueueLimits;
use crate::ids::Time;

/// How many runs of a queue may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The current number.
    pub n: usize,
    /// When time alone makes room for the next one.
    pub more_at: Option<Time>,
}

/// How many runs may begin under these limits, `most` of them at most. `n_running` have begun and not ended. `starts` are
/// the times of the starts that the rate counts, oldest first, and may hold older ones.
pub fn room(limits: &QueueLimits, n_running: usize, starts: &[Time], now: Time, most: usize) -> Room {
    let of_concurrency = limits.concurrency.map(|n| size(n).saturating_sub(n_running));
    let n = most.min(of_concurrency.unwrap_or(usize::MAX));
    let Some(rate) = limits.rate else { return Room { n, more_at: None } };
    // A start at a time that has not come, as the clock was set back, counts as one now.
    let counted: Vec<_> = starts.iter().filter(|start| now.ms_since(**start) < rate.per_ms).collect();
    let of_rate = size(rate.starts).saturating_sub(counted.len());
    // Where the rate is what refuses, the start that leaves the window first makes room.
    let leaves = counted.len().checked_sub(size(rate.starts)).and_then(|at| counted.get(at));
    let more_at = if of_rate < n {
        let next = leaves.or(counted.first()).map_or(now, |start| **start);
        Some(next.plus_ms(rate.per_ms))
    } else {
        None
    };
    Room { n: n.min(of_rate), more_at }
}

fn size(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StartRate;

    fn at(ms: u64) -> Time {
        Time::from_unix_us(ms * 1_000)
    }

    fn limits(concurrency: Option<u32>, rate: Option<(u32, u64)>) -> QueueLimits {
        let rate = rate.map(|(starts, per_ms)| StartRate { starts, per_ms });
        QueueLimits { concurrency, rate, debounce: false }
    }

    #[test]
    fn concurrency_leaves_room_for_the_rest() {
        let room = |n_running, most| room(&limits(Some(3), None), n_running, &[], at(0), most);
        assert_eq!(room(1, 10), Room { n: 2, more_at: None });
        assert_eq!(room(1, 1), Room { n: 1, more_at: None });
        assert_eq!(room(3, 10).n, 0);
        assert_eq!(room(9, 10).n, 0, "limits may have become smaller");
    }

    #[test]
    fn rate_counts_the_starts_of_its_period() {
        let limits = limits(None, Some((2, 1_000)));
        let room = |starts: &[u64], now| {
            let starts: Vec<_> = starts.iter().map(|ms| at(*ms)).collect();
            room(&limits, 0, &starts, at(now), 10)
        };
        assert_eq!(room(&[], 500), Room { n: 2, more_at: Some(at(1_500)) });
        assert_eq!(room(&[100], 500), Room { n: 1, more_at: Some(at(1_100)) });
        assert_eq!(room(&[100, 300], 500), Room { n: 0, more_at: Some(at(1_100)) });
        assert_eq!(room(&[100, 300], 1_100), Room { n: 1, more_at: Some(at(1_300)) }, "the first one has left");
        assert_eq!(room(&[100, 300, 400], 500), Room { n: 0, more_at: Some(at(1_300)) }, "of more than there may be");
        assert_eq!(room(&[9_000], 500), Room { n: 1, more_at: Some(at(10_000)) }, "a clock that was set back");
    }

    #[test]
    fn the_stricter_of_both_limits_counts() {
        let both = limits(Some(1), Some((5, 1_000)));
        assert_eq!(room(&both, 0, &[at(0)], at(1), 10), Room { n: 1, more_at: None });
        assert_eq!(room(&both, 1, &[at(0)], at(1), 10), Room { n: 0, more_at: None });
    }
}
