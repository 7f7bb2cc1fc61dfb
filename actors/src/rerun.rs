//! Threads that are run again with their recorded answers.

use std::collections::BTreeMap;
use std::io::{BufRead, Seek};
use std::sync::Arc;

use rethread_events::event::Event;
use rethread_events::ids::{Seq, ThreadId};
use rethread_events::thread::State;
use rethread_events::thread::rerun::{Divergence, Rerun, Rerunned};
use rethread_events::workflow::Workflow;
use rethread_store::{MemoryStore, Store};

use crate::archive;
use crate::crashes::Step;
use crate::definitions::Definitions;
use crate::error::ImportError;
use crate::error::{ForkError, ReadError};
use crate::family;
use crate::fork::ForkRequest;
use crate::load;
use crate::recorded::events;
use crate::thread_handle::ThreadHandle;

/// What came of threads that were run again.
#[derive(Debug, Clone, PartialEq)]
pub struct RerunReport {
    /// Each thread: of a family the one that was named first, then its branches.
    pub threads: Vec<Rerunned>,
}

impl RerunReport {
    /// The first place where a thread parts from its log; `None` when all were reproduced.
    pub fn diverged(&self) -> Option<&Divergence> {
        self.threads.iter().find_map(|thread| thread.diverged.as_ref())
    }

    /// How many events were reproduced.
    pub fn n_events(&self) -> u64 {
        self.threads.iter().map(|thread| thread.n_events).sum()
    }
}

/// Runs all threads of an export again, with the answers of models, tools and people that were recorded: a regression
/// test that costs no tokens, no disk and no runtime. With `workflow` they are run on that definition and not on the one
/// that they ran on. Blocks; holds one thread of the export in memory, and the export.
///
/// ```
/// use std::io::BufReader;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let greeting = |prompt: &str| {
///     let text = format!("
///         version: '1'
///         name: greeting
///         nodes: [{{id: greet, llm: {{provider: mock, model: m, user_prompt: '{prompt}', extra: {{script: {{answers: [{{text: Hello}}]}}}}}}}}]
///     ");
///     rethread::parse_workflow(text.as_bytes())
/// };
/// // Once, and kept beside the tests:
/// let runtime = rethread::Runtime::builder().in_memory().start().await?;
/// let thread = runtime.start_thread(greeting("Greet {{ input }}")?, "Ada").await?;
/// thread.outcome().await?;
/// let file = tempfile::NamedTempFile::new()?;
/// runtime.export(thread.id(), file.reopen()?).await?;
///
/// // In each test:
/// let export = || file.reopen().map(BufReader::new);
/// assert!(rethread::operate::rerun(export()?, None)?.diverged().is_none());
/// let again = rethread::operate::rerun(export()?, Some(greeting("Greet {{ input }} again")?))?;
/// let diverged = again.diverged().unwrap();
/// assert!(diverged.why.contains("`prompt` was \"Greet Ada\" and is \"Greet Ada again\""), "{}", diverged.why);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the export cannot be read, or lacks the definition of a thread. A thread that parts from its log is no error.
pub fn rerun(export: impl BufRead + Seek, workflow: Option<Workflow>) -> Result<RerunReport, ImportError> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let definitions = Definitions::new(store.clone());
    let workflow = workflow.map(Arc::new);
    let imported = archive::import(&*store, &definitions, export)?;
    let mut threads = Vec::new();
    for thread in imported.threads {
        threads.push(again(&*store, &definitions, thread, workflow.clone(), None)?);
    }
    Ok(RerunReport { threads })
}

