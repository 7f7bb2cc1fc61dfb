//! Answers that may be large: written by a thread of the pool, in pieces that are sent meanwhile, so that no other request
//! waits for them.

use std::io::{self, Write};

use actix_web::HttpResponse;
use actix_web::http::header::ContentType;
use actix_web::rt::task::spawn_blocking;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::stream;

use super::written::PIECE_BYTES;

/// Bytes on their way out, as many at a time as are worth sending. Not bounded: all of them are no more than the answer,
/// and a client that reads slowly is not to hold a thread.
pub(crate) struct Pieces {
    piece: Vec<u8>,
    to: UnboundedSender<io::Result<Bytes>>,
    /// Whether all is written, or why it is not was said.
    ended: bool,
}

impl Pieces {
    fn end(&mut self, written: io::Result<()>) {
        if let Err(error) = written.and_then(|()| self.flush()) {
            // If the receiver was dropped, the error has no reader.
            let _ = self.to.unbounded_send(Err(error));
        }
        self.ended = true;
    }
}

impl Drop for Pieces {
    /// Marks the output of a writer that panicked or never ran as incomplete.
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.to.unbounded_send(Err(io::Error::other("the answer was not written to its end")));
        }
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8));
        self.to.unbounded_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Answers with the JSON that `write` writes of a value, which is freed by the thread that wrote it: that takes as long
/// as writing. What fits one piece has its length in front.
pub(crate) async fn json<T: Send + 'static>(
    value: T,
    write: impl FnOnce(&T, &mut Pieces) -> io::Result<()> + Send + 'static,
) -> HttpResponse {
    let (to, mut pieces) = unbounded();
    let mut out = Pieces { piece: Vec::new(), to, ended: false };
    drop(spawn_blocking(move || {
        let written = write(&value, &mut out);
        out.end(written);
        drop(out);
        drop(value);
    }));
    let mut answer = HttpResponse::Ok();
    answer.content_type(ContentType::json());
    let (first, second) = (pieces.next().await, pieces.next().await);
    match (first, second) {
        (Some(Ok(whole)), None) => answer.body(whole),
        (first, second) => {
            let begun = stream::iter(first.into_iter().chain(second));
            answer.streaming(begun.chain(pieces))
        }
    }
}

#[cfg(test)]
mod tests;
