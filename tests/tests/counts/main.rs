//! What a run costs, counted and not timed: syncs and writes of the log, other writes, context switches, allocations. The
//! bounds hold on every machine. A program of its own, because allocations and system calls are those of the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::alloc::System;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures::future::BoxFuture;
use rethread::events::message::{FinishReason, ToolCall, Usage};
use rethread::llm::client::{Health, ModelEntry};
use rethread::llm::{CallContext, Client, LlmError, Request, Response};
use rethread::store::{Options, SledStore, Watcher};
use rethread::{ExecutionError, Message, Part, Recovery, Role, Runtime, Tool, ToolContext, Workflow};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How many runs come before those that are counted: files, caches and pools are there after them.
const WARM_UP: u64 = 20;
/// How many runs are counted, one after the other.
const RUNS: u64 = 50;

/// Longer than a run takes on any machine: what nobody waits for is never written for itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts writes and syncs of the files of a log.
#[derive(Default)]
struct Disk {
    journal_writes: AtomicU64,
    journal_bytes: AtomicU64,
    journal_syncs: AtomicU64,
    other_writes: AtomicU64,
    other_syncs: AtomicU64,
}

fn is_journal(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("journal-"))
}

impl Watcher for Disk {
    fn write(&self, path: &Path, _offset: u64, bytes: &[u8]) -> io::Result<()> {
        if is_journal(path) {
            self.journal_writes.fetch_add(1, Relaxed);
            self.journal_bytes.fetch_add(bytes.len() as u64, Relaxed);
        } else {
            self.other_writes.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn synced(&self, path: &Path) {
        let syncs = if is_journal(path) { &self.journal_syncs } else { &self.other_syncs };
        syncs.fetch_add(1, Relaxed);
    }
}

/// The counts of a process so far, or those of one run.
#[derive(Debug, Clone, Copy)]
struct Counts {
    /// Syncs of the journal.
    syncs: f64,
    /// Writes of the journal.
    writes: f64,
    /// Bytes of these writes.
    bytes: f64,
    /// Writes and syncs of the other files of the log: marks, packs and the index.
    beside: f64,
    /// Calls of the system that write, to the journal, to other files and to wake a thread (`syscw` of proc_pid_io(5)).
    system_writes: f64,
    /// Context switches for which a thread waited (proc_pid_status(5)).
    switches: f64,
    /// Allocations, and those that grew.
    allocations: f64,
}

impl Counts {
    fn now(disk: &Disk) -> Self {
        let heap = ALLOCATOR.stats();
        let of = |count: &AtomicU64| count.load(Relaxed) as f64;
        Self {
            syncs: of(&disk.journal_syncs),
            writes: of(&disk.journal_writes),
            bytes: of(&disk.journal_bytes),
            beside: of(&disk.other_writes) + of(&disk.other_syncs),
            system_writes: field(Path::new("/proc/self/io"), "syscw:") as f64,
            switches: switches() as f64,
            allocations: (heap.allocations + heap.reallocations) as f64,
        }
    }

    /// The counts of one run, from those before and after all of them.
    fn of_run(before: Self, after: Self) -> Self {
        let each = |before: f64, after: f64| (after - before) / RUNS as f64;
        Self {
            syncs: each(before.syncs, after.syncs),
            writes: each(before.writes, after.writes),
            bytes: each(before.bytes, after.bytes),
            beside: each(before.beside, after.beside),
            system_writes: each(before.system_writes, after.system_writes),
            switches: each(before.switches, after.switches),
            allocations: each(before.allocations, after.allocations),
        }
    }

    fn named(self) -> [(&'static str, f64); 7] {
        [
            ("syncs", self.syncs),
            ("writes", self.writes),
            ("bytes", self.bytes),
            ("beside", self.beside),
            ("system writes", self.system_writes),
            ("switches", self.switches),
            ("allocations", self.allocations),
        ]
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named().iter().try_for_each(|(name, count)| write!(f, "{name} {count:.1}  "))
    }
}

/// The number after a name in a file of /proc.
fn field(file: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or_default()
}

fn switches() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.map(|task| field(&task.unwrap().path().join("status"), "voluntary_ctxt_switches:")).sum()
}

/// Calls the tool as often as the name of the model says, and then answers.
struct Model;

impl Client for Model {
    fn provider(&self) -> &str {
        "counts"
    }

    fn call<'a>(&'a self, request: &'a Request, _: CallContext<'a>) -> BoxFuture<'a, Result<Response, LlmError>> {
        Box::pin(async move {
            let turns: usize = request.model.strip_prefix("turns-").unwrap().parse().unwrap();
            let n = request.messages.iter().filter(|message| message.role == Role::Tool).count();
            let (part, finish_reason) = if n < turns {
                let arguments = json!({"a": n + 1, "b": n + 2}).into();
                let (id, name) = (format!("call_{n}"), "add".into());
                let call = ToolCall { id, name, arguments, arguments_raw: None, signature: None };
                (Part::ToolCall(call), FinishReason::ToolCalls)
            } else {
                (Part::text("done"), FinishReason::Stop)
            };
            Ok(Response {
                finish_reason,
                usage: Usage { input_tokens: Some(100), output_tokens: Some(10), ..Usage::default() },
                provider: "counts".into(),
                ..Response::of(Message { role: Role::Assistant, content: vec![part] })
            })
        })
    }

