//! The spans of a run, for OpenTelemetry: a fold over its events, without a clock and without an SDK. The run is the root;
//! in it are the nodes that it entered, and in those their calls of models, tools, people and branches.
//!
//! The ids of trace and spans follow from thread, run and call, so the same run gives the same spans each time.
//! A fork has the spans of what it did itself, and a link to the run that it was forked off.
//!
//! ```
//! use rethread_events::ids::{RunId, Seq, ThreadId, TraceId};
//! use rethread_events::trace_context::trace_of_run;
//! use rethread_events::traces::{Known, Options, RunPlace, RunTrace};
//! # let events: Vec<(Seq, rethread_events::ids::Time, rethread_events::event::Event)> = vec![];
//! let thread = ThreadId::from_bytes([1; 16]);
//! let mut run = RunTrace::new(Options::default());
//! for (seq, recorded_at, event) in &events {
//!     run.apply(*seq, *recorded_at, event);
//! }
//! let place = RunPlace::new(thread, RunId(Seq(0)), trace_of_run(thread.into(), RunId(Seq(0))));
//! for span in run.finish(&place, Known::NOTHING).spans {
//!     println!("{} {} {:?}", span.id, span.name, span.attributes);
//! }
//! ```

mod building;
mod content;
mod fold;
mod mapping;
mod names;
mod place;
mod span;
mod tries;

pub use fold::{Options, RunTrace};
pub use names::{Key, Profile, provider_name};
pub use place::{Known, RunPlace, Traced, TracedModel};
pub use span::{Attribute, Link, Span, SpanError, SpanKind, Value};

#[cfg(test)]
mod tests;
