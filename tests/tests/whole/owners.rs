//! Parents of branches that are passivated and reloaded, while their branches run.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use rethread::store::{MemoryStore, Store, StoreError};
use rethread::{RuntimeBuilder, Status, ThreadFilter, ThreadHandle, ThreadId, Workflow};
use rethread_store::testing::{Fault, FaultyStore};
use tokio::sync::Semaphore;

use crate::handler::Says;
use crate::support::{Tally, World, block_on, llm, until, workflow};

/// A runtime whose threads are passivated as soon as they have nothing to do.
async fn world_on(store: Arc<dyn Store>) -> World {
    World::with(store, &Tally::default(), leaving).await
}

fn leaving(builder: RuntimeBuilder) -> RuntimeBuilder {
    builder.limits(|limits| limits.passivate_after_ms = 0)
}

fn counted() -> Arc<FaultyStore> {
    Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())))
}

/// A fork with one branch of these nodes.
fn one_branch(nodes: &str) -> String {
    // Another id for each of those inside one another.
    format!("{{id: fork_{}, parallel: {{branches: {{one: {{nodes: [{nodes}]}}}}}}}}", nodes.len())
}

const LOOKS: &str = "{id: wait, tool: {tool_name: wait_look, parameters: {text: x}}}";
const ASKS: &str = "{id: ask, user_interaction: {operation_type: UPDATE_VARIABLES, prompt: 'Pay?', \
                    variables: [{variable_name: output, expression: '{{ input }}'}]}}";
const TRIES_LATER: &str = "{id: later, retry: {max_attempts: 2, backoff_ms: 60000}, \
                           tool: {tool_name: fail, parameters: {text: no}}}";

fn alone(node: &str) -> Arc<Workflow> {
    workflow(&format!("nodes: [{node}]"))
}

/// At most so long as nothing takes that does not hang.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("it never comes")
}

