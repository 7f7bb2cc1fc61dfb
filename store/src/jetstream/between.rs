//! Requests from one member of a shared log to another, over NATS, outside of the stream.
//!
//! ```text
//! request: subject rethread_members.STREAM.EPOCH, sequence u64, body
//! answer:  status u8 (0 answered, 1 busy, 2 worked on), sequence u64, body
//! ```
//! While a request is worked on, the receiver says so every second; the last answer is one of the other two. A larger request
//! comes in `parts`. The sequence is how far the replica of the sender is. The receiver waits until its own has come there, so that it can read
//! what the message speaks of.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{Message, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rethread_events::ids::ThreadId;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use super::applier::Progress;
use super::members::Membership;
use super::parts::{self, Joined, Parts, REQUEST_BYTES_MAX};
use super::random_id;
use crate::error::StoreError;
use crate::slots::{Answering, Asked, Share, SharedLog, Slot, Slots};
use crate::wire::{Malformed, Put, Take};

/// The first word of the subjects of requests. No log has a stream of this name.
pub(super) const PREFIX: &str = "rethread_members";
/// How many requests are worked on at once.
const REQUESTS_MAX: usize = 1024;
/// How long to wait for the replica: then a request is refused as one to a process that is busy.
const REACH_MAX: Duration = Duration::from_secs(2);
/// How often the sender of a request is told that it is worked on.
const WORKED_ON_EVERY: Duration = Duration::from_secs(1);
/// How long the receiver may be silent before it is unknown whether a request arrived.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const ANSWERED: u8 = 0;
const BUSY: u8 = 1;
const WORKED_ON: u8 = 2;

/// The log, for a process that has it open beside others.
#[derive(Clone)]
pub(super) struct Between {
    pub(super) membership: Membership,
    pub(super) share: watch::Receiver<Share>,
    pub(super) runtime: Handle,
    /// How long a request may take.
    pub(super) timeout: Duration,
    pub(super) answering: Arc<Mutex<Option<Answering>>>,
}

impl SharedLog for Between {
    fn share(&self) -> watch::Receiver<Share> {
        self.share.clone()
    }

    fn others(&self) -> Vec<Slots> {
        self.membership.others()
    }

    fn give(&self, slots: Slots) -> BoxFuture<'static, Result<(), StoreError>> {
        let (membership, runtime) = (self.membership.clone(), self.runtime.clone());
        Box::pin(async move {
            membership.queue.check_open()?;
            let given = runtime.spawn_blocking(move || Handle::current().block_on(membership.give(&slots))).await;
            given.unwrap_or(Err(StoreError::Closed))
        })
    }

    fn ask(&self, thread: ThreadId, request: Bytes) -> BoxFuture<'static, Result<Asked, StoreError>> {
        let (between, runtime) = (self.clone(), self.runtime.clone());
        Box::pin(async move {
            let asked = runtime.spawn(async move { between.ask_member(thread, request).await }).await;
            asked.unwrap_or(Err(StoreError::Closed))
        })
    }

    fn answer_with(&self, answering: Answering) {
        *self.answering.lock() = Some(answering);
    }
}

impl Between {
    async fn ask_member(&self, thread: ThreadId, request: Bytes) -> Result<Asked, StoreError> {
        let Membership { connection, queue, members, .. } = &self.membership;
        match queue.check_open() {
            // It only reads: others change the log for it.
            Ok(()) | Err(StoreError::ReadOnly { .. }) => connection.check()?,
            Err(error) => return Err(error),
        }
        let bytes_max = connection.client.server_info().max_payload;
        let sequence = self.membership.progress.borrow().sequence;
        let mut framed = Vec::with_capacity(8 + request.len());
        framed.u64(sequence);
        framed.bytes(&request);
        let request = Bytes::from(framed);
        if request.len() > REQUEST_BYTES_MAX {
            let (bytes, bytes_max) = (request.len() as u64, REQUEST_BYTES_MAX as u64);
            return Err(StoreError::TooLarge {
                what: "a request to the process that has the thread",
                bytes,
                bytes_max,
            });
        }
        let owner = members.borrow().slots.get(usize::from(Slot::of(thread).0)).copied().unwrap_or_default();
        if owner == 0 {
            return Ok(Asked::Nobody);
        }
        let subject = subject(&connection.name, owner);
        let mut messages = parts::cut(request, random_id(), bytes_max);
        let Some(last) = messages.pop() else { return Ok(Asked::Nobody) };
        for part in messages {
            match self.ask_epoch(owner, subject.clone(), part).await {
                Ok(Some((ANSWERED, _, _))) => {}
                // Without all its parts it is not worked on.
                Ok(Some(_)) | Err(StoreError::InDoubt { .. }) => return Ok(Asked::Busy),
                Ok(None) => return Ok(Asked::Nobody),
                Err(error) => return Err(error),
            }
        }
        let Some((status, sequence, body)) = self.ask_epoch(owner, subject, last).await? else {
            return Ok(Asked::Nobody);
        };
        if status == BUSY {
            return Ok(Asked::Busy);
        }
        // It is done, also if this replica lags.
        reach(self.membership.progress.clone(), sequence).await;
        Ok(Asked::Answered(body))
    }

