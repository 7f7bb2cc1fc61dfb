//! The queue of the writer: bounded in bytes, in the order of the calls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::{Condvar, Mutex};
use rethread_events::ids::{Hash, ThreadId};
use tokio::sync::oneshot;

use super::answer::OFFLOAD_MIN;
use crate::contract::{Append, Appended, Import};
use crate::error::StoreError;
use crate::fence::{Fences, Refusal};
use crate::plan::{self, Addition};

/// As many are taken whether or not anybody waits for them: enough share a sync.
const ENOUGH: usize = 256;

/// Something to be written.
#[derive(Debug)]
pub(crate) enum Op {
    Append {
        addition: Addition,
        /// The blobs that the stream names from these records on.
        blobs: Vec<Vec<u8>>,
    },
    Import(Import),
    Blob {
        owner: Option<ThreadId>,
        hash: Hash,
        bytes: Arc<[u8]>,
    },
    Value {
        name: String,
        value: Option<Vec<u8>>,
    },
    Delete {
        threads: Vec<ThreadId>,
    },
    Release {
        hashes: Vec<Hash>,
        values: Vec<(String, Option<Vec<u8>>)>,
    },
    /// Positions that no record will ever have: those of threads that were deleted elsewhere.
    #[cfg(feature = "jetstream")]
    Skip {
        /// How many.
        n: u32,
    },
    /// Nothing to write: the unused part of the journal is truncated.
    Scrub,
}

/// Who waits for it.
#[derive(Debug)]
pub(crate) enum Answer {
    Append(oneshot::Sender<Result<Appended, Refusal>>),
    Blocking(SyncSender<Result<Option<Appended>, StoreError>>),
}

impl Answer {
    /// It failed, and its caller must receive the error before the stream continues.
    pub(crate) fn refused(self, refusal: Refusal) {
        match self {
            // Unheard, the refusal is dropped here and its fence with it.
            Self::Append(sender) => drop(sender.send(Err(refusal))),
            Self::Blocking(sender) => drop(sender.send(Err(refusal.into_error()))),
        }
    }

    /// Something other than an append failed.
    pub(crate) fn failed(self, error: StoreError) {
        if let Self::Blocking(sender) = self {
            drop(sender.send(Err(error)));
        }
    }

    /// Sends the result. The caller may have stopped waiting.
    pub(crate) fn done(self, appended: Option<Appended>) {
        match (self, appended) {
            (Self::Append(sender), Some(appended)) => drop(sender.send(Ok(appended))),
            (Self::Append(_), None) => {}
            (Self::Blocking(sender), appended) => drop(sender.send(Ok(appended))),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) op: Op,
    pub(crate) bytes: usize,
    pub(crate) ticket: u64,
    pub(crate) answer: Answer,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Bytes that wait or are being written.
    bytes: usize,
    next_ticket: u64,
    /// Whether somebody waits for one of them.
    is_awaited: bool,
    /// When the first of them arrived.
    since: Option<Instant>,
    /// Whether the writer could begin nothing with only a few of them.
    writer_is_busy: bool,
    /// Whether the writer wakes by itself in time for an append that nobody waits for.
    writer_looks: bool,
    /// Another thread than a caller has work for the writer.
    writer_woken: bool,
    closed: bool,
    /// Why the queue permanently accepts nothing, if that is so.
    refusal: Option<StoreError>,
}

#[derive(Debug)]
pub(crate) struct Queue {
    fences: Fences,
    state: Mutex<State>,
    arrived: Condvar,
    bytes_max: usize,
    /// How long an append that nobody waits for is kept for what follows.
    patience: Duration,
}

impl State {
    fn check_open(&self) -> Result<(), StoreError> {
        match &self.refusal {
            _ if self.closed => Err(StoreError::Closed),
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Whether the writer goes on, rather than wait for more.
    fn is_due(&self) -> bool {
        let n = self.waiting.len();
        let is_enough = if self.writer_is_busy { n >= OFFLOAD_MIN } else { self.is_awaited || n >= ENOUGH };
        self.writer_woken || self.closed || is_enough
    }
}

impl Queue {
    pub(crate) fn new(bytes_max: usize, patience: Duration) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            bytes: 0,
            next_ticket: 0,
            is_awaited: false,
            since: None,
            writer_is_busy: false,
            writer_looks: false,
            writer_woken: false,
            closed: false,
            refusal: None,
        };
        Self { fences: Fences::default(), state: Mutex::new(state), arrived: Condvar::new(), bytes_max, patience }
    }

    /// Appends an entry that somebody waits for. One that alone exceeds the limit is accepted if the queue is empty.
    pub(crate) fn push(&self, op: Op, bytes: usize, answer: Answer) {
        self.push_as(op, bytes, answer, true);
    }

    fn push_as(&self, op: Op, bytes: usize, answer: Answer, is_awaited: bool) {
        let mut state = self.state.lock();
        if let Some(error) = self.refusal(&state, &op, bytes) {
            drop(state);
            return self.fail(&op, answer, error);
        }
        state.bytes += bytes;
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let was_due = state.is_due();
        state.waiting.push_back(Waiting { op, bytes, ticket, answer });
        state.is_awaited |= is_awaited;
        let must_look = state.since.is_none() && !state.writer_looks;
        state.since.get_or_insert_with(Instant::now);
        let wakes = must_look || !was_due && state.is_due();
        drop(state);
        if wakes {
            self.arrived.notify_one();
        }
    }

