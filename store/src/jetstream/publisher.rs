//! The thread that publishes operations, in the order of the calls, and answers each once the replica has applied it.
//!
//! Messages are numbered and published without waiting for one another. If one is not acknowledged, nothing more is
//! published until the stream was read up to its end; then all that did not come is published again with the same numbers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rethread_events::ids::ThreadId;
use tokio::runtime::Handle;

use super::applier::{Outcome, Progress};
use super::connection::{Connection, last_sequence};
use super::events::{Event, Outbox};
use super::message::{Message, encode};
use crate::disk::queue::{Answer, Op, Queue, Waiting};
use crate::error::StoreError;

/// How many messages are published before the first of them is applied.
const MESSAGES_MAX: u64 = 1024;
/// And how many bytes of them.
const BYTES_MAX: usize = 16 << 20;
/// How often limits of time are checked.
const TICK: Duration = Duration::from_millis(100);
/// How long to wait for the replica to reach the end of the stream before messages are published again.
const REACH_MAX: Duration = Duration::from_secs(2);
/// The pause after a request that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// Publishes operations.
pub(super) struct Publisher {
    queue: Arc<Queue>,
    events: Receiver<Event>,
    outbox: Outbox,
    connection: Connection,
    runtime: Handle,
    timeout: Duration,
    role: Role,
    /// The last number that was given to a message.
    number: u64,
    progress: Progress,
    unsent: VecDeque<(Waiting, Instant)>,
    sent: VecDeque<Sent>,
    /// The first of `sent` of which not all messages are published.
    next_sent: usize,
    /// The bytes of messages that are published and not applied.
    bytes: usize,
    /// Streams of which an append failed, and the ticket before which all that was queued after it fails too.
    fenced: HashMap<ThreadId, u64>,
    /// Counts how often it was begun to publish.
    attempt: u64,
    doubt: Option<Doubt>,
    /// How often the client had connected when the last message was published.
    n_connected: u64,
}

/// Whether it may publish.
enum Role {
    /// It has not taken the log over yet.
    Waits,
    /// Its operations count.
    Writes { epoch: u64 },
    /// Nothing is written any more.
    Ended(StoreError),
}

/// An operation with numbers.
struct Sent {
    /// Of an append.
    thread: Option<ThreadId>,
    answer: Option<Answer>,
    /// Its bytes of the queue's limit.
    bytes: usize,
    /// The number of its first message.
    first: u64,
    messages: Vec<(String, Bytes)>,
    n_published: usize,
    since: Instant,
}

impl Sent {
    fn last(&self) -> u64 {
        self.first + self.messages.len() as u64 - 1
    }
}

/// Messages may be lost: how far the stream is to be read before they are published again.
struct Doubt {
    sequence: Option<u64>,
    since: Instant,
}

impl Publisher {
    pub(super) fn new(
        events: Receiver<Event>,
        outbox: Outbox,
        connection: Connection,
        runtime: Handle,
        timeout: Duration,
    ) -> Self {
        Self {
            queue: Arc::clone(&outbox.queue),
            events,
            outbox,
            connection,
            runtime,
            timeout,
            role: Role::Waits,
            number: 0,
            progress: Progress::default(),
            unsent: VecDeque::new(),
            sent: VecDeque::new(),
            next_sent: 0,
            bytes: 0,
            fenced: HashMap::new(),
            attempt: 0,
            doubt: None,
            n_connected: 0,
        }
    }

