//! Threads back into a log.

use std::io::{BufRead, Seek};
use std::sync::Arc;

use rethread_events::event::Event;
use rethread_events::ids::{Hash, ThreadId};
use rethread_events::thread::State;
use rethread_events::workflow::Workflow;
use rethread_store::{ForkPoint, Record, Store, StoreError, Tag};
use serde_json::Value;

use super::ArchiveError;
use super::trailer::{check_complete, each_line, is_trailer};
use crate::definitions::Definitions;
use crate::error::RuntimeError;
use crate::imported;
use crate::load;
use crate::recorded::{RecordError, RecordedEvent};
use crate::runtime::Runtime;

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Imported {
    /// Threads that were written.
    pub threads: Vec<ThreadId>,
    /// Threads that were there already, with the same events.
    pub known: Vec<ThreadId>,
    /// Events that were written.
    pub n_events: u64,
}

impl Runtime {
    /// Reads what [`Runtime::export`] wrote, after a check that it is whole. Threads that are there already with the same
    /// events are passed over. Nothing goes on by itself, also not when a runtime starts on the log again: an imported
    /// thread that had not ended is a copy, and waits until somebody tells it something or waits for it.
    ///
    /// # Errors
    /// With the number of the line. `Incomplete`: nothing was imported. Otherwise the threads before the line are in the
    /// log, the one it belongs to is not.
    pub async fn import(&self, from: impl BufRead + Seek + Send + 'static) -> Result<Imported, ArchiveError> {
        self.imported(move |store, definitions| import(store, definitions, from)).await
    }

    /// The same without the check: for an export of a version that wrote no trailer, or for what is left of a file.
    ///
    /// # Errors
    /// As [`Runtime::import`].
    pub async fn import_incomplete(&self, from: impl BufRead + Send + 'static) -> Result<Imported, ArchiveError> {
        self.imported(move |store, definitions| Importer::new(store, definitions).read(from)).await
    }

    async fn imported(
        &self,
        import: impl FnOnce(&dyn Store, &Definitions) -> Result<Imported, ArchiveError> + Send + 'static,
    ) -> Result<Imported, ArchiveError> {
        let inner = self.inner().clone();
        self.blocking(move || {
            let imported = import(&*inner.store, &inner.definitions);
            inner.imported.read(&*inner.store).map_err(RuntimeError::from)?;
            imported
        })
        .await?
    }
}

/// The same into a log without a runtime. Blocks.
pub(crate) fn import(
    store: &dyn Store,
    definitions: &Definitions,
    mut from: impl BufRead + Seek,
) -> Result<Imported, ArchiveError> {
    let complete = check_complete(&mut from);
    from.rewind()?;
    if let Err(incomplete) = complete {
        // A line that is no part of an export at all says more.
        each_line(&mut from, check_line)?;
        return Err(incomplete);
    }
    Importer::new(store, definitions).read(from)
}

fn check_line(line: u64, bytes: &[u8]) -> Result<(), ArchiveError> {
    let wrong = |what: String| ArchiveError::Line { line, what };
    let value: Value = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    if !["workflow", "blob", "end"].iter().any(|key| value.get(key).is_some()) {
        RecordedEvent::from_json(&value).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(())
}

struct Importer<'a> {
    store: &'a dyn Store,
    definitions: &'a Definitions,
    line: u64,
    stream: Vec<Record>,
    done: Imported,
}

impl<'a> Importer<'a> {
    fn new(store: &'a dyn Store, definitions: &'a Definitions) -> Self {
        Self { store, definitions, line: 0, stream: Vec::new(), done: Imported::default() }
    }

    fn read(mut self, mut from: impl BufRead) -> Result<Imported, ArchiveError> {
        self.line = each_line(&mut from, |number, line| {
            self.line = number;
            if is_trailer(line) { Ok(()) } else { self.take(line) }
        })?;
        self.write_stream()?;
        Ok(self.done)
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
        Ok(self.definitions.keep(&Arc::new(workflow)).map_err(RuntimeError::from)?)
    }

    fn keep_blob(&self, value: &Value) -> Result<(), ArchiveError> {
        let text = value["text"].as_str().ok_or_else(|| self.wrong("a blob without `text`"))?;
        if value["hash"].as_str() != Some(&Hash::of(text.as_bytes()).to_string()) {
            return Err(self.wrong("the blob does not have the hash it says"));
        }
        let owner = match &value["thread_id"] {
            Value::Null => None,
            id => Some(serde_json::from_value(id.clone()).map_err(|error| self.wrong(error))?),
        };
        self.store.put_blob(owner, text.as_bytes()).map_err(RuntimeError::from)?;
        Ok(())
    }

    /// Writes the stream that was read, when it is whole and new.
    fn write_stream(&mut self) -> Result<(), ArchiveError> {
        let records = std::mem::take(&mut self.stream);
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Ok(());
        };
        let thread = first.thread;
        let store = self.store;
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
        if !state.status().is_ended() {
            imported::note(store, thread).map_err(RuntimeError::from)?;
        }
        let tag = Tag(state.status().code());
        store.import(fork_of, tag, records).map_err(RuntimeError::from)?;
        self.done.threads.push(thread);
        self.done.n_events += n_events;
        Ok(())
    }
}
