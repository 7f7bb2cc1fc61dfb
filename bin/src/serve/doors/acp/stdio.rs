//! Messages between stdin and stdout and the connection, one a line.

use std::io;
use std::sync::Arc;

use agent_client_protocol::{Channel, Error, RawJsonRpcMessage, TransportFrame};
use futures::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Semaphore;

/// The most bytes of a message.
const LINE_BYTES_MAX: usize = 16 << 20;
/// The most updates that wait to be written.
pub(super) const UPDATES_MAX: usize = 256;
/// How many messages are written after one that is read, so that a client that does not read cannot send on.
const WRITTEN_MAX: usize = 16;

/// Passes on messages until the connection ends. The end of stdin ends what the connection reads.
pub(super) async fn pump(channel: Channel, updates: Arc<Semaphore>) -> io::Result<()> {
    let (mut frames, into) = channel.into_parts();
    let mut lines = Lines::of(BufReader::new(tokio::io::stdin()));
    let mut out = Out { out: tokio::io::stdout(), updates };
    let mut into = Some(into);
    loop {
        tokio::select! {
            frame = frames.next() => match frame {
                Some(frame) => out.write(frame).await?,
                None => return Ok(()),
            },
            line = lines.next(), if into.is_some() => match line? {
                Some(frame) => {
                    if into.as_ref().is_some_and(|into| into.unbounded_send(frame).is_err()) {
                        return Ok(());
                    }
                    // The connection takes it, and may answer at once.
                    tokio::task::yield_now().await;
                    for _ in 0..WRITTEN_MAX {
                        match frames.next().now_or_never() {
                            Some(Some(frame)) => out.write(frame).await?,
                            _ => break,
                        }
                    }
                }
                None => into = None,
            },
        }
    }
}

/// Writes messages.
struct Out<W> {
    out: W,
    updates: Arc<Semaphore>,
}

impl<W: AsyncWrite + Unpin> Out<W> {
    async fn write(&mut self, frame: TransportFrame) -> io::Result<()> {
        let is_update = matches!(&frame, TransportFrame::Single(RawJsonRpcMessage::Notification(sent))
            if &*sent.method == "session/update");
        let mut line = frame.to_json().map_err(io::Error::other)?;
        line.push('\n');
        self.out.write_all(line.as_bytes()).await?;
        self.out.flush().await?;
        if is_update {
            self.updates.add_permits(1);
        }
        Ok(())
    }
}

/// Reads lines of a limited length.
struct Lines<R> {
    from: R,
    line: Vec<u8>,
    /// Whether the present line is too long: its rest is not stored.
    is_too_long: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    fn of(from: R) -> Self {
        Self { from, line: Vec::new(), is_too_long: false }
    }

    /// Returns the next message; `None` at the end. Nothing is lost if this is dropped.
    async fn next(&mut self) -> io::Result<Option<TransportFrame>> {
        loop {
            let read = self.from.fill_buf().await?;
            if read.is_empty() {
                // An unfinished line is a message that was cut off.
                return Ok(None);
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let piece = &read[..end.unwrap_or(read.len())];
            if self.line.len() + piece.len() > LINE_BYTES_MAX {
                self.is_too_long = true;
                self.line = Vec::new();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(piece);
            }
            let n = end.map_or(read.len(), |end| end + 1);
            self.from.consume(n);
            if end.is_none() {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.is_too_long) {
                let detail = format!("a message has at most {LINE_BYTES_MAX} bytes");
                return Ok(Some(malformed(Error::new(-32_600, detail))));
            }
            match String::from_utf8(line) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => return Ok(Some(TransportFrame::parse_json(&line))),
                Err(_) => return Ok(Some(malformed(Error::new(-32_700, "the message is not UTF-8")))),
            }
        }
    }
}

fn malformed(error: Error) -> TransportFrame {
    TransportFrame::Malformed { raw: String::new(), error }
}

#[cfg(test)]
mod tests;
