//! Imports of threads into a log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Read as _, Seek, SeekFrom};
use std::sync::Arc;

use rethread_events::event::Event;
use rethread_events::ids::{Hash, ThreadId};
use rethread_events::thread::State;
use rethread_events::workflow::Workflow;
use rethread_store::{ForkPoint, IMPORT_BYTES_MAX, Import, Record, Store, StoreError, Tag};
use serde_json::Value;

use super::trailer::{check_complete, each_line, is_trailer};
use crate::crashes::Step;
use crate::definitions::{self, Definitions, Held};
use crate::error::ImportError;
use crate::error::ReadError;
use crate::gc::refers_to;
use crate::imported;
use crate::labels;
use crate::load;
use crate::recorded::{RecordError, RecordedEvent};
use crate::runtime::Runtime;
use crate::stream_keys;

/// How much of an export is hashed at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Threads that were written.
    pub threads: Vec<ThreadId>,
    /// Threads that were in the log already, with the same events.
    pub known: Vec<ThreadId>,
    /// Events that were written.
    pub n_events: u64,
}

impl Runtime {
    /// Imports what [`Runtime::export`] wrote, after a check that it is complete. Threads that are in the log already
    /// with the same events are skipped. Nothing resumes by itself, even when a runtime starts on the log again: an
    /// imported thread that had not ended is a copy, and waits until it gets an input or a caller waits for it.
    ///
    /// # Errors
    /// Each names the number of the line. After `Incomplete` and `EndsProcess`, nothing was imported. Otherwise the
    /// threads before the line are in the log, and the one it belongs to is not. The same holds if the process crashes
    /// meanwhile: each thread is imported completely, with its outputs, or not at all, and the same import continues
    /// from there.
    pub async fn import(&self, from: impl BufRead + Seek + Send + 'static) -> Result<Imported, ImportError> {
        self.imported(from, |store, definitions, from| import(store, definitions, from)).await
    }

    /// As `import`, without the check: for a truncated file.
    ///
    /// # Errors
    /// As [`Runtime::import`].
    pub async fn import_incomplete(&self, from: impl BufRead + Seek + Send + 'static) -> Result<Imported, ImportError> {
        self.imported(from, |store, definitions, from| Importer::new(store, definitions).read(from)).await
    }

    async fn imported<R: BufRead + Seek + Send + 'static>(
        &self,
        mut from: R,
        import: impl FnOnce(&dyn Store, &Definitions, R) -> Result<Imported, ImportError> + Send + 'static,
    ) -> Result<Imported, ImportError> {
        let services = self.services().clone();
        // The threads may wait for the end of others.
        self.registry().thread_waits.begins();
        self.blocking(move || {
            let (crashes, store) = (&services.crashes, &*services.store);
            let export = if crashes.is_on() { hash_of(&mut from)? } else { Hash::ZERO };
            let import = || import(store, &services.definitions, from);
            let imported =
                crashes.counted(Step::import(export), import).unwrap_or_else(|n| Err(ImportError::EndsProcess { n }));
            services.imported.read(&*services.store).map_err(ReadError::from)?;
            // On a log of several runtimes, it is counted as what others append.
            if let Ok(imported) = &imported
                && services.shared.is_none()
            {
                services.labels.read_imported(store, &imported.threads)?;
            }
            imported
        })
        .await?
    }
}

/// Returns the hash of the rest of the file, and restores the position of the reader. Reads small pieces, so it cannot
/// exhaust memory.
fn hash_of(from: &mut (impl BufRead + Seek)) -> io::Result<Hash> {
    let start = from.stream_position()?;
    let (mut hash, mut piece) = (Hash::ZERO, Vec::with_capacity(PIECE_BYTES + 32));
    loop {
        piece.clear();
        piece.extend_from_slice(hash.as_bytes());
        if io::Read::take(&mut *from, PIECE_BYTES as u64).read_to_end(&mut piece)? == 0 {
            break;
        }
        hash = Hash::of(&piece);
    }
    from.seek(SeekFrom::Start(start))?;
    Ok(hash)
}

