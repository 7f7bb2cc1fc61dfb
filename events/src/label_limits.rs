//! Limits for the threads with a label: how many have not ended, how many starts a minute takes, how many tokens a day.
//! [`LabelCounts`] counts them, and decides. It knows no clock and no log: the caller gives the time, and what happened.

mod counts;
mod rules;
mod spent;

pub use counts::{LabelCounts, LabelSeries};
pub use rules::{LabelLimit, LabelLimitReached, LabelLimits, UNKNOWN_CALL_TOKENS, check};
pub use spent::{EVENTS, Spent, is_start};

#[cfg(test)]
mod tests;
