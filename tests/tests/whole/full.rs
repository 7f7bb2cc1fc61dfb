//! A disk that is full for a while.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use futures::FutureExt;
use rethread::errors::{ControlError, NextMove, RuntimeError, StartThreadError};
use rethread::store::{LogReader, MemoryStore, Options, SledStore, Store, StoreError, Watcher};
use rethread::{Event, Message, Role, Seq, StartThread, Status, ThreadHandle, ThreadId, Workflow};
use rethread_store::testing::{Fault, FaultyStore};
use tokio::sync::Semaphore;

use crate::handler::Says;
use crate::interaction::approval;
use crate::support::{Tally, World, block_on, print_log, scripted, workflow};

/// A disk that can be full. It counts groups of appends alone: other files are written at times of their own, the mark
/// right after an append was answered, and say nothing about appends.
#[derive(Default)]
struct Disk {
    full: AtomicBool,
    /// One group in this many finds no room; 0 for none.
    one_in: AtomicUsize,
    n_groups: AtomicUsize,
    n_refused: AtomicUsize,
    refused: tokio::sync::Notify,
}

impl Watcher for Disk {
    fn write(&self, path: &Path, _offset: u64, _bytes: &[u8]) -> std::io::Result<()> {
        let is_group = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("journal-"));
        let one_in = self.one_in.load(SeqCst);
        let is_its_turn = is_group && one_in > 0 && self.n_groups.fetch_add(1, SeqCst).is_multiple_of(one_in);
        if !self.full.load(SeqCst) && !is_its_turn {
            return Ok(());
        }
        if is_group {
            self.n_refused.fetch_add(1, SeqCst);
            self.refused.notify_waiters();
        }
        Err(std::io::ErrorKind::StorageFull.into())
    }
}

impl Disk {
    async fn refuses(&self, n: usize) {
        loop {
            let refused = self.refused.notified();
            if self.n_refused.load(SeqCst) >= n {
                return;
            }
            refused.await;
        }
    }
}

/// A log on a disk that can be full, in its own folder.
fn log(folder: &tempfile::TempDir) -> (Arc<Disk>, Arc<dyn Store>) {
    let disk = Arc::new(Disk::default());
    let options = Options { watcher: Some(disk.clone()), ..Options::default() };
    (disk, Arc::new(SledStore::open(folder.path(), options).unwrap()))
}

/// Checks that the thread ends well and its log knows of no call that was lost.
async fn nothing_was_lost(thread: &ThreadHandle) {
    let outcome = thread.outcome().await.unwrap();
    let log = print_log(thread).await;
    assert_eq!((outcome.status, outcome.output.unwrap()), (Status::Completed, "done".into()), "{log}");
    assert!(!log.contains("RECOVERED") && !log.contains("indeterminate"), "{log}");
}

fn is_full(answered: &Result<(), ControlError>) -> bool {
    let error = answered.as_ref().expect_err("there is no room");
    matches!(error.runtime(), Some(RuntimeError::Store(StoreError::Full { .. })))
}

#[test]
fn threads_continue_when_the_disk_has_space_again() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, store) = log(&folder);
    block_on(async {
        let world = World::on(store, &Tally::default()).await;
        let uses = |tool: &str| {
            scripted(tool, &format!("{{tool_calls: [{{name: {tool}, arguments: {{text: x}}}}]}}, {{text: done}}"))
        };
        let looks = world.start(&uses("wait_look"), "go").await;
        let pays = world.start(&uses("wait_pay"), "go").await;
        world.tally.called("wait_look", 1).await;
        world.tally.called("wait_pay", 1).await;

        disk.full.store(true, SeqCst);
        world.tally.gate().open();
        disk.refuses(2).await;
        let error = world.runtime.start_thread(uses("look"), "go").await.expect_err("there is no room");
        assert!(matches!(error, StartThreadError::Runtime(RuntimeError::Store(StoreError::Full { .. }))), "{error}");
        disk.full.store(false, SeqCst);

        for thread in [looks, pays] {
            nothing_was_lost(&thread).await;
        }
        assert_eq!((world.tally.of("wait_look"), world.tally.of("wait_pay")), ((1, 1), (1, 1)));
        let (_, outcome) = world.run(&uses("look"), "go").await;
        assert_eq!(outcome.status, Status::Completed);
        world.end().await;
    });
}

