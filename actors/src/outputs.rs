//! Whole outputs of tools, of which models get head and tail. They are blobs that belong to their thread, and can be
//! read page by page.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rethread_events::event::{Event, event_type_named};
use rethread_events::fault::{ErrorKind, ExecutionError};
use rethread_events::ids::{Hash, Seq, ThreadId};
use rethread_store::{LogReader, Store, StoreError};
use rethread_tools::{OutputPart, OutputStore, ToolOutput};
use tokio_util::sync::CancellationToken;

/// How often storing an output is tried while the log has no room, and how long to wait in between.
const TRIES: u32 = 5;
const WAIT: Duration = Duration::from_secs(1);
/// How many outputs of one thread are known without a read of the log.
const KNOWN_MAX: usize = 64;

/// The outputs that were stored recently: the log may not have the events that name them yet.
pub(crate) struct Outputs {
    store: Arc<dyn Store>,
    known: Mutex<HashMap<ThreadId, VecDeque<Hash>>>,
}

impl Outputs {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Mutex::default() }
    }

    /// Stores the whole output, if the model gets less; durable when this returns. If the log still has no room after
    /// some seconds of retries, the output says that it is lost.
    pub(crate) async fn keep(
        &self,
        thread: ThreadId,
        output: &mut ToolOutput,
        cancel: &CancellationToken,
    ) -> Option<Hash> {
        let whole: Arc<str> = output.full.take()?.into();
        for number in 1..=TRIES {
            let (store, bytes) = (self.store.clone(), whole.clone());
            let kept = actix_rt::task::spawn_blocking(move || store.put_blob(Some(thread), bytes.as_bytes())).await;
            let error = match kept {
                Ok(Ok(hash)) => {
                    self.remember(thread, hash);
                    return Some(hash);
                }
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            if number == TRIES || cancel.is_cancelled() {
                tracing::warn!(%thread, error, "cannot store a whole output");
                output.text.push_str(&format!("\n[the whole of it is lost: {error}]"));
                break;
            }
            tokio::select! {
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(WAIT) => {}
            }
        }
        None
    }

    fn remember(&self, thread: ThreadId, hash: Hash) {
        let mut threads = self.known.lock();
        let known = threads.entry(thread).or_default();
        known.push_back(hash);
        if known.len() > KNOWN_MAX {
            known.pop_front();
        }
    }

    /// Forgets the recent outputs of a thread at rest: from now on the log has all of them.
    pub(crate) fn forget(&self, thread: ThreadId) {
        self.known.lock().remove(&thread);
    }

    fn knows(&self, thread: ThreadId, hash: Hash) -> bool {
        self.known.lock().get(&thread).is_some_and(|known| known.contains(&hash))
    }
}

/// The outputs that one thread may read: those of its own tools, and those inherited from the thread it was forked
/// from.
pub(crate) struct ThreadOutputs {
    pub(crate) outputs: Arc<Outputs>,
    pub(crate) thread: ThreadId,
}

impl OutputStore for ThreadOutputs {
    fn read(&self, id: Hash, offset: u64, limit: usize) -> Result<OutputPart, ExecutionError> {
        let unreadable = |error: StoreError| match error {
            StoreError::NotFound { .. } => not_found(),
            error => ExecutionError::new(ErrorKind::Failed, format!("the output cannot be read: {error}")),
        };
        if !self.outputs.knows(self.thread, id)
            && !is_named(&*self.outputs.store, self.thread, id).map_err(unreadable)?
        {
            return Err(not_found());
        }
        let bytes = self.outputs.store.blob(id).map_err(unreadable)?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let to = from.saturating_add(limit).min(bytes.len());
        Ok(OutputPart { bytes: bytes[from..to].to_vec(), n_bytes: bytes.len() as u64 })
    }
}

fn not_found() -> ExecutionError {
    ExecutionError::new(ErrorKind::NotFound, "no tool of this thread answered with such an output")
}

/// Returns whether a tool result of this thread names the output. A hash alone grants no access, because it can be
/// computed from the content. Searches from the end: requested outputs are usually recent.
fn is_named(store: &dyn LogReader, thread: ThreadId, id: Hash) -> Result<bool, StoreError> {
    let Some(completed) = event_type_named("TOOL_EXECUTION_COMPLETED") else { return Ok(false) };
    let end = store.stream(thread)?.last_seq.next();
    for record in store.records_back(thread, Seq(0)..end) {
        let record = record?;
        if record.kind.0 == completed.code
            && let Ok(Event::ToolExecutionCompleted(e)) = Event::decode(record.kind.0, record.version, &record.payload)
            && e.full_output == Some(id)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
