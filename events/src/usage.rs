//! The usage of calls of models and tools: one [`CallUsage`] for each call that ended, and [`UsageSums`] by model and
//! by tool. Unknown values do not count as zero: calls without figures or without a price are counted separately.
//!
//! ```
//! use rethread_events::usage::{Ended, UsageFold, UsageSums};
//! # use rethread_events::{event::Event, ids::{Seq, ThreadId, Time}};
//! # let events: Vec<(ThreadId, Seq, Time, Event)> = vec![];
//! let (mut fold, mut sums) = (UsageFold::default(), UsageSums::default());
//! for (thread, seq, recorded_at, event) in &events {
//!     if let Some(Ended::Call(call)) = fold.apply(*thread, *seq, *recorded_at, event) {
//!         sums.add(&call);
//!     }
//! }
//! for (model, sum) in &sums.models {
//!     println!("{model:?}: {} calls, {:?} without a known price", sum.calls.n, sum.n_unpriced);
//! }
//! ```

mod call;
mod fold;
mod models;
mod sums;

pub use call::{CallUsage, Callee, ModelName, ModelUsage, Purpose};
pub use fold::{EVENTS, Ended, UsageFold};
pub use models::MODEL_EVENTS;
pub use sums::{CallSums, GroupSums, ModelSums, UsageSums};

#[cfg(test)]
mod tests;
