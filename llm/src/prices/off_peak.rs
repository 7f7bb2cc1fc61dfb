//! Prices by the hour.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::Rates;

/// The prices at the hours at which a provider charges less.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OffPeak {
    pub(super) rates: Rates,
    windows: Vec<Window>,
}

/// Hours of some days of the week, in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Window {
    /// The days, 1 for Monday to 7 for Sunday.
    days: Vec<i8>,
    /// The first minute of the day, and the one after the last, of each span.
    minutes: Vec<[i16; 2]>,
}

impl OffPeak {
    /// Returns whether a call began and ended at these hours. Providers do not say which moment counts, so the price of a
    /// call that began or ended at other hours is the higher one.
    pub(super) fn holds(&self, time: Option<[Timestamp; 2]>) -> bool {
        time.is_some_and(|time| time.iter().all(|at| self.windows.iter().any(|window| window.holds(*at))))
    }
}

impl Window {
    fn holds(&self, at: Timestamp) -> bool {
        let at = at.to_zoned(TimeZone::UTC);
        let minute = i16::from(at.hour()) * 60 + i16::from(at.minute());
        self.days.contains(&at.weekday().to_monday_one_offset())
            && self.minutes.iter().any(|[from, to]| (*from..*to).contains(&minute))
    }
}
