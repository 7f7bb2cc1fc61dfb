//! The newest output of a process, and how much of it has been read.

use std::collections::VecDeque;
use std::sync::Arc;

/// The last bytes that were received, and the position of the reader.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: VecDeque<u8>,
    bytes_max: usize,
    /// How many bytes came before the first that is kept.
    begin: u64,
    /// How far it has been read.
    read_to: u64,
    /// The call that read last, and where it began: asked again under the same key, it reads the same again.
    last: Option<(Arc<str>, u64)>,
}

/// New output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct New {
    pub(crate) bytes: Vec<u8>,
    /// How many bytes were dropped before they were read.
    pub(crate) n_lost: u64,
    /// The position of the reader after all of it was read.
    pub(crate) end: u64,
}

impl Buffer {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: VecDeque::new(), bytes_max: bytes_max.max(1), begin: 0, read_to: 0, last: None }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let n_over = (self.bytes.len() + bytes.len()).saturating_sub(self.bytes_max);
        let n_old = n_over.min(self.bytes.len());
        self.bytes.drain(..n_old);
        let n_passed = n_over - n_old;
        self.bytes.extend(&bytes[n_passed..]);
        self.begin += n_over as u64;
    }

    /// Where a call under this key begins to read.
    pub(super) fn start(&self, key: &str) -> u64 {
        match &self.last {
            Some((last, start)) if !key.is_empty() && **last == *key => *start,
            _ => self.read_to,
        }
    }

    /// Returns the output from `start` on, at most `bytes_max` of it.
    pub(super) fn since(&self, start: u64, bytes_max: usize) -> New {
        let first = start.max(self.begin);
        let skip = usize::try_from(first - self.begin).unwrap_or(usize::MAX).min(self.bytes.len());
        let bytes: Vec<u8> = self.bytes.iter().skip(skip).take(bytes_max).copied().collect();
        let end = first + bytes.len() as u64;
        New { bytes, n_lost: first - start, end }
    }

    /// How many bytes have come in all.
    pub(super) fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    /// Notes that a call under this key has read from `start` to `end`.
    pub(super) fn mark_read(&mut self, key: &Arc<str>, start: u64, end: u64) {
        self.last = Some((Arc::clone(key), start));
        self.read_to = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_bytes_are_kept_and_lost_ones_counted() {
        let mut buffer = Buffer::new(5);
        buffer.push(b"abc");
        assert_eq!(buffer.since(0, 10), New { bytes: b"abc".into(), n_lost: 0, end: 3 });
        buffer.push(b"defg");
        assert_eq!(buffer.since(0, 10), New { bytes: b"cdefg".into(), n_lost: 2, end: 7 });
        assert_eq!(buffer.since(3, 2), New { bytes: b"de".into(), n_lost: 0, end: 5 });
        buffer.push(b"0123456789");
        assert_eq!(buffer.since(7, 10), New { bytes: b"56789".into(), n_lost: 5, end: 17 });
        assert_eq!(buffer.since(17, 10), New { bytes: Vec::new(), n_lost: 0, end: 17 });
    }

    #[test]
    fn repeated_read_with_one_key_returns_the_same_bytes() {
        let mut buffer = Buffer::new(100);
        buffer.push(b"abc");
        buffer.mark_read(&"one".into(), 0, 3);
        assert_eq!(buffer.start("one"), 0);
        assert_eq!(buffer.start("two"), 3);
        assert_eq!(buffer.start(""), 3);
    }
}
