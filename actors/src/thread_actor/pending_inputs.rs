//! What outlives a machine that was thrown away because the log had no room for its events: the work it began, and
//! what that work said since.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix::SpawnHandle;
use rethread_events::ids::{CallId, Position, Seq};
use rethread_events::thread::Input;
use serde::Serialize;

use super::Reply;
use super::asking::Asking;
use crate::permit_waits::RunningCalls;

/// The most inputs that are kept for one thread.
const INPUTS_MAX: usize = 4_096;
/// Beyond so many no progress is kept: a tool that reports every step must leave room for its answer.
const ASIDES_MAX: usize = 256;
/// What an input takes beside its texts, in bytes, roughly.
const INPUT_BYTES: usize = 512;

/// A call and its attempt.
pub(super) type Key = (CallId, u32);

/// The room for what the log cannot take, one for the whole runtime.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// A place in the room; given back when it is dropped.
pub(super) struct Reservation {
    room: Arc<MemoryBudget>,
    bytes: usize,
}

impl MemoryBudget {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), bytes_max })
    }

    fn place(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let taken = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|taken| *taken <= self.bytes_max)
        });
        taken.ok().map(|_| Reservation { room: self.clone(), bytes })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What work of the thread said, and its place in the room, if it had to wait there.
pub(super) struct Said {
    pub(super) input: Input,
    pub(super) place: Option<Reservation>,
}

impl Said {
    /// Whether the call that it is about was asked for before `seq`.
    pub(super) fn is_before(&self, seq: Seq) -> bool {
        key_of(&self.input).is_some_and(|(call, _)| call.0 < seq)
    }
}

/// Something the thread is to be told as soon as it is there again.
pub(super) struct Waiting {
    pub(super) input: Input,
    pub(super) reply: Option<Reply>,
    /// The event of another thread that it follows from.
    pub(super) cause: Option<Position>,
    /// Only for what its own work said; who asks from outside is told at once when there is no room.
    pub(super) place: Option<Reservation>,
}

/// What outlives a machine.
#[derive(Default)]
pub(super) struct Kept {
    /// The work that goes on; dropping an entry calls it off.
    pub(super) running: RunningCalls,
    /// Tools among it that wait for answers of people.
    pub(super) asking: Asking,
    /// What is to be told, in order.
    pub(super) waiting: VecDeque<Waiting>,
    /// When the log is to be tried again.
    pub(super) retry: Option<SpawnHandle>,
    pub(super) halting: bool,
}

