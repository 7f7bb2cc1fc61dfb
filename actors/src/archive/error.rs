//! The errors of an export and of an import.

use std::io;

use rethread_events::ids::ThreadId;

use crate::error::ReadError;

/// A thread was not exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The thread cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file cannot be written.
    #[error("cannot read or write the export")]
    Io(#[from] io::Error),
}

/// An export was not imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The log failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file cannot be read.
    #[error("cannot read or write the export")]
    Io(#[from] io::Error),
    /// A line is not JSON, or not what an export holds.
    #[error("line {line}: {what}")]
    Line {
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The export is not whole. Nothing of it was imported.
    #[error("line {line}: {what} (export it again; `--allow-incomplete` of `rethread import` takes what there is)")]
    Incomplete {
        /// The line where that was found.
        line: u64,
        /// What is missing.
        what: String,
    },
    /// The process ended several times while this export was imported. Nothing of it was read now.
    #[error(
        "the export is refused, because the process ended {n} times while it was imported; export fewer threads at a time, \
         give the process more memory, or raise limits.crashes_max to have it tried again"
    )]
    EndsProcess {
        /// How often.
        n: u32,
    },
    /// The log has a thread with this id and other events.
    #[error("line {line}: the log has a thread {thread} already, with other events")]
    Differs {
        /// The line where the thread ends.
        line: u64,
        /// The thread.
        thread: ThreadId,
    },
}
