//! Threads out of the log.

use std::collections::BTreeSet;
use std::io::{self, Write};

use rethread_events::event::Event;
use rethread_events::ids::{Hash, Position, RunId, Seq, ThreadId};
use rethread_store::{ForkPoint, LogReader, StoreError};
use serde::Serialize;
use serde_json::{Value, json};

use super::trailer::Trailer;
use crate::error::ExportError;
use crate::error::{ReadError, RuntimeError};
use crate::family;
use crate::load;
use crate::recorded::events;
use crate::runtime::Runtime;

impl Runtime {
    /// Writes a thread, the threads it inherits from and its branches, as JSON lines. Answers with the number of events.
    ///
    /// # Errors
    /// When the log or the file fails. What was written until then is whole lines.
    pub async fn export(&self, id: ThreadId, to: impl Write + Send + 'static) -> Result<u64, ExportError> {
        let mut exporter = self.exporter(to);
        let n_events = exporter.thread(id).await?;
        exporter.finish().await?;
        Ok(n_events)
    }

    /// The same of a thread as it was at the end of a run: an export that ends with that run, with the branches as they
    /// were then, for looking into the run, running it again or forking it elsewhere. Runs that waited wait in it. For a
    /// run that a fork inherits, it is the thread that recorded the run.
    ///
    /// A log that imported it refuses a later export of the same thread, which has other events from there on.
    ///
    /// # Errors
    /// As [`Runtime::export`]; `Run` as [`ThreadHandle::seq_of_run`](crate::ThreadHandle::seq_of_run). Nothing was written
    /// then.
    pub async fn export_run(
        &self,
        id: ThreadId,
        run: RunId,
        to: impl Write + Send + 'static,
    ) -> Result<u64, ExportError> {
        let end = self.thread(id).seq_of_run(run).await?;
        let store = self.store().clone();
        let find = move || {
            let record = store.record(id, end)?.ok_or(ReadError::NoSeq { thread: id, seq: end, last: end })?;
            Ok::<_, ReadError>((load::recorded_by(&*store, id, end)?, record.position.next()))
        };
        let (owner, until) = self.blocking(find).await??;
        let mut exporter = self.exporter_until(until, to);
        let n_events = exporter.thread(owner).await?;
        exporter.finish().await?;
        Ok(n_events)
    }

    /// Writes several threads into one export, where nothing is written twice. It holds what the log had when this was
    /// called, so that threads which are at work fit together. [`Exporter::finish`] ends it: an export without its last
    /// line is refused by an import.
    pub fn exporter(&self, to: impl Write + Send + 'static) -> Exporter {
        self.exporter_until(self.store().next_position(), to)
    }

