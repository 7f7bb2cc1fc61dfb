//! Reruns of threads with their recorded answers.

use std::collections::BTreeMap;
use std::io::{BufRead, Seek};
use std::sync::Arc;

use rethread_events::event::Event;
use rethread_events::ids::{RunId, Seq, ThreadId};
use rethread_events::thread::rerun::{Divergence, Rerun, Rerunned};
use rethread_events::workflow::Workflow;
use rethread_store::{MemoryStore, Store};

use crate::archive;
use crate::crashes::Step;
use crate::definitions::Definitions;
use crate::error::ImportError;
use crate::error::{ForkError, ReadError, RunError};
use crate::family;
use crate::fork::ForkRequest;
use crate::load;
use crate::recorded::events;
use crate::services::Services;
use crate::thread_handle::ThreadHandle;

/// The report of a rerun.
#[derive(Debug, Clone, PartialEq)]
pub struct RerunReport {
    /// The result of each thread: of a family the one that was named first, then its branches.
    pub threads: Vec<Rerunned>,
}

impl RerunReport {
    /// Returns the first difference between a thread and its log; `None` if all were reproduced.
    pub fn diverged(&self) -> Option<&Divergence> {
        self.threads.iter().find_map(|thread| thread.diverged.as_ref())
    }

    /// Returns how many events were reproduced.
    pub fn n_events(&self) -> u64 {
        self.threads.iter().map(|thread| thread.n_events).sum()
    }
}

/// Reruns all threads of an export, with the recorded answers of models, tools and people: a regression test that costs
/// no tokens, no disk and no runtime. With `workflow` they run on that definition instead of their own. Blocks. Keeps
/// the export and the events of one of its threads in memory.
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
/// When the export cannot be read, or lacks the definition of a thread. A difference is no error.
pub fn rerun(export: impl BufRead + Seek, workflow: Option<Workflow>) -> Result<RerunReport, ImportError> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let definitions = Definitions::new(store.clone());
    let workflow = workflow.map(Arc::new);
    let imported = archive::import(&*store, &definitions, export)?;
    let mut threads = Vec::new();
    for thread in imported.threads {
        threads.push(rerun_part(&*store, &definitions, thread, workflow.clone(), Part::WHOLE)?);
    }
    Ok(RerunReport { threads })
}

impl ThreadHandle {
    /// Reruns the thread and its branches with the recorded answers, on their own definition or on another, and returns
    /// the first differences from the log. Only the events of the thread itself are rerun, not those that a fork
    /// inherits. Nothing is written, no model and no tool is called. Keeps the events of one thread in memory.
    ///
    /// # Errors
    /// When the log cannot be read, or a definition is not in it.
    pub async fn rerun(&self, workflow: Option<Arc<Workflow>>) -> Result<RerunReport, ReadError> {
        let (services, id) = (self.runtime().services().clone(), self.id());
        self.runtime().blocking(move || with_branches(&services, id, Part::WHOLE, workflow.as_ref())).await?
    }

    /// As `rerun`, for the thread alone, up to its event `last`.
    ///
    /// # Errors
    /// As [`ThreadHandle::rerun`], and when the thread has no such event.
    pub async fn rerun_to(&self, last: Seq, workflow: Option<Arc<Workflow>>) -> Result<RerunReport, ReadError> {
        let (services, id) = (self.runtime().services().clone(), self.id());
        let work = move || again(&services, id, workflow, Part { last: Some(last), ..Part::WHOLE });
        Ok(RerunReport { threads: vec![self.runtime().blocking(work).await??] })
    }