    /// Sends a message to a member. Returns the status, the sequence and the body of its answer; `None` if nobody receives it.
    async fn ask_epoch(
        &self,
        owner: u64,
        subject: String,
        message: Bytes,
    ) -> Result<Option<(u8, u64, Bytes)>, StoreError> {
        let Membership { connection, members, .. } = &self.membership;
        let (mut members, begun) = (members.clone(), Instant::now());
        let answered = tokio::select! {
            answered = tokio::time::timeout(self.timeout, self.last_answer(subject, message)) => answered.ok().flatten(),
            // It was taken out, and does nothing any more that counts.
            _ = members.wait_for(|members| !members.members.contains_key(&owner)) => None,
        };
        let Some(answer) = answered else {
            let waited_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            return Err(StoreError::InDoubt { log: connection.address.clone(), waited_ms });
        };
        if answer.status == Some(StatusCode::NO_RESPONDERS) {
            return Ok(None);
        }
        decode(&answer.payload).map(Some).map_err(|Malformed| {
            let what = "a process of another version answers in a way that this one does not read".into();
            StoreError::Unavailable { log: connection.address.clone(), why: what }
        })
    }

    /// Sends a message and waits for as long as it is worked on. `None` if it may have arrived, and no answer comes.
    async fn last_answer(&self, subject: String, message: Bytes) -> Option<Message> {
        let client = &self.membership.connection.client;
        let inbox = client.new_inbox();
        let mut answers = client.subscribe(inbox.clone()).await.ok()?;
        client.publish_with_reply(subject, inbox, message).await.ok()?;
        loop {
            let answer = tokio::time::timeout(SILENCE_MAX, answers.next()).await.ok()??;
            if answer.payload.first() != Some(&WORKED_ON) {
                return Some(answer);
            }
        }
    }

    /// Answers requests for this process, as soon as it is a member, until the task is aborted.
    pub(super) async fn serve(self) {
        let Membership { connection, progress, .. } = &self.membership;
        let (permits, mut parts) = (Arc::new(Semaphore::new(REQUESTS_MAX)), Parts::default());
        let mut is_member = progress.clone();
        let Ok(epoch) = is_member.wait_for(|progress| progress.epoch > 0).await.map(|progress| progress.epoch) else {
            return;
        };
        loop {
            // The client subscribes again by itself after its connection was lost.
            let Ok(mut requests) = connection.client.subscribe(subject(&connection.name, epoch)).await else {
                tokio::time::sleep(super::PAUSE).await;
                continue;
            };
            while let Some(message) = requests.next().await {
                let Some(reply) = message.reply else { continue };
                let answering = self.answering.lock().clone();
                let (client, progress) = (connection.client.clone(), progress.clone());
                let message = match parts.take(message.payload, Instant::now()) {
                    Joined::Whole(message) => message,
                    joined => {
                        let status = if joined == Joined::Part { ANSWERED } else { BUSY };
                        let _ = client.publish(reply, encode(status, 0, &[])).await;
                        continue;
                    }
                };
                let permit = permits.clone().try_acquire_owned();
                let mut take = Take(&message);
                let (Some(answering), Ok(permit), Ok(sequence)) = (answering, permit, take.u64()) else {
                    let _ = client.publish(reply, encode(BUSY, 0, &[])).await;
                    continue;
                };
                let request = message.slice(8..);
                tokio::spawn(async move {
                    if !reach(progress.clone(), sequence).await {
                        // It could not read what the request speaks of.
                        let _ = client.publish(reply, encode(BUSY, 0, &[])).await;
                        return;
                    }
                    let mut answer = answering(request);
                    let body = loop {
                        match tokio::time::timeout(WORKED_ON_EVERY, &mut answer).await {
                            Ok(body) => break body,
                            Err(_) => _ = client.publish(reply.clone(), encode(WORKED_ON, 0, &[])).await,
                        }
                    };
                    let sequence = progress.borrow().sequence;
                    let _ = client.publish(reply, encode(ANSWERED, sequence, &body)).await;
                    drop(permit);
                });
            }
        }
    }
}

/// Waits for the replica, for a while. Returns whether it has come there.
async fn reach(mut progress: watch::Receiver<Progress>, sequence: u64) -> bool {
    let reached = progress.wait_for(|progress| progress.sequence >= sequence);
    matches!(tokio::time::timeout(REACH_MAX, reached).await, Ok(Ok(_)))
}

fn subject(stream: &str, epoch: u64) -> String {
    format!("{PREFIX}.{stream}.{epoch}")
}

fn encode(status: u8, sequence: u64, body: &[u8]) -> Bytes {
    let mut out = vec![status];
    out.u64(sequence);
    out.bytes(body);
    out.into()
}

fn decode(bytes: &Bytes) -> Result<(u8, u64, Bytes), Malformed> {
    let mut take = Take(bytes);
    let (status, sequence) = (take.u8()?, take.u64()?);
    let body = bytes.slice(bytes.len() - take.0.len()..);
    if status > BUSY { Err(Malformed) } else { Ok((status, sequence, body)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_read_as_written() {
        let written = encode(ANSWERED, 77, b"body");
        assert_eq!(decode(&written), Ok((ANSWERED, 77, Bytes::from_static(b"body"))));
        assert_eq!(decode(&encode(2, 0, b"")), Err(Malformed));
        assert_eq!(decode(&written.slice(..8)), Err(Malformed));
    }
}
