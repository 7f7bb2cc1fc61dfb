//! Threads as JSON lines, out of the log and back into it, and the check of the whole log.
//!
//! An export is a file of lines. A line with `type` is an event, as everywhere. Before the events of a thread stand
//! the things its events name by hash: `{"workflow": {"hash", "definition"}}` and `{"blob": {"hash", "text"}}`. The
//! threads that a fork inherits from stand before it, whole. An imported thread has the same ids, times, hashes and
//! states; its positions are new.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

use rethread_events::bin;
use rethread_events::event::Event;
use rethread_events::ids::{Hash, Seq, ThreadId};
use rethread_events::thread::{STATE_VERSION, State};
use rethread_events::workflow::Workflow;
use rethread_store::{Damage, ForkPoint, Record, Store, StoreError, Tag, Verification};
use serde_json::{Value, json};

use crate::error::RuntimeError;
use crate::handle::Runtime;
use crate::inner::Inner;
use crate::load;
use crate::recorded::{RecordError, RecordedEvent};

/// How many records are read at a time.
const PAGE: usize = 512;
/// The longest line that is read, in bytes: an event of the largest payload, escaped.
const LINE_BYTES_MAX: u64 = 200 << 20;

/// Why an export was not written or an import not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The log, or what is in it.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The file.
    #[error("cannot read or write the export")]
    Io(#[from] io::Error),
    /// A line is not JSON, or not what an export holds.
    #[error("line {line}: {what}")]
    Line {
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The log has a thread with this id and other events.
    #[error("line {line}: the log has a thread {thread} already, with other events")]
    Differs {
        /// The line where the thread ends.
        line: u64,
        /// The thread.
        thread: ThreadId,
    },
}

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Imported {
    /// Threads that were written.
    pub threads: Vec<ThreadId>,
    /// Threads that were there already, with the same events.
    pub known: Vec<ThreadId>,
    /// Events that were written.
    pub n_events: u64,
}

impl Runtime {
    /// Writes a thread, and the threads it inherits from, as JSON lines. Answers with the number of events.
    ///
    /// # Errors
    /// When the log or the file fails. What was written until then is whole lines.
    pub async fn export(&self, id: ThreadId, to: impl Write + Send + 'static) -> Result<u64, ArchiveError> {
        self.exporter(to).thread(id).await
    }

    /// Writes several threads into one export, where nothing is written twice.
    pub fn exporter(&self, to: impl Write + Send + 'static) -> Exporter {
        Exporter {
            runtime: self.clone(),
            work: Some(Work { to: Box::new(to), named: BTreeSet::new(), written: BTreeSet::new() }),
        }
    }

    /// Reads what [`Runtime::export`] wrote. Threads that are there already with the same events are passed over.
    /// Nothing goes on by itself: an imported thread that had not ended waits until it is woken.
    ///
    /// # Errors
    /// With the number of the line. The threads before it are in the log, the one it belongs to is not.
    pub async fn import(&self, from: impl BufRead + Send + 'static) -> Result<Imported, ArchiveError> {
        let inner = self.inner().clone();
        self.blocking(move || Importer::new(&inner).read(from)).await?
    }

    /// Reads the whole log: the chain of every stream, that its events follow from each other, and that its snapshot
    /// is their fold.
    ///
    /// # Errors
    /// When the log cannot be read at all. What is wrong with single threads is in the answer.
    pub async fn verify(&self) -> Result<Verification, RuntimeError> {
        let store = self.store().clone();
        self.blocking(move || verify(&*store)).await?
    }
}

/// An export that is being written. See [`Runtime::exporter`].
pub struct Exporter {
    runtime: Runtime,
    /// Absent while a thread is written, and after a write that was given up in the middle.
    work: Option<Work>,
}

struct Work {
    to: Box<dyn Write + Send>,
    named: BTreeSet<Thing>,
    written: BTreeSet<ThreadId>,
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

impl Exporter {
    /// Writes a thread, and the threads it inherits from, unless they were written before. Answers with the number of
    /// events.
    ///
    /// # Errors
    /// As [`Runtime::export`]. Another thread can be written after a thread that failed.
    pub async fn thread(&mut self, id: ThreadId) -> Result<u64, ArchiveError> {
        let Some(mut work) = self.work.take() else {
            return Err(io::Error::other("an earlier write to this export was given up in the middle").into());
        };
        let store = self.runtime.store().clone();
        let (work, written) = self
            .runtime
            .blocking(move || {
                let written = export(&*store, id, &mut work);
                (work, written)
            })
            .await?;
        self.work = Some(work);
        written
    }
}

fn export(store: &dyn Store, id: ThreadId, work: &mut Work) -> Result<u64, ArchiveError> {
    let Work { to, named, written } = work;
    let mut family = vec![id];
    let mut info = store.stream(id).map_err(|error| not_found(id, error))?;
    while let Some(ForkPoint { parent, .. }) = info.fork_of {
        family.push(parent);
        info = store.stream(parent).map_err(RuntimeError::from)?;
    }
    let mut n_events = 0;
    for thread in family.into_iter().rev() {
        if written.contains(&thread) {
            continue;
        }
        let info = store.stream(thread).map_err(RuntimeError::from)?;
        let mut next = info.fork_of.map_or(Seq(0), |point| point.seq.next());
        while next <= info.last_seq {
            let page = store.read_stream(thread, next..info.last_seq.next(), PAGE).map_err(RuntimeError::from)?;
            let Some(last) = page.last() else { break };
            next = last.seq.next();
            for record in page {
                let event = RecordedEvent::decode(record)?;
                for thing in named_by(&event.event) {
                    if named.insert(thing) {
                        write_line(to, &thing_json(store, thing)?)?;
                    }
                }
                write_line(to, &event.to_json())?;
                n_events += 1;
            }
        }
        written.insert(thread);
    }
    to.flush()?;
    Ok(n_events)
}

fn not_found(thread: ThreadId, error: StoreError) -> RuntimeError {
    match error {
        StoreError::NotFound { .. } => RuntimeError::NoThread(thread),
        error => error.into(),
    }
}

fn write_line(to: &mut dyn Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer(&mut *to, value)?;
    to.write_all(b"\n")
}

/// Something that an event names by its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Workflow(Hash),
    Blob(Hash),
}

fn named_by(event: &Event) -> Vec<Thing> {
    match event {
        Event::ThreadStarted(started) => vec![Thing::Workflow(started.workflow.hash)],
        Event::ThreadForked(forked) => {
            forked.changes.workflow.iter().map(|workflow| Thing::Workflow(workflow.hash)).collect()
        }
        Event::LlmExecutionRequest(request) => request.tool_catalog.into_iter().map(Thing::Blob).collect(),
        _ => Vec::new(),
    }
}

fn thing_json(store: &dyn Store, thing: Thing) -> Result<Value, RuntimeError> {
    let text = |hash| -> Result<String, RuntimeError> {
        let bytes = store.blob(hash)?;
        String::from_utf8(bytes).map_err(|_| StoreError::Invalid(format!("blob {hash} is not UTF-8")).into())
    };
    Ok(match thing {
        Thing::Workflow(hash) => {
            let definition: Value = serde_json::from_str(&text(hash)?)
                .map_err(|error| StoreError::Invalid(format!("definition {hash}: {error}")))?;
            json!({ "workflow": { "hash": hash, "definition": definition } })
        }
        Thing::Blob(hash) => json!({ "blob": { "hash": hash, "text": text(hash)? } }),
    })
}

struct Importer<'a> {
    inner: &'a Inner,
    line: u64,
    stream: Vec<Record>,
    done: Imported,
}

