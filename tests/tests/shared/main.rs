//! Several runtimes on one log in a stream of NATS JetStream, on a real server: each runs threads of its own, and inputs reach
//! them from everywhere.

// The whole file is a test, its helpers included.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod doors;
mod events;
mod faults;
mod limits;
mod names;
mod servers;
mod versions;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rethread::errors::{ControlError, NextMove, ReadError, RuntimeError, StartThreadError};
use rethread::monitor::{Moment, ToolCall};
use rethread::operate::{Labels, Migrated, Retention};
use rethread::runs::{OnBusy, RunRequest};
use rethread::{Limits, Monitor, Runtime, StartThread, Status, ThreadFilter, ThreadId, Tool, parse_workflow};
use rethread_store::testing::nats::{Servers, program};
use rethread_store::{Access, JetStreamOptions, JetStreamStore, SLOTS, Slot, Store as _, StoreError};
use rethread_tests::needs;
use serde_json::json;

const REMEMBERS: &str = r#"
version: "1"
name: remembers
nodes:
  - id: remember
    tool: {tool_name: remember, parameters: {text: "{{ input }}"}}
"#;

/// Says whose monitor was called for a tool call.
struct Hears(usize, Runs);

impl Monitor for Hears {
    fn on_tool_call(&self, moment: &Moment, _call: ToolCall<'_>) {
        self.1.lock().entry(moment.thread).or_default().push(self.0);
    }
}

/// The runs of a tool: by thread, the numbers of the runtimes that ran it.
type Runs = Arc<Mutex<BTreeMap<ThreadId, Vec<usize>>>>;

/// Three runtimes of one log.
struct Cluster {
    runtimes: Vec<Runtime>,
    stores: Vec<Arc<JetStreamStore>>,
    runs: Runs,
    /// What the monitors of the runtimes were told.
    heard: Runs,
    _dirs: Vec<tempfile::TempDir>,
    _servers: Servers,
}

const ASKS: &str = r#"
version: "1"
name: asks
nodes:
  - id: note
    tool: {tool_name: note, parameters: {text: "{{ input }}"}}
  - id: ask
    user_interaction:
      operation_type: UPDATE_VARIABLES
      prompt: Well?
      variables: [{variable_name: said, expression: "{{ input }}"}]
  - id: again
    tool: {tool_name: note, parameters: {text: "{{ said }}"}}
"#;

const NOTES: &str = r#"
version: "1"
name: notes
nodes:
  - id: note
    tool: {tool_name: note, parameters: {text: "{{ input }}"}}
"#;

async fn runtime(
    options: &JetStreamOptions,
    number: usize,
    runs: &Runs,
    heard: &Runs,
    limits: fn(&mut Limits),
) -> (Runtime, Arc<JetStreamStore>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (folder, options, runs) = (dir.path().join("replica"), options.clone(), runs.clone());
    let open = move || Arc::new(JetStreamStore::open(folder, options).unwrap());
    let store = tokio::task::spawn_blocking(open).await.unwrap();
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let note = Tool::new("note", "Notes a text.", schema, move |arguments, cx| {
        let runs = runs.clone();
        async move {
            runs.lock().entry(cx.thread.unwrap()).or_default().push(number);
            Ok(arguments["text"].clone().into())
        }
    });
    let workspace = dir.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let memories = serde_json::from_value(json!({"namespace": ["user"]})).unwrap();
    let builder = Runtime::builder().store(store.clone()).workspace(&workspace).tool(note).limits(limits);
    let builder = builder.memory(memories).monitor(Hears(number, heard.clone()));
    (builder.start().await.unwrap(), store, dir)
}

async fn cluster() -> Option<Cluster> {
    cluster_with(|_| {}).await
}