fn full() -> StoreError {
    StoreError::Full { path: "disk".into() }
}

/// Runs the workflow once for every append of its run, on a log that refuses that append when it first comes.
/// Hands out each world and thread when the thread has ended.
fn with_each_append_refused_once(
    workflow: &Arc<Workflow>,
    refusal: &StoreError,
    check: impl AsyncFn(&World, &ThreadHandle),
) {
    let run = async |nth: u64| {
        let refused = Fault::Fails(refusal.clone());
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())).with(nth, refused));
        let yes = Says(|_, _| async { Ok(true.into()) }.boxed());
        let world = World::with(store.clone(), &Tally::default(), |builder| builder.interaction_handler(yes)).await;
        match world.runtime.start_thread(workflow.clone(), "go").await {
            Ok(thread) => {
                nothing_was_lost(&thread).await;
                check(&world, &thread).await;
            }
            Err(error) => assert_eq!(nth, 0, "{error}"),
        }
        let was_reached = store.n_appends() > nth;
        world.end().await;
        was_reached
    };
    // Side by side, because each waits as long as the runtime does before it tries again.
    let reached = block_on(futures::future::join_all((0..16).map(run)));
    assert!(reached[2] && !reached[15], "{reached:?}");
}

/// Tools that write, side by side and one after the other.
fn writing() -> Arc<Workflow> {
    let side_by_side = "{tool_calls: [{name: pay, arguments: {text: a}}, {name: put, arguments: {text: b}}, \
                        {name: pay, arguments: {text: c}}]}, {tool_calls: [{name: pay, arguments: {text: d}}]}, \
                        {text: done}";
    scripted("put, pay", side_by_side)
}

#[test]
fn refused_append_loses_no_answer() {
    with_each_append_refused_once(&writing(), &full(), async |world, _| {
        assert_eq!((world.tally.of("pay"), world.tally.of("put")), ((3, 3), (1, 1)));
    });
}

/// An append of another caller to the same thread was refused, and this one was queued after it.
#[test]
fn append_after_a_refused_one_is_recomputed() {
    let fenced = StoreError::Fenced { thread: ThreadId::new(1, [1; 10]) };
    with_each_append_refused_once(&writing(), &fenced, async |world, _| {
        assert_eq!((world.tally.of("pay"), world.tally.of("put")), ((3, 3), (1, 1)));
    });
}

#[test]
fn refused_append_loses_no_answer_of_a_person() {
    with_each_append_refused_once(&approval(), &full(), async |_, thread| {
        assert_eq!(*thread.state().await.unwrap().variables()["approved"].0, true);
    });
}

#[test]
fn repeated_answer_is_acknowledged_once_it_is_durable() {
    block_on(async {
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
        let world = World::on(store.clone(), &Tally::default()).await;
        let (thread, outcome) = world.run(&approval(), "7 €").await;
        let question = outcome.state.interaction().unwrap().id;
        let (let_go, n_before) = (Arc::new(Semaphore::new(0)), store.n_appends());
        let full = StoreError::Full { path: "disk".into() };
        store.plan(Fault::Waits { until: let_go.clone(), then: Some(full) });
        let mut first = std::pin::pin!(thread.respond(question, true));
        assert!(futures::poll!(&mut first).is_pending());
        crate::support::until(|| store.n_appends() > n_before).await;
        let mut again = std::pin::pin!(thread.respond(question, true));
        assert!(futures::poll!(&mut again).is_pending());
        // Refused at once, and the result of the one before it has arrived by then.
        assert!(
            thread.respond(question, false).await.expect_err("it was answered otherwise").next_move()
                == NextMove::ReadAgain
        );
        let_go.add_permits(1);
        for answered in [first.await, again.await] {
            assert!(is_full(&answered), "{answered:?}");
        }
        thread.respond(question, true).await.unwrap();
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        world.end().await;
    });
}