impl<'a> Importer<'a> {
    fn new(inner: &'a Inner) -> Self {
        Self { inner, line: 0, stream: Vec::new(), done: Imported::default() }
    }

    fn read(mut self, mut from: impl BufRead) -> Result<Imported, ArchiveError> {
        let mut line = Vec::new();
        loop {
            line.clear();
            self.line += 1;
            let n = io::Read::take(&mut from, LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
            if n == 0 {
                self.write_stream()?;
                return Ok(self.done);
            }
            if n as u64 > LINE_BYTES_MAX {
                return Err(self.wrong(format!("longer than {LINE_BYTES_MAX} bytes")));
            }
            if !line.trim_ascii().is_empty() {
                self.take(&line)?;
            }
        }
    }

    fn wrong(&self, what: impl ToString) -> ArchiveError {
        ArchiveError::Line { line: self.line, what: what.to_string() }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), ArchiveError> {
        let value: Value = serde_json::from_slice(line).map_err(|error| self.wrong(error))?;
        if let Some(workflow) = value.get("workflow") {
            return self.keep_workflow(workflow);
        }
        if let Some(blob) = value.get("blob") {
            return self.keep_blob(blob);
        }
        let record = RecordedEvent::from_json(&value).map_err(|error: RecordError| self.wrong(error))?;
        // Exports that were written one after the other may hold a thread twice.
        if self.stream.last().is_some_and(|last| last.thread != record.thread || last.seq >= record.seq) {
            self.write_stream()?;
        }
        self.stream.push(record);
        Ok(())
    }

    fn keep_workflow(&self, value: &Value) -> Result<(), ArchiveError> {
        let workflow = Workflow::from_json(&value["definition"].to_string()).map_err(|faults| self.wrong(faults))?;
        if value["hash"].as_str() != Some(&workflow.hash().to_string()) {
            return Err(self.wrong(format!("the definition has the hash {}, not {}", workflow.hash(), value["hash"])));
        }
        Ok(self.inner.definitions.keep(&Arc::new(workflow)).map_err(RuntimeError::from)?)
    }

    fn keep_blob(&self, value: &Value) -> Result<(), ArchiveError> {
        let text = value["text"].as_str().ok_or_else(|| self.wrong("a blob without `text`"))?;
        if value["hash"].as_str() != Some(&Hash::of(text.as_bytes()).to_string()) {
            return Err(self.wrong("the blob does not have the hash it says"));
        }
        self.inner.store.put_blob(None, text.as_bytes()).map_err(RuntimeError::from)?;
        Ok(())
    }

    /// Writes the stream that was read, when it is whole and new.
    fn write_stream(&mut self) -> Result<(), ArchiveError> {
        let records = std::mem::take(&mut self.stream);
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Ok(());
        };
        let thread = first.thread;
        let store = &*self.inner.store;
        match store.stream(thread) {
            Ok(_) => {
                let there = store.read_stream(thread, last.seq..last.seq.next(), 1).map_err(RuntimeError::from)?;
                if there.first().is_none_or(|there| there.hash != last.hash) {
                    return Err(ArchiveError::Differs { line: self.line, thread });
                }
                self.done.known.push(thread);
                return Ok(());
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(RuntimeError::from(error).into()),
        }
        let first_event = RecordedEvent::decode(first.clone())?.event;
        let (fork_of, mut state) = match &first_event {
            Event::ThreadForked(forked) => {
                let point = ForkPoint { parent: forked.parent, seq: forked.seq };
                (Some(point), load::at(store, forked.parent, forked.seq)?.state)
            }
            _ => (None, State::new(thread)),
        };
        for record in &records {
            if record.seq != state.next_seq() {
                let what = format!("thread {thread} has seq {} where {} is due", record.seq, state.next_seq());
                return Err(self.wrong(what));
            }
            let event = RecordedEvent::decode(record.clone())?.event;
            state.apply(record.recorded_at, &event).map_err(|error| self.wrong(error))?;
        }
        let n_events = records.len() as u64;
        let tag = Tag(state.status().code());
        store.import(fork_of, tag, records).map_err(RuntimeError::from)?;
        self.done.threads.push(thread);
        self.done.n_events += n_events;
        Ok(())
    }
}

fn verify(store: &dyn Store) -> Result<Verification, RuntimeError> {
    let mut found = store.verify()?;
    let mut after = None;
    loop {
        let page = store.streams(after, &[], PAGE)?;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        after = Some(last.thread);
        for info in &page {
            let known = found.faults.iter().any(|fault| fault.thread == Some(info.thread));
            if !known && let Some(fault) = check_fold(store, info.thread, info.last_seq)? {
                found.faults.push(fault);
            }
        }
    }
}

/// That the events of a thread follow from each other, and that its snapshot is their fold.
fn check_fold(store: &dyn Store, thread: ThreadId, last: Seq) -> Result<Option<Damage>, RuntimeError> {
    let fault = |seq: Option<Seq>, what: String| Damage { thread: Some(thread), seq, what, ..Damage::default() };
    let snapshot = store.snapshot(thread)?.filter(|snapshot| snapshot.version == STATE_VERSION);
    let folded = |end: Seq| load::from_the_first(store, thread, end);
    if let Some(snapshot) = snapshot {
        match folded(snapshot.seq.next()) {
            Ok(loaded) if bin::encode(&loaded.state).ok().as_ref() == Some(&snapshot.state) => {}
            Ok(_) => return Ok(Some(fault(Some(snapshot.seq), "the snapshot is not the fold of the events".into()))),
            Err(error) => return as_damage(thread, error).map(Some),
        }
    }
    match folded(last.next()) {
        Ok(_) => Ok(None),
        Err(error) => as_damage(thread, error).map(Some),
    }
}

fn as_damage(thread: ThreadId, error: RuntimeError) -> Result<Damage, RuntimeError> {
    let seq = match &error {
        RuntimeError::Event { seq, .. } => Some(*seq),
        RuntimeError::Fold(fold) => Some(fold.seq),
        RuntimeError::Store(StoreError::Damaged(damage)) => return Ok(damage.clone()),
        _ => return Err(error),
    };
    Ok(Damage { thread: Some(thread), seq, what: error.to_string(), ..Damage::default() })
}