async fn cluster_with(limits: fn(&mut Limits)) -> Option<Cluster> {
    let program = program(env!("CARGO_TARGET_TMPDIR"));
    if program.is_none() {
        needs::skipped("pip cannot install the server of NATS");
    }
    let servers = Servers::start(&program?, 1, "");
    let lease = Duration::from_secs(1);
    let options = JetStreamOptions { access: Access::Shared, lease, ..servers.options("agents") };
    let (mut runtimes, mut stores, mut dirs) = (Vec::new(), Vec::new(), Vec::new());
    let (runs, heard) = (Runs::default(), Runs::default());
    for number in 0..3 {
        let (runtime, store, dir) = runtime(&options, number, &runs, &heard, limits).await;
        runtimes.push(runtime);
        stores.push(store);
        dirs.push(dir);
    }
    let cluster = Cluster { runtimes, stores, runs, heard, _dirs: dirs, _servers: servers };
    cluster.eventually("the slots are divided", |cluster| (0..3).all(|n| cluster.n_slots(n) > SLOTS / 4)).await;
    Some(cluster)
}

impl Cluster {
    fn n_slots(&self, number: usize) -> usize {
        self.stores[number].shared().unwrap().share().borrow().slots.len()
    }

    /// The runtime to which a thread belongs.
    fn owner(&self, thread: ThreadId) -> Option<usize> {
        let has = |store: &Arc<JetStreamStore>| store.shared().unwrap().share().borrow().slots.has(Slot::of(thread));
        self.stores.iter().position(has)
    }

    /// An id of a thread that belongs to this runtime.
    fn id_at(&self, number: usize) -> ThreadId {
        let slot = self.stores[number].shared().unwrap().share().borrow().slots.iter().next().unwrap();
        slot.place(ThreadId::new(1_790_000_000_000, rand()))
    }

    /// Where the tool ran for a thread.
    fn runs(&self, thread: ThreadId) -> Vec<usize> {
        self.runs.lock().get(&thread).cloned().unwrap_or_default()
    }