/// As `Runtime::import`, into a log without a runtime. Blocks.
pub(crate) fn import(
    store: &dyn Store,
    definitions: &Definitions,
    mut from: impl BufRead + Seek,
) -> Result<Imported, ImportError> {
    let complete = check_complete(&mut from);
    from.rewind()?;
    if let Err(incomplete) = complete {
        // If a line is no part of an export at all, its error is more specific.
        each_line(&mut from, check_line)?;
        return Err(incomplete);
    }
    Importer::new(store, definitions).read(from)
}

fn check_line(line: u64, bytes: &[u8]) -> Result<(), ImportError> {
    let wrong = |what: String| ImportError::Line { line, what };
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
    /// Outputs of tools, until the events of their threads are written.
    outputs: BTreeMap<ThreadId, Vec<Vec<u8>>>,
    output_bytes: usize,
    /// Definitions that are in use because unwritten events may refer to them.
    held: Vec<Held>,
    done: Imported,
}

impl<'a> Importer<'a> {
    fn new(store: &'a dyn Store, definitions: &'a Definitions) -> Self {
        Self {
            store,
            definitions,
            line: 0,
            stream: Vec::new(),
            outputs: BTreeMap::new(),
            output_bytes: 0,
            held: Vec::new(),
            done: Imported::default(),
        }
    }

    fn read(mut self, mut from: impl BufRead) -> Result<Imported, ImportError> {
        self.line = each_line(&mut from, |number, line| {
            self.line = number;
            if is_trailer(line) { Ok(()) } else { self.take(line) }
        })?;
        self.write_stream()?;
        // Those of threads that are in the log and were skipped; others belong to no thread.
        for (thread, outputs) in std::mem::take(&mut self.outputs) {
            match self.store.stream(thread) {
                Ok(_) => self.keep_outputs(thread, outputs)?,
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(ReadError::from(error).into()),
            }
        }
        Ok(self.done)
    }

    fn wrong(&self, what: impl ToString) -> ImportError {
        ImportError::Line { line: self.line, what: what.to_string() }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), ImportError> {
        let value: Value = serde_json::from_slice(line).map_err(|error| self.wrong(error))?;
        if let Some(workflow) = value.get("workflow") {
            return self.keep_workflow(workflow);
        }
        if let Some(blob) = value.get("blob") {
            return self.keep_blob(blob);
        }
        let record = RecordedEvent::from_json(&value).map_err(|error: RecordError| self.wrong(error))?;
        // Concatenated exports may contain a thread twice.
        if self.stream.last().is_some_and(|last| last.thread != record.thread || last.seq >= record.seq) {
            self.write_stream()?;
        }
        self.stream.push(record);
        Ok(())
    }

    fn keep_workflow(&mut self, value: &Value) -> Result<(), ImportError> {
        let workflow = Workflow::from_json(&value["definition"].to_string()).map_err(|faults| self.wrong(faults))?;
        if value["hash"].as_str() != Some(&workflow.hash().to_string()) {
            return Err(self.wrong(format!("the definition has the hash {}, not {}", workflow.hash(), value["hash"])));
        }
        self.held.push(self.definitions.keep(&Arc::new(workflow)).map_err(ReadError::from)?);
        Ok(())
    }

