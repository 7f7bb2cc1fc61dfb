//! What left the stream: published before it leaves, so that a replica that comes later can do without it.

use bytes::Bytes;
use rethread_events::ids::{Hash, Position, ThreadId};

use super::subject::Subject;
use crate::wire::{Malformed, Put, Take};

const VERSION: u8 = 1;

/// Consecutive positions: the first, and how many.
pub(super) type Run = (Position, u64);

/// A deleted thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErasedThread {
    pub(super) thread: ThreadId,
    /// The sequence of the delete.
    pub(super) at: u64,
    /// The positions that its records had.
    pub(super) runs: Vec<Run>,
}

/// An operation that makes other messages of the stream void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Erasure {
    /// The sequence of the operation.
    pub(super) at: u64,
    /// The deleted threads.
    pub(super) threads: Vec<ErasedThread>,
    /// The subjects whose messages before the operation are to leave the stream, besides those of the threads.
    pub(super) subjects: Vec<Subject>,
    /// Whether a summary says so in the stream already.
    pub(super) is_summarized: bool,
}

impl Erasure {
    /// All subjects whose messages before `at` leave the stream.
    pub(super) fn all_subjects(&self) -> impl Iterator<Item = Subject> {
        self.threads.iter().map(|erased| Subject::Thread(erased.thread)).chain(self.subjects.iter().copied())
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.u64(self.at);
        out.u8(u8::from(self.is_summarized));
        encode_threads(&self.threads, out);
        out.var(self.subjects.len() as u64);
        for subject in &self.subjects {
            let (kind, hash) = match subject {
                Subject::Blob(hash) => (0, *hash),
                Subject::Value(hash) => (1, *hash),
                Subject::Thread(_) | Subject::Other | Subject::TakeOver | Subject::Summary => (2, Hash::ZERO),
            };
            out.u8(kind);
            out.bytes(hash.as_bytes());
        }
    }

    pub(super) fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let (at, is_summarized) = (take.u64()?, take.u8()? != 0);
        let threads = decode_threads(take)?;
        let mut subjects = Vec::new();
        for _ in 0..take.var()? {
            let (kind, hash) = (take.u8()?, Hash::from_bytes(take.array()?));
            subjects.push(match kind {
                0 => Subject::Blob(hash),
                1 => Subject::Value(hash),
                _ => return Err(Malformed),
            });
        }
        Ok(Self { at, threads, subjects, is_summarized })
    }
}

/// What is true of the stream up to a sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Summary {
    /// The sequence of the last operation that it covers.
    pub(super) upto: u64,
    /// The messages since the summary before it that did not count.
    pub(super) ignored: Vec<u64>,
    /// The last messages since then of operations that were refused.
    pub(super) refusals: Vec<u64>,
    /// The threads that were deleted since.
    pub(super) threads: Vec<ErasedThread>,
    /// Whether it goes on in another message: nothing of it counts before the last.
    pub(super) more: bool,
}

impl Summary {
    /// Covers these operations; `ignored` are all messages that did not count, and `refusals` all that ended an operation
    /// that was refused.
    pub(super) fn of(erasures: &[Erasure], ignored: &[u64], refusals: &[u64]) -> Self {
        let upto = erasures.iter().map(|erasure| erasure.at).max().unwrap_or(0);
        let fresh = erasures.iter().filter(|erasure| !erasure.is_summarized);
        let covered = |sequences: &[u64]| sequences.iter().copied().filter(|sequence| *sequence <= upto).collect();
        Self {
            upto,
            ignored: covered(ignored),
            refusals: covered(refusals),
            threads: fresh.flat_map(|erasure| erasure.threads.iter().cloned()).collect(),
            more: false,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(self.more)];
        out.u64(self.upto);
        out.var(self.ignored.len() as u64);
        self.ignored.iter().for_each(|ignored| out.var(*ignored));
        out.var(self.refusals.len() as u64);
        self.refusals.iter().for_each(|refusal| out.var(*refusal));
        encode_threads(&self.threads, &mut out);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut take = Take(bytes);
        if take.u8()? != VERSION {
            return Err(Malformed);
        }
        let more = take.u8()? != 0;
        let mut summary = Self { upto: take.u64()?, more, ..Self::default() };
        for _ in 0..take.var()? {
            summary.ignored.push(take.var()?);
        }
        for _ in 0..take.var()? {
            summary.refusals.push(take.var()?);
        }
        summary.threads = decode_threads(&mut take)?;
        take.end()?;
        Ok(summary)
    }

    /// Cuts it into messages of at most `bytes_max`.
    pub(super) fn messages(&self, bytes_max: usize) -> Vec<Bytes> {
        let whole = self.encode();
        if whole.len() <= bytes_max {
            return vec![whole.into()];
        }
        let upto = self.upto;
        // No number takes more than ten bytes, and a thread in a message takes 40 besides its runs.
        let n = (bytes_max / 64).max(1);
        let part = || Self { upto, more: true, ..Self::default() };
        let ignored = self.ignored.chunks(n).map(|some| Self { ignored: some.to_vec(), ..part() });
        let refusals = self.refusals.chunks(n).map(|some| Self { refusals: some.to_vec(), ..part() });
        let threads = self.threads.iter().flat_map(|erased| {
            // A thread whose records were refused has no positions, and is erased all the same.
            let runs: Vec<&[Run]> = if erased.runs.is_empty() { vec![&[]] } else { erased.runs.chunks(n).collect() };
            let of = |runs: &[Run]| ErasedThread { thread: erased.thread, at: erased.at, runs: runs.to_vec() };
            runs.into_iter().map(|runs| Self { threads: vec![of(runs)], ..part() }).collect::<Vec<_>>()
        });
        let mut parts: Vec<Self> = ignored.chain(refusals).chain(threads).collect();
        if let Some(last) = parts.last_mut() {
            last.more = false;
        }
        parts.iter().map(|part| part.encode().into()).collect()
    }
}

fn encode_threads(threads: &[ErasedThread], out: &mut Vec<u8>) {
    out.var(threads.len() as u64);
    for ErasedThread { thread, at, runs } in threads {
        out.bytes(thread.as_bytes());
        out.var(*at);
        out.var(runs.len() as u64);
        for (first, n) in runs {
            out.var(first.0);
            out.var(*n);
        }
    }
}

fn decode_threads(take: &mut Take<'_>) -> Result<Vec<ErasedThread>, Malformed> {
    let mut threads = Vec::new();
    for _ in 0..take.var()? {
        let (thread, at) = (ThreadId::from_bytes(take.array()?), take.var()?);
        let mut runs = Vec::new();
        for _ in 0..take.var()? {
            runs.push((Position(take.var()?), take.var()?));
        }
        threads.push(ErasedThread { thread, at, runs });
    }
    Ok(threads)
}

/// Joins positions, in their order, to runs.
pub(super) fn runs(positions: impl IntoIterator<Item = Position>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for position in positions {
        match runs.last_mut() {
            Some((first, n)) if first.0 + *n == position.0 => *n += 1,
            _ => runs.push((position, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
