//! Requests to other members that are larger than a message of NATS: they are sent in parts, each of which is answered.
//!
//! ```text
//! part: u64::MAX in place of the sequence of a request, id of the request [u8; 16], its bytes u64, offset u64, a part of it
//! ```
//! The answer to the last part is that of the request. Without all parts a request is not worked on, so that one whose parts do
//! not arrive had no effect.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::wire::{Malformed, Put, Take};

/// Where a request has its sequence.
const MARK: u64 = u64::MAX;
/// The bytes of a part besides those of the request.
const HEADER_BYTES: usize = 8 + 16 + 8 + 8;
/// The largest request: one event can have as many bytes.
pub(super) const REQUEST_BYTES_MAX: usize = 64 << 20;
/// The most bytes of requests that are not whole yet.
const BYTES_MAX: usize = 4 * REQUEST_BYTES_MAX;
/// How long to wait for the next part.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Cuts a request into messages of at most this many bytes; one message is the request itself.
pub(super) fn cut(request: Bytes, id: [u8; 16], message_bytes_max: usize) -> Vec<Bytes> {
    if request.len() <= message_bytes_max {
        return vec![request];
    }
    let part_bytes = message_bytes_max.saturating_sub(HEADER_BYTES).max(1);
    let parts = request.chunks(part_bytes).enumerate().map(|(n, part)| {
        let mut out = Vec::with_capacity(HEADER_BYTES + part.len());
        out.u64(MARK);
        out.bytes(&id);
        out.u64(request.len() as u64);
        out.u64((n * part_bytes) as u64);
        out.bytes(part);
        out.into()
    });
    parts.collect()
}

/// What comes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// A request.
    Whole(Bytes),
    /// A part of one, and not the last.
    Part,
    /// A part that does not follow what has arrived, or for which there is no room: the request has to be sent again.
    Refused,
}

/// The requests of which parts have arrived.
#[derive(Debug, Default)]
pub(super) struct Parts {
    requests: HashMap<[u8; 16], Unfinished>,
}

#[derive(Debug)]
struct Unfinished {
    bytes: Vec<u8>,
    total: usize,
    last_at: Instant,
}

impl Parts {
    /// Takes a message in.
    pub(super) fn take(&mut self, message: Bytes, now: Instant) -> Joined {
        if !message.starts_with(&MARK.to_le_bytes()) {
            return Joined::Whole(message);
        }
        self.requests.retain(|_, request| now.saturating_duration_since(request.last_at) < WAIT_MAX);
        match self.add(&message, now) {
            Ok(Some(request)) => Joined::Whole(request.into()),
            Ok(None) => Joined::Part,
            Err(Malformed) => Joined::Refused,
        }
    }

    fn add(&mut self, message: &[u8], now: Instant) -> Result<Option<Vec<u8>>, Malformed> {
        let mut take = Take(message);
        take.u64()?;
        let (id, total, offset) = (take.array()?, take.u64()?, take.u64()?);
        let total = usize::try_from(total).ok().filter(|total| *total <= REQUEST_BYTES_MAX).ok_or(Malformed)?;
        if offset == 0 {
            let n: usize = self.requests.values().map(|request| request.total).sum();
            if n + total > BYTES_MAX || self.requests.contains_key(&id) {
                return Err(Malformed);
            }
            self.requests.insert(id, Unfinished { bytes: Vec::new(), total, last_at: now });
        }
        let request = self.requests.get_mut(&id).ok_or(Malformed)?;
        let part = take.0;
        if offset != request.bytes.len() as u64
            || total != request.total
            || part.is_empty()
            || part.len() > total - request.bytes.len()
        {
            self.requests.remove(&id);
            return Err(Malformed);
        }
        request.bytes.extend_from_slice(part);
        request.last_at = now;
        if request.bytes.len() < total {
            return Ok(None);
        }
        Ok(self.requests.remove(&id).map(|request| request.bytes))
    }
}

#[cfg(test)]
mod tests;
