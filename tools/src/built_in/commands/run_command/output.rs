//! The output of a command, its head and its tail, in bounded memory.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use crate::Progress;

/// The interval at which output is reported as progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// The captured output of one stream.
pub(super) struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    n_bytes: u64,
    progress: Progress,
    last_reported: Option<Instant>,
}

impl Captured {
    /// Captures `bytes_max` bytes: two thirds from the beginning, one from the end, where results usually are.
    pub(super) fn new(bytes_max: usize, progress: Progress) -> Self {
        let tail_max = bytes_max / 3;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_max: bytes_max - tail_max,
            tail_max,
            n_bytes: 0,
            progress,
            last_reported: None,
        }
    }

    /// Reads to the end. A stream that cannot be read has ended.
    pub(super) async fn read(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(n_read @ 1..) = stream.read(&mut buffer).await {
            self.take(&buffer[..n_read]);
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.n_bytes += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_max - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        let n_too_many = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..n_too_many);
        self.tail.extend(rest);

        if self.last_reported.is_none_or(|last_reported| last_reported.elapsed() >= PROGRESS_EVERY) {
            self.last_reported = Some(Instant::now());
            self.progress.say(String::from_utf8_lossy(bytes));
        }
    }

    /// How many bytes came.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// [`Captured::text`] with a line end at its end, unless it is empty.
    pub(super) fn lines(&self) -> String {
        let mut text = self.text();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    /// All that was kept, with a line that says how much was not.
    pub(super) fn text(&self) -> String {
        let n_kept = (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if n_kept < self.n_bytes {
            if !bytes.ends_with(b"\n") {
                bytes.push(b'\n');
            }
            let note = format!("[{} of {} bytes left out here]\n", self.n_bytes - n_kept, self.n_bytes);
            bytes.extend_from_slice(note.as_bytes());
        }
        bytes.extend(&self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