    fn check(&self) -> BoxFuture<'_, Health> {
        unreachable!("no caller checks it")
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<ModelEntry>, LlmError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn workflow(turns: usize) -> Arc<Workflow> {
    let llm = json!({
        "provider": "counts", "model": format!("turns-{turns}"), "user_prompt": "{{ input }}", "tool_mode": "auto",
        "available_tools": ["add"], "max_iterations": turns + 1,
    });
    let workflow = json!({"version": "1", "name": format!("react-{turns}"), "nodes": [{"id": "work", "llm": llm}]});
    Arc::new(rethread::parse_workflow(workflow.to_string().as_bytes()).unwrap())
}

/// Runs threads with so many tool calls each, one after the other, and returns the counts of one.
async fn count(turns: usize, recovery: Recovery) -> Counts {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::default());
    let options = Options { watcher: Some(disk.clone()), patience: PATIENCE, ..Options::default() };
    let store = SledStore::open(folder.path(), options).unwrap();
    let add = |sum: Add, _: ToolContext| async move { Ok::<_, ExecutionError>((sum.a + sum.b).to_string()) };
    let tool = Tool::from_fn("add", "Adds.", add).recovery(recovery);
    let builder = Runtime::builder().client("counts", Arc::new(Model)).tool(tool).workspace(std::env::temp_dir());
    let runtime = builder.store(Arc::new(store)).start().await.unwrap();
    let workflow = workflow(turns);
    let mut before = Counts::now(&disk);
    for n in 0..WARM_UP + RUNS {
        if n == WARM_UP {
            before = Counts::now(&disk);
        }
        let outcome = runtime.start_thread(workflow.clone(), "add").await.unwrap().outcome().await.unwrap();
        assert_eq!(outcome.output.unwrap(), "done");
    }
    let after = Counts::now(&disk);
    runtime.shutdown().await.unwrap();
    Counts::of_run(before, after)
}

/// The most of each count for one run, by the number of tool calls. One sync for each wait that must be durable, and no more:
/// the start, the end, and each call of a tool that must not run again. A sync is one write of the journal and one of the
/// mark. The other writes of the system are two for each tool call, which note that it runs, and those that wake a thread.
const BOUNDS: [(usize, Recovery, Bounds); 4] = [
    (1, Recovery::AtMostOnce, bounds(3.2, 3_200.0, 24.0, 430.0)),
    (1, Recovery::Safe, bounds(2.2, 3_200.0, 22.0, 420.0)),
    (20, Recovery::AtMostOnce, bounds(22.2, 27_000.0, 150.0, 3_800.0)),
    (20, Recovery::Safe, bounds(2.2, 27_500.0, 80.0, 3_600.0)),
];

type Bounds = [f64; 7];

/// In the order of [`Counts::named`]. Files may be sealed in between, which is a part of a write for each run. A write of the
/// system wakes at most one thread, which waits again.
const fn bounds(syncs: f64, bytes: f64, system_writes: f64, allocations: f64) -> Bounds {
    [syncs, syncs, bytes, syncs + 5.0, system_writes, 2.0 * system_writes, allocations]
}

#[test]
fn run_costs_no_more_than_its_bounds() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut over = Vec::new();
    for (turns, recovery, bounds) in BOUNDS {
        let counts = runtime.block_on(count(turns, recovery));
        println!("{turns} tool calls, {recovery:?}: {counts}");
        for ((name, count), most) in counts.named().into_iter().zip(bounds) {
            if count > most {
                over.push(format!("{turns} tool calls, {recovery:?}: {name}: {count:.1}, over {most}"));
            }
        }
    }
    assert!(over.is_empty(), "{}", over.join("\n"));
}
