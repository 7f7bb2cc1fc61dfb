//! The subjects of the stream, which say what can leave it together.

use rethread_events::ids::{Hash, ThreadId};

/// Where a message is published, below the name of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// Appends and imports of a thread, and the blobs that it names.
    Thread(ThreadId),
    /// A blob that the store itself names.
    Blob(Hash),
    /// A value, by the hash of its name.
    Value(Hash),
    /// Everything else that changes the log.
    Other,
    /// Take-overs.
    TakeOver,
    /// Summaries of what left the stream.
    Summary,
}

impl Subject {
    pub(super) fn value(name: &str) -> Self {
        Self::Value(Hash::of(name.as_bytes()))
    }

    /// The subject as the server knows it.
    pub(super) fn name(self, stream: &str) -> String {
        match self {
            Self::Thread(thread) => format!("{stream}.thread.{thread}"),
            Self::Blob(hash) => format!("{stream}.blob.{hash}"),
            Self::Value(hash) => format!("{stream}.value.{hash}"),
            Self::Other => format!("{stream}.op"),
            Self::TakeOver => format!("{stream}.takeover"),
            Self::Summary => format!("{stream}.summary"),
        }
    }

    /// `None` for a subject that no message of a log has.
    pub(super) fn parse(name: &str, stream: &str) -> Option<Self> {
        let rest = name.strip_prefix(stream)?.strip_prefix('.')?;
        Some(match rest.split_once('.') {
            Some(("thread", thread)) => Self::Thread(thread.parse().ok()?),
            Some(("blob", hash)) => Self::Blob(hash.parse().ok()?),
            Some(("value", hash)) => Self::Value(hash.parse().ok()?),
            None if rest == "op" => Self::Other,
            None if rest == "takeover" => Self::TakeOver,
            None if rest == "summary" => Self::Summary,
            _ => return None,
        })
    }
}
