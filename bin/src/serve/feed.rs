//! The body of a streaming response: events as they arrive, with keep-alives between them.

use std::convert::Infallible;

use actix_web::http::header::{self, ContentEncoding};
use actix_web::{HttpResponse, HttpResponseBuilder};
use bytes::{Bytes, BytesMut};
use futures::{FutureExt as _, Stream, StreamExt as _};
use rethread::Position;
use rethread::errors::{ReadError, RuntimeError};
use serde_json::json;
use tokio::time::{Interval, MissedTickBehavior};

use super::doors::{a2a, agui, openai};
use super::event_filter::EventTextStream;
use super::guard::{self, By};
use super::problem::Problem;
use super::server::{Shared, SubscriberSlot};
use super::written::{Form, PIECE_BYTES, Written};

/// How long a client waits before it connects again, in milliseconds.
const RETRY_MS: u64 = 2_000;

/// What is written besides events: before them, between them, and when no more come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Events in this form.
    Events(Form),
    /// Chunks of the OpenAI-compatible door.
    Openai,
    /// Events of the AG-UI door.
    Agui,
    /// Results of the A2A door.
    A2a(a2a::Envelope),
}

struct Feed {
    frame: Frame,
    /// Whose token may be revoked meanwhile.
    by: Option<By>,
    events: EventTextStream,
    /// Everything up to here that the subscriber wants has been written.
    seen: Option<Position>,
    keep_alive: Interval,
    server: Shared,
    /// The first bytes of the body.
    opening: Option<Bytes>,
    ended: bool,
    _seat: SubscriberSlot,
}

/// Begins the response of a stream. Proxies do not store or delay it, and it is not compressed: events would wait in the
/// compressor until there are more. The guard removes the header that says so.
pub(crate) fn response(media_type: &str) -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response
        .content_type(media_type)
        .insert_header((header::CACHE_CONTROL, "no-cache, no-transform"))
        .insert_header(("X-Accel-Buffering", "no"))
        .insert_header(ContentEncoding::Identity);
    response
}

/// The body for a subscriber that starts after `seen`. It is made only as fast as it is read: what is not read waits
/// in the log.
pub(crate) fn body(
    server: Shared,
    seat: SubscriberSlot,
    by: Option<By>,
    frame: Frame,
    events: EventTextStream,
    seen: Option<Position>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let silence_max = server.settings.silence_max;
    let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + silence_max, silence_max);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let opening =
        (frame == Frame::Events(Form::Sse)).then(|| Bytes::from(format!("retry: {RETRY_MS}\n{}\n", id_line(seen))));
    let feed = Feed { frame, by, events, seen, keep_alive, server, opening, ended: false, _seat: seat };
    futures::stream::unfold(feed, |mut feed| async move { feed.next().await.map(|piece| (Ok(piece), feed)) })
}

/// A block with only an id sets the last event id of a browser, and is no event.
fn id_line(seen: Option<Position>) -> String {
    seen.map(|position| format!("id: {position}\n")).unwrap_or_default()
}

impl Feed {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(opening) = self.opening.take() {
            return Some(opening);
        }
        if self.ended {
            return None;
        }
        loop {
            let piece = tokio::select! {
                biased;
                () = self.server.stopping.cancelled() => {
                    self.ended = true;
                    return Some(self.stopping());
                }
                // Before the events, which may keep coming without one that is wanted.
                _ = self.keep_alive.tick() => self.comment("keep-alive"),
                next = self.events.next() => self.piece(next?),
            };
            // An empty piece would end the body.
            if !piece.is_empty() {
                return Some(self.allowed(piece));
            }
            if self.ended {
                return None;
            }
        }
    }

    /// Returns the piece to write, if the reader still has permission.
    fn allowed(&mut self, piece: Bytes) -> Bytes {
        match guard::check_still_allowed(&self.server, self.by) {
            Ok(()) => piece,
            Err(problem) => {
                self.ended = true;
                self.failure(problem).into()
            }
        }
    }

    fn comment(&self, text: &str) -> Bytes {
        match &self.frame {
            Frame::Events(Form::Sse) => format!(": {text}\n{}\n", id_line(self.seen)).into(),
            // Readers of JSON lines pass over empty ones.
            Frame::Events(Form::Lines) => Bytes::from_static(b"\n"),
            Frame::Openai | Frame::Agui | Frame::A2a(_) => format!(": {text}\n\n").into(),
        }
    }

    /// The last thing that is written when the server stops. A client that knows positions connects again.
    fn stopping(&self) -> Bytes {
        match &self.frame {
            Frame::Events(_) => self.comment("the server is stopping"),
            Frame::Openai | Frame::Agui | Frame::A2a(_) => self.failure(Problem::stopping()).into(),
        }
    }

    /// The text, and the next ones that are ready.
    fn piece(&mut self, first: Result<Written, ReadError>) -> Bytes {
        let mut piece = self.text(first);
        let mut joined = BytesMut::new();
        // A piece that is large enough already is sent as it is.
        while !self.ended && piece.len().max(joined.len()) < PIECE_BYTES {
            match self.events.next().now_or_never() {
                Some(Some(next)) => {
                    joined.extend_from_slice(&std::mem::take(&mut piece));
                    joined.extend_from_slice(&self.text(next));
                }
                Some(None) => self.ended = true,
                None => break,
            }
        }
        let piece = if joined.is_empty() { piece } else { joined.freeze() };
        if !piece.is_empty() {
            self.keep_alive.reset();
        }
        piece
    }

    fn text(&mut self, next: Result<Written, ReadError>) -> Bytes {
        match next {
            Ok(written) => {
                self.seen = self.seen.max(Some(written.last));
                written.text
            }
            Err(error) => {
                self.ended = true;
                match error {
                    ReadError::Runtime(RuntimeError::ShuttingDown) => Bytes::new(),
                    error => self.failure(Problem::from(error)).into(),
                }
            }
        }
    }

    /// The last thing that is written when the log cannot be read on, or not by this one.
    fn failure(&self, problem: Problem) -> String {
        match &self.frame {
            Frame::Events(Form::Sse) => format!("event: problem\ndata: {}\n\n", json!(problem)),
            Frame::Events(Form::Lines) => format!("{}\n", json!({ "problem": problem })),
            Frame::Openai => openai::Error::from(problem).chunk(),
            Frame::Agui => agui::Error::from(problem).sse(),
            Frame::A2a(envelope) => envelope.last_event(problem),
        }
    }
}