#[test]
fn repeated_start_is_a_conflict_once_the_first_one_is_durable() {
    block_on(async {
        for then in [None, Some(StoreError::Full { path: "disk".into() })] {
            let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
            let world = World::on(store.clone(), &Tally::default()).await;
            let (id, workflow) = (world.runtime.new_thread_id(), approval());
            let (let_go, n_before) = (Arc::new(Semaphore::new(0)), store.n_appends());
            store.plan(Fault::Waits { until: let_go.clone(), then: then.clone() });
            let start = || {
                let (runtime, start) = (world.runtime.clone(), StartThread::new(workflow.clone(), "7 €").id(id));
                tokio::spawn(async move { runtime.start(start).await.map(drop) })
            };
            let first = start();
            crate::support::until(|| store.n_appends() > n_before).await;
            let again = start();
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            assert!(!first.is_finished() && !again.is_finished(), "it may fail still");
            let_go.add_permits(1);
            let (first, again) = (first.await.unwrap(), again.await.unwrap());
            let is_conflict = |started: Result<(), StartThreadError>| {
                let error = started.expect_err("it is repeated");
                matches!(error, StartThreadError::Runtime(RuntimeError::Store(StoreError::Conflict { .. })))
            };
            match then {
                None => {
                    first.unwrap();
                    assert!(is_conflict(again));
                }
                Some(_) => {
                    assert!(first.is_err());
                    assert!(!is_conflict(again), "there is no thread");
                    start().await.unwrap().unwrap();
                }
            }
            assert!(is_conflict(start().await.unwrap()));
            world.end().await;
        }
    });
}

#[test]
fn refused_append_loses_no_chunk_of_a_streamed_answer() {
    let script = "script: {answers: [{text: done, chunk_delay_ms: 30}]}";
    let streamed = workflow(&format!(
        "nodes: [{{id: work, llm: {{provider: mock, model: scripted, user_prompt: go, stream: true, extra: {{{script}}}}}}}]"
    ));
    with_each_append_refused_once(&streamed, &full(), async |_, thread| {
        let events = thread.recorded_events(Seq(0)).await.unwrap();
        let pieces = events.iter().filter_map(|event| match &event.event {
            Event::LlmExecutionProgress(piece) => Some(piece.text.as_str()),
            _ => None,
        });
        assert_eq!(pieces.collect::<String>(), "done", "{}", print_log(thread).await);
    });
}

#[test]
fn calls_continue_and_answer_while_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, store) = log(&folder);
    block_on(async {
        let world = World::on(store, &Tally::default()).await;
        let calls = "{tool_calls: [{name: report, arguments: {text: x}}, {name: wait_pay, arguments: {text: y}}]}";
        let workflow = scripted("report, wait_pay", &format!("{calls}, {{text: done}}"));
        let thread = world.start(&workflow, "go").await;
        world.tally.called("wait_pay", 1).await;
        disk.full.store(true, SeqCst);
        // A request from outside is refused; the running call continues.
        let refused = thread.add_message(Message::text(Role::User, "hurry")).await;
        assert!(is_full(&refused), "{refused:?}");
        // It answers after its thread was put back to what the log has.
        world.tally.gate().open();
        let before = disk.n_refused.load(SeqCst);
        disk.refuses(before + 1).await;
        disk.full.store(false, SeqCst);
        nothing_was_lost(&thread).await;
        assert_eq!((world.tally.of("report"), world.tally.of("wait_pay")), ((1, 1), (1, 1)));
        world.end().await;
    });
}