    /// Somebody waits now for what was appended so far.
    pub(crate) fn hurry(&self) {
        let mut state = self.state.lock();
        let was_due = state.is_due();
        state.is_awaited |= !state.waiting.is_empty();
        let wakes = !was_due && state.is_due();
        drop(state);
        if wakes {
            self.arrived.notify_one();
        }
    }

    /// Queues an append, as [`Store::append`](crate::Store::append).
    pub(crate) fn append(&self, mut append: Append) -> BoxFuture<'static, Result<Appended, StoreError>> {
        let bytes = match plan::measure(&append) {
            Ok(bytes) => bytes,
            Err(error) => {
                let refusal = self.refuse(append.thread, error);
                return async move { Err(refusal.into_error()) }.boxed();
            }
        };
        let (blobs, is_awaited) = (std::mem::take(&mut append.blobs), append.is_awaited);
        let addition = Addition::from(append);
        let (sender, receiver) = oneshot::channel();
        self.push_as(Op::Append { addition, blobs }, bytes, Answer::Append(sender), is_awaited);
        receiver
            .map(|answer| match answer {
                Ok(answer) => answer.map_err(Refusal::into_error),
                Err(_) => Err(StoreError::Closed),
            })
            .boxed()
    }

    /// Has something written and waits for it.
    pub(crate) fn write(&self, op: Op, bytes: usize) -> Result<Option<Appended>, StoreError> {
        let (sender, receiver) = sync_channel(1);
        self.push(op, bytes, Answer::Blocking(sender));
        receiver.recv().unwrap_or(Err(StoreError::Closed))
    }

    fn refusal(&self, state: &State, op: &Op, bytes: usize) -> Option<StoreError> {
        if let Err(error) = state.check_open() {
            return Some(error);
        }
        if let Op::Append { addition, .. } = op
            && self.fences.is_raised(addition.thread)
        {
            return Some(StoreError::Fenced { thread: addition.thread });
        }
        (state.bytes > 0 && state.bytes + bytes > self.bytes_max)
            .then_some(StoreError::Busy { bytes: state.bytes as u64, bytes_max: self.bytes_max as u64 })
    }

    /// Answers that something failed.
    pub(crate) fn fail(&self, op: &Op, answer: Answer, error: StoreError) {
        match (op, answer) {
            (Op::Append { addition, .. }, answer) => {
                answer.refused(self.fences.raise(addition.thread, error));
            }
            (_, answer) => answer.failed(error),
        }
    }

    /// Answers everything from now on with this error.
    pub(crate) fn refuse_all(&self, error: StoreError) {
        self.state.lock().refusal = Some(error);
    }

    /// Whether anything is taken at all, for what is written without being queued.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        self.state.lock().check_open()
    }

    /// A failure that comes before anything is queued.
    pub(crate) fn refuse(&self, thread: ThreadId, error: StoreError) -> Refusal {
        self.fences.raise(thread, error)
    }

    /// Moves waiting entries, up to about `bytes_max`, into `out`. It waits for one that somebody waits for, for enough of
    /// them, for a nudge, or until the first has waited long enough, at most `wait_max`; if the writer `is_busy`, only for
    /// enough of them or a nudge. Returns false if the queue is closed and empty.
    pub(crate) fn take(
        &self,
        out: &mut VecDeque<Waiting>,
        bytes_max: usize,
        is_busy: bool,
        wait_max: Duration,
    ) -> bool {
        let mut state = self.state.lock();
        state.writer_is_busy = is_busy;
        let mut now = Instant::now();
        let until = now + wait_max;
        // What follows soon need not wake it.
        let looks_at = now + self.patience;
        while !state.is_due() {
            let due = state.since.filter(|_| !is_busy).map(|since| since + self.patience);
            let looks_next = if now < looks_at { looks_at } else { until };
            let wakes_at = due.unwrap_or(looks_next).min(until);
            if wakes_at <= now {
                break;
            }
            state.writer_looks = is_busy || wakes_at < until;
            self.arrived.wait_until(&mut state, wakes_at);
            now = Instant::now();
        }
        state.writer_looks = true;
        state.writer_woken = false;
        if state.waiting.is_empty() {
            return !state.closed;
        }
        // Bytes that are being written count too, so this is the common case.
        if out.is_empty() && state.bytes <= bytes_max {
            std::mem::swap(out, &mut state.waiting);
            (state.is_awaited, state.since) = (false, None);
            return true;
        }
        let mut bytes = 0;
        while let Some(next) = state.waiting.front() {
            if bytes > 0 && bytes + next.bytes > bytes_max {
                break;
            }
            bytes += next.bytes;
            out.extend(state.waiting.pop_front());
        }
        if state.waiting.is_empty() {
            (state.is_awaited, state.since) = (false, None);
        }
        true
    }

    /// Wakes the writer, if it waits for callers.
    pub(crate) fn wake_writer(&self) {
        self.state.lock().writer_woken = true;
        self.arrived.notify_one();
    }

    /// Releases the space of what was taken and is written.
    pub(crate) fn release(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
    }

    /// The ticket that the next one to arrive will get.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.state.lock().next_ticket
    }

    /// Closes the queue; returns false if it was closed before.
    pub(crate) fn close(&self) -> bool {
        let was_open = !std::mem::replace(&mut self.state.lock().closed, true);
        self.arrived.notify_all();
        was_open
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
}

#[cfg(test)]
mod tests;
