//! Configuration of a node that waits.

use jiff::civil;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::Json;

/// The longest wait: a hundred years of 365 days.
pub const WAIT_MS_MAX: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

/// A node that waits for a time, or for the end of a thread, also across restarts. Exactly one of `for_ms`, `until`, `at` and
/// `thread` is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitNode {
    /// The duration in milliseconds: a number, or an expression.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "forMs")]
    pub for_ms: Option<Json>,
    /// Until this moment: RFC 3339, or a date and time of `zone`, with expressions. A moment that is past ends the wait at
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Until the clocks of `zone` show this time the next time: `09:00` or `09:00:30`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The time zone, as IANA names it, such as `Europe/Berlin`; for `at` it is `UTC` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Until this thread has ended: its id, with expressions. The output of the node is that of the thread. Its labels include
    /// those of the thread that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

/// The zone of that name, out of the table that is part of the program: the same on every machine.
pub(crate) fn time_zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| format!("`{name}` is no time zone: write an IANA name, such as Europe/Berlin"))
}

/// A time of day.
pub(crate) fn time_of_day(text: &str) -> Result<civil::Time, String> {
    let is_plain = text.len() <= 8 && text.bytes().all(|b| b.is_ascii_digit() || b == b':');
    let time = if is_plain { text.parse().ok() } else { None };
    time.ok_or_else(|| format!("`{text}` is no time of day: write 09:00 or 09:00:30"))
}