    /// Reruns one run with the recorded answers, from the recorded state before it, on its own definition or on
    /// another, and then the branches that began in it. With `last`, only the run itself, up to that event of it. A run
    /// that a fork inherits completely is rerun as the thread that recorded it; of one that it inherits in part, only
    /// the fork's own part is rerun.
    ///
    /// To continue with real calls from `last` if the report has no difference, fork the thread there.
    ///
    /// # Errors
    /// As [`ThreadHandle::run_summary`] and [`ThreadHandle::rerun`]; `NotInRun` when `last` is not an event of the run.
    pub async fn rerun_run(
        &self,
        run: RunId,
        last: Option<Seq>,
        workflow: Option<Arc<Workflow>>,
    ) -> Result<RerunReport, RunError> {
        let (services, thread) = (self.runtime().services().clone(), self.id());
        let found = self.run_summary(run).await?;
        let (started, end) = (found.started, found.until());
        if let Some(seq) = last.filter(|last| !(started..=end).contains(last)) {
            return Err(RunError::NotInRun { thread, run, seq, started, last: end });
        }
        let work = move || {
            let owner = load::recorded_by(&*services.store, thread, end)?;
            let part = Part { from: started, end, last };
            match last {
                Some(_) => Ok(RerunReport { threads: vec![again(&services, owner, workflow, part)?] }),
                None => with_branches(&services, owner, part, workflow.as_ref()),
            }
        };
        Ok(self.runtime().blocking(work).await??)
    }
}

impl ThreadHandle {
    /// Reruns the thread up to its event `from`. If there is no difference, forks it there: the fork continues with
    /// real calls, on the thread's definition or on another. Without a fork nothing is written.
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

/// The part of a thread's own events to rerun.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// The first event.
    from: Seq,
    /// The last event that is read.
    end: Seq,
    /// The last event that is rerun; the last one that is read if absent.
    last: Option<Seq>,
}

impl Part {
    const WHOLE: Self = Self { from: Seq(0), end: Seq(u64::MAX), last: None };
}

/// Reruns a part of a thread, then the branches that began in it. Blocks.
fn with_branches(
    services: &Services,
    id: ThreadId,
    part: Part,
    workflow: Option<&Arc<Workflow>>,
) -> Result<RerunReport, ReadError> {
    let store = &*services.store;
    let (mut threads, mut todo) = (Vec::new(), vec![(id, part)]);
    while let Some((thread, part)) = todo.pop() {
        match again(services, thread, workflow.cloned(), part) {
            Ok(done) => threads.push(done),
            // A branch that never began.
            Err(ReadError::NoThread(_)) if thread != id => continue,
            Err(error) => return Err(error),
        }
        let branches = family::branches_of(store, thread, part.from..=part.end, store.next_position())?;
        todo.extend(branches.into_iter().rev().map(|branch| (branch, Part::WHOLE)));
    }
    Ok(RerunReport { threads })
}

fn again(
    services: &Services,
    thread: ThreadId,
    workflow: Option<Arc<Workflow>>,
    part: Part,
) -> Result<Rerunned, ReadError> {
    let step = Step::rerun(thread, workflow.as_ref().map(|workflow| workflow.hash()), part.last);
    let rerun = || rerun_part(&*services.store, &services.definitions, thread, workflow, part);
    services.crashes.asked_for(step, rerun)
}

fn rerun_part(
    store: &dyn Store,
    definitions: &Definitions,
    thread: ThreadId,
    workflow: Option<Arc<Workflow>>,
    Part { from, end, last }: Part,
) -> Result<Rerunned, ReadError> {
    let info = load::stream(store, thread)?;
    if let Some(seq) = last.filter(|last| *last > info.last_seq) {
        return Err(ReadError::NoSeq { thread, seq, last: info.last_seq });
    }
    let own = info.fork_of.map_or(Seq(0), |point| point.seq.next());
    let base = load::before(store, thread, from.max(own))?;
    let events = events(store, thread, base.next_seq()..end.min(info.last_seq).next());
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
        let reference = if let Event::RunStarted(started) = event {
            &started.workflow
        } else if let Event::WorkflowChanged(changed) = event {
            &changed.workflow
        } else {
            continue;
        };
        of_runs.insert(reference.hash, definitions.named(thread, reference)?);
    }
    Ok(Rerun { base, recorded_on, workflow, of_runs, events }.run_to(last))
}