/// Waits until this many threads are in memory, by the debug form of the runtime.
async fn n_live(world: &World, n: usize) {
    let comes = async {
        while format!("{:?}", world.runtime) != format!("Runtime {{ n_live: {n}, .. }}") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon(comes).await;
}

async fn until_status(thread: &ThreadHandle, status: Status) {
    let comes = async {
        while thread.state().await.unwrap().status() != status {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon(comes).await;
}

/// Waits until the log has it that the thread is resumed.
async fn resumes(thread: &ThreadHandle) {
    let comes = async {
        while thread.state().await.unwrap().is_paused() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon(comes).await;
}

/// The thread that has this status and owns no other.
async fn leaf(world: &World) -> ThreadHandle {
    let threads = world.runtime.threads(ThreadFilter::default()).await.unwrap();
    let owners: Vec<_> = threads.iter().filter_map(|thread| Some(thread.branch_of?.0)).collect();
    let leaf = threads.iter().find(|thread| !owners.contains(&thread.thread_id)).unwrap();
    world.runtime.thread(leaf.thread_id)
}

/// Waits for a second in which threads are hardly read from the log. Repeated activation leaves none.
async fn quiet(store: &FaultyStore) {
    let seconds = async {
        loop {
            let before = store.n_stream_reads();
            tokio::time::sleep(Duration::from_secs(1)).await;
            if store.n_stream_reads() - before < 40 {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), seconds).await.expect("the log is looked at without end");
}

#[test]
fn branch_end_is_not_lost_on_a_parent_that_passivates() {
    let says = |i| llm(&format!("say_{i}"), "", &format!("{{text: x, delay_ms: {}}}", 2 * i));
    let branches: String = (0..25).map(|i| format!("b{i}: {{nodes: [{}]}}, ", says(i))).collect();
    let forks = alone(&format!("{{id: both, parallel: {{branches: {{{branches}}}}}}}"));
    block_on(async {
        let world = world_on(Arc::new(MemoryStore::new())).await;
        let mut threads = Vec::new();
        for _ in 0..150 {
            threads.push(world.start(&forks, "go").await);
        }
        let limit = Instant::now() + Duration::from_secs(120);
        // No caller waits for them, so that nothing activates them.
        while !threads.is_empty() {
            assert!(Instant::now() < limit, "{} threads hang", threads.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
            let mut open = Vec::new();
            for thread in threads {
                if thread.summary().await.unwrap().status != Status::Completed {
                    open.push(thread);
                }
            }
            threads = open;
        }
        world.runtime.shutdown().await.unwrap();
    });
}

#[test]
fn waiting_for_a_waiting_thread_reads_nothing() {
    for waits in [one_branch(LOOKS), TRIES_LATER.to_owned(), one_branch(TRIES_LATER), one_branch(&one_branch(LOOKS))] {
        block_on(async {
            let store = counted();
            let world = world_on(store.clone()).await;
            let thread = world.start(&alone(&waits), "go").await;
            let waiting = tokio::spawn(async move { thread.at_rest().await });
            quiet(&store).await;
            assert!(!waiting.is_finished());
            waiting.abort();
            let _ = waiting.await;
            world.tally.gate().open();
            world.runtime.shutdown().await.unwrap();
        });
    }
}

#[test]
fn waiting_without_progress_is_free_and_ends_with_a_command() {
    block_on(async {
        let store = counted();
        let world = world_on(store.clone()).await;
        let thread = world.start(&alone(&one_branch(TRIES_LATER)), "go").await.id();
        n_live(&world, 0).await;
        world.crash(1).await;
        let looks =
            World::with(store.clone(), &Tally::default(), |builder| leaving(builder).mode(rethread::Mode::Observe))
                .await;
        let thread = looks.runtime.thread(thread);
        let waiter = thread.clone();
        let waiting = tokio::spawn(async move { waiter.at_rest().await });
        quiet(&store).await;
        assert!(!waiting.is_finished());
        thread.cancel(None).await.unwrap();
        assert_eq!(soon(waiting).await.unwrap().unwrap().status, Status::Cancelled);
        looks.end().await;
    });
}

#[test]
fn activated_threads_do_not_activate_each_other_repeatedly() {
    for waits in [one_branch(TRIES_LATER), one_branch(&one_branch(TRIES_LATER)), one_branch(ASKS)] {
        block_on(async {
            let store = counted();
            let world = world_on(store.clone()).await;
            let thread = world.start(&alone(&waits), "go").await;
            n_live(&world, 0).await;
            thread.wake().await.unwrap();
            leaf(&world).await.wake().await.unwrap();
            quiet(&store).await;
            world.runtime.shutdown().await.unwrap();
        });
    }
}

#[test]
fn reloaded_parent_is_notified_of_the_rest_of_a_live_branch() {
    block_on(async {
        // Makes the branch stay in memory: the handler does not answer.
        let never = Says(|_, _| futures::future::pending().boxed());
        let world = World::with(Arc::new(MemoryStore::new()), &Tally::default(), |builder| {
            leaving(builder).interaction_handler(never)
        })
        .await;
        let thread = world.start(&alone(&one_branch(&format!("{LOOKS}, {ASKS}"))), "go").await;
        world.tally.called("wait_look", 1).await;
        n_live(&world, 1).await;
        world.tally.gate().open();
        until_status(&leaf(&world).await, Status::Waiting).await;
        let outcome = soon(thread.at_rest()).await.unwrap();
        assert_eq!(outcome.status, Status::Waiting);
        world.end().await;
    });
}

#[test]
fn parent_is_notified_of_the_rest_of_nested_branches() {
    block_on(async {
        let world = world_on(Arc::new(MemoryStore::new())).await;
        let nested = one_branch(&one_branch(&format!("{LOOKS}, {ASKS}")));
        let thread = world.start(&alone(&nested), "go").await;
        world.tally.called("wait_look", 1).await;
        n_live(&world, 1).await;
        let waiter = thread.clone();
        let waiting = tokio::spawn(async move { waiter.at_rest().await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waiting.is_finished());
        world.tally.gate().open();
        assert_eq!(soon(waiting).await.unwrap().unwrap().status, Status::Waiting);

        // When all of them are passivated, and when they are reloaded in another process.
        n_live(&world, 0).await;
        assert_eq!(soon(thread.at_rest()).await.unwrap().status, Status::Waiting);
        n_live(&world, 0).await;
        let (store, id) = (world.store.clone(), thread.id());
        drop(thread);
        world.crash(1).await;
        let world = world_on(store).await;
        let thread = world.runtime.thread(id);
        assert_eq!(soon(thread.at_rest()).await.unwrap().status, Status::Waiting);
        let asks = leaf(&world).await;
        let question = asks.state().await.unwrap().interaction().unwrap().id;
        asks.respond(question, "yes").await.unwrap();
        assert_eq!(soon(thread.outcome()).await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

/// A thread that asks in a branch, which was paused with its parent and has missed the end of that pause: the thread,
/// the branch, and the log that no runtime runs any more.
async fn missed_the_resume() -> (ThreadId, ThreadId, Arc<dyn Store>) {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let world = world_on(memory.clone()).await;
    let (thread, _) = world.run(&alone(&one_branch(ASKS)), "go").await;
    thread.pause(None).await.unwrap();
    let branch = leaf(&world).await;
    until_status(&branch, Status::Paused).await;
    n_live(&world, 0).await;
    let (owner, branch) = {
        let handles = (thread, branch);
        (handles.0.id(), handles.1.id())
    };
    world.crash(1).await;

    // It crashes with the first append: the parent resumes, and the branch is not notified.
    let dies = Arc::new(FaultyStore::new(memory.clone()).with(0, Fault::DiesAfter));
    let world =
        World::with(dies.clone(), &Tally::default(), |builder| leaving(builder).mode(rethread::Mode::RunOnDemand))
            .await;
    let resumed = world.runtime.thread(owner);
    let told = tokio::spawn(async move { resumed.resume().await });
    soon(dies.died()).await;
    told.abort();
    let _ = told.await;
    drop(dies);
    world.crash(0).await;
    (owner, branch, memory)
}

#[test]
fn branch_that_missed_a_resume_continues_with_its_parent() {
    block_on(async {
        let (_, branch, memory) = missed_the_resume().await;
        let world = world_on(memory).await;
        until_status(&world.runtime.thread(branch), Status::Waiting).await;
        world.end().await;
    });
}

#[test]
fn resumed_thread_is_not_at_rest_before_its_branch_is_resumed() {
    block_on(async {
        let (owner, branch, memory) = missed_the_resume().await;
        let on_demand = |builder| leaving(builder).mode(rethread::Mode::RunOnDemand);
        let world = World::with(memory, &Tally::default(), on_demand).await;
        soon(world.runtime.thread(owner).at_rest()).await.unwrap();
        assert_eq!(world.runtime.thread(branch).state().await.unwrap().status(), Status::Waiting);
        world.end().await;
    });
}

/// Polls a future many times: it is not ready although other work continues.
async fn stays_pending(mut future: Pin<&mut impl Future>) {
    for _ in 0..50 {
        assert!(futures::poll!(&mut future).is_pending(), "it ended too early");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_command_ends_when_branches_of_branches_have_recorded_it() {
    block_on(async {
        let store = counted();
        let world = world_on(store.clone()).await;
        let (thread, _) = world.run(&alone(&one_branch(&one_branch(ASKS))), "go").await;
        let leaf = leaf(&world).await;
        thread.pause(None).await.unwrap();
        assert_eq!(leaf.state().await.unwrap().status(), Status::Paused);
        n_live(&world, 0).await;

        // The thread, its branch, and then the branch of that one.
        let (let_go, n) = (Arc::new(Semaphore::new(0)), store.n_appends());
        store.plan_after(2, Fault::Waits { until: let_go.clone(), then: None });
        let mut resumed = std::pin::pin!(thread.resume());
        tokio::select! {
            biased;
            ended = &mut resumed => panic!("the leaf has not recorded it: {ended:?}"),
            () = until(|| store.n_appends() == n + 3) => {}
        }
        stays_pending(resumed.as_mut()).await;
        let mut rests = std::pin::pin!(thread.at_rest());
        stays_pending(rests.as_mut()).await;
        let_go.add_permits(1);
        soon(resumed).await.unwrap();
        assert_eq!(leaf.state().await.unwrap().status(), Status::Waiting);
        soon(rests).await.unwrap();
        thread.cancel(None).await.unwrap();
        assert_eq!(leaf.state().await.unwrap().status(), Status::Cancelled);
        world.end().await;
    });
}

#[test]
fn resume_does_not_overtake_the_pause_before_it() {
    block_on(async {
        let world = World::new().await;
        let (thread, _) = world.run(&alone(&one_branch(ASKS)), "go").await;
        let leaf = leaf(&world).await;
        for _ in 0..100 {
            let (paused, resumed) = futures::join!(thread.pause(None), thread.resume());
            paused.and(resumed).unwrap();
            assert_eq!(leaf.state().await.unwrap().status(), Status::Waiting);
        }
        thread.cancel(None).await.unwrap();
        world.end().await;
    });
}

#[test]
fn a_command_waits_for_a_branch_that_resumes_by_itself() {
    block_on(async {
        let store = counted();
        let world = world_on(store.clone()).await;
        let (thread, _) = world.run(&alone(&one_branch(ASKS)), "go").await;
        thread.pause(None).await.unwrap();
        n_live(&world, 0).await;

        let (let_go, n) = (Arc::new(Semaphore::new(0)), store.n_appends());
        store.plan(Fault::Waits { until: let_go.clone(), then: None });
        let branch = leaf(&world).await;
        let mut by_itself = std::pin::pin!(branch.resume());
        tokio::select! {
            biased;
            ended = &mut by_itself => panic!("the log has not got it: {ended:?}"),
            () = until(|| store.n_appends() > n) => {}
        }
        let mut resumed = std::pin::pin!(thread.resume());
        tokio::select! {
            biased;
            ended = &mut resumed => panic!("the branch has not recorded it: {ended:?}"),
            () = resumes(&thread) => {}
        }
        stays_pending(resumed.as_mut()).await;
        let_go.add_permits(1);
        soon(resumed).await.unwrap();
        assert_eq!(branch.state().await.unwrap().status(), Status::Waiting);
        by_itself.await.unwrap();
        world.end().await;
    });
}

/// A thread whose branch's branch waits for a tool, in a log without a runtime.
async fn crashed(nodes: &str) -> (Arc<dyn Store>, ThreadId, ThreadId) {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let world = world_on(memory.clone()).await;
    let thread = world.start(&alone(nodes), "go").await;
    world.tally.called("wait_look", 1).await;
    n_live(&world, 1).await;
    let (owner, branch) = (thread.id(), leaf(&world).await.id());
    drop(thread);
    world.crash(1).await;
    (memory, owner, branch)
}

#[test]
fn waiter_of_a_parent_is_notified_of_an_unreadable_branch() {
    for nodes in [one_branch(LOOKS), one_branch(&one_branch(LOOKS))] {
        block_on(async {
            let (memory, owner, branch) = crashed(&nodes).await;
            let store = Arc::new(FaultyStore::new(memory));
            store.hide(Some(branch));
            let world = world_on(store.clone()).await;
            let thread = world.runtime.thread(owner);
            // The first caller and later callers, for either.
            for _ in 0..2 {
                assert!(soon(thread.outcome()).await.is_err());
                assert!(soon(thread.at_rest()).await.is_err());
            }
            quiet(&store).await;
            store.hide(None);
            world.tally.gate().open();
            assert_eq!(soon(thread.outcome()).await.unwrap().status, Status::Completed);
            world.end().await;
        });
    }
}

#[test]
fn failed_append_never_leaves_a_parent_waiting() {
    let nested = alone(&one_branch(&one_branch("{id: say, tool: {tool_name: look, parameters: {text: x}}}")));
    for nth in 0..40 {
        let reached = block_on(async {
            let broken = Fault::Fails(StoreError::Invalid("broken".into()));
            let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())).with(nth, broken));
            let world = world_on(store.clone()).await;
            if let Ok(thread) = world.runtime.start_thread(nested.clone(), "go").await {
                let ends = async { while thread.outcome().await.is_err() {} };
                soon(ends).await;
            }
            world.end().await;
            store.n_appends() > nth
        });
        if !reached {
            assert!(nth > 4, "{nth}");
            return;
        }
    }
}