    fn exporter_until(&self, until: Position, to: impl Write + Send + 'static) -> Exporter {
        Exporter {
            runtime: self.clone(),
            work: Some(Work {
                to: Box::new(to),
                until,
                named: BTreeSet::new(),
                written: BTreeSet::new(),
                missing: None,
                trailer: Trailer::default(),
            }),
        }
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
    /// The end of what is exported.
    until: Position,
    named: BTreeSet<Thing>,
    written: BTreeSet<ThreadId>,
    /// What could not be read of what events name, where that is left out.
    missing: Option<Vec<Hash>>,
    trailer: Trailer,
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

impl Exporter {
    /// Leaves out definitions and other texts that are missing or damaged instead of failing: for what is saved of a
    /// damaged log. Threads whose definition is missing can be looked at where they are imported, and not go on.
    pub fn partial(mut self) -> Self {
        if let Some(work) = &mut self.work {
            work.missing = Some(Vec::new());
        }
        self
    }

    /// The hashes of what was left out so far.
    pub fn missing(&self) -> &[Hash] {
        self.work.as_ref().and_then(|work| work.missing.as_deref()).unwrap_or_default()
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// When the file fails, or an earlier write was given up in the middle.
    pub async fn finish(mut self) -> Result<(), ExportError> {
        let mut work = self.take()?;
        let written = move || -> io::Result<()> {
            let line = work.trailer.line()?;
            work.to.write_all(&line)?;
            work.to.write_all(b"\n")?;
            work.to.flush()
        };
        Ok(self.runtime.blocking(written).await??)
    }

    fn take(&mut self) -> Result<Work, ExportError> {
        let given_up = || io::Error::other("an earlier write to this export was interrupted");
        Ok(self.work.take().ok_or_else(given_up)?)
    }

    /// Writes a thread, the threads it inherits from and its branches, unless they were written before. Answers with the number of
    /// events.
    ///
    /// # Errors
    /// As [`Runtime::export`]; `NoThread` for one that began after the exporter was made. Another thread can be written after a thread that failed.
    pub async fn thread(&mut self, id: ThreadId) -> Result<u64, ExportError> {
        let mut work = self.take()?;
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

fn export(store: &dyn LogReader, id: ThreadId, work: &mut Work) -> Result<u64, ExportError> {
    let mut n_events = 0;
    let mut todo = vec![id];
    while let Some(id) = todo.pop() {
        for thread in lineage(store, id)?.into_iter().rev() {
            if !work.written.contains(&thread) {
                n_events += write_thread(store, thread, work)?;
                work.written.insert(thread);
            }
        }
        for branch in family::all_branches(store, id, work.until)? {
            // Others had not begun.
            if family::last_before(store, branch, work.until)?.is_some() {
                todo.push(branch);
            }
        }
    }
    work.to.flush()?;
    Ok(n_events)
}

/// A thread and those it inherits from, the oldest last.
fn lineage(store: &dyn LogReader, id: ThreadId) -> Result<Vec<ThreadId>, ReadError> {
    let mut lineage = vec![id];
    let mut info = load::stream(store, id)?;
    while let Some(ForkPoint { parent, .. }) = info.fork_of {
        lineage.push(parent);
        info = store.stream(parent)?;
    }
    Ok(lineage)
}

/// Writes the events of a thread's own.
fn write_thread(store: &dyn LogReader, thread: ThreadId, work: &mut Work) -> Result<u64, ExportError> {
    let info = store.stream(thread).map_err(ReadError::from)?;
    let last = family::last_before(store, thread, work.until)?.ok_or(ReadError::NoThread(thread))?;
    let first = info.fork_of.map_or(Seq(0), |point| point.seq.next());
    let mut n_events = 0;
    for event in events(store, thread, first..last.next()) {
        let event = event?;
        for thing in named_by(thread, &event.event) {
            if work.named.insert(thing) {
                match (thing_json(store, thing), &mut work.missing) {
                    (Ok(json), _) => write_line(&mut work.to, &mut work.trailer, &json)?,
                    (Err(ReadError::Runtime(RuntimeError::Store(_))), Some(missing)) => missing.push(thing.hash()),
                    (Err(error), _) => return Err(error.into()),
                }
            }
        }
        write_line(&mut work.to, &mut work.trailer, &event)?;
        n_events += 1;
    }
    Ok(n_events)
}

fn write_line(to: &mut impl Write, trailer: &mut Trailer, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    trailer.add(&line);
    line.push(b'\n');
    to.write_all(&line)
}

/// Something that an event names by its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Workflow(Hash),
    Blob(Hash),
    /// The whole output of a tool, which goes with its thread.
    Output(ThreadId, Hash),
}

impl Thing {
    fn hash(self) -> Hash {
        match self {
            Self::Workflow(hash) | Self::Blob(hash) | Self::Output(_, hash) => hash,
        }
    }
}

fn named_by(thread: ThreadId, event: &Event) -> Vec<Thing> {
    if let Event::ThreadStarted(started) = event {
        vec![Thing::Workflow(started.workflow.hash)]
    } else if let Event::RunStarted(started) = event {
        vec![Thing::Workflow(started.workflow.hash)]
    } else if let Event::WorkflowChanged(changed) = event {
        [&changed.previous, &changed.workflow].map(|workflow| Thing::Workflow(workflow.hash)).into()
    } else if let Event::ThreadForked(forked) = event {
        forked.changes.workflow.iter().map(|workflow| Thing::Workflow(workflow.hash)).collect()
    } else if let Event::LlmExecutionRequest(request) = event {
        request.tool_catalog.into_iter().map(Thing::Blob).collect()
    } else if let Event::ToolExecutionCompleted(e) = event {
        e.full_output.into_iter().map(|hash| Thing::Output(thread, hash)).collect()
    } else {
        event.model_profile().into_iter().map(Thing::Blob).collect()
    }
}

fn thing_json(store: &dyn LogReader, thing: Thing) -> Result<Value, ReadError> {
    let text = |hash| -> Result<String, ReadError> {
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
        Thing::Output(thread, hash) => json!({ "blob": { "hash": hash, "thread_id": thread, "text": text(hash)? } }),
    })
}