    fn keep_blob(&mut self, value: &Value) -> Result<(), ImportError> {
        let text = value["text"].as_str().ok_or_else(|| self.wrong("a blob without `text`"))?;
        if value["hash"].as_str() != Some(&Hash::of(text.as_bytes()).to_string()) {
            return Err(self.wrong("the blob does not have the hash it says"));
        }
        let owner: ThreadId = match &value["thread_id"] {
            Value::Null => {
                self.store.put_blob(None, text.as_bytes()).map_err(ReadError::from)?;
                return Ok(());
            }
            id => serde_json::from_value(id.clone()).map_err(|error| self.wrong(error))?,
        };
        self.output_bytes += text.len();
        if self.output_bytes > IMPORT_BYTES_MAX {
            return Err(
                self.wrong(format!("more than {IMPORT_BYTES_MAX} bytes of outputs before the events of their threads"))
            );
        }
        self.outputs.entry(owner).or_default().push(text.as_bytes().to_vec());
        Ok(())
    }

    fn keep_outputs(&self, thread: ThreadId, outputs: Vec<Vec<u8>>) -> Result<(), ImportError> {
        for output in outputs {
            self.store.put_blob(Some(thread), &output).map_err(ReadError::from)?;
        }
        Ok(())
    }

    /// Returns the search attributes of a thread; none without its definition.
    fn search_of(&self, thread: ThreadId, state: &State) -> Result<Vec<String>, ImportError> {
        match self.definitions.of(thread, state) {
            Ok(workflow) => Ok(workflow.spec().search.clone()),
            Err(ReadError::NoDefinition { .. }) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the stream that was read, if it is complete and new.
    fn write_stream(&mut self) -> Result<(), ImportError> {
        let mut records = std::mem::take(&mut self.stream);
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Ok(());
        };
        let thread = first.thread;
        let store = self.store;
        let outputs = self.outputs.remove(&thread).unwrap_or_default();
        self.output_bytes -= outputs.iter().map(Vec::len).sum::<usize>();
        match store.stream(thread) {
            Ok(_) => {
                let there = store.record(thread, last.seq).map_err(ReadError::from)?;
                if there.is_none_or(|there| there.hash != last.hash) {
                    return Err(ImportError::Differs { line: self.line, thread });
                }
                self.keep_outputs(thread, outputs)?;
                self.done.known.push(thread);
                return Ok(());
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(ReadError::from(error).into()),
        }
        let first_event = RecordedEvent::decode(first.clone())?.event;
        self.held.extend(refers_to(&first_event).map(|hash| self.definitions.hold(hash)));
        let (fork_of, mut state) = if let Event::ThreadForked(forked) = &first_event {
            let point = ForkPoint { parent: forked.parent, seq: forked.seq };
            (Some(point), load::at(store, forked.parent, forked.seq)?.state)
        } else {
            (None, State::new(thread))
        };
        let mut of_runs = BTreeSet::new();
        for record in &mut records {
            if record.seq != state.next_seq() {
                let what = format!("thread {thread} has seq {} where {} is expected", record.seq, state.next_seq());
                return Err(self.wrong(what));
            }
            let event = RecordedEvent::decode(record.clone())?.event;
            state.apply(record.recorded_at, &event).map_err(|error| self.wrong(error))?;
            if record.run != Some(state.run_id()) {
                let what = format!("event {} of thread {thread} is not of run {}", record.seq, state.run_id());
                return Err(self.wrong(what));
            }
            if let Event::RunStarted(_) | Event::WorkflowChanged(_) = &event
                && let Some(hash) = refers_to(&event)
            {
                self.held.push(self.definitions.hold(hash));
                of_runs.insert(definitions::of_run(hash, thread));
            }
        }
        let n_events = records.len() as u64;
        let noted = (!state.status().is_ended()).then(|| imported::noted(thread));
        let values = noted.into_iter().chain(of_runs).collect();
        let tag = Tag(state.status().code());
        let blobs = labels::blobs(state.labels()).into_iter().chain(outputs).collect();
        let keys = stream_keys::keys_of(&state, &self.search_of(thread, &state)?);
        let import = Import { fork_of, tag, records, blobs, values, keys };
        store.import_with(import).map_err(ReadError::from)?;
        self.done.threads.push(thread);
        self.done.n_events += n_events;
        Ok(())
    }
}