#[test]
fn many_threads_survive_an_intermittently_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, store) = log(&folder);
    block_on(async {
        let world = World::on(store, &Tally::default()).await;
        let workflow = writing();
        let start = async || world.start(&workflow, "go").await;
        let threads = futures::future::join_all((0..100).map(|_| start())).await;
        disk.one_in.store(7, SeqCst);
        for thread in &threads {
            nothing_was_lost(thread).await;
        }
        disk.one_in.store(0, SeqCst);
        assert_eq!((world.tally.of("pay"), world.tally.of("put")), ((300, 300), (100, 100)));
        assert!(disk.n_refused.load(SeqCst) > 0, "the disk was full now and then");
        world.end().await;
    });
}

#[test]
fn overflow_on_a_full_disk_is_handled_like_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, store) = log(&folder);
    block_on(async {
        let world = World::with(store, &Tally::default(), |builder| {
            builder.limits(|limits| limits.unwritten_bytes_max = 1_000)
        })
        .await;
        let large = "y".repeat(2_000);
        let calls = format!("{{tool_calls: [{{name: wait_pay, arguments: {{text: {large}}}}}]}}, {{text: done}}");
        let thread = world.start(&scripted("wait_pay", &calls), "go").await;
        world.tally.called("wait_pay", 1).await;
        disk.full.store(true, SeqCst);
        world.tally.gate().open();
        disk.refuses(1).await;
        disk.full.store(false, SeqCst);
        assert_eq!(thread.outcome().await.unwrap().status, Status::Completed);
        assert!(print_log(&thread).await.contains(": indeterminate"));
        assert_eq!(world.tally.of("wait_pay"), (1, 1));
        world.end().await;
    });
}

#[test]
fn shutdown_records_pending_inputs_if_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, store) = log(&folder);
    block_on(async {
        let world = World::on(store, &Tally::default()).await;
        let calls = "{tool_calls: [{name: wait_pay, arguments: {text: x}}]}, {text: done}";
        let thread = world.start(&scripted("wait_pay", calls), "go").await;
        world.tally.called("wait_pay", 1).await;
        disk.full.store(true, SeqCst);
        world.tally.gate().open();
        disk.refuses(1).await;
        disk.full.store(false, SeqCst);
        world.runtime.shutdown().await.unwrap();
        let (id, tally) = (thread.id(), world.tally.clone());
        drop((world, thread));

        let world = World::on(crate::support::disk(folder.path()), &tally).await;
        let outcome = world.runtime.thread(id).outcome().await.unwrap();
        let log = print_log(&world.runtime.thread(id)).await;
        assert_eq!(outcome.status, Status::Completed);
        assert!(log.contains("\"x\"") && !log.contains("indeterminate"), "{log}");
        assert_eq!(tally.of("wait_pay"), (1, 1));
        world.end().await;
    });
}

/// The servers of a log in a stream did not acknowledge the start of a thread in time, and had it all the same.
#[test]
fn thread_whose_start_was_in_doubt_runs_once_the_log_has_it() {
    block_on(async {
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())).with(0, Fault::InDoubt));
        let world = World::with(store.clone(), &Tally::default(), |builder| builder).await;
        let error = world.runtime.start_thread(writing(), "go").await.expect_err("it is in doubt");
        assert!(matches!(error, StartThreadError::Runtime(RuntimeError::Store(StoreError::InDoubt { .. }))), "{error}");
        assert_eq!(store.next_position().0, 0);
        store.write_late();
        // Nobody asks for it by its id, which only the log has.
        let started = store.streams(None, &[], 2).unwrap();
        assert_eq!(started.len(), 1);
        let ended = async {
            while !Status::from_code(store.stream(started[0].thread).unwrap().tag.0).is_some_and(Status::is_ended) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(120), ended).await.expect("it never begins");
        assert_eq!((world.tally.of("pay"), world.tally.of("put")), ((3, 3), (1, 1)));
        world.end().await;
    });
}