    async fn eventually(&self, what: &str, mut is_true: impl FnMut(&Self) -> bool) {
        for _ in 0..12_000 {
            if is_true(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("not within a minute: {what}");
    }

    async fn shutdown(&self) {
        for runtime in &self.runtimes {
            runtime.shutdown().await.unwrap();
        }
    }
}

/// Bytes that no other call has returned.
fn rand() -> [u8; 10] {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_le_bytes());
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn thread_starts_where_room_is() {
    let limits = |limits: &mut Limits| (limits.live_threads_max, limits.passivate_after_ms) = (3, 3_600_000);
    let Some(cluster) = cluster_with(limits).await else { return };
    let workflow = Arc::new(parse_workflow(ASKS.as_bytes()).unwrap());
    let start = |on_busy| cluster.runtimes[0].start(StartThread::new(workflow.clone(), "go").on_busy(on_busy));
    let mut at = [0; 3];
    for n in 0..9 {
        // What would wait here begins elsewhere, too.
        let thread = start(if n % 2 == 0 { OnBusy::Refuse } else { OnBusy::Queue }).await.unwrap();
        thread.at_rest().await.unwrap();
        let owner = cluster.owner(thread.id()).unwrap();
        at[owner] += 1;
        if n == 0 {
            assert_eq!(owner, 0);
        }
    }
    assert!(at.iter().all(|n| *n >= 2), "{at:?}");
    let full = start(OnBusy::Refuse).await.expect_err("all are full");
    assert!(matches!(full, StartThreadError::Runtime(RuntimeError::Busy { .. })), "{full:?}");
    // An id decides which runtime it is.
    let named = StartThread::new(workflow.clone(), "go").id(cluster.id_at(1));
    assert_eq!(cluster.runtimes[0].start(named).await.expect_err("that one is full").next_move(), NextMove::Retry);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_runtime_runs_what_it_starts() {
    let Some(cluster) = cluster().await else { return };
    let workflow = Arc::new(parse_workflow(NOTES.as_bytes()).unwrap());
    let mut started = Vec::new();
    for n in 0..30 {
        let number = n % 3;
        let thread = cluster.runtimes[number].start_thread(workflow.clone(), n.to_string()).await.unwrap();
        assert_eq!(cluster.owner(thread.id()), Some(number));
        started.push((number, thread.id(), n));
    }
    for (number, id, n) in started {
        // Any of them says how it ended.
        for runtime in &cluster.runtimes {
            let output: String = runtime.thread(id).outcome_as().await.unwrap();
            assert_eq!(output, n.to_string());
        }
        assert_eq!(cluster.runs(id), [number]);
    }
    // And its monitors are told of it.
    cluster.eventually("monitors are told", |cluster| *cluster.heard.lock() == *cluster.runs.lock()).await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thread_is_started_and_answered_from_everywhere() {
    let Some(cluster) = cluster().await else { return };
    let workflow = Arc::new(parse_workflow(ASKS.as_bytes()).unwrap());
    for (owner, starts, answers) in [(0, 1, 2), (1, 1, 0), (2, 0, 2)] {
        let id = cluster.id_at(owner);
        let start = StartThread::new(workflow.clone(), "first").id(id);
        cluster.runtimes[starts].start(start.clone()).await.unwrap();
        // Again, from another one.
        let again = cluster.runtimes[answers].start(start).await.unwrap_err();
        let is_conflict = matches!(again, StartThreadError::Runtime(RuntimeError::Store(StoreError::Conflict { .. })));
        assert!(is_conflict, "{again:?}");
        let thread = cluster.runtimes[answers].thread(id);
        thread.at_rest().await.unwrap();
        let open = thread.inbox().await.unwrap();
        assert_eq!(open.len(), 1);
        thread.pause(None).await.unwrap();
        assert!(matches!(thread.pause(None).await, Err(ControlError::Rejected { .. })));
        thread.resume().await.unwrap();
        let question = open[0].request.id;
        thread.respond(question, "yes").await.unwrap();
        let other = cluster.runtimes[starts].thread(id);
        assert!(matches!(other.respond(question, "no").await, Err(ControlError::Rejected { .. })));
        assert_eq!(other.outcome_as::<String>().await.unwrap(), "yes");
        assert_eq!(cluster.runs(id), [owner, owner]);
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_go_on_where_the_others_are() {
    let Some(cluster) = cluster().await else { return };
    let workflow = Arc::new(parse_workflow(ASKS.as_bytes()).unwrap());
    let mut threads = Vec::new();
    for n in 0..12 {
        let thread = cluster.runtimes[0].start_thread(workflow.clone(), n.to_string()).await.unwrap();
        thread.at_rest().await.unwrap();
        threads.push((thread.id(), thread.inbox().await.unwrap()[0].request.id));
    }
    cluster.runtimes[0].shutdown().await.unwrap();
    let mut owners = BTreeSet::new();
    for (id, question) in threads {
        cluster.runtimes[1].thread(id).respond(question, "on").await.unwrap();
        assert_eq!(cluster.runtimes[2].thread(id).outcome_as::<String>().await.unwrap(), "on");
        let owner = cluster.owner(id).unwrap();
        assert_eq!(cluster.runs(id), [0, owner]);
        owners.insert(owner);
    }
    assert!(owners.iter().all(|owner| [1, 2].contains(owner)));
    cluster.runtimes[1].shutdown().await.unwrap();
    cluster.runtimes[2].shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_of_one_name_are_all_there() {
    let Some(cluster) = cluster().await else { return };
    let versions = (0..30).map(|n| NOTES.replace("{{ input }}", &format!("{n}")));
    let versions: Vec<_> = versions.map(|text| parse_workflow(text.as_bytes()).unwrap()).collect();
    let put = versions.iter().enumerate().map(|(n, workflow)| {
        let (runtime, workflow) = (cluster.runtimes[n % 3].clone(), workflow.clone());
        tokio::spawn(async move { runtime.put_workflow(workflow).await.unwrap() })
    });
    for put in put.collect::<Vec<_>>() {
        put.await.unwrap();
    }
    let all: BTreeSet<_> = versions.iter().map(|workflow| workflow.hash()).collect();
    for runtime in &cluster.runtimes {
        // Its copy may be some milliseconds behind what another one has stored.
        for _ in 0..12_000 {
            let known = runtime.workflow_versions("notes").await.unwrap().unwrap();
            if known.hashes.iter().copied().collect::<BTreeSet<_>>() == all {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let known = runtime.workflow_versions("notes").await.unwrap().unwrap();
        assert_eq!(known.hashes.iter().copied().collect::<BTreeSet<_>>(), all);
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_go_with_their_thread() {
    let Some(cluster) = cluster().await else { return };
    let note = |n| format!("  - {{id: note{n}, tool: {{tool_name: note, parameters: {{text: '{n}'}}}}}}\n");
    let branches: Vec<_> = (0..6).map(|n| format!("b{n}: note{n}")).collect();
    let edges: Vec<_> = (0..6).map(|n| format!("  - {{from: note{n}, to: both}}\n")).collect();
    let text = format!(
        "version: '1'\nname: branches\nnodes:\n  - {{id: all, fork: {{join: both, branches: {{{}}}}}}}\n{}  - {{id: \
         both, join: {{mode: all}}}}\nedges:\n{}",
        branches.join(", "),
        (0..6).map(note).collect::<String>(),
        edges.concat()
    );
    let workflow = Arc::new(parse_workflow(text.as_bytes()).unwrap());
    for number in 0..3 {
        let thread = cluster.runtimes[number].start_thread(workflow.clone(), "x").await.unwrap();
        let ended = cluster.runtimes[(number + 1) % 3].thread(thread.id()).outcome().await.unwrap();
        assert!(ended.success(), "{ended:?}");
    }
    let runs = cluster.runs.lock().clone();
    // Three threads with six branches each, all where their thread is.
    assert_eq!(runs.len(), 18);
    assert!(runs.values().all(|runs| runs.len() == 1));
    let n_of = |number| runs.values().filter(|runs| runs[0] == number).count();
    assert_eq!([0, 1, 2].map(n_of), [6; 3]);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_begins_on_a_definition_wherever_it_is_asked_for() {
    let Some(cluster) = cluster().await else { return };
    let of = |text: &str| Arc::new(parse_workflow(NOTES.replace("{{ input }}", text).as_bytes()).unwrap());
    let thread = cluster.runtimes[0].start_thread(of("first"), "x").await.unwrap();
    thread.outcome().await.unwrap();
    for (n, number) in [1, 2, 0].into_iter().enumerate() {
        let asked = cluster.runtimes[number].thread(thread.id());
        asked.outcome().await.unwrap();
        // One that is given, and the newest one of the name.
        let text = format!("run {n}");
        let run = asked.run(RunRequest::new("x").workflow(of(&text))).await.unwrap();
        let output = asked.run_outcome(run.run_id).await.unwrap().output;
        assert_eq!(output, Some(json!(text)));
        let text = format!("newest {n}");
        cluster.runtimes[0].put_workflow(of(&text)).await.unwrap();
        let known = || cluster.runtimes[number].workflow_versions("notes");
        while known().await.unwrap().unwrap().newest() != Some(of(&text).hash()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let run = asked.run(RunRequest::new("x")).await.unwrap();
        let output = asked.run_outcome(run.run_id).await.unwrap().output;
        assert_eq!(output, Some(json!(text)));
    }
    assert_eq!(cluster.runs(thread.id()), [0; 7]);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thread_is_migrated_from_everywhere() {
    let Some(cluster) = cluster().await else { return };
    let workflow = Arc::new(parse_workflow(ASKS.as_bytes()).unwrap());
    let other = Arc::new(parse_workflow(ASKS.replace("{{ said }}", "migrated").as_bytes()).unwrap());
    for number in 0..3 {
        let thread = cluster.runtimes[0].start_thread(workflow.clone(), "x").await.unwrap();
        thread.at_rest().await.unwrap();
        let asked = cluster.runtimes[number].thread(thread.id());
        asked.at_rest().await.unwrap();
        assert!(matches!(asked.migrate(other.clone()).await.unwrap(), Migrated::Moved(_)));
        assert!(matches!(asked.migrate(other.clone()).await.unwrap(), Migrated::Same));
        asked.respond(asked.inbox().await.unwrap()[0].request.id, "yes").await.unwrap();
        assert_eq!(asked.outcome_as::<String>().await.unwrap(), "migrated");
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_are_deleted_from_everywhere_and_collected_by_their_runtime() {
    let Some(cluster) = cluster().await else { return };
    let [notes, asks] = [NOTES, ASKS].map(|text| Arc::new(parse_workflow(text.as_bytes()).unwrap()));
    let goes_on = cluster.runtimes[0].start_thread(asks, "x").await.unwrap();
    goes_on.at_rest().await.unwrap();
    let mut threads = Vec::new();
    for n in 0..9 {
        let thread = cluster.runtimes[n % 3].start_thread(notes.clone(), "x").await.unwrap();
        thread.outcome().await.unwrap();
        threads.push(thread.id());
    }
    for (n, thread) in threads.drain(..3).enumerate() {
        let asked = cluster.runtimes[(n + 1) % 3].thread(thread);
        asked.summary().await.unwrap();
        asked.delete().await.unwrap();
        assert!(matches!(asked.summary().await, Err(ReadError::NoThread(_))));
        assert!(matches!(asked.delete().await, Err(ControlError::Read(ReadError::NoThread(_)))));
        assert!(matches!(cluster.runtimes[n].thread(goes_on.id()).delete().await, Err(ControlError::Rejected { .. })));
    }
    let mut n_left = 6;
    for runtime in &cluster.runtimes {
        let definitions = Retention { definitions: true, ..Retention::default() };
        let refused = runtime.gc(definitions).await.unwrap_err();
        assert!(matches!(refused.runtime(), Some(RuntimeError::Shared { .. })), "{refused:?}");
        let collected = runtime.gc(Retention::default()).await.unwrap();
        assert_eq!((collected.threads.len(), collected.definitions.len()), (2, 0));
        n_left -= 2;
        // The other ones have seen it when they are asked about one of them.
        for other in &cluster.runtimes {
            for gone in &collected.threads {
                let thread = other.thread(gone.summary.thread_id);
                while thread.summary().await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        let threads = runtime.threads(ThreadFilter::default()).await.unwrap();
        assert_eq!(threads.len(), n_left + 1);
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memories_are_of_all_runtimes() {
    let Some(cluster) = cluster().await else { return };
    let workflow = Arc::new(parse_workflow(REMEMBERS.as_bytes()).unwrap());
    let labels: Labels = "user=ada".parse().unwrap();
    let started = (0..30).map(|n| {
        let start = StartThread::new(workflow.clone(), format!("fact {n}")).labels(labels.clone());
        cluster.runtimes[n % 3].start(start)
    });
    // All at once, so that they change the namespace at the same time.
    for started in futures::future::join_all(started).await {
        assert_eq!(started.unwrap().outcome().await.unwrap().status, Status::Completed);
    }
    for runtime in &cluster.runtimes {
        let found = async || runtime.memories(&labels).await.unwrap().len();
        while found().await < 30 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let namespaces = runtime.memory_namespaces().await.unwrap();
        assert_eq!(namespaces.iter().map(|of| of.n).collect::<Vec<_>>(), [30]);
    }
    for (n, runtime) in cluster.runtimes.iter().enumerate() {
        // What it reads is what it and the others have changed.
        let memories = runtime.memories(&labels).await.unwrap();
        let gone = memories.last().unwrap().id;
        assert!(runtime.forget_memory(&labels, gone).await.unwrap());
        assert!(!runtime.forget_memory(&labels, gone).await.unwrap());
        let left = runtime.memories(&labels).await.unwrap();
        assert!(left.iter().all(|memory| memory.id != gone), "{n}");
        for other in &cluster.runtimes {
            while other.memories(&labels).await.unwrap().len() > 29 - n {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    let all = Retention { memories: true, labels, status: vec![Status::Error], ..Retention::default() };
    let counted = cluster.runtimes[1].gc(Retention { dry_run: true, ..all.clone() }).await.unwrap();
    assert_eq!((counted.threads.len(), counted.n_memories), (0, 27));
    let removed = cluster.runtimes[2].gc(all).await.unwrap();
    assert_eq!(removed.n_memories, 27);
    for runtime in &cluster.runtimes {
        while !runtime.memory_namespaces().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    cluster.shutdown().await;
}
