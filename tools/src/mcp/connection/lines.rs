//! A stream of lines of bounded length.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// Reads lines, each of which is one message, up to a maximal length; a longer one is an error, so that a server
/// cannot fill the memory with one.
pub(super) struct Limited<R> {
    inner: R,
    line_bytes_max: usize,
    n_line_bytes: usize,
}

impl<R> Limited<R> {
    pub(super) fn new(inner: R, line_bytes_max: usize) -> Self {
        Self { inner, line_bytes_max, n_line_bytes: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Limited<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let n_before = buffer.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = &polled {
            let mut is_over = false;
            for line in buffer.filled()[n_before..].split_inclusive(|byte| *byte == b'\n') {
                this.n_line_bytes += line.len();
                is_over |= this.n_line_bytes > this.line_bytes_max;
                if line.ends_with(b"\n") {
                    this.n_line_bytes = 0;
                }
            }
            if is_over {
                // Who fails has read nothing.
                buffer.set_filled(n_before);
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::FileTooLarge)));
            }
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_ends_the_stream() {
        let mut text = String::new();
        Limited::new(&b"abc\ndef\n"[..], 4).read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "abc\ndef\n");
        let error = Limited::new(&b"abc\ndefg\n"[..], 4).read_to_string(&mut text).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
