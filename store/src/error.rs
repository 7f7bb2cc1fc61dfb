//! The errors of the log, by what the caller does next.

use std::path::PathBuf;

use rethread_events::ids::{Position, Seq, ThreadId};

/// A place in the log that cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Damage {
    /// The stream, where it is known.
    pub thread: Option<ThreadId>,
    /// The first seq that is affected, where it is known.
    pub seq: Option<Seq>,
    /// The first position that is affected, where it is known.
    pub position: Option<Position>,
    /// The file.
    pub file: Option<PathBuf>,
    /// The fault.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if let Some(thread) = self.thread {
            write!(f, ", thread {thread}")?;
        }
        if let Some(seq) = self.seq {
            write!(f, ", seq {seq}")?;
        }
        if let Some(position) = self.position {
            write!(f, ", position {position}")?;
        }
        if let Some(file) = &self.file {
            write!(f, ", in {}", file.display())?;
        }
        Ok(())
    }
}

/// An operation on the log failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Another writer was first: read the stream again, then decide again. Nothing was written.
    #[error("thread {thread} is at seq {actual}, not at {expected}")]
    Conflict {
        /// The stream.
        thread: ThreadId,
        /// The next seq that the caller expected.
        expected: Seq,
        /// The actual next seq.
        actual: Seq,
    },
    /// An append of the stream that was queued before this one failed, and its caller has not received the error yet:
    /// read the stream again, then decide again. Nothing was written.
    #[error("an earlier queued append of thread {thread} failed")]
    Fenced {
        /// The stream.
        thread: ThreadId,
    },
    /// There is no such thing: give up.
    #[error("no {what} {name}")]
    NotFound {
        /// `thread`, `blob` or `value`.
        what: &'static str,
        /// Which.
        name: String,
    },
    /// Larger than the limit: make it smaller; trying again does not help. Nothing was written.
    #[error("{what} of {bytes} bytes is over the limit of {bytes_max}")]
    TooLarge {
        /// The value that is too large.
        what: &'static str,
        /// How large it is.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// Asked in a way that makes no sense, for example an append of nothing: a fault of the caller.
    #[error("{0}")]
    Invalid(String),
    /// Too much is waiting to be written: try again in a moment. Nothing was written.
    #[error("{bytes} bytes are waiting to be written, the limit is {bytes_max}")]
    Busy {
        /// How much is waiting.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The disk is full: make room, then try again; the log carries on by itself. Nothing of this was acknowledged.
    #[error("the disk under {path} is full: free some space and try again")]
    Full {
        /// The folder of the log.
        path: PathBuf,
    },
    /// The folder of the log was moved, removed or replaced while it is open: move it back, or stop the process and
    /// open the log at its new path. Nothing of this was acknowledged, and nothing was written at the path; the log
    /// continues by itself when the folder is back.
    #[error(
        "the log, or a part of it, is no longer at {path} ({why}): move it back, or stop this process and open the log where it is \
         now"
    )]
    Moved {
        /// Where the log was opened.
        path: PathBuf,
        /// The difference that was found.
        why: String,
    },
    /// The log was opened to be read, because nothing can be written in its folder: mend that and open it again.
    #[error("the log in {path} was opened read-only: {why}")]
    ReadOnly {
        /// The folder of the log.
        path: PathBuf,
        /// Why nothing can be written there.
        why: String,
    },
    /// Forks still inherit from the stream: delete them first.
    #[error("thread {thread} is inherited by {}", list(.forks))]
    InUse {
        /// The stream.
        thread: ThreadId,
        /// Up to 16 of the forks.
        forks: Vec<ThreadId>,
    },
    /// Another process has the log open: use that one, or stop it first.
    #[error("the log in {path} is open in another process ({holder}): stop it first, or use another log")]
    Locked {
        /// The folder of the log, or the address of its stream.
        path: PathBuf,
        /// Who holds it, for example `rethread serve, pid 4711`.
        holder: String,
    },
    /// Written by another version of this program in a form that this one does not read.
    #[error("the log in {path} has format {found}, this program reads format {supported}")]
    Format {
        /// The folder of the log.
        path: PathBuf,
        /// The format of the log.
        found: u32,
        /// The format that this program reads.
        supported: u32,
    },
    /// The data that was read is not what was written: see the report of `verify`; other threads continue.
    #[error("the log is damaged: {0}")]
    Damaged(Damage),
    /// The disk failed: the store takes no more writes until it is opened again.
    #[error("the log in {path} failed")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::sync::Arc<std::io::Error>,
    },
    /// The copy of a log in a stream can take nothing more in, for example because its disk is full: mend that, and open the log
    /// again. Another process can go on with the log meanwhile. Nothing of this was written.
    #[error("the copy of the log {log} has stopped ({why}): open the log again")]
    Stopped {
        /// The address of the log.
        log: String,
        /// Why.
        why: Box<StoreError>,
    },
    /// The store was closed: a fault of the caller.
    #[error("the log is closed")]
    Closed,
    /// The servers of the log cannot be reached or refuse: try again later. Nothing was written.
    #[error("the log {log} cannot be reached ({why}): nothing was written, try again")]
    Unavailable {
        /// The address of the log.
        log: String,
        /// Why.
        why: String,
    },
    /// The servers of the log did not answer in time: the write may have happened or may still happen. Read again when
    /// they can be reached, then decide; do not assume either.
    #[error(
        "the log {log} did not answer in {waited_ms} ms: the write may have happened, read again before you repeat it"
    )]
    InDoubt {
        /// The address of the log.
        log: String,
        /// How long the write was waited for.
        waited_ms: u64,
    },
    /// The servers or the stream are set up in a way that could lose records: change that first.
    #[error("the log {log} cannot be used: {why}")]
    Unsuitable {
        /// The address of the log.
        log: String,
        /// Why, and what to change.
        why: String,
    },
}

impl StoreError {
    /// Whether the same may succeed later in this process, without a change by the caller. If a write in doubt has happened,
    /// the same again is refused by what it expects, or changes nothing.
    pub const fn is_temporary(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::Fenced { .. }
            | Self::Full { .. }
            | Self::Moved { .. }
            | Self::InDoubt { .. }
            | Self::Unavailable { .. } => true,
            Self::Conflict { .. }
            | Self::NotFound { .. }
            | Self::TooLarge { .. }
            | Self::Invalid(_)
            | Self::ReadOnly { .. }
            | Self::InUse { .. }
            | Self::Locked { .. }
            | Self::Format { .. }
            | Self::Damaged(_)
            | Self::Io { .. }
            | Self::Stopped { .. }
            | Self::Closed
            | Self::Unsuitable { .. } => false,
        }
    }
}

fn list(threads: &[ThreadId]) -> String {
    threads.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