impl Kept {
    /// Of the work of a machine whose events from `end` on are void, that which the log knows of. The seqs of other
    /// calls will be those of other events.
    pub(super) fn before(end: Seq, mut running: RunningCalls, mut asking: Asking) -> Self {
        running.retain(|(call, _), _| call.0 < end);
        asking.retain(|question, _| question.0 < end);
        Self { running, asking, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Keeps what work of the thread said. Where there is no room, progress is forgotten, and a call whose answer or
    /// part of an answer is forgotten is given up, as if the process had ended while it was running.
    pub(super) fn keep(&mut self, said: Said, reply: Option<Reply>, room: &Arc<MemoryBudget>) {
        let Said { input, place } = said;
        let n_max = if is_aside(&input) { ASIDES_MAX } else { INPUTS_MAX };
        let place = place.or_else(|| room.place(bytes_of(&input))).filter(|_| self.waiting.len() < n_max);
        if place.is_some() {
            return self.waiting.push_back(Waiting { input, reply, place, cause: None });
        }
        if let Some(key) = key_of(&input).filter(|_| !is_aside(&input)) {
            self.running.remove(&key);
            self.waiting.retain(|waiting| waiting.place.is_none() || key_of(&waiting.input) != Some(key));
        }
    }

    /// The calls that run, and those whose answers are here.
    pub(super) fn known(&self) -> HashSet<Key> {
        let answers = self.waiting.iter().filter(|waiting| is_last(&waiting.input));
        self.running.keys().copied().chain(answers.filter_map(|waiting| key_of(&waiting.input))).collect()
    }

    /// Whoever asked from outside and waits for an answer.
    pub(super) fn take_asking(&mut self) -> Vec<Reply> {
        let (own, asking): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|waiting| waiting.place.is_some());
        self.waiting = own.into();
        asking.into_iter().filter_map(|waiting| waiting.reply).collect()
    }
}

/// The id of the call that an input is about.
pub(crate) fn call_of(input: &Input) -> Option<CallId> {
    key_of(input).map(|(call, _)| call)
}

/// The call that an input is about, and its attempt.
pub(super) fn key_of(input: &Input) -> Option<Key> {
    match input {
        Input::By { input, .. } => key_of(input),
        Input::ModelAnswered { call, attempt, .. }
        | Input::ModelFailed { call, attempt, .. }
        | Input::ModelTryFailed { call, attempt, .. }
        | Input::ModelProgress { call, attempt, .. }
        | Input::ToolAnswered { call, attempt, .. }
        | Input::ToolFailed { call, attempt, .. }
        | Input::ContextProcessed { call, attempt, .. }
        | Input::ContextProcessingFailed { call, attempt, .. }
        | Input::StrategyDecided { call, attempt, .. }
        | Input::StrategyFailed { call, attempt, .. }
        | Input::ToolAsks { call, attempt, .. }
        | Input::ToolProgress { call, attempt, .. } => Some((*call, *attempt)),
        Input::Respond { interaction, .. }
        | Input::CancelInteraction { interaction }
        | Input::InteractionFailed { interaction, .. } => Some((*interaction, 1)),
        Input::BranchEnded { .. }
        | Input::Tick
        | Input::Recover
        | Input::Pause { .. }
        | Input::Resume
        | Input::Raise(_)
        | Input::Cancel { .. }
        | Input::Abort { .. }
        | Input::Crashed { .. }
        | Input::Checkpoint { .. }
        | Input::AddMessage(_)
        | Input::SetVariables(_) => None,
    }
}

/// Whether nothing more comes from the work that said this.
fn is_last(input: &Input) -> bool {
    !is_aside(input) && !matches!(input.given(), Input::ModelProgress { .. })
}

/// Whether the answer is whole without it.
fn is_aside(input: &Input) -> bool {
    matches!(input.given(), Input::ToolProgress { .. } | Input::ModelTryFailed { .. })
}

/// How much memory an input takes, roughly.
pub(super) fn bytes_of(input: &Input) -> usize {
    INPUT_BYTES
        + match input {
            Input::By { input, .. } => bytes_of(input),
            Input::ModelAnswered { answer, .. } => json_bytes(&answer.message),
            Input::ModelFailed { error, .. }
            | Input::ModelTryFailed { error, .. }
            | Input::ContextProcessingFailed { error, .. }
            | Input::StrategyFailed { error, .. }
            | Input::ToolFailed { error, .. } => json_bytes(error),
            Input::ContextProcessed { processed, .. } => {
                json_bytes(&processed.messages) + json_bytes(&processed.variables) + json_bytes(&processed.output)
            }
            Input::StrategyDecided { next, .. } => json_bytes(next),
            Input::ModelProgress { text, reasoning, .. } => text.len() + reasoning.len(),
            Input::ToolAnswered { content, value, .. } => json_bytes(content) + json_bytes(value),
            Input::ToolProgress { message, .. } => message.len(),
            Input::ToolAsks { question, .. } => question.message.len() + json_bytes(&question.schema),
            Input::Respond { data, .. } => json_bytes(data),
            Input::InteractionFailed { detail, .. } => detail.len(),
            // The log has it in the branch, and it is told again.
            Input::BranchEnded { .. }
            | Input::Tick
            | Input::Recover
            | Input::Pause { .. }
            | Input::Resume
            | Input::Raise(_)
            | Input::Cancel { .. }
            | Input::Abort { .. }
            | Input::Crashed { .. }
            | Input::Checkpoint { .. }
            | Input::CancelInteraction { .. } => 0,
            Input::AddMessage(message) => json_bytes(message),
            Input::SetVariables(variables) => json_bytes(variables),
        }
}

/// The bytes of a value's JSON, without keeping them.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting does not fail; what is not JSON counts as far as it is.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests;