    /// Runs until the queue is closed and everything that was queued is answered.
    pub(super) fn run(mut self) {
        let mut waiting = VecDeque::new();
        loop {
            let is_open = self.queue.take(&mut waiting, usize::MAX, false, TICK);
            if waiting.is_empty() && self.unsent.is_empty() {
                self.fenced.clear();
            }
            let now = Instant::now();
            for next in waiting.drain(..) {
                self.unsent.push_back((next, now));
            }
            while let Ok(event) = self.events.try_recv() {
                self.handle(event);
            }
            self.give_up(now);
            self.publish();
            let is_answered = self.unsent.is_empty() && self.sent.iter().all(|sent| sent.answer.is_none());
            if !is_open && is_answered {
                return;
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Applied { progress, results } => self.applied(progress, results),
            Event::Lost { epoch } => {
                if matches!(self.role, Role::Writes { epoch: own } if own == epoch) {
                    self.begin_doubt();
                }
            }
            Event::Changed { own, holder } => self.changed(own, holder),
            Event::Failed(error) => {
                let (log, waited_ms) = (self.connection.address.clone(), 0);
                self.end(&error, &StoreError::InDoubt { log, waited_ms });
            }
            Event::Unacknowledged { attempt } => {
                if attempt == self.attempt {
                    self.begin_doubt();
                }
            }
            Event::Reached { attempt, sequence } => {
                if let Some(doubt) = self.doubt.as_mut().filter(|_| attempt == self.attempt) {
                    *doubt = Doubt { sequence: Some(sequence), since: Instant::now() };
                }
            }
        }
    }

    fn applied(&mut self, progress: Progress, results: Vec<(u64, Outcome)>) {
        self.progress.sequence = progress.sequence;
        let Role::Writes { epoch } = self.role else { return };
        if progress.epoch != epoch {
            return;
        }
        for (number, outcome) in results {
            while let Some(front) = self.sent.front()
                && front.last() <= number
                && let Some(sent) = self.sent.pop_front()
            {
                self.next_sent = self.next_sent.saturating_sub(1);
                self.bytes = self.bytes.saturating_sub(published_bytes(&sent));
                self.queue.release(sent.bytes);
                match (sent.answer, &outcome) {
                    (Some(answer), Ok(appended)) => {
                        self.connection.stats.applied(sent.since.elapsed());
                        answer.done(*appended);
                    }
                    (Some(answer), Err(error)) => self.fail(sent.thread, answer, error.clone()),
                    // It was in doubt: what was queued since was decided without knowing what came of it.
                    (None, _) => drop(sent.thread.map(|thread| self.fenced.insert(thread, self.queue.next_ticket()))),
                }
            }
        }
        self.progress = progress;
    }

    fn changed(&mut self, own: Option<u64>, holder: String) {
        match (&self.role, own) {
            (Role::Waits, Some(epoch)) => self.role = Role::Writes { epoch },
            (Role::Writes { epoch }, own) if own != Some(*epoch) => {
                // What is not applied by now was published for an epoch that is over: it never will be.
                let locked = StoreError::Locked { path: self.connection.address.clone().into(), holder };
                tracing::error!(error = %locked, "another process took the log over");
                self.end(&locked, &locked);
            }
            (Role::Waits | Role::Writes { .. } | Role::Ended(_), _) => {}
        }
    }

    /// Refuses everything from now on; `sent` is the answer to what was published.
    fn end(&mut self, error: &StoreError, sent: &StoreError) {
        self.queue.refuse_all(error.clone());
        self.role = Role::Ended(error.clone());
        for op in std::mem::take(&mut self.sent) {
            self.queue.release(op.bytes);
            if let Some(answer) = op.answer {
                self.fail(op.thread, answer, sent.clone());
            }
        }
        (self.next_sent, self.bytes, self.doubt) = (0, 0, None);
    }

    /// Answers what has waited for too long.
    fn give_up(&mut self, now: Instant) {
        if let Role::Ended(error) = &self.role {
            let error = error.clone();
            for (waiting, _) in std::mem::take(&mut self.unsent) {
                self.refuse(waiting, error.clone());
            }
            return;
        }
        let is_late = |since: Instant, timeout| now.saturating_duration_since(since) > timeout;
        while let Some((_, since)) = self.unsent.front()
            && is_late(*since, self.timeout)
            && let Some((waiting, _)) = self.unsent.pop_front()
        {
            let log = self.connection.address.clone();
            let why = format!("its servers did not answer for {} ms", self.timeout.as_millis());
            self.refuse(waiting, StoreError::Unavailable { log, why });
        }
        for at in 0..self.sent.len() {
            if !is_late(self.sent[at].since, self.timeout) {
                break;
            }
            let thread = self.sent[at].thread;
            if let Some(answer) = self.sent[at].answer.take() {
                let (log, waited_ms) = (self.connection.address.clone(), self.timeout.as_millis() as u64);
                self.fail(thread, answer, StoreError::InDoubt { log, waited_ms });
            }
        }
    }

    fn publish(&mut self) {
        let Role::Writes { epoch } = self.role else { return };
        self.end_doubt();
        if self.doubt.is_some() {
            return;
        }
        // What was published over another connection may be lost, and its acknowledgements with it: they would be waited for.
        let n_connected = self.connection.client.statistics().connects.load(Ordering::Relaxed);
        let is_another = std::mem::replace(&mut self.n_connected, n_connected) != n_connected;
        let is_away = self.connection.check().is_err();
        if is_another || is_away {
            self.begin_doubt();
        }
        if is_away || self.doubt.is_some() {
            return;
        }
        while self.bytes < BYTES_MAX && self.number_published() < self.progress.number + MESSAGES_MAX {
            if self.next_sent == self.sent.len() && !self.number_next(epoch) {
                return;
            }
            let Some(sent) = self.sent.get_mut(self.next_sent) else { return };
            let Some((subject, payload)) = sent.messages.get(sent.n_published).cloned() else {
                self.next_sent += 1;
                continue;
            };
            sent.n_published += 1;
            self.bytes += payload.len();
            self.send(subject, payload);
        }
    }

    /// The last number that was published.
    fn number_published(&self) -> u64 {
        match self.sent.get(self.next_sent) {
            Some(sent) => sent.first + sent.n_published as u64 - 1,
            None => self.number,
        }
    }

    /// Gives numbers to the next operation that waits. Returns false if there is none.
    fn number_next(&mut self, epoch: u64) -> bool {
        while let Some((waiting, since)) = self.unsent.pop_front() {
            let thread = thread_of(&waiting.op);
            if let Some(thread) = thread
                && let Some(until) = self.fenced.get(&thread)
            {
                if waiting.ticket < *until {
                    self.refuse(waiting, StoreError::Fenced { thread });
                    continue;
                }
                self.fenced.remove(&thread);
            }
            if thread.is_some_and(|thread| self.is_in_doubt(thread)) {
                let log = self.connection.address.clone();
                let why = "an earlier write of the same thread is in doubt".into();
                self.refuse(waiting, StoreError::Unavailable { log, why });
                continue;
            }
            let Waiting { op, bytes, answer, .. } = waiting;
            let Some(outgoing) = encode(&op, self.connection.part_bytes) else {
                self.queue.release(bytes);
                self.fail(thread, answer, crate::plan::no_records());
                continue;
            };
            let (first, seen, own) = (self.number + 1, self.progress.number, outgoing.own);
            let n = outgoing.parts.len();
            let message = |(at, (subject, section, body)): (usize, (super::subject::Subject, _, _))| {
                let number = first + at as u64;
                let message = Message { epoch, number, seen, own, more: at + 1 < n, section, body };
                (subject.name(&self.connection.name), Bytes::from(message.encode()))
            };
            let messages: Vec<_> = outgoing.parts.into_iter().enumerate().map(message).collect();
            self.number += n as u64;
            let answer = Some(answer);
            self.sent.push_back(Sent { thread, answer, bytes, first, messages, n_published: 0, since });
            return true;
        }
        false
    }

    /// Whether an append of the thread was answered as in doubt, and is not settled yet.
    fn is_in_doubt(&self, thread: ThreadId) -> bool {
        // The oldest are in doubt first.
        let mut in_doubt = self.sent.iter().take_while(|sent| sent.answer.is_none());
        in_doubt.any(|sent| sent.thread == Some(thread))
    }

    fn send(&self, subject: String, payload: Bytes) {
        let (context, outbox, attempt) = (self.connection.context.clone(), self.outbox.clone(), self.attempt);
        // The order of messages is that of these calls. A client that does not take one is not connected.
        let publish = async { tokio::time::timeout(TICK, context.publish(subject, payload)).await };
        let published = self.runtime.block_on(publish);
        match published {
            Ok(Ok(acknowledgement)) => {
                self.runtime.spawn(async move {
                    if let Err(error) = acknowledgement.await {
                        tracing::debug!(%error, "a message was not acknowledged");
                        outbox.send(Event::Unacknowledged { attempt });
                    }
                });
            }
            Ok(Err(_)) | Err(_) => outbox.send(Event::Unacknowledged { attempt }),
        }
    }

    /// Asks for the end of the stream, before anything is published again.
    fn begin_doubt(&mut self) {
        if self.doubt.is_some() || self.sent.is_empty() {
            return;
        }
        self.attempt += 1;
        self.doubt = Some(Doubt { sequence: None, since: Instant::now() });
        let (stream, outbox, attempt) = (self.connection.stream.clone(), self.outbox.clone(), self.attempt);
        self.runtime.spawn(async move {
            loop {
                tokio::time::sleep(PAUSE).await;
                match last_sequence(&stream).await {
                    Ok(sequence) => return outbox.send(Event::Reached { attempt, sequence }),
                    Err(error) => tracing::debug!(%error, "the end of the stream cannot be read"),
                }
            }
        });
    }

    /// Prepares to publish again what did not come, once the stream was read to its end.
    fn end_doubt(&mut self) {
        let Some(Doubt { sequence: Some(sequence), since }) = self.doubt else { return };
        // The last messages of the stream may have left it: then this waits, which is no fault.
        if self.progress.sequence < sequence && since.elapsed() < REACH_MAX {
            return;
        }
        self.doubt = None;
        let applied = self.progress.number;
        for sent in &mut self.sent {
            let n_applied = (applied + 1).saturating_sub(sent.first) as usize;
            sent.n_published = n_applied.min(sent.messages.len());
        }
        (self.next_sent, self.bytes) = (0, 0);
    }

    fn refuse(&mut self, waiting: Waiting, error: StoreError) {
        self.queue.release(waiting.bytes);
        self.fail(thread_of(&waiting.op), waiting.answer, error);
    }

    /// Answers with a failure. What was queued after an append was decided without knowing that, so it fails too.
    fn fail(&mut self, thread: Option<ThreadId>, answer: Answer, error: StoreError) {
        self.connection.stats.failed(&error);
        let Some(thread) = thread else { return answer.failed(error) };
        // The fence first: between the two nothing can slip through.
        let refusal = self.queue.refuse(thread, error);
        self.fenced.insert(thread, self.queue.next_ticket());
        answer.refused(refusal);
    }
}

fn published_bytes(sent: &Sent) -> usize {
    sent.messages.iter().take(sent.n_published).map(|(_, payload)| payload.len()).sum()
}

fn thread_of(op: &Op) -> Option<ThreadId> {
    match op {
        Op::Append { addition, .. } => Some(addition.thread),
        Op::Import(_)
        | Op::Blob { .. }
        | Op::Value { .. }
        | Op::Delete { .. }
        | Op::Release { .. }
        | Op::Skip { .. }
        | Op::Scrub => None,
    }
}
