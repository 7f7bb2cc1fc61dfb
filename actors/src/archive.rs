//! Threads as JSON lines, out of the log and back into it.
//!
//! An export is a file of lines. A line with `type` is an event, as everywhere. The things that the events of a thread
//! name by hash come before these events: `{"workflow": {"hash", "definition"}}` and `{"blob": {"hash", "text"}}`. The
//! threads that a fork inherits from come before the fork, complete. The last line is `{"end": {"lines", "hash"}}`; an
//! export without it is refused. An imported thread has the same ids, times, hashes and states; its positions are new.

mod export;
mod import;
mod trailer;

pub use export::Exporter;
pub use import::Imported;
pub(crate) use import::import;
