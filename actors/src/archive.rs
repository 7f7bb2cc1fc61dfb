//! Threads as JSON lines, out of the log and back into it.
//!
//! An export is a file of lines. A line with `type` is an event, as everywhere. Before the events of a thread stand
//! the things its events name by hash: `{"workflow": {"hash", "definition"}}` and `{"blob": {"hash", "text"}}`. The
//! threads that a fork inherits from stand before it, whole. The last line is `{"end": {"lines", "hash"}}`; an export
//! without it is refused. An imported thread has the same ids, times, hashes and
//! states; its positions are new.

mod export;
mod import;
mod trailer;

pub use export::Exporter;
pub use import::Imported;
pub(crate) use import::import;