impl ThreadHandle {
    /// Runs the thread and its branches again with the recorded answers, on the definition that they ran on or on
    /// another, and says where they part from the log. Only what is their own: what a fork inherits is its parent's.
    /// Nothing is written, no model and no tool is called. Holds the events of one thread in memory.
    ///
    /// # Errors
    /// When the log cannot be read, or a definition is not in it.
    pub async fn rerun(&self, workflow: Option<Arc<Workflow>>) -> Result<RerunReport, ReadError> {
        let (services, id) = (self.runtime().services().clone(), self.id());
        let work = move || {
            let store = &*services.store;
            let (mut threads, mut todo) = (Vec::new(), vec![id]);
            while let Some(thread) = todo.pop() {
                let step = Step::rerun(thread, workflow.as_ref().map(|workflow| workflow.hash()), None);
                let rerun = || again(store, &services.definitions, thread, workflow.clone(), None);
                match services.crashes.asked_for(step, rerun) {
                    Ok(done) => threads.push(done),
                    // A branch that never began.
                    Err(ReadError::NoThread(_)) if thread != id => continue,
                    Err(error) => return Err(error),
                }
                todo.extend(family::all_branches(store, thread, store.next_position())?.into_iter().rev());
            }
            Ok(RerunReport { threads })
        };
        self.runtime().blocking(work).await?
    }

    /// The same for the thread alone, up to its event `last`.
    ///
    /// # Errors
    /// As [`ThreadHandle::rerun`], and when it has no such event.
    pub async fn rerun_to(&self, last: Seq, workflow: Option<Arc<Workflow>>) -> Result<RerunReport, ReadError> {
        let (services, id) = (self.runtime().services().clone(), self.id());
        let work = move || {
            let step = Step::rerun(id, workflow.as_ref().map(|workflow| workflow.hash()), Some(last));
            services
                .crashes
                .asked_for(step, || again(&*services.store, &services.definitions, id, workflow, Some(last)))
        };
        Ok(RerunReport { threads: vec![self.runtime().blocking(work).await??] })
    }
}

impl ThreadHandle {
    /// Runs the thread again up to its event `from`, and when it is the same up to there, forks it there: the fork goes
    /// on with real calls, on the definition that it ran on or on another. Without a fork nothing is written.
    ///
    /// # Errors
    /// As [`ThreadHandle::rerun_to`] and [`ThreadHandle::fork`].
    pub async fn rerun_live(
        &self,
        from: Seq,
        workflow: Option<Arc<Workflow>>,
    ) -> Result<(RerunReport, Option<Self>), ForkError> {
        let reran = self.rerun_to(from, workflow.clone()).await?;
        if reran.diverged().is_some() {
            return Ok((reran, None));
        }
        let fork = self.fork(ForkRequest { at: Some(from), workflow, ..ForkRequest::default() }).await?;
        Ok((reran, Some(fork)))
    }
}

fn again(
    store: &dyn Store,
    definitions: &Definitions,
    thread: ThreadId,
    workflow: Option<Arc<Workflow>>,
    last: Option<Seq>,
) -> Result<Rerunned, ReadError> {
    let info = load::stream(store, thread)?;
    if let Some(seq) = last.filter(|last| *last > info.last_seq) {
        return Err(ReadError::NoSeq { thread, seq, last: info.last_seq });
    }
    let base = match info.fork_of {
        Some(point) => load::at(store, thread, point.seq)?.state,
        None => State::new(thread),
    };
    let events = events(store, thread, base.next_seq()..info.last_seq.next());
    let events = events.map(|recorded| recorded.map(|recorded| (recorded.record.recorded_at, recorded.event)));
    let events = events.collect::<Result<Vec<_>, _>>()?;
    let mut begun = base.clone();
    if let Some((at, first)) = events.first() {
        begun.apply(*at, first)?;
    }
    let recorded_on = definitions.of(thread, &begun)?;
    let workflow = workflow.unwrap_or_else(|| recorded_on.clone());
    let mut of_runs = BTreeMap::new();
    for (_, event) in &events {
        if let Event::RunStarted(started) = event {
            let reference = &started.workflow;
            of_runs.insert(reference.hash, definitions.named(thread, reference)?);
        }
    }
    Ok(Rerun { base, recorded_on, workflow, of_runs, events }.run_to(last))
}
