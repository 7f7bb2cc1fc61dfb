//! A stream of lines of bounded length, each of which is one message.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::readable;

/// How much is read at a time.
const READ_BYTES: usize = 8 << 10;

/// Reads lines up to a maximal length; a longer one is an error, so that a server cannot fill the memory with one. A line
/// that cannot be read as it is, is passed on as [`readable`] makes it.
pub(super) struct Lines<R> {
    inner: R,
    line_bytes_max: usize,
    line: Vec<u8>,
    /// Lines that are ready, from `at` on.
    ready: Vec<u8>,
    at: usize,
}

impl<R> Lines<R> {
    pub(super) fn new(inner: R, line_bytes_max: usize) -> Self {
        Self { inner, line_bytes_max, line: Vec::new(), ready: Vec::new(), at: 0 }
    }

    /// Takes what was read; nothing at the end.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        (self.at, self.ready) = (0, Vec::new());
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > self.line_bytes_max {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
        if bytes.is_empty() {
            self.end_line();
        }
        Ok(())
    }

    fn end_line(&mut self) {
        match readable::message(&self.line) {
            Some(message) => {
                self.ready.extend_from_slice(message.as_bytes());
                self.ready.push(b'\n');
            }
            None => self.ready.extend_from_slice(&self.line),
        }
        self.line.clear();
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let left = &this.ready[this.at..];
            if !left.is_empty() {
                let n = left.len().min(buffer.remaining());
                buffer.put_slice(&left[..n]);
                this.at += n;
                return Poll::Ready(Ok(()));
            }
            let mut read = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut read);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            this.take(read.filled())?;
            if read.filled().is_empty() && this.ready.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_ends_the_stream() {
        let mut text = String::new();
        Lines::new(&b"abc\ndef\n"[..], 4).read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "abc\ndef\n");
        let error = Lines::new(&b"abc\ndefg\n"[..], 4).read_to_string(&mut text).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[tokio::test]
    async fn last_line_without_an_end_is_read() {
        let mut text = String::new();
        Lines::new(&b"abc\nd"[..], 4).read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "abc\nd");
    }
}
