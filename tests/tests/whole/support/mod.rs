//! What the scenarios share: a world with a log and a runtime, tools that count their runs, and the laws that every
//! log must keep.

mod laws;
mod print;
mod tally;

use std::sync::Arc;

use expect_test::Expect;
use rethread::store::{MemoryStore, Options, SledStore, Store};
use rethread::{Outcome, Runtime, RuntimeBuilder, ThreadHandle, Workflow};
use rethread_tests::binary::HANG;

pub(crate) use laws::{check_laws, fold_of};
pub(crate) use print::{print_log, print_outcome};
pub(crate) use tally::{Gate, Nothing, Tally};

use crate::guardrails;
use crate::strategies::SecondThoughts;

/// A workflow from the text of its file, without the lines that all of them have.
pub(crate) fn workflow(nodes: &str) -> Arc<Workflow> {
    let text = format!("version: '1'\nname: scenario\n{nodes}");
    Arc::new(rethread::parse_workflow(text.as_bytes()).unwrap_or_else(|faults| panic!("{faults}")))
}

/// One model node that follows a script and may use these tools.
pub(crate) fn scripted(tools: &str, answers: &str) -> Arc<Workflow> {
    workflow(&format!("nodes: [{}]", llm("work", tools, answers)))
}

/// The text of a model node.
pub(crate) fn llm(id: &str, tools: &str, answers: &str) -> String {
    let mode = if tools.is_empty() { "none" } else { "auto" };
    format!(
        "{{id: {id}, llm: {{provider: mock, model: scripted, user_prompt: '{{{{ input }}}}', tool_mode: {mode}, \
         available_tools: [{tools}], extra: {{script: {{answers: [{answers}]}}}}}}}}"
    )
}

/// A log, a runtime on it, and what its tools were called for.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tally: Tally,
    pub(crate) runtime: Runtime,
}

impl World {
    /// On a log in memory.
    pub(crate) async fn new() -> Self {
        Self::on(Arc::new(MemoryStore::new()), &Tally::default()).await
    }

    /// On this log, with these tools.
    pub(crate) async fn on(store: Arc<dyn Store>, tally: &Tally) -> Self {
        Self::with(store, tally, |builder| builder).await
    }

    /// The same with more said about the runtime.
    pub(crate) async fn with(
        store: Arc<dyn Store>,
        tally: &Tally,
        change: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
    ) -> Self {
        let builder = tally.tools().into_iter().fold(Runtime::builder(), RuntimeBuilder::tool);
        let builder = builder.store(store.clone()).workspace(std::env::temp_dir()).arbiters(2);
        let builder = builder.strategy("second_thoughts", SecondThoughts).guardrail("short", guardrails::short);
        let runtime = change(builder).start().await.unwrap();
        Self { store, tally: tally.clone(), runtime }
    }

    pub(crate) async fn start(&self, workflow: &Arc<Workflow>, input: &str) -> ThreadHandle {
        self.runtime.start_thread(workflow.clone(), input).await.unwrap()
    }

    /// Starts a thread and waits until it rests.
    pub(crate) async fn run(&self, workflow: &Arc<Workflow>, input: &str) -> (ThreadHandle, Outcome) {
        let thread = self.start(workflow, input).await;
        let outcome = thread.at_rest().await.unwrap();
        (thread, outcome)
    }

    /// Stops the runtime as a crash would, and waits until only this many others refer to the log: a log in memory has
    /// no lock that would exclude a second runtime.
    pub(crate) async fn crash(self, n_others: usize) {
        let store = Arc::downgrade(&self.store);
        drop(self);
        until(|| store.strong_count() <= n_others).await;
    }

    /// Checks the laws over the whole log, and stops.
    pub(crate) async fn end(self) {
        check_laws(&self.runtime).await;
        self.runtime.shutdown().await.unwrap();
    }
}

/// Waits until something holds, for [`HANG`] at most.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    let limit = std::time::Instant::now() + HANG;
    while !holds() {
        assert!(std::time::Instant::now() < limit, "it does not come to hold");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// Runs a workflow to where it rests, on both kinds of log, and compares what it printed.
pub(crate) fn check(workflow: &Arc<Workflow>, input: &str, expect: &Expect) {
    let folder = tempfile::tempdir().unwrap();
    let printed = |store: Arc<dyn Store>| {
        block_on(async {
            let world = World::on(store, &Tally::default()).await;
            let (thread, outcome) = world.run(workflow, input).await;
            let log = print_log(&thread).await;
            assert_eq!(outcome.state, fold_of(&thread).await);
            world.end().await;
            format!("{log}{}\n", print_outcome(&outcome))
        })
    };
    let in_memory = printed(Arc::new(MemoryStore::new()));
    expect.assert_eq(&in_memory);
    assert_eq!(printed(disk(folder.path())), in_memory, "the kind of log makes no difference");
}

/// The durable log in that folder.
pub(crate) fn disk(folder: &std::path::Path) -> Arc<dyn Store> {
    Arc::new(SledStore::open(folder, Options::default()).unwrap())
}

/// Waits for a future in the plainest of async runtimes, for five times [`HANG`] at most.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(5 * HANG, future).await.expect("the test ends") })
}
