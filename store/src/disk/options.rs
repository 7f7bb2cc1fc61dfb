//! The options of a log in a folder.

use std::sync::Arc;
use std::time::Duration;

use super::files::Watcher;

/// The options for opening a log.
#[derive(Clone)]
pub struct Options {
    /// The name of this process in the error of another process that finds the log locked, with the process id added;
    /// for example `rethread serve`.
    pub label: String,
    /// How many bytes of unpacked records are kept in memory for readers.
    pub read_cache_bytes: usize,
    /// How many bytes sled may keep in memory, by its own count, which is of bytes as they are stored. Independent of
    /// that, it has an entry in memory for each of its pages.
    pub index_cache_bytes: u64,
    /// How many bytes of appends may wait to be written before more are refused as `Busy`. One append larger than
    /// this is taken when nothing else waits.
    pub queue_bytes_max: usize,
    /// How long an append that [nobody waits for](crate::Append::is_awaited) is kept for what follows it, so that both become
    /// durable together. By default 500 µs: a few times what a step without a slow call takes, and about as long as a
    /// sync. With zero each append is written as soon as the one before it is durable.
    pub patience: Duration,
    /// How many bytes of new records stay in memory and in the journal before they are moved into sled. A larger value
    /// places records of one stream closer together, a smaller one makes opening after a crash faster.
    pub tail_bytes: usize,
    /// Whether the room is used at once that is set aside for deletes on a full disk, so that the log can be opened to
    /// delete threads. It is set aside again when the log is opened without this.
    pub spend_reserve: bool,
    /// Whether an append is answered only when it is on the disk. Without it a loss of power may lose or damage the log:
    /// only for a log that can be made again from elsewhere. A process that ends loses nothing in either case.
    pub sync: bool,
    /// Observes writes and syncs, for tests.
    pub watcher: Option<Arc<dyn Watcher>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            label: "rethread".into(),
            read_cache_bytes: 32 << 20,
            index_cache_bytes: 32 << 20,
            queue_bytes_max: 128 << 20,
            patience: Duration::from_micros(500),
            tail_bytes: 1 << 20,
            spend_reserve: false,
            sync: true,
            watcher: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("label", &self.label).finish_non_exhaustive()
    }
}
